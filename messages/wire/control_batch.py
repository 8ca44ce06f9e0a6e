"""Encode and decode control batches, which contain the markers that end transactions (transactions.md 3.7).

Kafka: `EndTransactionMarker`, `MemoryRecords.withEndTransactionMarker`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from messages.apis.fetch import AbortedTransaction
from messages.records import CONTROL_BIT, NO_SEQUENCE, TRANSACTION_BIT, BatchHeader
from messages.wire.batch_records import Record, records
from messages.wire.message_set import as_batch
from messages.wire.record_batch import MAGIC, whole_batches, with_records

ABORT, COMMIT = 0, 1
"""The types of control records that end a transaction."""

_RECORD = struct.Struct(">5shhshis")
_HEAD, _BEFORE_VALUE, _NO_HEADERS = b"\x20\0\0\0\x08", b"\x0c", b"\0"
"""Varints: the record has 16 bytes, its key 4, its value 6."""
_KEY, _VALUE = struct.Struct(">hh"), struct.Struct(">hi")
_VERSION = 0
_LIMIT = 1 << 16
"""Maximum number of decompressed bytes of a control batch."""


class EndTransactionMarker(NamedTuple):
    """A marker that ends a transaction: whether the transaction was committed, and the epoch of the coordinator."""

    committed: bool
    coordinator_epoch: int


def marker_batch(producer_id: int, producer_epoch: int, marker: EndTransactionMarker, timestamp: int) -> bytes:
    """Return the control batch of a marker written at `timestamp` (ms)."""
    kind = COMMIT if marker.committed else ABORT
    key, value = (_VERSION, kind), (_VERSION, marker.coordinator_epoch)
    record = _RECORD.pack(_HEAD, *key, _BEFORE_VALUE, *value, _NO_HEADERS)
    bits = TRANSACTION_BIT | CONTROL_BIT
    header = BatchHeader(0, 0, -1, MAGIC, 0, bits, 0, timestamp, timestamp, producer_id, producer_epoch, NO_SEQUENCE, 1)
    return with_records(header, record)


def read_marker(batch: bytes | memoryview, header: BatchHeader) -> EndTransactionMarker | None:
    """Return the marker of a control batch; None if the batch is empty or does not end a transaction.

    Log compaction replaces a marker by an empty control batch. Later versions of key and value begin with the fields of
    version 0.
    """
    try:
        record = next(records(batch, header, _LIMIT), None)
        if record is None or record.key is None or record.value is None:
            return None
        (version, kind), (_, coordinator_epoch) = _KEY.unpack_from(record.key), _VALUE.unpack_from(record.value)
    except (ValueError, struct.error):
        return None
    if version < 0 or kind not in (ABORT, COMMIT):
        return None
    return EndTransactionMarker(kind == COMMIT, coordinator_epoch)


def visible_records(data: bytes, aborted: tuple[AbortedTransaction, ...]) -> Iterator[Record]:
    """Yield the records of batches that consumers see, with headers, filtered as by Kafka's consumers (KIP-98).

    If `aborted` is empty, as for READ_UNCOMMITTED, the records of all transactions are visible.
    """
    waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    ended: set[int] = set()
    for position, header in whole_batches(data):
        while waiting and waiting[-1].first_offset <= header.last_offset:
            ended.add(waiting.pop().producer_id)
        batch = data[position : position + header.size]
        if header.is_control:
            marker = read_marker(batch, header)
            if marker is not None and not marker.committed:
                ended.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in ended):
            yield from records(*as_batch(batch, header), with_headers=True)
