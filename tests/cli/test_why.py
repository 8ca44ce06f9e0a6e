"""`kafka-actors why` on the recorded life of two controllers: each answer, and that replay goes where it points."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.cli import why
from actors.cli.app import Failed
from actors.cli.explanations import QUESTIONS
from actors.cli.trace_facts import Facts, gather
from actors.runtime.replayer import Replay
from messages.cluster import TopicPartition
from messages.trace.runs import find_runs
from messages.trace.schema import INPUTS
from tests.trace import controller_life
from tests.trace.small_system import Small

ORDERS = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lived")
    controller_life.live(folder)
    return folder


@pytest.fixture(scope="module")
def facts(lived: Path) -> Facts:
    return gather(find_runs(lived).runs)


def answers(facts: Facts, about: str, subject: object) -> dict[str, list[str]]:
    """What is told about it, by question, without where it stands."""
    found = {question: [line.text for line in answer(facts, subject)] for question, answer in QUESTIONS[about]}
    return {question: lines for question, lines in found.items() if lines}


def without_numbers(lines: list[str]) -> list[str]:
    return [re.sub(r" \(delivery \d+\)", "", line) for line in lines]


def test_a_partition_that_lost_its_leader_and_never_got_the_preferred_one_back(facts: Facts) -> None:
    told = {question: without_numbers(lines) for question, lines in answers(facts, "partition", ORDERS).items()}
    assert told["Who leads it, and why?"] == ["broker 4 leads it, since controller 1 wrote it during BrokerChange"]
    assert told["Why not the preferred replica?"] == [
        "the preferred leader is broker 2, of the replicas [2, 3, 4]",
        "it is not in the ISR, and cannot be elected",
    ]
    assert told["Who is not in the ISR, and why?"][0] == (
        "broker 2 is not in the ISR since controller 0 wrote it during BrokerChange; it was [2, 3, 4] before"
    )
    assert told["Why did its epoch grow?"] == [
        "the last to write its state: controller 1 wrote it during BrokerChange",
        "leader epoch 0, leader 2, ISR [2, 3, 4]: controller 0 wrote it during TopicChange",
        "leader epoch 1, leader 3, ISR [3, 4]: controller 0 wrote it during BrokerChange",
        "leader epoch 2, leader 4, ISR [4]: controller 1 wrote it during BrokerChange",
    ]


def test_brokers_come_and_go(facts: Facts) -> None:
    told = without_numbers(answers(facts, "broker", 2)["Why does it count as dead, or alive?"])
    assert [re.sub(r"broker epoch \d+", "broker epoch E", line) for line in told[:3]] == [
        "alive for controller 0, with broker epoch E: BrokerChange",
        "gone for controller 0: BrokerChange",
        "alive for controller 0, with broker epoch E: BrokerChange",
    ]
    bounced = without_numbers(answers(facts, "broker", 3)["Why does it count as dead, or alive?"])
    assert re.fullmatch(r"registered anew for controller 1, with broker epoch \d+: BrokerChange", bounced[-1])
    refused = answers(facts, "broker", 3)["Why does it not get requests?"]
    assert refused == [refused[0]] and refused[0].endswith("the last time: refused")


def test_a_deletion_is_told_from_its_request_to_its_end(facts: Facts) -> None:
    (lines,) = answers(facts, "topic", "payments").values()
    assert [line.partition(",")[0] for line in lines] == ["queued for deletion", "its znodes were removed"]
    assert answers(facts, "topic", "orders") == {"Why is it not deleted?": ["no deletion of it is recorded"]}
    assert answers(facts, "topic", "x") == {"Why is it not deleted?": ["nobody in this record knows topic x"]}


def test_terms_and_slow_events(facts: Facts) -> None:
    told = answers(facts, "controller", None)
    assert told["Who was controller when, and why did it change?"][0] == "broker 0 was elected, epoch 1"
    assert "broker 1 was elected, epoch 2" in told["Who was controller when, and why did it change?"]
    assert len(told["Which events were slowest?"]) == 5


def test_replay_goes_where_an_answer_points(lived: Path, facts: Facts) -> None:
    (run,) = find_runs(lived).runs
    _, leader = QUESTIONS["partition"][0]
    (line,) = leader(facts, ORDERS)
    assert line.place is not None and line.place.run == run.header.run
    replay = Replay(run, controller_life.ACTORS, None, line.place.n, None)
    assert replay.result().ok
    assert replay.base.n == line.place.n


def test_the_command_tells_with_time_node_and_delivery(lived: Path) -> None:
    result = CliRunner().invoke(why.command, ["partition", "orders-0", str(lived)])
    assert result.exit_code == 0
    question, first, *_ = result.stdout.splitlines()
    assert question == "Who leads it, and why?"
    assert re.search(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}Z, node 0, delivery \d+\]$", first)
    assert "was elected" in CliRunner().invoke(why.command, ["controller", str(lived)]).stdout
    unknown = CliRunner().invoke(why.command, ["partition", "nobody-3", str(lived)]).stdout
    assert unknown == "Who leads it, and why?\n  nobody in this record knows nobody-3\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("partition orders .", "'orders' is no partition: it should be TOPIC-NUMBER"),
        ("broker x .", "'x' is no broker: it should be ID"),
        ("topic t", "it should be: why topic TOPIC DIR"),
        ("controller", "it should be: why controller DIR"),
        ("controller nowhere", "nowhere does not exist"),
    ],
)
def test_wrong_use(line: str, words: str) -> None:
    result = CliRunner().invoke(why.command, line.split())
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == f"Error: {words}"


def test_where_nothing_is_recorded(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="holds no recorded run"):
        CliRunner().invoke(why.command, ["controller", str(tmp_path)], standalone_mode=False, catch_exceptions=False)


def test_a_record_without_payloads_is_refused_by_name(tmp_path: Path) -> None:
    small = Small(tmp_path, detail=INPUTS)
    small.live()
    small.recorder.close()
    with pytest.raises(Failed, match=r"holds no payloads \(trace.detail=inputs\): `kafka-actors trace expand`"):
        CliRunner().invoke(why.command, ["controller", str(tmp_path)], catch_exceptions=False, standalone_mode=False)
