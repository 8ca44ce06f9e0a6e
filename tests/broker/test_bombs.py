"""A broker refuses a batch that decompresses to hundreds of megabytes, and serves other clients meanwhile."""

from __future__ import annotations

import select
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.storage.log_manager import SEARCH_SLICE, SEARCH_STEP, LogManager
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.list_offsets import ListOffsetsRequest, OffsetQuery
from messages.apis.metadata import MetadataRequest
from messages.apis.produce import ProducePartition, ProduceRequest
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.cluster import ConfigEntry, TopicPartition
from messages.errors import MESSAGE_TOO_LARGE, NONE
from messages.wire.record_batch import body_of, read_records
from tests.broker.harness import CONTROLLER, Broker, ServedBroker, alive, known, order
from tests.storage import bad_batches
from tests.storage.batches import batch, header_of, with_header
from tests.wire.test_batch_records import GZIP, LZ4, ZSTD, bomb
from tests.wire_client import WireClient

T0 = TopicPartition("t", 0)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path / "data") as served:
        served.configs["t"] = (ConfigEntry("cleanup.policy", "compact"),)
        with WireClient("127.0.0.1", served.port) as client:
            client.call(UpdateMetadataRequest(6, CONTROLLER, 1, -1, (known("t"),), (alive(0, served.port),)))
            client.call(LeaderAndIsrRequest(4, CONTROLLER, 1, -1, (order("t"),), ()))
        yield served


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_others_are_answered_while_a_bomb_is_checked(broker: ServedBroker, codec: int) -> None:
    """Later requests from another connection are answered before the bomb."""
    data = bad_batches.batch(bomb(codec), 1, codec)
    request = ProduceRequest(8, None, 1, 30_000, (ProducePartition(T0, read_records(data)),))
    with WireClient("127.0.0.1", broker.port) as hostile, WireClient("127.0.0.1", broker.port) as other:
        asked = MetadataRequest(8, ())
        other.call(asked)
        sent = hostile.send(request)
        for _ in range(5):
            other.call(asked)
        assert not select.select([hostile.socket], [], [], 0)[0], "the bomb takes longer than five small requests"
        [refused] = hostile.receive(sent, request).partitions  # type: ignore[attr-defined]
        assert refused.error_code == MESSAGE_TOO_LARGE
        assert "more than 104857600 bytes" in refused.error_message
        two = read_records(bad_batches.batch(bad_batches.TWO, 2))
        good = ProduceRequest(8, None, 1, 30_000, (ProducePartition(T0, two),))
        assert hostile.call(good).partitions[0].error_code == NONE  # type: ignore[attr-defined]


def test_a_search_by_time_in_a_bomb_is_done_in_parts(tmp_path: Path) -> None:
    """An existing log may contain a bomb. A search by time decompresses it in parts and uses little memory."""
    logs, path = LogManager(lambda: 0), f"{tmp_path}/t-0"
    logs.open(path, True, (1 << 30, 1 << 40, 10 << 20, 4096, -1, -1))
    data = bad_batches.batch(bomb(ZSTD), 2, ZSTD)
    assert logs.replicate(path, body_of(data))[0] == NONE
    newest = header_of(data).max_timestamp
    tracemalloc.start()
    calls, found = 1, logs.find_time(path, newest + 1, 2)
    assert found == (0, -1, -1, -1), "the header says that there is none"
    changed = with_header(data, max_timestamp=newest + 5)
    assert logs.replicate(path, body_of(with_header(changed, base_offset=2)))[0] == NONE
    found = logs.find_time(path, newest + 1, 4)
    while found[0]:
        calls, found = calls + 1, logs.find_time(path, newest + 1, 4, found[0])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found[1:3], calls > 1) == ((newest, 2), True)
    assert peak < 2 << 20


def test_a_long_search_continues_after_other_messages(tmp_path: Path) -> None:
    """The search takes several slices and finds the last record. For a later time, it returns offset -1."""
    broker = Broker(tmp_path / "data")
    broker.update(known("t"), live=(alive(0),))
    broker.lead(order("t"))
    values = [b"v"] * (2 * SEARCH_SLICE * SEARCH_STEP + 10)
    request = ProduceRequest(8, None, 1, 1000, (ProducePartition(T0, read_records(batch(*values))),))
    assert broker.ask(request).partitions[0].error_code == NONE
    query = OffsetQuery(T0, 1_000 + len(values) - 1)
    [found] = broker.ask(ListOffsetsRequest(5, -1, (query,))).partitions
    assert (found.error_code, found.offset, found.timestamp) == (NONE, len(values) - 1, query.timestamp)
    [found] = broker.ask(ListOffsetsRequest(5, -1, (OffsetQuery(T0, query.timestamp + 1),))).partitions
    assert (found.error_code, found.offset) == (NONE, -1)


def test_a_time_is_found_where_records_carry_the_time_of_their_append(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data")
    broker.configs["t"] = (ConfigEntry("message.timestamp.type", "LogAppendTime"),)
    broker.update(known("t"), live=(alive(0),))
    broker.lead(order("t"))
    request = ProduceRequest(8, None, 1, 1000, (ProducePartition(T0, read_records(batch(b"a", b"b"))),))
    [first, second] = [broker.ask(request).partitions[0] for _ in range(2)]
    time_ms = second.log_append_time_ms
    for asked, offset in ((0, 0), (first.log_append_time_ms, 0), (time_ms + 1, -1)):
        [found] = broker.ask(ListOffsetsRequest(5, -1, (OffsetQuery(T0, asked),))).partitions
        assert (found.error_code, found.offset) == (NONE, offset)
    if time_ms > first.log_append_time_ms:
        [found] = broker.ask(ListOffsetsRequest(5, -1, (OffsetQuery(T0, time_ms),))).partitions
        assert found.offset == second.base_offset
