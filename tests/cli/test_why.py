"""`kafka-actors why` on two recorded runs, one of two controllers and one of three whole nodes.

The tests compare each answer, and let replay stop at the deliveries that an answer names. The numbers in test names are
those of the operators' questions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from actors.cli import why
from actors.cli.app import CommandFailed
from actors.explain.explanations import leader
from actors.explain.subjects import SUBJECTS
from actors.explain.verdicts import shutdown_of, verdict_of
from actors.public.simulated import SimulatedCluster
from actors.runtime.trace.replayer import Replay
from messages.cluster import TopicPartition
from messages.errors import NONE, STALE_BROKER_EPOCH
from messages.events import EVENT_WORDS, EVENTS
from messages.facts import declarations
from messages.facts.coordinator_facts import CoordinatorFacts
from messages.facts.declarations import (
    ControllerEvent,
    LeaderAndIsrSent,
    NodeRun,
    PendingEvent,
    ReplicasAssigned,
    StateWrite,
    TracePosition,
)
from messages.facts.open_requests import OpenClientRequests
from messages.facts.trace_facts import TraceFacts, gather
from messages.groups import LoadEnded
from messages.placement import slot
from messages.trace.files.runs import find_runs
from messages.trace.schema import INPUTS
from messages.transactions import TransactionsLoaded
from messages.vocabulary import Message
from tests.trace import controller_life
from tests.trace.small_system import Small

ORDERS = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def facts(controller_folder: Path) -> TraceFacts:
    return gather(find_runs(controller_folder).runs)


@pytest.fixture(scope="module")
def cluster(lived: Path) -> TraceFacts:
    return gather(find_runs(lived).runs)


def reported(facts: TraceFacts, about: str, subject: object, question: str) -> list[str]:
    """Return the lines about the subject in the answer to a question, without delivery numbers."""
    return without_numbers(answers(facts, about, subject).get(question, []))


def answers(facts: TraceFacts, about: str, subject: object) -> dict[str, list[str]]:
    """Return the lines about the subject by question, without positions of deliveries."""
    found = {question: [line.text for line in answer(facts, subject)] for question, answer in SUBJECTS[about].questions}
    return {question: lines for question, lines in found.items() if lines}


def without_numbers(lines: list[str]) -> list[str]:
    """Return the lines with each event as its class only, without its words and delivery number."""
    return [EVENT.sub(r"\1", line) for line in lines]


EVENT = re.compile(
    rf"(?:{'|'.join(map(re.escape, EVENT_WORDS.values()))}|\w+ of client [\w.]+|a client's \w+) \((.+?), delivery \d+\)"
)
"""Matches an event in words, with its class in brackets."""


def test_a_partition_that_lost_its_leader_and_never_got_the_preferred_one_back(facts: TraceFacts) -> None:
    reported = {question: without_numbers(lines) for question, lines in answers(facts, "partition", ORDERS).items()}
    assert reported["Which broker leads it, and why?"] == [
        "broker 4 has been the leader since controller 1 wrote it during BrokerChange"
    ]
    assert reported["Why is the preferred replica not the leader?"] == [
        "the preferred leader is broker 2, of the replicas [2, 3, 4]",
        "broker 2 is not in the ISR and cannot be elected",
    ]
    assert reported["Which replicas are not in the ISR, and why?"][0] == (
        "broker 2 has not been in the ISR since controller 0 wrote it during BrokerChange; the ISR was [2, 3, 4] before"
    )
    assert reported["Why did its leader epoch increase?"] == [
        "last state: controller 1 wrote it during BrokerChange",
        "leader epoch 0, leader 2, ISR [2, 3, 4]: controller 0 wrote it during TopicChange",
        "leader epoch 1, leader 3, ISR [3, 4]: controller 0 wrote it during BrokerChange",
        "leader epoch 2, leader 4, ISR [4]: controller 1 wrote it during BrokerChange",
    ]


def test_brokers_come_and_go(facts: TraceFacts) -> None:
    reported = without_numbers(answers(facts, "broker", 2)["Why does the controller consider it dead or alive?"])
    assert [re.sub(r"broker epoch \d+", "broker epoch E", line) for line in reported[:3]] == [
        "alive for controller 0, with broker epoch E: BrokerChange",
        "gone for controller 0: BrokerChange",
        "alive for controller 0, with broker epoch E: BrokerChange",
    ]
    bounced = without_numbers(answers(facts, "broker", 3)["Why does the controller consider it dead or alive?"])
    assert re.fullmatch(r"registered again for controller 1, with broker epoch \d+: BrokerChange", bounced[-1])
    refused = answers(facts, "broker", 3)["Why does it receive no requests?"]
    assert refused[0].endswith("the last time: refused")
    assert refused[1:] == ["it has responded to requests since then"]


def test_a_deletion_is_explained_from_its_request_to_its_end(facts: TraceFacts) -> None:
    lines, _ = answers(facts, "topic", "payments").values()
    assert [line.partition(",")[0] for line in lines] == ["queued for deletion", "its znodes were removed"]
    assert answers(facts, "topic", "orders") == answers(facts, "topic", "x") == {}


def test_terms_and_slow_events(facts: TraceFacts) -> None:
    reported = answers(facts, "controller", None)
    assert reported["Which broker was controller, when, and why did it change?"][0] == "broker 0 was elected, epoch 1"
    assert "broker 1 was elected, epoch 2" in reported["Which broker was controller, when, and why did it change?"]
    assert len(reported["Which events took longest?"]) == 5


# ------------------------------------------------------------------------------------------------ three whole nodes

PAIR, MOVED, UNCLEAN = (TopicPartition(name, 0) for name in ("pair", "moved", "unclean"))


def test_4_each_part_of_an_outage_has_its_share(cluster: TraceFacts) -> None:
    _, last = reported(cluster, "partition", PAIR, "When did it have no leader, and how long did each step take?")
    found = re.fullmatch(
        r"([\d.]+) s without a leader, from the last record of broker 1 until broker 0 led: (.*)", last
    )
    assert found is not None
    shares = [share.split(" s ", 1) for share in found[2].split(", ")]
    assert [what for _, what in shares] == [
        "until the ZooKeeper session of broker 1 timed out and the controller received a change of the live brokers"
        " (BrokerChange)",
        "in the controller's event queue",
        "until the controller elected a leader",
        "until ZooKeeper stored the state",
    ], "it was never notified"
    assert 6.0 <= float(shares[0][0]) < 6.1, "its session"
    assert sum(float(took) for took, _ in shares) == pytest.approx(float(found[1]), abs=0.003)
    (other,) = reported(cluster, "partition", UNCLEAN, "When did it have no leader, and how long did each step take?")
    assert other.endswith("until it became leader and responded")


def test_an_isr_written_by_a_dead_leader_is_known_from_its_reader(cluster: TraceFacts) -> None:
    """In this run, the leader adds its follower to the ISR and is killed before it receives ZooKeeper's reply."""
    first, *_ = reported(cluster, "partition", PAIR, "Which replicas are not in the ISR, and why?")
    assert (
        first
        == "broker 1 has not been in the ISR since controller 2 wrote it during BrokerChange; the ISR was [1, 0] before"
    )


def test_5_a_stale_broker_is_named_with_the_lost_request(cluster: TraceFacts) -> None:
    lines = reported(cluster, "partition", PAIR, "Which brokers have an older state than ZooKeeper, and why?")
    assert lines == [
        "broker 0 has leader epoch 2, not 3: epoch 3 is queued for the broker: TimeoutError",
        "broker 1 has leader epoch 2, not 3: no newer request was sent",
        "broker 1 is gone for controller 2, since BrokerChange",
    ]
    assert reported(cluster, "partition", UNCLEAN, "Which brokers have an older state than ZooKeeper, and why?") == []


def test_5_orders_are_found_in_parts_too(tmp_path: Path) -> None:
    with SimulatedCluster(1, directory=tmp_path) as one:
        one.create_topic("wide", 1200)
    wide = gather(find_runs(tmp_path).runs)
    assert sorted(
        each.partition.partition for each in wide.select(declarations.LeaderAndIsrSent) if each.outcome == NONE
    ) == list(range(1200))


@pytest.mark.parametrize(
    ("order", "why"),
    [
        ({}, "epoch 3 is queued for the broker"),
        ({"sent": 2.0, "why": "refused"}, "epoch 3 was sent but has no response: refused"),
        ({"sent": 2.0, "outcome": STALE_BROKER_EPOCH}, "epoch 3 was sent and rejected: STALE_BROKER_EPOCH"),
    ],
)
def test_5_an_order_may_wait_get_lost_or_be_refused(order: dict[str, Any], why: str) -> None:
    place = TracePosition(1.0, 0, "r", 1)
    facts = TraceFacts(
        [
            StateWrite(place, PAIR, 1, 3, (1,), "controller 0", 1.5),
            ReplicasAssigned(place, PAIR, (1,), (), ()),
            LeaderAndIsrSent(place, 1, PAIR, 1, 2, 1.0, 1.1, NONE),
            LeaderAndIsrSent(place, 1, PAIR, 1, 3, **order),
        ]
    )
    question = "Which brokers have an older state than ZooKeeper, and why?"
    assert reported(facts, "partition", PAIR, question) == [f"broker 1 has leader epoch 2, not 3: {why}"]


def test_11_a_refused_and_a_cancelled_reassignment(cluster: TraceFacts) -> None:
    assert reported(cluster, "partition", MOVED, "Why was a reassignment rejected, cancelled or replaced?") == [
        "an admin request was rejected: Replica assignment has brokers that are not alive. Replica list: [7],"
        " live broker list: [0, 1, 2] (INVALID_REPLICA_ASSIGNMENT)",
        "the request for [2, 2] was removed from /admin/reassign_partitions during ZkPartitionReassignment",
        "the reassignment was cancelled, and [1] were not added, by AlterPartitionReassignmentsRequest",
    ]


def test_13_partitions_led_by_a_broker_with_a_refused_shutdown(cluster: TraceFacts) -> None:
    assert reported(cluster, "broker", 1, "Why was its controlled shutdown rejected?") == [
        "1 of its partitions could not get another leader",
        "pair-0 keeps its leader: its ISR is [1]",
    ]


def test_16_the_running_event_at_the_end_of_the_trace() -> None:
    at = [TracePosition(float(n), 0, "r", n) for n in (1, 2)]
    change, request = ControllerEvent(at[0], "BrokerChange"), ControllerEvent(at[1], "CreateTopicsRequest")
    facts = TraceFacts([PendingEvent(at[0], change, 3.0, "GetBrokers"), PendingEvent(at[1], request, 2.0, "")])
    assert reported(facts, "controller", None, "Which events are being handled or queued?") == [
        "at the end of the trace in progress, waiting for GetBrokers, 3.000 s old: BrokerChange",
        "at the end of the trace in the queue, 2.000 s old: CreateTopicsRequest",
    ]


def test_18_events_without_effect_and_the_reason(cluster: TraceFacts) -> None:
    lines = reported(cluster, "controller", None, "Which events did nothing, and why?")
    assert "1 because it was not the controller; the last: CreateTopicsRequest" in lines
    assert any(re.fullmatch(r"\d+ because there was nothing to be done; the last: \w+", line) for line in lines)
    assert cluster.select(declarations.PendingEvent) == [], "all controllers had done what they were sent"


def test_nothing_is_blamed_on_a_request_that_was_refused_long_before(cluster: TraceFacts) -> None:
    """Broker 2 rejected CreateTopics before its election; no later write is attributed to that request."""
    kinds = {each.event.kind for each in cluster.select(declarations.StateWrite) if each.event is not None}
    assert kinds == {"AlterPartitionReassignmentsRequest", "BrokerChange", "TopicChange"}
    assert [
        each.event.kind for each in cluster.select(declarations.BrokersRead) if each.by == 2 and each.event is not None
    ][0] == "Reelect"


def test_replay_stops_at_the_delivery_of_an_answer(controller_folder: Path, facts: TraceFacts) -> None:
    (run,) = find_runs(controller_folder).runs
    (line,) = leader(facts, ORDERS)
    assert line.place is not None and line.place.run == run.header.run
    replay = Replay(run, controller_life.ACTORS, None, line.place.n, None)
    assert replay.result().ok
    assert replay.base.n == line.place.n


def test_the_command_prints_time_node_and_delivery(controller_folder: Path) -> None:
    result = CliRunner().invoke(why.command, ["partition", "orders-0", str(controller_folder), "--pointers"])
    assert result.exit_code == 0
    verdict, seen, because, *_ = result.stdout.splitlines()
    assert re.match(
        r"broker 2 has been out of the ISR \[4\] of orders-0 since [\d-]+ [\d:.]+Z, because controller 0", verdict
    )
    assert seen.startswith("  controller 0 wrote the state of orders-0: leader 3, ISR [3, 4], epoch 1 [")
    assert re.match(
        r"  because controller 0 noticed through a change of the live brokers \(BrokerChange, delivery \d+\)"
        r" that broker 2 was gone",
        because,
    )
    for line in (seen, because):
        assert re.search(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}Z, node 0, --run node0-\S+ --until \d+\]$", line)
    assert "was elected" in CliRunner().invoke(why.command, ["controller", str(controller_folder)]).stdout
    unknown = CliRunner().invoke(why.command, ["partition", "missing-3", str(controller_folder)]).stdout
    assert unknown.startswith("no node in this trace knows topic missing, and no request for it was refused.")


def lines_of(said: dict[str, Any], pointers: bool) -> list[str]:
    """Return the lines that the command prints, built from its JSON."""

    def line(of: dict[str, Any]) -> str:
        pointer = f", --run {of['run']} --until {of['delivery']}" if pointers and "at" in of else ""
        return of["text"] + (f" [{of['time']}, node {of['node']}{pointer}]" if "at" in of else "")

    chain = [f"  {'because ' if number else ''}{line(each)}" for number, each in enumerate(said["chain"])]
    details = [
        text
        for answer in said["answers"]
        for text in (answer["question"], *(f"  {line(each)}" for each in answer["lines"]))
    ]
    return [said["verdict"], *chain, *details]


@pytest.mark.parametrize("options", [[], ["--local"], ["--pointers"]])
def test_json_has_what_the_text_has(controller_folder: Path, options: list[str]) -> None:
    arguments = ["partition", "orders-0", str(controller_folder), *options]
    text = CliRunner().invoke(why.command, arguments).stdout
    said = json.loads(CliRunner().invoke(why.command, [*arguments, "--json"]).stdout)
    assert lines_of(said, "--pointers" in options) == text.splitlines()
    assert said["chain"][0]["time"].endswith("Z") == ("--local" not in options)


def test_an_earlier_time_is_explained_without_what_came_later(controller_folder: Path, facts: TraceFacts) -> None:
    lost = next(
        state for state in facts.select(declarations.StateWrite) if state.partition == ORDERS and state.leader == 3
    )
    arguments = ["partition", "orders-0", str(controller_folder), "--at", str(lost.place.at - 0.001)]
    assert CliRunner().invoke(why.command, arguments).stdout.startswith("broker 2 has led orders-0 since ")


def test_every_event_has_words() -> None:
    assert {event.__name__ for event in EVENTS} <= EVENT_WORDS.keys()
    place = TracePosition(1.0, 0, "r", 7)
    assert str(ControllerEvent(place, "PartitionModifications", "t")) == (
        "changed replicas of a topic (PartitionModifications t, delivery 7)"
    )
    request = ControllerEvent(place, "CreateTopicsRequest", client="admin-1")
    assert str(request) == "CreateTopics of client admin-1 (CreateTopicsRequest, delivery 7)"
    assert request._replace(client="").words == "a client's CreateTopics"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("partition orders .", "'orders' is not a valid partition: it should be TOPIC-NUMBER"),
        ("broker x .", "'x' is not a valid broker: it should be ID"),
        ("topic t", "expected: why topic TOPIC DIR"),
        ("controller", "expected: why controller DIR"),
        ("controller nowhere", "nowhere does not exist"),
    ],
)
def test_wrong_arguments_exit_with_code_2_and_a_reason(line: str, words: str) -> None:
    result = CliRunner().invoke(why.command, line.split())
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == f"Error: {words}"


def test_why_fails_for_a_folder_without_runs(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="contains no recorded run"):
        CliRunner().invoke(why.command, ["controller", str(tmp_path)], standalone_mode=False, catch_exceptions=False)


def test_payloads_that_a_trace_omits_are_restored_by_replay(tmp_path: Path) -> None:
    settings = {"trace.detail": INPUTS}
    with SimulatedCluster(2, seed=1, directory=tmp_path, settings=settings) as running:
        running.create_topic("t", 1, replication_factor=2)
    assert {run.header.detail for run in find_runs(tmp_path).runs} == {INPUTS}
    result = CliRunner().invoke(why.command, ["partition", "t-0", str(tmp_path)])
    assert re.match(r"broker \d has led t-0 since .*, and all replicas are in the ISR", result.stdout)


def test_a_record_that_cannot_be_restored_is_refused_by_name(tmp_path: Path) -> None:
    small = Small(tmp_path, detail=INPUTS)
    small.live()
    small.recorder.close()
    with pytest.raises(
        CommandFailed,
        match=r"was recorded without message contents \(trace.detail=inputs\), and replaying it did not restore them: ",
    ):
        CliRunner().invoke(why.command, ["controller", str(tmp_path)], catch_exceptions=False, standalone_mode=False)


@pytest.mark.parametrize(
    ("endings", "began"),
    [
        ([("stopped", 10.0), ("stopped", 11.0), ("stopped", 12.0)], 10.0),
        ([("stopped", 5.0), ("stopped", 11.0), ("stopped", 12.0)], 11.0),
        ([("killed", 5.0), ("stopped", 11.0)], 11.0),
        ([("stopped", 5.0), ("killed", 11.0)], None),
        ([("still running", 12.0), ("stopped", 12.0)], None),
        ([], None),
    ],
)
def test_a_shutdown_of_all_brokers_is_found(endings: list[tuple[str, float]], began: float | None) -> None:
    node_runs = [NodeRun(TracePosition(at, node, f"r{node}", 9), 1.0, how) for node, (how, at) in enumerate(endings)]
    assert shutdown_of(TraceFacts([*node_runs])) == began


def test_a_shutdown_is_not_reported_as_a_fault() -> None:
    node_runs = [NodeRun(TracePosition(9.0 + node, node, f"r{node}", 9), 1.0, "stopped") for node in (0, 1)]
    led, lost = (
        StateWrite(TracePosition(at, 0, "r0", n), PAIR, leader, n, (0,), "controller 0", at, None, n)
        for at, n, leader in ((2.0, 1, 0), (9.5, 2, -1))
    )
    facts = TraceFacts([led, lost, ReplicasAssigned(led.place, PAIR, (0,), (), ()), *node_runs])
    assert verdict_of(facts, "partition", PAIR, str).text == (
        "broker 0 has led pair-0 since 2.0, and all replicas are in the ISR [0]. The cluster was stopped at 9.0."
    )


@pytest.mark.parametrize(
    ("about", "topic", "ended"),
    [
        ("consumer-group", "__consumer_offsets", lambda unreadable: LoadEnded(1, NONE, 5, unreadable)),
        ("transaction", "__transaction_state", lambda unreadable: TransactionsLoaded(1, NONE, 5, unreadable)),
    ],
)
def test_a_damaged_partition_of_a_coordinator_is_named_until_it_is_read_whole(
    about: str, topic: str, ended: Callable[[int], Message]
) -> None:
    found: list[Any] = []
    record: Any = None
    reader = CoordinatorFacts(found.append, OpenClientRequests())
    reader.take(TracePosition(2.0, 7, "r", 1), record, ended(3))
    reader.take(TracePosition(3.0, 7, "r", 2), record, ended(0))
    place, partitions = TracePosition(1.0, 7, "r", 0), (TopicPartition(topic, number) for number in range(2))
    assigned = [ReplicasAssigned(place, each, (7,), (), ()) for each in partitions]
    other, name = sorted(("g0", "g1"), key=lambda name: slot(name) % 2)
    damaged = TraceFacts([*assigned, *found[:1]])
    assert f"{topic}-1" in verdict_of(damaged, about, name, str).text
    assert "broker 7" in verdict_of(damaged, about, name, str).text
    assert "damaged" not in verdict_of(damaged, about, other, str).text
    whole = TraceFacts([*assigned, *found])
    assert "damaged" not in verdict_of(whole, about, name, str).text
