"""Recompression of batches and searches by time replay exactly from a trace."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

from actors.broker.fetcher_manager import ReplicaFetcherManagerActor
from actors.broker.isr_keeper import IsrKeeperActor
from actors.broker.metadata_cache import MetadataCacheActor
from actors.broker.partition_requests import PartitionRequestsActor
from actors.broker.replica_manager import ReplicaManagerActor
from actors.broker.request_handler import RequestHandlerActor
from actors.runtime import VirtualClock
from actors.runtime.trace.recorder import Recorder
from actors.runtime.trace.replayer import replay_directory
from actors.storage.log_manager import SEARCH_SLICE, SEARCH_STEP
from messages.apis.fetch import FetchPartition, FetchRequest
from messages.apis.list_offsets import ListOffsetsRequest, OffsetQuery
from messages.apis.produce import ProducePartition, ProduceRequest
from messages.cluster import ConfigEntry, TopicPartition
from messages.errors import MESSAGE_TOO_LARGE, NONE
from messages.partition import ContinueSearch
from messages.records import CODECS
from messages.trace.files.runs import RunRecords, find_runs
from messages.wire.batch_records import records
from messages.wire.record_batch import read_records
from tests.broker.harness import Broker, alive, known, order, settings
from tests.storage.batches import batch, header_of

T0 = TopicPartition("t", 0)
ACTORS = (
    IsrKeeperActor,
    MetadataCacheActor,
    PartitionRequestsActor,
    ReplicaFetcherManagerActor,
    ReplicaManagerActor,
    RequestHandlerActor,
)


def test_recompression_and_searches_by_time_replay_exactly(tmp_path: Path) -> None:
    """The broker recompresses batches, and one is then too large.

    Searches by time run in slices between other messages.
    """
    clock = VirtualClock()
    recorder = Recorder(str(tmp_path / "trace"), 0, ("broker",), settings(tmp_path / "data"), now=clock.now)
    broker = Broker(tmp_path / "data", clock=clock, observer=recorder)
    count = 2 * SEARCH_SLICE * SEARCH_STEP + 10
    many = batch(*[b"v"] * count)
    noise = batch(Random(1).randbytes(len(many)))
    overrides = {"compression.type": "lz4", "max.message.bytes": str(len(noise))}
    broker.configs["t"] = tuple(ConfigEntry(*entry) for entry in overrides.items())
    broker.update(known("t"), live=(alive(0),))
    broker.lead(order("t"))

    def produce(data: bytes) -> int:
        part = ProducePartition(T0, read_records(data))
        return broker.ask(ProduceRequest(8, None, 1, 1000, (part,))).partitions[0].error_code

    assert [produce(many), produce(batch(*[b"w"] * 3)), produce(noise)] == [NONE, NONE, MESSAGE_TOO_LARGE]
    last = 1_000 + count - 1
    asked = {time: broker.post(ListOffsetsRequest(5, -1, (OffsetQuery(T0, time),))) for time in (last, last - 1, 1_001)}
    broker.run()
    found = {answer.correlation_id: answer.response for answer in broker.answers}
    assert {time: found[id].partitions[0].offset for time, id in asked.items()} == {
        last: count - 1,
        last - 1: count - 2,
        1_001: 1,
    }
    fetch = FetchRequest(11, -1, max_wait_ms=0, min_bytes=1, partitions=(FetchPartition(T0, count, 1 << 20),))
    stored = bytes(broker.ask(fetch).partitions[0].body.data)
    assert CODECS[header_of(stored).attributes & 7] == "lz4"
    assert [record.value for record in records(memoryview(stored), header_of(stored))] == [b"w"] * 3
    broker.end()
    recorder.close()
    shutil.rmtree(tmp_path / "data")
    [recorded] = find_runs(tmp_path / "trace").runs
    assert sum(record.type == ContinueSearch.__name__ for record in RunRecords(recorded)) >= 4, (
        "two slices of two searches"
    )
    (run,) = replay_directory(tmp_path / "trace", ACTORS).runs
    assert run.ok, run.divergence
    assert not (tmp_path / "data").exists()
