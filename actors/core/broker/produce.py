"""Validate the batches of a Produce request (broker.md 3.6, 5.2).

Kafka: `LogValidator`.
"""

from __future__ import annotations

from typing import NamedTuple

from messages.apis.produce import ProducedPartition, ProduceRequest, RecordError
from messages.cluster import NO_EPOCH
from messages.errors import (
    CORRUPT_MESSAGE,
    FENCED_LEADER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_RECORD,
    INVALID_REQUIRED_ACKS,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    NONE,
    RECORD_LIST_TOO_LARGE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_LEADER_EPOCH,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from messages.partition import AppendBatch, LogSettings
from messages.records import (
    CODEC_MASK,
    CONTROL_BIT,
    LOG_OVERHEAD,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTION_BIT,
    Records,
)

ZSTD = 4
ZSTD_SINCE = 7
"""The Produce version from which producers may use zstd."""

ACKS = (-1, 0, 1)


class BatchValidation(NamedTuple):
    """The result of validating a batch: an error code (NONE if it is valid) and an error message."""

    error_code: int
    message: str | None = None


TAKEN = BatchValidation(NONE)


def transactional_verdict(request: ProduceRequest) -> int:
    """Return one error code for all partitions of a request.

    It is 53 if a batch is transactional but the request has no transactional id, 49 for batches of two producers,
    otherwise NONE.
    """
    producer_id = None
    for part in request.partitions:
        for header in part.records.batches:
            if header.attributes & TRANSACTION_BIT:
                if request.transactional_id is None:
                    return TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                if producer_id not in (None, header.producer_id):
                    return INVALID_PRODUCER_ID_MAPPING
                producer_id = header.producer_id
    return NONE


def acks_verdict(acks: int) -> int:
    """Return NONE, or 21 for an unknown `acks`."""
    return NONE if acks in ACKS else INVALID_REQUIRED_ACKS


def produce_verdict(records: Records, version: int, settings: LogSettings, now_ms: int) -> BatchValidation:
    """Return the first error found in a producer's batches for a partition; the constant TAKEN if they are valid.

    Args:
        records: The batches for one partition.
        version: The version of the Produce request.
        settings: The topic's settings.
        now_ms: The wall clock in milliseconds.
    """
    if records.error_code not in (NONE, CORRUPT_MESSAGE) or (records.error_code != NONE and not records.batches):
        return BatchValidation(records.error_code, "Produce requests hold record batches of format 2")
    if len(records.batches) != 1:
        return BatchValidation(INVALID_RECORD, "Produce requests hold exactly one record batch per partition")
    [header] = records.batches
    base_offset, length, _, _, _, attributes, delta, first, newest, producer, _, sequence, count = header
    if attributes & CODEC_MASK == ZSTD and version < ZSTD_SINCE:
        return BatchValidation(UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs version {ZSTD_SINCE} of Produce")
    if base_offset != 0:
        return BatchValidation(INVALID_RECORD, f"The base offset is {base_offset}, it should be 0")
    size = length + LOG_OVERHEAD
    if size > settings.max_message_bytes:
        return BatchValidation(
            MESSAGE_TOO_LARGE, f"The batch has {size} bytes, the topic takes {settings.max_message_bytes}"
        )
    if size > settings.segment_bytes:
        return BatchValidation(RECORD_LIST_TOO_LARGE, f"The batch has {size} bytes, a segment {settings.segment_bytes}")
    if records.error_code != NONE:
        return BatchValidation(records.error_code, "The checksum does not fit the batch")
    if attributes & CONTROL_BIT:
        return BatchValidation(INVALID_RECORD, "Control batches are not for producers")
    if count <= 0 or count != delta + 1:
        return BatchValidation(INVALID_RECORD, f"{count} records, but the last offset delta is {delta}")
    if producer < NO_PRODUCER_ID or (producer == NO_PRODUCER_ID and attributes & TRANSACTION_BIT):
        return BatchValidation(INVALID_RECORD, f"Producer id {producer} in a batch that needs one")
    if producer != NO_PRODUCER_ID and sequence < 0:
        return BatchValidation(INVALID_RECORD, "A producer id without a sequence number")
    limit = settings.timestamp_difference_max_ms
    timed = not settings.append_time and newest != NO_TIMESTAMP
    if timed and max(abs(now_ms - newest), abs(now_ms - first)) > limit:
        return BatchValidation(INVALID_TIMESTAMP, f"A record's time is more than {limit} ms from now")
    if records.fault is not None:
        return BatchValidation(*records.fault)
    return TAKEN


def epoch_verdict(named: int, local: int) -> int:
    """Return NONE, 74 for an outdated leader epoch, or 75 for an epoch that is not known here yet."""
    if named in (NO_EPOCH, local):
        return NONE
    return FENCED_LEADER_EPOCH if named < local else UNKNOWN_LEADER_EPOCH


def batch_verdict(batch: AppendBatch, settings: LogSettings, now_ms: int) -> ProducedPartition | None:
    """Return the result of a refused batch; None if it may be appended."""
    part = batch.part
    refusal = produce_verdict(part.records, batch.version, settings, now_ms)
    if refusal is not TAKEN:
        return ProducedPartition(part.partition, refusal.error_code, error_message=refusal.message)
    runs = part.records.keyless
    if not (settings.compacted and runs):
        return None
    text = "Compacted topic cannot accept message without key"
    places = [place for first, last in zip(runs[::2], runs[1::2], strict=True) for place in range(first, last + 1)]
    errors = tuple([RecordError(place, text) for place in places])
    return ProducedPartition(part.partition, INVALID_RECORD, record_errors=errors, error_message=text)
