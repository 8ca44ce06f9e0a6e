"""Records on three real nodes: several clients, and logs that Kafka's DumpLogSegments reads."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaProducer
from kafka import TopicPartition as Place

from tests.cluster.java_tools import run_tool
from tests.cluster.nodes import NODES, Nodes

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
QUICK = {"zookeeper__session__timeout__ms": 3000, "replica__lag__time__max__ms": 3000, "min__insync__replicas": 2}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with Nodes.running(tmp_path_factory.mktemp("records"), **QUICK) as made:
        yield made


def read_all(cluster: Nodes, topic: str) -> list[bytes]:
    """Return the value of each record of partition 0, as librdkafka reads them."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "missing", "enable.auto.commit": False})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() for message in consumer.consume(end, 60)]
    finally:
        consumer.close()


def test_what_librdkafka_writes_in_any_codec_kcat_reads(cluster: Nodes, kcat: str) -> None:
    cluster.create("codecs", 1)
    expected = []
    for codec in CODECS:
        settings = {"acks": "all", "enable.idempotence": True, "compression.type": codec}
        producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
        for number in range(20):
            expected.append(f"{codec} {number}".encode())
            producer.produce("codecs", expected[-1])
        assert producer.flush(30) == 0
    assert kcat_reads(cluster, kcat, "codecs") == expected


def kcat_reads(cluster: Nodes, kcat: str, topic: str) -> list[bytes]:
    """Return the values of partition 0 from its beginning, as kcat reads them."""
    command = [kcat, "-C", "-b", cluster.bootstrap, "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q"]
    return subprocess.run(command, capture_output=True, timeout=60, check=True).stdout.split(b"\n")[:-1]


def test_kcat_and_kafka_python_write_in_their_codecs_and_librdkafka_reads(cluster: Nodes, kcat: str) -> None:
    cluster.create("others", 1)
    expected = []
    for codec in CODECS:
        expected += [f"kcat {codec} {number}".encode() for number in range(5)]
        command = [kcat, "-P", "-b", cluster.bootstrap, "-t", "others", "-z", codec, "-X", "acks=all"]
        subprocess.run(command, input=b"\n".join(expected[-5:]), timeout=60, check=True)
    for name in (None, "gzip", "zstd"):  # other codecs need additional libraries
        producer = KafkaProducer(
            bootstrap_servers=cluster.bootstrap.split(","), enable_idempotence=True, compression_type=name
        )
        for number in range(5):
            expected.append(f"python {name} {number}".encode())
            producer.send("others", expected[-1])
        producer.close()
    assert read_all(cluster, "others") == expected


def test_records_are_deleted_for_librdkafka_and_kafka_python(cluster: Nodes, kcat: str) -> None:
    cluster.create("shorter", 1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(10):
        producer.produce("shorter", f"{number}".encode(), timestamp=1000 * number)
    assert producer.flush(30) == 0
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    [done] = admin.delete_records([TopicPartition("shorter", 0, 4)]).values()
    assert done.result(30).low_watermark == 4
    assert kcat_reads(cluster, kcat, "shorter") == [b"%d" % number for number in range(4, 10)]
    python = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    try:
        deleted = python.delete_records({Place("shorter", 0): 7})
    finally:
        python.close()
    assert deleted[Place("shorter", 0)]["low_watermark"] == 7
    assert kcat_reads(cluster, kcat, "shorter") == [b"7", b"8", b"9"]
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "missing"})
    try:
        assert consumer.get_watermark_offsets(TopicPartition("shorter", 0), timeout=20) == (7, 10)
        for time_ms, offset in ((0, 7), (7500, 8), (99_000, -1)):
            [found] = consumer.offsets_for_times([TopicPartition("shorter", 0, time_ms)], timeout=20)
            assert found.offset == offset
    finally:
        consumer.close()


def test_kafkas_own_console_writes_and_reads_without_a_group(cluster: Nodes, apache_jars: Path) -> None:
    cluster.create("console", 1)
    expected = []
    for codec in CODECS[1:]:
        expected += [f"{codec} {number}" for number in range(20)]
        wrote = run_tool(
            *(apache_jars, "kafka.tools.ConsoleProducer", "--bootstrap-server", cluster.bootstrap),
            *("--topic", "console", "--compression-codec", codec),
            text="\n".join(expected[-20:]),
        )
        assert wrote.returncode == 0, wrote.stdout + wrote.stderr
    read = run_tool(
        *(apache_jars, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", cluster.bootstrap),
        *("--topic", "console", "--partition", "0", "--offset", "earliest", "--max-messages", f"{len(expected)}"),
    )
    assert (read.returncode, read.stdout.splitlines()) == (0, expected), read.stderr


def test_kafkas_own_tool_reads_the_logs(cluster: Nodes, apache_jars: Path) -> None:
    cluster.create("dumped", 1)
    for codec in CODECS:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "compression.type": codec})
        producer.produce("dumped", codec.encode() * 200)
        assert producer.flush(30) == 0
    for node in NODES:
        assert cluster.nodes[node].stop() == 0
    files = [str(file) for node in NODES for file in (cluster.place / f"{node}" / "data" / "dumped-0").glob("*.*")]
    files = [file for file in files if file.endswith((".log", ".index", ".timeindex", ".snapshot"))]
    said = run_tool(apache_jars, "kafka.tools.DumpLogSegments", "--files", ",".join(files), "--deep-iteration")
    assert said.returncode == 0
    for codec in CODECS:
        assert f"compresscodec: {codec}" in said.stdout
    for complaint in ("mismatch", "not valid", "isvalid: false", "Exception"):
        assert complaint not in said.stdout + said.stderr
