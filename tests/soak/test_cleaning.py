"""Clean a compacted topic while it is written: exactly the last record of each key stays, on all replicas.

The number of records grows with --soak-seconds: 10 million with 600. Another test kills brokers while they clean.
"""

from __future__ import annotations

import faulthandler
import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from actors.core.broker.log_cleaner import SLOT_BYTES
from actors.public import ClusterError, KafkaCluster
from messages.wire.batch_records import records
from messages.wire.record_batch import whole_batches
from tests.waiting import until

RECORDS_PER_SECOND = 17_000
MEMORY = 64 << 20
"""Bytes that a broker may need for cleaning beside the map of the keys."""
KEYS = 100_000
SETTINGS = {"log.cleaner.backoff.ms": 200, "log.cleaner.min.cleanable.ratio": 0.2}
TOPIC = {"cleanup.policy": "compact", "segment.bytes": 1 << 20}
KILLS = 200
KILLED = {
    "log.cleaner.backoff.ms": 20,
    "log.cleaner.min.cleanable.ratio": 0.01,
    "log.cleaner.io.max.bytes.per.second": 300_000,
    "min.insync.replicas": 2,
}
"""Settings with which a broker is cleaning most of the time."""


def contents(folder: Path) -> dict[int, tuple[bytes | None, bytes | None]]:
    """Return the keys and values of a replica by offset, in the order of its files."""
    found = {}
    for file in sorted(folder.glob("*.log")):
        data = file.read_bytes()
        for position, header in whole_batches(data):
            found.update({each.offset: (each.key, each.value) for each in records(data[position:], header)})
    return found


def check_memory(clean: Callable[[], None]) -> None:
    """Clean a topic, and check the memory that the process of the brokers uses for it, and whether it gives it back."""
    brokers = max(psutil.Process().children(), key=lambda child: child.memory_info().rss)
    before = most = brokers.memory_info().rss
    with ThreadPoolExecutor(1) as pool:
        # the cleaners of three brokers share a thread, and have millions of records to clean: `compact` times out
        cleaning = pool.submit(until, clean, lambda _: True, "the topic is clean", 600, (ClusterError,))
        while not cleaning.done():
            most = max(most, brokers.memory_info().rss)
            time.sleep(0.02)
        cleaning.result()
    for_each = KEYS * SLOT_BYTES + MEMORY
    until(lambda: brokers.memory_info().rss - before, lambda more: more < MEMORY // 4, "the memory is given back")
    print(f"{before >> 20} MB, {most >> 20} MB while cleaning, {brokers.memory_info().rss >> 20} MB")
    assert most - before < 3 * for_each


@pytest.mark.soak
def test_the_last_record_of_each_key_stays_on_all_replicas(pytestconfig: pytest.Config) -> None:
    faulthandler.cancel_dump_traceback_later()
    chance, last = random.Random(pytestconfig.getoption("soak_seed")), dict[bytes, int]()
    failed: list[object] = []
    with KafkaCluster(settings=SETTINGS) as cluster:
        cluster.create_topic("t", config=TOPIC)
        servers = cluster.bootstrap_servers
        producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5})
        for offset in range(int(pytestconfig.getoption("soak_seconds") * RECORDS_PER_SECOND)):
            key = b"key-%d" % chance.randrange(KEYS)
            last[key] = offset
            while True:
                try:
                    producer.produce("t", b"%d" % offset, key, 0, lambda error, _: error and failed.append(error))
                    break
                except BufferError:
                    producer.poll(0.1)
            if not offset % 100:
                producer.poll(0)
        assert producer.flush(120) == 0 and not failed
        folders = [Path(cluster.log_dirs_of(broker)[0], "t-0") for broker in range(3)]
        checkpoints = [folder.parent / "cleaner-offset-checkpoint" for folder in folders]
        # no test has requested it: a fast producer may end before the slowest cleaner
        until(lambda: all(each.exists() and "t 0 " in each.read_text() for each in checkpoints), bool, "it is cleaned")
        check_memory(lambda: cluster.compact("t"))
        expected = {offset: (key, b"%d" % offset) for key, offset in sorted(last.items(), key=lambda item: item[1])}
        for folder in folders:
            assert list(contents(folder).items()) == list(expected.items())


@pytest.mark.soak
@pytest.mark.long
def test_nothing_is_lost_or_comes_back_when_brokers_are_killed_while_they_clean(pytestconfig: pytest.Config) -> None:
    """A tenth of the records are tombstones. They stay for longer than a broker is down, so that it meets them."""
    faulthandler.cancel_dump_traceback_later()
    chance, last = random.Random(pytestconfig.getoption("soak_seed")), dict[bytes, tuple[int, bytes | None]]()
    failed: list[object] = []
    with KafkaCluster(settings=KILLED, session_timeout=0.5) as cluster:
        config = {"cleanup.policy": "compact", "segment.bytes": 30_000, "delete.retention.ms": 20_000}
        cluster.create_topic("t", config=config)
        folders = [Path(cluster.log_dirs_of(broker)[0], "t-0") for broker in range(3)]
        servers = cluster.bootstrap_servers
        producer = Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0, "batch.size": 9_000}
        )
        interrupted = Counter[str]()
        for kill in range(KILLS):
            for count in range(200 * kill, 200 * kill + 200):
                key, value = b"key-%d" % chance.randrange(1_000), b"%d %s" % (count, b"x" * 100)
                last[key] = count, None if chance.random() < 0.1 else value
                producer.produce("t", last[key][1], key, 0, lambda error, _: error and failed.append(error))
            producer.poll(chance.random() / 2)
            broker = chance.randrange(3)
            cluster.kill(broker)
            interrupted.update({file.suffix for file in folders[broker].iterdir()} & {".cleaned", ".swap"})
            cluster.start_broker(broker)
        print(interrupted)
        assert producer.flush(120) == 0 and not failed
        cluster.wait_for(lambda: len(cluster.isr_of("t")) == 3, 60)
        cluster.compact("t")
        written = [(key, value) for key, (_, value) in sorted(last.items(), key=lambda item: item[1][0])]
        for folder in folders:
            found = list(contents(folder).values())
            deleted = {key for key, value in found if value is None}
            assert found == [(key, value) for key, value in written if value or key in deleted]
    assert interrupted[".cleaned"] > KILLS // 10
