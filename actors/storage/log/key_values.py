"""Read the keys and values of an internal topic's records, for the coordinator that loads them."""

from __future__ import annotations

from messages.wire.batch_records import records
from messages.wire.message_set import as_batch
from messages.wire.record_batch import MAGIC, has_valid_crc, whole_batches

Row = tuple[int, bool, str, str | None, int]

MAX_LOADED = 16 << 20
"""Maximum decompressed size in bytes of a batch that the group coordinator loads. It writes batches of at most a
megabyte."""


def key_values(data: bytes | memoryview, offset: int) -> tuple[int, tuple[Row, ...], tuple[str, ...]]:
    """Return the records of these batches that have a key and are at `offset` or later.

    Returns:
        The offset after the batches, a row for each record with a key, and a text for each unreadable batch. A row is
            (producer id, whether the record ends a transaction, key, value, base offset of the batch). The producer id
            is -1 outside a transaction. Key and value are Latin-1 text, one character per byte, because results of I/O
            adapters cannot contain bytes.
    """
    rows, unreadable, data = [], [], memoryview(data)
    for position, header in whole_batches(data, any_format=True):  # the log has checked the lengths
        producer = header.producer_id if header.is_transactional else -1
        found = []
        try:
            if header.magic > MAGIC or not has_valid_crc(data, position, header):
                raise ValueError("the format is wrong" if header.magic > MAGIC else "the checksum is wrong")
            for record in records(*as_batch(data[position:], header), MAX_LOADED):
                if record.offset >= offset and record.key is not None:
                    value = None if record.value is None else record.value.decode("latin-1")
                    key = record.key.decode("latin-1")
                    found.append((producer, header.is_control, key, value, header.base_offset))
        except ValueError as error:
            unreadable.append(f"offset {header.base_offset}: {error}")
            offset = max(offset + 1, header.base_offset + min(header.last_offset_delta + 1, header.record_count))
            continue
        rows += found
        offset = max(offset, header.next_offset)
    return offset, tuple(rows), tuple(unreadable)
