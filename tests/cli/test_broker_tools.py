"""`get-offsets`, `delete-records` and `log-dirs` on a small in-memory cluster, and their usage errors."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from actors.cli.app import run
from actors.public import KafkaCluster

TIME = int(time.time() * 1000) - 60_000
"""Timestamp of the first record in ms; it is recent, so that retention does not delete the record."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Yield a cluster with topics `a.b` (2 partitions) and `c`.

    Partition 0 of each topic has 10 records, one second apart.
    """
    with KafkaCluster(brokers=2, directory=tmp_path_factory.mktemp("tools") / "cluster") as made:
        made.create_topic("a.b", partitions=2, replication_factor=2)
        made.create_topic("c", partitions=1, replication_factor=1)
        producer = Producer({"bootstrap.servers": made.bootstrap_servers})
        for topic in ("a.b", "c"):
            for number in range(10):
                producer.produce(topic, b"v", partition=0, timestamp=TIME + 1000 * number)
        assert producer.flush(20) == 0
        yield made


def tool(
    cluster: KafkaCluster, capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0
) -> tuple[list[str], list[str]]:
    """Return the lines on standard output and on standard error."""
    name, *rest = arguments
    assert run([name, "--bootstrap-server", cluster.bootstrap_servers, "--timeout", "500", *rest]) == code
    said = capsys.readouterr()
    return said.out.splitlines(), said.err.splitlines()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "a.b:0:10 a.b:1:0 c:0:10"),
        (("--time", "earliest"), "a.b:0:0 a.b:1:0 c:0:0"),
        (("--time", "-2", "--topic", "c"), "c:0:0"),
        (("--time", str(TIME + 2500)), "a.b:0:3 c:0:3"),
        (("--time", str(TIME + 99_000)), ""),
        (("--time", "max-timestamp"), "a.b:0:9 c:0:9"),
        (("--time", "-4"), "a.b:0:0 a.b:1:0 c:0:0"),
        (("--time", "latest-tiered"), ""),
        (("--topic", "a.*", "--partitions", "1,5"), "a.b:1:0"),
        (("--topic", "a.b, c"), "a.b:0:10 a.b:1:0 c:0:10"),
        (("--topic-partitions", "a.b:1-,c:0"), "a.b:1:0 c:0:10"),
        (("--topic-partitions", ":-1"), "a.b:0:10 c:0:10"),
        (("--topic-partitions", "a[.]b:0-1", "--exclude-internal-topics"), "a.b:0:10"),
    ],
)
def test_get_offsets_prints_the_selected_partitions(
    cluster: KafkaCluster, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], expected: str
) -> None:
    assert tool(cluster, capsys, "get-offsets", *options) == (expected.split(), [])


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--topic", "x"), 1, "Could not match any topic-partitions with the specified filters"),
        (("--time", "soon"), 2, "Malformed time argument soon. Please use -1 or latest"),
        (("--topic", "c", "--topic-partitions", "c"), 2, "--topic-partitions cannot be used with --topic"),
        (("--partitions", "x"), 2, "--partitions expects a comma separated list of numeric partition ids"),
        (("--topic-partitions", "c:x"), 2, "Invalid rule specification: c:x"),
        (("--topic", "("), 2, "( is an invalid regex"),
    ],
)
def test_offsets_that_cannot_be_printed(
    cluster: KafkaCluster, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], code: int, words: str
) -> None:
    lines, complaints = tool(cluster, capsys, "get-offsets", *options, code=code)
    assert lines == [] and words in complaints[-1]


def test_delete_records_prints_the_low_watermarks(
    cluster: KafkaCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    wanted = [("a.b", 0, 4), ("a.b", 1, 7), ("c", 0, -1), ("nowhere", 3, 1)]
    file = tmp_path / "offsets.json"
    partitions = [{"topic": topic, "partition": number, "offset": offset} for topic, number, offset in wanted]
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    lines, _ = tool(cluster, capsys, "delete-records", "--offset-json-file", str(file), code=1)
    assert lines[2:] == [
        "partition: a.b-0\tlow_watermark: 4",
        "partition: a.b-1\terror: OFFSET_OUT_OF_RANGE",
        "partition: c-0\tlow_watermark: 10",
        "partition: nowhere-3\terror: UNKNOWN_TOPIC_OR_PARTITION",
    ]
    lines, _ = tool(cluster, capsys, "get-offsets", "--time", "earliest")
    assert lines == ["a.b:0:4", "a.b:1:0", "c:0:10"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "The input string is not a valid JSON"),
        ("[]", "Missing partitions field"),
        ('{"version": 2, "partitions": []}', "Not supported version field value 2"),
        ('{"partitions": [{"topic": "c", "partition": 0}]}', "is not a partition with an offset"),
        ('{"partitions": [{"topic": "c", "partition": 0, "offset": 1e400}]}', "is not a partition with an offset"),
        ('{"partitions": [{"topic": "c", "partition": 0, "offset": 9223372036854775808}]}', "out of range"),
        (
            '{"partitions": [{"topic": "c", "partition": 0, "offset": 1},'
            ' {"topic": "c", "partition": 0, "offset": 2}]}',
            "Offset json file contains duplicate topic partitions: c-0",
        ),
    ],
)
def test_a_file_of_offsets_that_is_wrong(
    cluster: KafkaCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "offsets.json"
    file.write_text(text)
    lines, [failed] = tool(cluster, capsys, "delete-records", "--offset-json-file", str(file), code=1)
    assert lines == [] and f"{file}: " in failed and words in failed


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ((), 2, "Missing option '--describe'"),
        (("--describe", "--broker-list", "1,7,8"), 1, "--broker-list: 7,8. Current existent brokers: 0,1"),
        (("--describe", "--broker-list", "x"), 2, "'x' is not a broker id"),
    ],
)
def test_log_directories_that_cannot_be_described(
    cluster: KafkaCluster, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], code: int, words: str
) -> None:
    lines, complaints = tool(cluster, capsys, "log-dirs", *options, code=code)
    assert lines == [] and words in complaints[-1]


def test_the_files_behind_them_are_dumped(cluster: KafkaCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """The logs of leader and follower have the same records."""
    found = []
    for log in sorted((cluster.trace_dir.parent).glob("node-*/data/a.b-0/*.log")):
        assert run(["dump-log", "--files", str(log), "--print-data-log"]) == 0
        found.append(capsys.readouterr().out.splitlines()[2:])
    assert len(found) == 2 and found[0] == found[1]
    assert sum(line.startswith("| offset: ") for line in found[0]) == 10
    assert (
        f"| offset: 9 CreateTime: {TIME + 9000} keySize: -1 valueSize: 1 sequence: -1 headerKeys: [] payload: v"
        in found[0]
    )


@pytest.mark.parametrize("name", ["get-offsets", "log-dirs", "delete-records"])
def test_each_command_fails_if_no_broker_responds(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    file = tmp_path / "offsets.json"
    file.write_text('{"partitions": [{"topic": "c", "partition": 0, "offset": 1}]}')
    rest = {"log-dirs": ["--describe"], "delete-records": ["--offset-json-file", str(file)]}.get(name, [])
    assert run([name, "--bootstrap-server", "127.0.0.1:1", "--timeout", "100", *rest]) == 1
    assert "no bootstrap server responds: 127.0.0.1:1" in capsys.readouterr().err
