"""An idempotent producer repeats its batches after the broker's restart.

Our broker and Apache's take over each other's log directory.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actors.storage.log_manager import OUT_OF_ORDER_SEQUENCE
from messages.apis.produce import ProducePartition, ProduceRequest
from messages.cluster import TopicPartition
from messages.errors import NONE, NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION
from messages.wire.record_batch import read_records
from tests.cluster.processes import ApacheBroker, OurNode, Running, create_topic, free_ports
from tests.storage.batches import batch
from tests.waiting import until
from tests.wire_client import WireClient
from tests.zookeeper_client import PatientZooKeeperClient
from zk_bridge.embedded import EmbeddedZooKeeper

PLACE = TopicPartition("t", 0)
KEPT = 5
"""Number of batches of a producer that a running broker caches."""
NOT_YET = (NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION)


class Life:
    """Runs broker 0, ours or Apache's, on the same log directory and ZooKeeper."""

    def __init__(self, place: Path, zookeeper: EmbeddedZooKeeper, jars: Path) -> None:
        self._place, self._zookeeper, self._jars = place, zookeeper, jars

    @contextmanager
    def of(self, make: type[Running], ends: signal.Signals) -> Iterator[WireClient]:
        """Run the broker, yield a client once it leads t-0, and end it with the signal `ends` (SIGTERM or SIGKILL)."""
        (port,) = free_ports(1)
        connect = self._zookeeper.connect_string
        logs = self._place / "data"
        node = (
            OurNode(self._place / "ours", 0, port, connect, log__dirs=logs)
            if make is OurNode
            else ApacheBroker(self._jars, self._place / "apache", 0, port, connect, log__dirs=logs)
        )
        zk = PatientZooKeeperClient(connect)
        zk.start()
        try:
            until(lambda: zk.exists("/brokers/ids/0"), what="registered", timeout=90)
            if not zk.exists("/brokers/topics/t"):
                create_topic(connect, "t", "--replica-assignment", "0")
            # Apache's broker registers before it listens
            with until(lambda: WireClient("127.0.0.1", port), what="it listens", ignore=(OSError,)) as client:
                until(lambda: produced(client, batch(b"here")), lambda code: code not in NOT_YET, "led", 60)
                yield client
            node.send(ends)
            node.process.wait(60)
            zk.end_session(0)
        finally:
            node.kill()
            zk.stop()
            zk.close()


def produced(client: WireClient, data: bytes) -> int:
    """Produce a batch, and return its error code."""
    request = ProduceRequest(8, None, 1, 30_000, (ProducePartition(PLACE, read_records(data)),))
    [partition] = client.call(request).partitions  # type: ignore[attr-defined]
    return int(partition.error_code)


def tried(client: WireClient, producer: int, first: int = 0) -> list[int]:
    """Produce KEPT consecutive batches, new or repeated, and return their error codes."""
    now = int(time.time() * 1000)  # Apache's broker expires a producer after a day
    numbers = range(first, first + KEPT)
    return [
        produced(client, batch(b"a", b"b", timestamp=now, producer=producer, epoch=0, sequence=2 * n)) for n in numbers
    ]


KNOWN, LAST_ONLY = [NONE] * KEPT, [OUT_OF_ORDER_SEQUENCE] * (KEPT - 1) + [NONE]


@pytest.mark.parametrize(
    "ends", [pytest.param(signal.SIGTERM, marks=[pytest.mark.soak, pytest.mark.long]), signal.SIGKILL]
)
def test_the_next_leader_recognises_a_producers_batches(
    tmp_path: Path, apache_jars: Path, zookeeper: EmbeddedZooKeeper, ends: signal.Signals
) -> None:
    """After a restart, Apache's broker recognises only the last batch of a producer; ours recognises the last five.

    After a clean stop of Apache's broker, ours also recognises only the last batch, because the snapshot has no other.
    """
    life = Life(tmp_path, zookeeper, apache_jars)
    with life.of(ApacheBroker, ends) as client:
        assert tried(client, 1) == tried(client, 1) == KNOWN
    with life.of(ApacheBroker, ends) as client:
        assert tried(client, 1) == LAST_ONLY
    with life.of(OurNode, ends) as client:
        recovered = ends == signal.SIGKILL  # after a kill, it reads the log, not Apache's snapshot
        assert tried(client, 1) == (KNOWN if recovered else LAST_ONLY)
        assert tried(client, 1, KEPT) == KNOWN
        assert tried(client, 2) == KNOWN
    with life.of(OurNode, ends) as client:
        assert tried(client, 1, KEPT) == tried(client, 2) == KNOWN
    with life.of(ApacheBroker, ends) as client:
        assert tried(client, 1, KEPT) == tried(client, 2) == LAST_ONLY
        assert tried(client, 2, KEPT) == KNOWN, "what follows the last is taken"
