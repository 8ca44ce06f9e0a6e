"""An idempotent producer repeats its batches after the broker's restart.

Our broker and Apache's take over each other's log directory.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from actors.storage.log_manager import OUT_OF_ORDER_SEQUENCE
from messages.apis.produce import ProducePartition, ProduceRequest
from messages.cluster import TopicPartition
from messages.errors import NONE, NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION
from messages.wire.record_batch import read_records
from tests.cluster.nodes import Nodes
from tests.cluster.processes import free_ports
from tests.storage.batches import batch
from tests.waiting import until
from tests.wire_client import WireClient

PLACE = TopicPartition("t", 0)
KEPT = 5
"""Number of batches of a producer that a running broker caches."""
NOT_YET = (NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION)


@contextmanager
def life_of(cluster: Nodes, apache: Mapping[int, Path], ends: signal.Signals) -> Iterator[WireClient]:
    """Run broker 0, ours or Apache's; yield a client once it leads t-0, and end it with SIGTERM or SIGKILL."""
    cluster.apache = apache
    cluster.start(0)
    if not cluster.zk.exists("/brokers/topics/t"):
        cluster.create("t", 1)
    with WireClient("127.0.0.1", cluster.ports[0]) as client:
        until(lambda: produced(client, batch(b"here")), lambda code: code not in NOT_YET, "led", 60)
        yield client
    cluster.nodes[0].send(ends)
    cluster.nodes[0].process.wait(60)
    cluster.zk.end_session(0)


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
    tmp_path: Path, apache_jars: Path, ends: signal.Signals
) -> None:
    """After a restart, Apache's broker recognises only the last batch of a producer; ours recognises the last five.

    After a clean stop of Apache's broker, ours also recognises only the last batch, because the snapshot has no other.
    """
    ours, apache = dict[int, Path](), {0: apache_jars}
    with Nodes.running(tmp_path, ids=()) as cluster:
        cluster.ports += free_ports(1)
        with life_of(cluster, apache, ends) as client:
            assert tried(client, 1) == tried(client, 1) == KNOWN
        with life_of(cluster, apache, ends) as client:
            assert tried(client, 1) == LAST_ONLY
        with life_of(cluster, ours, ends) as client:
            recovered = ends == signal.SIGKILL  # after a kill, it reads the log, not Apache's snapshot
            assert tried(client, 1) == (KNOWN if recovered else LAST_ONLY)
            assert tried(client, 1, KEPT) == KNOWN
            assert tried(client, 2) == KNOWN
        with life_of(cluster, ours, ends) as client:
            assert tried(client, 1, KEPT) == tried(client, 2) == KNOWN
        with life_of(cluster, apache, ends) as client:
            assert tried(client, 1, KEPT) == tried(client, 2) == LAST_ONLY
            assert tried(client, 2, KEPT) == KNOWN, "what follows the last is taken"
