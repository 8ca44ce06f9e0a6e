"""Table of valid and invalid requests about records and offsets, which `client_requests` sends."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actors.simulation.request_target import TIMEOUT_MS, Make, RequestTarget, absent, internal
from messages.apis import delete_records, init_producer_id, list_offsets, offset_for_leader_epoch, produce
from messages.apis.fetch import CONSUMER, FetchPartition, FetchRequest
from messages.cluster import TopicPartition
from messages.records import CONTROL_BIT, Records
from messages.vocabulary import Message
from messages.wire.record_batch import HEADER, batch_of, read_records, with_records

ZSTD_ATTRIBUTES = 4


def batch_with(about: RequestTarget, **header: int) -> Records:
    """Return a batch of one record, with these fields in its header."""
    batch = batch_of([(b"key", b"asked")], about.cluster.wall_ms())
    if not header:
        return batch
    changed = batch.batches[0]._replace(**header)
    return read_records(with_records(changed, bytes(batch.body.data)[HEADER.size :]))


def _produce(
    partition: Callable[[RequestTarget], TopicPartition] = lambda about: about.partition,
    acks: int = produce.ACKS_ALL,
    version: int = 8,
    value: bytes = b"",
    **header: int,
) -> Make:
    def make(about: RequestTarget) -> Message:
        batch = batch_of([(b"key", value)], about.cluster.wall_ms()) if value else batch_with(about, **header)
        return produce.ProduceRequest(
            version, None, acks, TIMEOUT_MS, (produce.ProducePartition(partition(about), batch),)
        )

    return make


def fetch(
    offset: int = 0,
    epoch: Callable[[RequestTarget], int] = lambda about: -1,
    partition: Callable[[RequestTarget], TopicPartition] = lambda about: about.partition,
    version: int = 11,
    session: tuple[int, int] = (0, -1),
    replica: int = CONSUMER,
) -> Make:
    """Return a function that makes a Fetch request."""

    def make(about: RequestTarget) -> Message:
        part = FetchPartition(partition(about), offset, 1 << 16, epoch(about))
        return FetchRequest(version, replica, 0, 0, (part,), 1 << 16, session_id=session[0], session_epoch=session[1])

    return make


def _offsets(
    timestamp: int = list_offsets.LATEST,
    epoch: Callable[[RequestTarget], int] = lambda about: -1,
    partition: Callable[[RequestTarget], TopicPartition] = lambda about: about.partition,
    version: int = 5,
) -> Make:
    return lambda about: list_offsets.ListOffsetsRequest(
        version, CONSUMER, (list_offsets.OffsetQuery(partition(about), timestamp, epoch(about)),)
    )


def _epoch_end(
    epoch: Callable[[RequestTarget], int] = lambda about: -1,
    partition: Callable[[RequestTarget], TopicPartition] = lambda about: about.partition,
) -> Make:
    return lambda about: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        3, CONSUMER, (offset_for_leader_epoch.EpochQuery(partition(about), about.leader_epoch, epoch(about)),)
    )


def _trim(offset: int, partition: Callable[[RequestTarget], TopicPartition] = lambda about: about.partition) -> Make:
    return lambda about: delete_records.DeleteRecordsRequest(
        2, (delete_records.TrimmedPartition(partition(about), offset),), TIMEOUT_MS
    )


def _old(about: RequestTarget) -> int:
    return about.leader_epoch - 1


def _coming(about: RequestTarget) -> int:
    return about.leader_epoch + 1


DATA: Mapping[str, Make] = {
    "produce": _produce(),
    "produce-one-ack": _produce(acks=1),
    "produce-bad-acks": _produce(acks=2),
    "produce-absent": _produce(absent),
    "produce-internal": _produce(internal),
    "produce-large": _produce(value=b"x" * 1_100_000),
    "produce-bad-offset": _produce(base_offset=5),
    "produce-control": _produce(attributes=CONTROL_BIT),
    "produce-old-zstd": _produce(version=3, attributes=ZSTD_ATTRIBUTES),
    "produce-old-time": _produce(first_timestamp=0, max_timestamp=0),
    "produce-gap": _produce(producer_id=7, producer_epoch=1, base_sequence=9),
    "produce-sequence": _produce(producer_id=7, producer_epoch=1, base_sequence=0),
    "produce-fenced": _produce(producer_id=7, producer_epoch=0, base_sequence=0),
    "produce-corrupt": lambda about: produce.ProduceRequest(
        8,
        None,
        1,
        TIMEOUT_MS,
        (produce.ProducePartition(about.partition, batch_with(about)._replace(error_code=2)),),
    ),
    "fetch": fetch(),
    "fetch-absent": fetch(partition=absent),
    "fetch-beyond": fetch(1 << 40),
    "fetch-old-version": fetch(version=9),
    "fetch-old-epoch": fetch(epoch=_old),
    "fetch-coming-epoch": fetch(epoch=_coming),
    "fetch-unassigned": fetch(replica=90),
    "fetch-no-session": fetch(session=(1 << 30, 3)),
    "fetch-session": fetch(session=(0, 0)),
    "list-offsets": _offsets(),
    "list-first-offsets": _offsets(list_offsets.EARLIEST),
    "list-offsets-of-a-time": _offsets(0, version=4),
    "list-offsets-old-version": _offsets(version=2),
    "list-offsets-absent": _offsets(partition=absent),
    "list-offsets-old-epoch": _offsets(epoch=_old),
    "list-offsets-coming-epoch": _offsets(epoch=_coming),
    "epoch-end": _epoch_end(),
    "epoch-end-absent": _epoch_end(partition=absent),
    "epoch-end-old-epoch": _epoch_end(_old),
    "epoch-end-coming-epoch": _epoch_end(_coming),
    "trim-absent": _trim(0, absent),
    "trim-beyond": _trim(1 << 40),
    "trim-nothing": _trim(0),
    "producer-id": lambda about: init_producer_id.InitProducerIdRequest(3, None, 60_000),
    "transactional-producer-id": lambda about: init_producer_id.InitProducerIdRequest(3, "transaction", 60_000),
}
"""Requests of producers and consumers."""
