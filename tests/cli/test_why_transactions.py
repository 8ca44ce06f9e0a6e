"""`kafka-actors why transaction` about scripted transactions in the deterministic simulation."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.cli import why
from actors.explain.subjects import SUBJECTS
from actors.explain.transaction_history import ends, state
from actors.public.simulated import SimulatedCluster
from messages.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from messages.apis.add_partitions_to_txn import AddPartitionsToTxnRequest
from messages.apis.end_txn import EndTxnRequest
from messages.apis.find_coordinator import TRANSACTION_KEY
from messages.apis.init_producer_id import InitProducerIdRequest
from messages.cluster import TopicPartition
from messages.errors import CONCURRENT_TRANSACTIONS, INVALID_PRODUCER_EPOCH, NONE
from messages.facts import declarations
from messages.facts.declarations import TracePosition, TransactionDecision, TransactionMarked
from messages.facts.trace_facts import TraceFacts, gather
from messages.trace.files.runs import find_runs
from messages.vocabulary import Message
from tests.cli.test_why_situations import create
from tests.cli.test_why_verdicts import coordinator_of

STATE, ENDS, REJECTED = (question for question, _ in SUBJECTS["transaction"].questions)
T0 = TopicPartition("t", 0)
SETTINGS = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}


class Life:
    """Runs one transactional producer in a recorded cluster."""

    def __init__(self, running: SimulatedCluster) -> None:
        self._running = running
        create(running, "t", 1, 2)
        self._coordinator = coordinator_of(running, "pay", TRANSACTION_KEY)

    def ask(self, request: Message, code: int = NONE) -> Message:
        """Send a request until the coordinator returns this code."""
        for _ in range(20):
            response = self._running.ask(self._coordinator, request)
            found = response.partitions[0] if hasattr(response, "partitions") else response
            if found.error_code == code:
                return response
            self._running.run(0.5)
        raise AssertionError(response)

    def init(self) -> tuple[int, int]:
        response = self.ask(InitProducerIdRequest(1, "pay", 5000, -1, -1))
        return response.producer_id, response.producer_epoch

    def add(self, producer: tuple[int, int]) -> None:
        self.ask(AddPartitionsToTxnRequest(1, "pay", *producer, (T0,)))


def answers(facts: TraceFacts, name: str = "pay") -> dict[str, list[str]]:
    found = {
        question: [line.text for line in answer(facts, name)] for question, answer in SUBJECTS["transaction"].questions
    }
    return {question: lines for question, lines in found.items() if lines}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("transactions")
    with SimulatedCluster(3, seed=1, directory=folder, settings=SETTINGS) as running:
        life = Life(running)
        producer = life.init()
        life.add(producer)
        life.ask(EndTxnRequest(1, "pay", *producer, True))
        running.run(1.0)
        life.add(producer)
        running.run(20.0)  # the timeout is 5 s, and the coordinator checks it every 10 s
        life.ask(EndTxnRequest(1, "pay", *producer, True), INVALID_PRODUCER_EPOCH)
        producer = life.init()
        life.add(producer)
        life.ask(InitProducerIdRequest(1, "pay", 5000, -1, -1), CONCURRENT_TRANSACTIONS)
        producer = life.init()
        life.add(producer)
        life.ask(AddOffsetsToTxnRequest(1, "pay", *producer, "readers"))
    return folder


@pytest.fixture(scope="module")
def facts(folder: Path) -> TraceFacts:
    return gather(find_runs(folder).runs)


def test_a_commit_a_timeout_and_a_fence_have_different_reasons(facts: TraceFacts) -> None:
    assert answers(facts) == {
        STATE: [
            "Ongoing since the first AddPartitionsToTxn of producer id 0, epoch 4",
            "it contains t-0",
            "it contains offsets of readers",
        ],
        ENDS: [
            "committed with producer id 0, epoch 0: its producer sent EndTxn",
            "aborted with producer id 0, epoch 1: the transaction timeout was over",
            "aborted with producer id 0, epoch 3: InitProducerId of a new producer fenced the old producer",
        ],
        REJECTED: [
            "EndTxn of producer id 0, epoch 0 was rejected: INVALID_PRODUCER_EPOCH",
            "a newer epoch was in use: the coordinator aborted the transaction of pay (producer epoch 1): its timeout"
            " was over",
        ],
    }


def test_the_state_follows_the_record(facts: TraceFacts) -> None:
    first, timed_out, _ = facts.select(declarations.TransactionDecision)

    def until(place: TracePosition) -> TraceFacts:
        return TraceFacts(each for each in facts.all() if each.place <= place)

    assert [line.text for line in state(until(first.place), "pay")] == [
        "PrepareCommit since the coordinator began to send markers",
        "1 of 1 partitions have no marker: t-0",
    ]
    marked = facts.select(declarations.TransactionMarked)[0].place
    assert [line.text for line in state(until(marked), "pay")] == ["CompleteCommit: all 1 partitions have the marker"]
    begun = facts.select(declarations.TransactionRequest)[0].place
    assert [line.text for line in state(until(begun), "pay")] == [
        "Empty: InitProducerId returned producer id 0, epoch 0"
    ]
    assert first.place < marked < timed_out.place


def test_a_decision_that_a_new_coordinator_loaded(facts: TraceFacts) -> None:
    place = TracePosition(1.0, 0, "run", 1)
    loaded = TransactionDecision(place, "pay", 7, 1, True, (T0,), "", loaded=True)
    older = TransactionMarked(place._replace(at=2.0), "pay", 7, 0, (T0,))
    found = TraceFacts([loaded, older])
    assert [line.text for line in ends(found, "pay")] == [
        "committed with producer id 7, epoch 1: an earlier coordinator decided it, and the new coordinator sends the "
        "markers again"
    ]
    assert state(found, "pay")[1].text == "1 of 1 partitions have no marker: t-0", "the marker has an older epoch"


def test_the_command_names_the_id_and_an_unknown_one(folder: Path) -> None:
    shown = CliRunner().invoke(why.command, ["transaction", "pay", str(folder)])
    assert shown.exit_code == 0
    assert STATE in shown.output
    unknown = CliRunner().invoke(why.command, ["transaction", "x", str(folder)])
    assert "the trace has no successful request of transactional id x" in unknown.output
