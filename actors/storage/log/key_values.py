"""Read the keys and values of an internal topic's records, for the coordinator that loads them."""

from __future__ import annotations

import contextlib

from messages.wire.batch_records import records
from messages.wire.record_batch import whole_batches

Row = tuple[int, bool, str, str | None, int]

MAX_LOADED = 16 << 20
"""Decompressed bytes of one batch that the group coordinator loads; it writes batches of a megabyte at most."""


def key_values(data: bytes | memoryview, offset: int) -> tuple[int, tuple[Row, ...]]:
    """The records of these batches from `offset` on: (the offset after them, a row for each record with a key).

    A row: producer id, -1 outside a transaction; whether it ends one; key, value; base offset of the batch. Bytes are
    characters of one byte each, for effects hold no bytes. What cannot be read is left out.
    """
    rows, data = [], memoryview(data)
    for position, header in whole_batches(data):
        producer = header.producer_id if header.is_transactional else -1
        with contextlib.suppress(ValueError):
            for record in records(data[position:], header, MAX_LOADED):
                if record.offset >= offset and record.key is not None:
                    value = None if record.value is None else record.value.decode("latin-1")
                    key = record.key.decode("latin-1")
                    rows.append((producer, header.is_control, key, value, header.base_offset))
        offset = max(offset, header.next_offset)
    return offset, tuple(rows)
