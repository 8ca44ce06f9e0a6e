"""Clean a compacted topic while it is written: exactly the last record of each key stays, on all replicas.

The number of records grows with --soak-seconds: 10 million with 600.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from confluent_kafka import Producer

from actors.public import KafkaCluster
from messages.wire.batch_records import records
from messages.wire.record_batch import whole_batches

RECORDS_PER_SECOND = 17_000
KEYS = 100_000
SETTINGS = {"log.cleaner.backoff.ms": 200, "log.cleaner.min.cleanable.ratio": 0.2}
TOPIC = {"cleanup.policy": "compact", "segment.bytes": 1 << 20}


def contents(folder: Path) -> dict[int, tuple[bytes | None, bytes | None]]:
    """Return the keys and values of a replica by offset, in the order of its files."""
    found = {}
    for file in sorted(folder.glob("*.log")):
        data = file.read_bytes()
        for position, header in whole_batches(data):
            found.update({each.offset: (each.key, each.value) for each in records(data[position:], header)})
    return found


@pytest.mark.soak
def test_the_last_record_of_each_key_stays_on_all_replicas(pytestconfig: pytest.Config) -> None:
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
        for folder in folders:
            assert "t 0 " in Path(folder.parent, "cleaner-offset-checkpoint").read_text(), "it was cleaned meanwhile"
        cluster.compact("t")
        expected = {offset: (key, b"%d" % offset) for key, offset in sorted(last.items(), key=lambda item: item[1])}
        for folder in folders:
            assert list(contents(folder).items()) == list(expected.items())
