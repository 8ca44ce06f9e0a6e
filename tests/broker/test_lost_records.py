"""A replica whose log lost committed records: it does not lead while another replica is in sync, and fetches them."""

from __future__ import annotations

from pathlib import Path

import pytest

from messages.apis.fetch import FetchPartition, FetchRequest
from messages.apis.offset_for_leader_epoch import EpochEnd, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from messages.errors import KAFKA_STORAGE_ERROR, NONE, STALE_CONTROLLER_EPOCH
from messages.wire.record_batch import whole_batches
from messages.zookeeper import NotifyLogDirFailure
from tests.broker.harness import Broker, alive, codes, known, order
from tests.broker.test_following import T0, records, reply, under_way
from tests.broker.test_records import produce
from tests.storage.batches import batch

REPLICAS = (0, 1)
LIVE = alive(0), alive(1, 1)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Write five committed records, stop cleanly, and damage the length of the fourth. Return the log's file."""
    broker = started(tmp_path)
    broker.lead(order("t"))
    for number in range(5):
        produce(broker, batch(b"%d" % number))
    broker.end()
    file = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[[position for position, _ in whole_batches(bytes(data))][3] + 9] ^= 0x40
    file.write_bytes(data)
    return file


def started(place: Path) -> Broker:
    broker = Broker(place)
    broker.run()
    broker.update(known("t"), live=LIVE)
    return broker


def lead(broker: Broker, leader: int, epoch: int, isr: tuple[int, ...]) -> int:
    return codes(broker.lead(order("t", leader=leader, epoch=epoch, replicas=REPLICAS, isr=isr)))["t-0"]


def test_it_refuses_to_lead_while_another_replica_is_in_sync_and_follows_it(damaged: Path) -> None:
    broker, content = started(damaged.parent.parent), damaged.read_bytes()
    assert lead(broker, 0, 1, (0, 1)) == KAFKA_STORAGE_ERROR
    assert produce(broker, batch(b"new")).error_code == KAFKA_STORAGE_ERROR
    request = FetchRequest(11, -1, 0, 0, (FetchPartition(T0, 0, 1 << 20),), 1 << 20)
    assert broker.ask(request).partitions[0].error_code == KAFKA_STORAGE_ERROR
    assert broker.gauges["offlinereplicacount"] == 0, "the log directory stays online"
    broker.update(known("t", leader=-1, epoch=2), live=LIVE)
    assert broker.questions == []
    broker.update(known("t", leader=1, epoch=3), live=LIVE)
    broker.update(known("t", leader=1, epoch=3), live=LIVE)
    assert broker.questions == [NotifyLogDirFailure(0)], "the controller then sends the state again"
    assert damaged.read_bytes() == content

    assert lead(broker, 1, 3, (1,)) == NONE
    assert isinstance(under_way(broker, 1).request, OffsetForLeaderEpochRequest)
    reply(broker, 1, OffsetForLeaderEpochResponse((EpochEnd(T0, NONE, 0, 5),)))
    reply(broker, 1, records(b"3", base=3, high_watermark=5))
    assert Path(f"{damaged}.damaged").read_bytes() == content
    assert lead(broker, 0, 4, (0, 1)) == KAFKA_STORAGE_ERROR, "one record is still missing"
    reply(broker, 1, records(b"4", base=4, high_watermark=5))
    assert lead(broker, 0, 4, (0, 1)) == NONE
    broker.end()


def test_what_is_missing_is_remembered_by_the_next_process(damaged: Path) -> None:
    broker = started(damaged.parent.parent)
    assert lead(broker, 1, 1, (1,)) == NONE
    broker.clock.advance(60.0)
    broker.run()
    broker.end()
    broker = started(damaged.parent.parent)
    assert lead(broker, 0, 1, (0, 1)) == KAFKA_STORAGE_ERROR
    broker.end()


def test_as_the_only_replica_in_sync_it_leads_with_what_can_be_read(
    damaged: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker, content = started(damaged.parent.parent), damaged.read_bytes()
    assert lead(broker, 0, 1, (0,)) == NONE
    assert "Offsets 3 to 5 are lost" in caplog.text
    assert damaged.read_bytes() == content
    assert produce(broker, batch(b"new")).base_offset == 3
    assert Path(f"{damaged}.damaged").read_bytes() == content
    assert lead(broker, 0, 2, (0, 1)) == NONE, "the loss is accepted"
    assert lead(broker, 0, 2, (0, 1)) == STALE_CONTROLLER_EPOCH
    broker.end()
