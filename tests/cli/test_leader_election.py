"""`kafka-actors leader-election`: its output, its file of partitions, and usage errors, with Kafka 3.9.1's messages."""

# ruff: noqa: E501 - Kafka's sentences stay whole

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.cli import leader_election
from actors.cli.app import run
from actors.core.admin.leader_election import ElectionOutcome, parse_partitions, report
from actors.core.refusal import Refused
from messages import errors
from messages.cluster import TopicPartition
from messages.error_names import NAMES

A, B, C, D = (TopicPartition("t", number) for number in range(4))


def test_outcomes_are_printed_as_by_kafkas_tool() -> None:
    outcomes = {
        A: ElectionOutcome(errors.NONE),
        B: ElectionOutcome(errors.PREFERRED_LEADER_NOT_AVAILABLE, "Failed to elect leader"),
        C: ElectionOutcome(errors.ELECTION_NOT_NEEDED, "not needed"),
        D: ElectionOutcome(errors.NONE),
        TopicPartition("u", 0): ElectionOutcome(errors.REQUEST_TIMED_OUT),
    }
    assert report("PREFERRED", outcomes, NAMES) == (
        [
            "Successfully completed leader election (PREFERRED) for partitions t-0, t-3",
            "Valid replica already elected for partitions t-2",
            "Error completing leader election (PREFERRED) for partition: t-1: org.apache.kafka.common.errors.PreferredLeaderNotAvailableException: Failed to elect leader",
            "Error completing leader election (PREFERRED) for partition: u-0: org.apache.kafka.common.errors.TimeoutException",
        ],
        2,
    )
    assert report("UNCLEAN", {}, NAMES) == ([], 0)


def test_partitions_are_read_from_a_file() -> None:
    text = '{"partitions":[{"topic":"t","partition":1},{"topic":"t","partition":0}]}'
    assert parse_partitions(text) == [B, A]
    assert parse_partitions('{"partitions":[]}') == []
    for torn, words in (
        ("{nojson", "Replica election data is empty"),
        ('{"version":1}', 'Replica election data is missing "partitions" field'),
        (text.replace("0", "1"), r"Replica election data contains duplicate partitions: \[t-1\]"),
        ('{"partitions":[{"topic":"t"}]}', '{"topic": "t"} does not have both a topic and a partition'),
    ):
        with pytest.raises(Refused, match=words):
            parse_partitions(torn)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--all-topic-partitions", "Missing required option(s): election-type"),
        ("--election-type preferred", "One and only one of the following options is required: topic, all-topic-partitions, path-to-json-file"),
        ("--election-type preferred --topic t --partition 0 --all-topic-partitions", "One and only one of the following options is required: topic, all-topic-partitions, path-to-json-file"),
        ("--election-type preferred --topic t", "Missing required option(s): partition"),
        ("--election-type preferred --all-topic-partitions --partition 1", "Option partition is only allowed if topic is used"),
        ("--election-type unclean --all-topic-partitions", "--zookeeper must be specified (or --dir, the folder of `kafka-actors up`)"),
        ("--election-type unclean --all-topic-partitions --bootstrap-server h", "'h' is not the address of a bootstrap server: expected host:port"),
    ],
)  # fmt: skip
def test_wrong_use(line: str, words: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(leader_election.command, line.split())
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == f"Error: {words}"


def test_a_file_that_is_no_text_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f").write_bytes(b"\xff\xfe{}")
    line = ["leader-election", "--election-type", "preferred", "--bootstrap-server", "127.0.0.1:1"]
    assert run([*line, "--path-to-json-file", str(tmp_path / "f")]) == 1
    assert "f is not UTF-8 text" in capsys.readouterr().err
    assert run([*line, "--all-topic-partitions", "--timeout", "99999999999999999999"]) == 2
