"""Records on three real nodes: several clients, a kill under load, and logs that Kafka's DumpLogSegments reads."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as Place

from tests.cluster.java_tools import run_tool
from tests.cluster.processes import run_ours
from tests.cluster.three import NODES, Three
from tests.waiting import until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
QUICK = {"zookeeper__session__timeout__ms": 3000, "replica__lag__time__max__ms": 3000, "min__insync__replicas": 2}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    with Three.running(tmp_path_factory.mktemp("records"), **QUICK) as made:
        yield made


def read_all(cluster: Three, topic: str, partitions: int) -> dict[int, list[tuple[int, bytes]]]:
    """Return (offset, value) of each record by partition, as librdkafka reads them."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "missing", "enable.auto.commit": False})
    found: dict[int, list[tuple[int, bytes]]] = {}
    try:
        for partition in range(partitions):
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)
            consumer.assign([TopicPartition(topic, partition, 0)])
            rows = found[partition] = []
            deadline = time.monotonic() + 60
            while (rows[-1][0] + 1 if rows else 0) < end and time.monotonic() < deadline:
                rows += [(m.offset(), m.value()) for m in consumer.consume(1000, 0.5) if not m.error()]
    finally:
        consumer.close()
    return found


def test_what_librdkafka_writes_in_any_codec_kcat_reads(cluster: Three, kcat: str) -> None:
    cluster.create("codecs", 1)
    expected = []
    for codec in CODECS:
        settings = {"acks": "all", "enable.idempotence": True, "compression.type": codec}
        producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
        for number in range(20):
            expected.append(f"{codec} {number}".encode())
            producer.produce("codecs", expected[-1])
        assert producer.flush(30) == 0
    command = ["kcat", "-C", "-b", cluster.bootstrap, "-t", "codecs", "-o", "beginning", "-e", "-q"]
    read = subprocess.run(command, capture_output=True, timeout=60, check=True).stdout.split(b"\n")[:-1]
    assert read == expected


def test_kafka_python_writes_reads_and_seeks_by_time(cluster: Three) -> None:
    cluster.create("python", 1)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap.split(","), acks="all", linger_ms=0)
    for number in range(5):
        producer.send("python", f"{number}".encode(), timestamp_ms=1000 * number).get(30)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap.split(","), consumer_timeout_ms=20_000)
    place = Place("python", 0)
    consumer.assign([place])
    assert consumer.offsets_for_times({place: 2500})[place].offset == 3
    consumer.seek(place, 3)
    assert [next(consumer).value for _ in range(2)] == [b"3", b"4"]
    consumer.close()


def kcat_reads(cluster: Three, kcat: str, topic: str) -> list[bytes]:
    """Return the values of partition 0 from its beginning, as kcat reads them."""
    command = [kcat, "-C", "-b", cluster.bootstrap, "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q"]
    return subprocess.run(command, capture_output=True, timeout=60, check=True).stdout.split(b"\n")[:-1]


def test_kcat_and_kafka_python_write_in_their_codecs_and_librdkafka_reads(cluster: Three, kcat: str) -> None:
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
    assert [value for _, value in read_all(cluster, "others", 1)[0]] == expected


def test_records_are_deleted_for_librdkafka_and_kafka_python(cluster: Three, kcat: str) -> None:
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


@pytest.mark.soak
@pytest.mark.long
def test_no_acknowledged_record_is_lost_when_leaders_are_killed_and_frozen(cluster: Three) -> None:
    cluster.create("kept", 3)
    acknowledged: list[bytes] = []

    def delivered(error: object, message: Message) -> None:
        if error is None:
            acknowledged.append(message.value())

    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
            "message.timeout.ms": 120_000,
            "reconnect.backoff.max.ms": 500,
        }
    )
    sent = 0

    def load(until_acknowledged: int) -> None:
        nonlocal sent

        def more() -> bool:
            nonlocal sent
            for _ in range(50):
                producer.produce("kept", f"{sent}".encode(), key=f"{sent}".encode(), on_delivery=delivered)
                sent += 1
            producer.poll(0.05)
            return len(acknowledged) >= until_acknowledged

        until(more, what=f"{until_acknowledged} records acknowledged", timeout=90)

    load(500)
    dead = cluster.state("kept", 0)["leader"]
    cluster.nodes[dead].kill()
    until(lambda: cluster.state("kept", 0)["leader"] not in (dead, -1), what="another leader", timeout=60)
    load(len(acknowledged) + 500)
    until(lambda: not cluster.zk.exists(f"/brokers/ids/{dead}"), what="its session is over", timeout=30)
    cluster.start(dead)
    until(lambda: cluster.in_sync("kept", 3), what="in sync again", timeout=90)
    frozen = cluster.state("kept", 1)["leader"]
    cluster.nodes[frozen].send(signal.SIGSTOP)
    until(lambda: cluster.state("kept", 1)["leader"] not in (frozen, -1), what="another leader", timeout=60)
    load(len(acknowledged) + 500)
    cluster.nodes[frozen].send(signal.SIGCONT)
    until(lambda: cluster.in_sync("kept", 3), what="in sync again", timeout=90)
    assert producer.flush(60) == 0
    until(lambda: all(len(cluster.logs("kept", n)) == 1 for n in range(3)), what="equal logs", timeout=30)
    rows = read_all(cluster, "kept", 3)
    values = [value for partition in rows.values() for _, value in partition]
    assert set(acknowledged) <= set(values)
    assert len(values) == len(set(values)), "no record twice"
    for partition in rows.values():
        assert [offset for offset, _ in partition] == list(range(len(partition)))


@pytest.mark.soak
@pytest.mark.long
def test_the_record_of_all_this_replays(cluster: Three) -> None:
    for node in NODES:
        assert cluster.nodes[node].stop() == 0
    replayed = run_ours("replay", str(cluster.place))
    assert replayed.returncode == 0, replayed.stdout
    for node in NODES:
        cluster.start(node)


def test_kafkas_own_console_writes_and_reads_without_a_group(cluster: Three, apache_jars: Path) -> None:
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


def test_kafkas_own_tool_reads_the_logs(cluster: Three, apache_jars: Path) -> None:
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
