"""What a request may cost, counted from the trace of a broker that serves real sockets."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.runtime.trace.recorder import Recorder
from messages.cluster import TopicPartition
from messages.data_requests import FetchPartition, FetchRequest, ProducePartition, ProduceRequest
from messages.error_codes import NONE
from messages.requests import LeaderAndIsrRequest, UpdateMetadataRequest
from messages.trace.files.runs import RunRecords, find_runs
from messages.wire import decode_response, encode_request
from messages.wire.record_batch import read_records
from tests.broker.harness import CONTROLLER, ServedBroker, alive, codes, known, order
from tests.storage.batches import batch
from tests.waiting import until
from tests.wire_client import WireClient

PARTITIONS = [TopicPartition("t", number) for number in range(20)]


class Traced(ServedBroker):
    """A broker that leads `PARTITIONS`, and the record of it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.recorder = Recorder(place / "trace", 0)
        super().__init__(place / "data", observer=self.recorder)

    def lead_all(self, client: WireClient) -> None:
        states = [known("t", partition.partition) for partition in PARTITIONS]
        orders = tuple(order("t", partition.partition) for partition in PARTITIONS)
        client.call(UpdateMetadataRequest(6, CONTROLLER, 1, -1, tuple(states), (alive(0, self.port),)))
        assert set(codes(client.call(LeaderAndIsrRequest(4, CONTROLLER, 1, -1, orders, ()))).values()) == {NONE}

    def rest(self) -> int:
        """The last delivery, when all is done. Seen on the loop: an answer is sent within its delivery."""
        until(lambda: self.base.queued == 0, what="rest")

        async def last() -> int:
            return self.base.n

        return asyncio.run_coroutine_threadsafe(last(), self.loop).result(10)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Traced]:
    with Traced(tmp_path) as served:
        yield served


def receivers(broker: Traced, after: int, last: int) -> Counter[str]:
    """The receivers of the deliveries in between: classes of actors, names of external endpoints."""
    broker.recorder.close()
    [run] = find_runs(broker.place / "trace").runs
    named = (record.receiver for record in RunRecords(run) if after < record.n <= last and record.receiver)
    return Counter(name if name.startswith("outside:") else name.rpartition(".")[0] for name in named)


def produce(size: int) -> ProduceRequest:
    part = ProducePartition(PARTITIONS[0], read_records(batch(b"x" * size)))
    return ProduceRequest(8, None, 1, 1000, (part,))


def test_a_produce_of_one_batch_to_one_partition_takes_four_deliveries(broker: Traced) -> None:
    with WireClient("127.0.0.1", broker.port, timeout=10) as client:
        broker.lead_all(client)
        client.call(produce(100))
        before = broker.rest()
        assert client.call(produce(100)).partitions[0].error_code == NONE
        last = broker.rest()
    assert receivers(broker, before, last) == {"PartitionRequestsActor": 2, "PartitionActor": 1, "outside:listener": 1}


def test_produces_that_come_together_take_four_deliveries_together(broker: Traced) -> None:
    """All in one frame of the socket: each is answered for itself, in its turn."""
    request = produce(100)
    with WireClient("127.0.0.1", broker.port, timeout=10) as client:
        broker.lead_all(client)
        client.call(request)
        before = broker.rest()
        client.socket.sendall(b"".join(encode_request(request, number, "test") for number in range(20)))
        for number in range(20):
            found, response = decode_response(ProduceRequest, request.version, client.receive_frame())
            assert (found, response.partitions[0].base_offset) == (number, number + 1)
        last = broker.rest()
    assert receivers(broker, before, last) == {"PartitionRequestsActor": 2, "PartitionActor": 1, "outside:listener": 1}


def test_a_fetch_that_is_caught_up_asks_no_partition(broker: Traced) -> None:
    """Sessionless, of twenty partitions, again and again: the first asks each of them, no other any."""
    parts = tuple(FetchPartition(partition, 0, 1 << 20) for partition in PARTITIONS)
    with WireClient("127.0.0.1", broker.port, timeout=10) as client:
        broker.lead_all(client)
        client.call(FetchRequest(11, -1, 1, 1, parts))
        before = broker.rest()
        assert len(client.call(FetchRequest(11, -1, 50, 1, parts)).partitions) == len(parts)
        last = broker.rest()
    assert receivers(broker, before, last) == {"PartitionRequestsActor": 2, "outside:listener": 1}


def test_the_trace_of_a_large_batch_is_small(broker: Traced) -> None:
    """A gigabyte in batches of 100 KB is ten thousand of them, for which 20 MB of all nodes' traces are allowed.

    Of which this is the leader's part; a follower's is a third of it (measured on three nodes: 0.44, 0.08, 0.09 MB for
    200 MB).
    """
    batches = 300
    with WireClient("127.0.0.1", broker.port, timeout=10) as client:
        broker.lead_all(client)
        client.call(produce(100))
        broker.recorder.flush()
        before = sum(file.stat().st_size for file in (broker.place / "trace").iterdir())
        for _ in range(batches):
            client.call(produce(100_000))
        broker.rest()
    broker.recorder.close()
    grown = sum(file.stat().st_size for file in (broker.place / "trace").iterdir()) - before
    assert grown / batches < 20e6 / 10_000 / 3
