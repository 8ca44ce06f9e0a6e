"""Our commands for offsets, records, log directories and log files print the same as Kafka's tools.

Each test runs against Apache's broker and ours.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from actors.cli.app import run
from messages.apis.create_topics import CreatableTopic, CreateTopicsRequest
from tests.cluster.both import Both, both_running
from tests.cluster.test_dump_log import assert_same_fields, dumped_by_kafka
from tests.waiting import until

TOOLS = "org.apache.kafka.tools."
TIME = int(time.time() * 1000) - 60_000
"""Timestamp of the first record in ms. It is recent, so that retention does not delete the record."""
SUFFIXES = {".log", ".snapshot"}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, apache_jars: Path) -> Iterator[Both]:
    """Run both brokers with the same topics and records, and a group with committed offsets."""
    settings = {"offsets__topic__num__partitions": 1, "offsets__topic__replication__factor": 1}
    log = "transaction__state__log__"
    settings |= {f"{log}num__partitions": 1, f"{log}replication__factor": 1, f"{log}min__isr": 1}
    with both_running(tmp_path_factory.mktemp("tools"), apache_jars, **settings) as made:
        topics = (CreatableTopic("a.b", 2, 1), CreatableTopic("c", 1, 1))
        theirs, ours = made.answers(CreateTopicsRequest(5, topics, 20_000, False))
        assert theirs == ours
        for port in made.ports:
            servers = {"bootstrap.servers": f"127.0.0.1:{port}"}
            producer = Producer({**servers, "enable.idempotence": True, "compression.type": "gzip"})
            for topic in ("a.b", "c"):
                for number in range(10):
                    producer.produce(topic, b"v" * number, b"k", 0, timestamp=TIME + 1000 * number, headers={"h": b""})
            assert producer.flush(60) == 0
            consumer = Consumer({**servers, "group.id": "g", "auto.offset.reset": "earliest"})
            consumer.subscribe(["c"])
            until(lambda c=consumer: c.poll(1.0), what="a record", timeout=60)
            consumer.commit(asynchronous=False)
            consumer.close()
        yield made


def said_by_ours(capsys: pytest.CaptureFixture[str], port: int, name: str, *arguments: str) -> tuple[int, str]:
    code = run([name, "--bootstrap-server", f"127.0.0.1:{port}", *arguments])
    return code, capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [
        ("--exclude-internal-topics",),
        ("--time", "earliest", "--topic", "a.b|c"),
        ("--time", "max-timestamp", "--topic", "a.b|c"),
        ("--time", "-4", "--topic", "a.b|c"),
        ("--time", str(TIME + 2500), "--topic-partitions", "a.b:0-1,c"),
    ],
)
def test_get_offsets_prints_what_apaches_tool_prints(
    both: Both, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    theirs = both.theirs(f"{TOOLS}GetOffsetShell", *options)
    assert theirs[0] == 0 and "a.b:0:" in theirs[1]
    for port in both.ports:
        assert said_by_ours(capsys, port, "get-offsets", *options) == theirs


def test_log_dirs_describes_what_apaches_tool_describes(both: Both, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--describe", "--topic-list", "a.b,c")
    _, text = both.theirs(f"{TOOLS}LogDirsCommand", *options)
    lines = text.splitlines()
    described = json.loads(lines[-1])
    for port, name in zip(both.ports, ("apache", "ours"), strict=True):
        code, said = said_by_ours(capsys, port, "log-dirs", *options)
        assert code == 0
        own = said.splitlines()
        assert own[:-1] == lines[:-1]
        assert list(re.findall(r'"(\w+)":', own[-1])) == list(re.findall(r'"(\w+)":', lines[-1])), "keys in their order"
        found = json.loads(own[-1])
        for document in (described, found):
            for directory in document["brokers"][0]["logDirs"]:
                directory["partitions"].sort(key=lambda each: each["partition"])
                for each in directory["partitions"]:
                    each["size"] = bool(each["size"])
        found["brokers"][0]["logDirs"][0]["logDir"] = found["brokers"][0]["logDirs"][0]["logDir"].replace(
            name, "apache"
        )
        assert found == described


def test_an_unknown_broker_and_deleted_records(both: Both, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _ = both.theirs(f"{TOOLS}LogDirsCommand", "--describe", "--broker-list", "0,7")
    assert said_by_ours(capsys, both.ports[0], "log-dirs", "--describe", "--broker-list", "0,7") == (code, "")
    file = tmp_path / "offsets.json"
    offsets = (("a.b", 0, 3), ("a.b", 1, 9), ("c", 0, -1))
    partitions = [{"topic": topic, "partition": number, "offset": offset} for topic, number, offset in offsets]
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    _, theirs = both.theirs(f"{TOOLS}DeleteRecordsCommand", "--offset-json-file", str(file))
    for port in both.ports:
        code, ours = said_by_ours(capsys, port, "delete-records", "--offset-json-file", str(file))
        ours_deleted, theirs_deleted = (
            re.findall(r"partition: (\S+)\t(error|low_watermark: \d+)", each) for each in (ours, theirs)
        )
        assert (code, sorted(ours_deleted)) == (1, sorted(theirs_deleted))


def test_files_of_either_broker(both: Both, apache_jars: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`dump-log` also reads the files of running brokers."""
    place = both.apaches_log.parents[1]
    files = sorted(str(each) for each in place.glob("*/data/[ac]*-0/*") if each.suffix in SUFFIXES)
    assert {Path(each).parents[2].name for each in files} == {"apache", "ours"}
    arguments = ("--files", ",".join(files), "--print-data-log")
    code, lines, _ = dumped_by_kafka(apache_jars, *arguments)
    assert run(["dump-log", *arguments]) == code == 0
    assert_same_fields(capsys.readouterr().out.splitlines(), lines)


@pytest.fixture(scope="module")
def transactions(both: Both) -> Iterator[Both]:
    """Write a committed, an aborted and an open transaction to both brokers, in this order."""
    producers = []
    for port in both.ports:
        for id, ending in (("done", "commit_transaction"), ("gone", "abort_transaction"), ("open", "")):
            producers.append(Producer({"bootstrap.servers": f"127.0.0.1:{port}", "transactional.id": id}))
            producers[-1].init_transactions(60)
            producers[-1].begin_transaction()
            producers[-1].produce("a.b", b"v", b"k", 1)
            producers[-1].flush(60)
            if ending:
                getattr(producers[-1], ending)(60)
    yield both
    for producer in producers[2::3]:
        producer.abort_transaction(60)


CLOCK = re.compile(r"\b1[5-9]\d{11}\b(\s+\d+)?")
"""A time in ms since 1970, and the elapsed time after it."""


@pytest.mark.parametrize(
    "options",
    [
        ("list",),
        ("list", "--duration-filter", "600000"),
        ("describe", "--transactional-id", "done"),
        ("describe", "--transactional-id", "gone"),
        ("describe", "--transactional-id", "open"),
        ("describe", "--transactional-id", "unknown"),
        ("describe-producers", "--topic", "a.b", "--partition", "1"),
        ("find-hanging", "--broker-id", "0"),
    ],
    ids=" ".join,
)
def test_apaches_transactions_command_prints_the_same_for_both_brokers(
    transactions: Both, options: tuple[str, ...]
) -> None:
    """Kafka's TransactionsCommand prints the same for both brokers, apart from times."""
    theirs, ours = (
        (code, sorted(" ".join(CLOCK.sub("T", line).split()) for line in output.splitlines()))
        for code, output in transactions.say(f"{TOOLS}TransactionsCommand", *options)
    )
    assert ours == theirs
