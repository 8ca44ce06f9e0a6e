"""Run exactly-once programs on three nodes, and kill nodes and programs meanwhile.

`copy_under_kills` runs TransactionalMessageCopier of Kafka's system tests. `count_under_kills` runs `WordCount.java` on
Kafka Streams. Both compare the committed output with the input: no record is lost, and no record is written twice.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from actors.core.topic.topic_name import TRANSACTION_STATE
from messages.placement import slot
from tests.cluster.apache_java import apache_java
from tests.cluster.nodes import Nodes
from tests.cluster.processes import Running
from tests.waiting import until

STATE_PARTITIONS = 3
SETTINGS = {
    "offsets__topic__num__partitions": STATE_PARTITIONS,
    "offsets__topic__replication__factor": 3,
    "transaction__state__log__num__partitions": STATE_PARTITIONS,
    "transaction__state__log__replication__factor": 3,
    "transaction__state__log__min__isr": 2,
    "transaction__abort__timed__out__transaction__cleanup__interval__ms": 1000,
    "group__initial__rebalance__delay__ms": 0,
    "min__insync__replicas": 2,
    "replica__lag__time__max__ms": 3000,
}
INPUT, OUTPUT, PARTITIONS = "input", "output", 2
LINES, COUNTS = "lines", "counts"
WORDS_IN_LINE = 4


def write(cluster: Nodes, topic: str, values: Callable[[int], Iterator[bytes]]) -> None:
    """Write these values to each partition of a topic, in order, and wait until all are acknowledged."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0})
    for partition in range(PARTITIONS):
        for value in values(partition):
            producer.produce(topic, value, partition=partition)
    assert producer.flush(120) == 0


def ends(cluster: Nodes, topic: str, level: str = "read_uncommitted") -> list[int]:
    """Return each partition's high watermark, or its last stable offset for read_committed.

    Each call creates a new client, because a client that does not consume keeps the leaders of its first metadata.
    """
    asking = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "ends", "isolation.level": level})
    try:
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        return [asking.get_watermark_offsets(each, timeout=10)[1] for each in places]
    finally:
        asking.close()


def committed(cluster: Nodes, topic: str) -> dict[int, list[tuple[bytes | None, bytes]]]:
    """Wait until no transaction is open, and return keys and values of all committed records by partition."""
    until(
        lambda: ends(cluster, topic, "read_committed") == ends(cluster, topic),
        what=f"no transaction is open in {topic}",
        timeout=90,
        ignore=(KafkaException,),
    )
    reader = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "check", "isolation.level": "read_committed"}
        | {"enable.auto.commit": False, "enable.partition.eof": True}
    )
    found: dict[int, list[tuple[bytes | None, bytes]]] = {}
    for partition in range(PARTITIONS):
        reader.assign([TopicPartition(topic, partition, 0)])
        records = found[partition] = []
        while True:
            message = reader.poll(60)
            assert message is not None, f"{topic}-{partition} gives no record and no end"
            if message.error():
                assert message.error().name() == "_PARTITION_EOF", message.error()
                break
            records.append((message.key(), message.value()))
    reader.close()
    return found


def restart(cluster: Nodes, node: int) -> None:
    """Kill a node, start it again, and wait until all replicas are in sync."""
    cluster.kill(node)
    cluster.start(node)
    for topic in cluster.zk.get_children("/brokers/topics"):
        until(lambda topic=topic: cluster.in_sync(topic), what=f"{topic} is in sync", timeout=120, ignore=(Exception,))


# -------------------------------------------------------------------------------------------------------- the copier


class Copier(Running):
    """Kafka's TransactionalMessageCopier for one input partition. It aborts some of its transactions at random."""

    def __init__(self, jars: Path, place: Path, bootstrap: str, partition: int) -> None:
        self.transactional_id = f"copier-{partition}"
        options = {
            "--broker-list": bootstrap,
            "--input-topic": INPUT,
            "--input-partition": str(partition),
            "--output-topic": OUTPUT,
            "--consumer-group": "copiers",
            "--transactional-id": self.transactional_id,
            "--transaction-size": "25",
            "--transaction-timeout": "20000",
        }
        words = [word for option in options.items() for word in option]
        command = [*apache_java(jars, "128m"), "org.apache.kafka.tools.TransactionalMessageCopier"]
        place.mkdir(parents=True, exist_ok=True)
        super().__init__([*command, *words, "--enable-random-aborts"], place / f"{self.transactional_id}.txt")

    @property
    def remaining(self) -> int | None:
        """The lowest number of remaining records that the copier has printed; None if it has printed none."""
        lines = [line for line in self.output.split("\n")[:-1] if line.startswith("{")]
        return min((json.loads(line).get("remaining", 1 << 30) for line in lines), default=None)


def copy_under_kills(cluster: Nodes, jars: Path, kills: int, records: int) -> Counter[str]:
    """Copy two partitions, kill coordinators, leaders and copiers in turn, and compare the output.

    Returns:
        The number of kills of each kind.
    """
    for topic in (INPUT, OUTPUT):
        cluster.create(topic, PARTITIONS)
    write(cluster, INPUT, lambda partition: (b"%d-%d" % (partition, number) for number in range(records)))
    numbers = range(PARTITIONS)
    copiers = [Copier(jars, cluster.place / "copiers", cluster.bootstrap, number) for number in numbers]
    killed: Counter[str] = Counter()

    def copied() -> int:
        """Return the number of records that both copiers have copied. Assert that no copier has failed."""
        for each in copiers:
            assert each.process.poll() in (None, 0), f"{each.transactional_id} has failed: {each.output[-3000:]}"
        return sum(records - min(records, records if each.remaining is None else each.remaining) for each in copiers)

    def coordinator() -> int:
        place = slot(copiers[number % PARTITIONS].transactional_id) % STATE_PARTITIONS
        return int(cluster.zk.state_of(TRANSACTION_STATE, place)["leader"])

    for number, kind in enumerate(itertools.islice(itertools.cycle(("coordinator", "leader", "copier")), kills)):
        goal = PARTITIONS * records * (number + 1) // (kills + 2)
        until(copied, lambda done, goal=goal: done >= goal, f"{goal} records are copied", 240)  # type: ignore[misc]
        which = number % PARTITIONS
        if kind == "copier":
            copiers[which].kill()
            copiers[which] = Copier(jars, cluster.place / "copiers", cluster.bootstrap, which)
        else:
            restart(cluster, coordinator() if kind == "coordinator" else cluster.zk.state_of(OUTPUT, which)["leader"])
        killed[kind] += 1
    for each in copiers:
        assert each.process.wait(300) == 0, each.output[-3000:]
    output = committed(cluster, OUTPUT)
    for partition in numbers:
        values = [value for _, value in output[partition]]
        assert values == [b"%d-%d" % (partition, number) for number in range(records)], f"output-{partition}"
    return killed


# -------------------------------------------------------------------------------------------------------- Streams


class WordCounter(Running):
    """An instance of `WordCount.java`. Java compiles the file at the start."""

    def __init__(self, jars: Path, streams: Path, place: Path, bootstrap: str, name: str) -> None:
        *java, classes = apache_java(jars, "256m")
        source = Path(__file__).with_name("WordCount.java")
        place.mkdir(parents=True, exist_ok=True)
        command = [*java, f"{classes}:{streams}/*", str(source), bootstrap, "word-count", str(place / name)]
        super().__init__(command, place / f"{name}.txt")


def count_under_kills(cluster: Nodes, jars: Path, streams: Path, kills: int, lines: int, seed: int) -> int:
    """Count words, kill nodes in turn and an instance after every fifth kill, and compare the output.

    Returns:
        The number of committed counts, which equals the number of words in the input.
    """
    for topic in (LINES, COUNTS):
        cluster.create(topic, PARTITIONS)
    chance = random.Random(seed)
    words: Counter[bytes] = Counter()

    def line() -> bytes:
        chosen = [b"w%d" % chance.randrange(20) for _ in range(WORDS_IN_LINE)]
        words.update(chosen)
        return b" ".join(chosen)

    names = ("one", "two")
    place = cluster.place / "streams"
    counters = {name: WordCounter(jars, streams, place, cluster.bootstrap, name) for name in names}

    def counted() -> int:
        """Return the sum of the output's end offsets. Counts and transaction markers increase it."""
        for each in counters.values():
            assert each.process.poll() is None, f"Streams has ended: {each.output[-3000:]}"
        return sum(ends(cluster, COUNTS))

    for number in range(kills + 1):
        before = until(counted, lambda _: True, "the output's end", 60, (KafkaException,))
        write(cluster, LINES, lambda _: (line() for _ in range(lines)))
        if number == kills:
            break
        grown = (lambda end, before=before: end >= before + lines, f"words are counted before kill {number}", 300)
        until(counted, *grown, (KafkaException,))  # type: ignore[arg-type]
        restart(cluster, number % 3)
        if number % 5 == 4:
            name = names[number // 5 % 2]
            counters[name].kill()
            counters[name] = WordCounter(jars, streams, place, cluster.bootstrap, name)
    expected = sum(words.values())
    counts: dict[bytes | None, list[int]] = {}

    def total() -> int:
        """Collect the committed counts in `counts`, and return their number.

        Streams commits lines as read before it counts their words, so the caller waits for the number.
        """
        counts.clear()
        for records in committed(cluster, COUNTS).values():
            for word, count in records:
                counts.setdefault(word, []).append(int(count))
        return sum(map(len, counts.values()))

    until(total, lambda seen: seen >= expected, f"{expected} words are counted", 300)
    for word, times in words.items():
        assert counts[word] == list(range(1, times + 1)), f"{word!r} is {times} times in the input"
    assert sum(map(len, counts.values())) == expected
    return expected
