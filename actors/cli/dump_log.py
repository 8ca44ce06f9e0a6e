"""`kafka-actors dump-log`: print the files of a log directory, with the options and fields of kafka-dump-log.

It reads files of Kafka and of kafka-actors.
"""

from __future__ import annotations

import base64
import json
import mmap
import re
import struct
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import attrs
import click

from actors.cli.app import CommandFailed
from actors.cli.display import printable
from actors.cli.usage_errors import exit_codes
from actors.core.coordinator import group_metadata_records as group_records
from actors.core.transaction import transaction_records
from actors.storage.log.checkpoint import Checkpoint
from actors.storage.log.index import OFFSET_ENTRY, TIME_ENTRY, read_entries
from actors.storage.log.producers import DamagedSnapshot, read_snapshot
from messages.groups import OffsetRecord
from messages.records import CODECS, LOG_APPEND_TIME_BIT, NO_SEQUENCE, BatchHeader
from messages.wire.batch_records import Record, records
from messages.wire.control_batch import read_marker
from messages.wire.errors import MalformedFrame
from messages.wire.message_set import as_batch
from messages.wire.record_batch import MAGIC, has_valid_crc, whole_batches

LIMIT = 2**31 - 1
"""Maximum number of decompressed bytes of a batch, and of bytes of a file: Kafka's tool has no lower limit."""
DELETED = "<DELETE>"

PARTITIONS = (("topic",), ("partition", "offset"))
CHECKPOINTS = {
    "leader-epoch-checkpoint": ((), ("epoch", "startOffset")),
    "replication-offset-checkpoint": PARTITIONS,
    "recovery-point-offset-checkpoint": PARTITIONS,
    "log-start-offset-checkpoint": PARTITIONS,
    "cleaner-offset-checkpoint": PARTITIONS,
}
"""Checkpoint file -> its text columns and its number columns."""

Decoder = Callable[[Record], tuple[str | None, str | None]]
"""Function from a record to the texts of its key and value; a text that is None is not printed."""


# ---------------------------------------------------------------------------------------------------- decoders


def _integer(size: int, data: bytes) -> str:
    if len(data) != size:
        raise CommandFailed(f"the bytes {data.hex()} are not a number of {size} bytes: use another decoder class")
    return str(int.from_bytes(data, "big", signed=True))


CLASSES: dict[str, Callable[[bytes], str]] = {
    "StringDecoder": lambda data: data.decode("utf-8", "replace"),
    "IntegerDecoder": partial(_integer, 4),
    "LongDecoder": partial(_integer, 8),
    "DefaultDecoder": bytes.hex,
}


def _decoder(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """Return the decoder of a class name, with or without a package."""
    if value is not None and value.rpartition(".")[2] not in CLASSES:
        raise click.BadParameter(f"'{value}' is not one of {', '.join(CLASSES)}")
    return None if value is None else CLASSES[value.rpartition(".")[2]]


def _texts(classes: tuple[Callable[[bytes], str], ...], record: Record) -> tuple[str | None, str | None]:
    decoded = [None if data is None else decode(data) for decode, data in zip(classes, record[2:4], strict=True)]
    return decoded[0], decoded[1]


def _offsets(record: Record) -> tuple[str | None, str | None]:
    """Decode a record of __consumer_offsets."""
    try:
        found = group_records.read_record(record.key or b"", record.value)
    except group_records.DamagedRecord as error:
        return f"Error at offset {record.offset}, skipping. {error}", None
    if found is None:
        return f"Unknown record type at offset {record.offset}, skipping.", None
    key = {"group": found.group} | (found.partition._asdict() if isinstance(found, OffsetRecord) else {})
    value = DELETED if record.value is None else _json("version", record.value, _fields_of(found.value))
    return _json("type", record.key, key), value


def _json(version: str, data: bytes | None, fields: object) -> str:
    document = {version: str(group_records.ValueReader(data or b"").version), "data": _camel_case(fields)}
    return json.dumps(document, ensure_ascii=False, default=lambda blob: base64.b64encode(blob).decode())


def _fields_of(value: Any) -> dict[str, Any]:
    fields = attrs.asdict(value, filter=lambda field, _: field.name != "log_offset")
    for member in fields.get("members", ()) if fields.get("protocol_type") == "consumer" else ():
        member["assignment"] = list(map(str, group_records.assigned_partitions(member["assignment"])))
    return fields


def _camel_case(value: object) -> Any:
    if isinstance(value, dict):
        return {re.sub("_(.)", lambda m: m[1].upper(), name): _camel_case(each) for name, each in value.items()}
    return list(map(_camel_case, value)) if isinstance(value, list | tuple) else value


def _transactions(record: Record) -> tuple[str | None, str | None]:
    """Decode a record of __transaction_state."""
    try:
        transactional_id = transaction_records.read_key(record.key or b"")
        if transactional_id is None:
            return f"unknown::version={group_records.ValueReader(record.key or b'').version}", None
        key = f"transaction_metadata::transactionalId={transactional_id}"
        if record.value is None:
            return key, DELETED
        txn = transaction_records.read_value(transactional_id, record.value)
    except group_records.DamagedRecord as error:
        return f"Error at offset {record.offset}, skipping. {error}", None
    return key, (
        f"producerId:{txn.producer_id},producerEpoch:{txn.producer_epoch},state={txn.state.value},"
        f"partitions=[{','.join(map(str, txn.partitions))}],"
        f"txnLastUpdateTimestamp={txn.updated_ms},txnTimeoutMs={txn.timeout_ms}"
    )


# ---------------------------------------------------------------------------------------------------- files


def _print(line: str) -> None:
    # click.echo flushes each line, which takes half of the time of a dump into a file
    sys.stdout.write(printable(line) + "\n")


def _warn(line: str) -> None:
    click.echo(printable(line), err=True)


def _line(**fields: object) -> str:
    return " ".join(
        f"{name}: {str(value).lower() if isinstance(value, bool) else value}" for name, value in fields.items()
    )


def _bytes_of(file: Path) -> memoryview:
    with file.open("rb") as opened:
        return memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) if file.stat().st_size else b"")


def _base_offset(file: Path) -> int:
    name = file.name.split(".")[0]
    if not name.isdecimal():
        raise CommandFailed(f"{file}: the name does not begin with an offset, as in 00000000000000000000{file.suffix}")
    return int(name)


def _segment(file: Path, options: dict[str, Any]) -> None:
    _print(f"Log starting offset: {_base_offset(file)}")
    data, decode = _bytes_of(file), options["decode"]
    end, last = 0, None
    for position, header in whole_batches(data[: options["max_bytes"]]):
        end = position + header.size
        batch = data[position:end]
        _print(_batch_line(position, batch, header))
        for record, line in _records(batch, header) if options["deep_iteration"] or decode else ():
            if last is not None and record.offset != last + 1:
                _warn(f"{file}: offset {last} is followed by {record.offset}")
            last = record.offset
            key, value = decode(record) if decode and not header.is_control else (None, None)
            metadata = None if options["skip_record_metadata"] else line
            texts = (metadata, key if key is None else f"key: {key}", value if value is None else f"payload: {value}")
            _print(" ".join(["|", *(text for text in texts if text is not None)]))
    if end < len(data) <= options["max_bytes"]:
        _print(f"Found {len(data) - end} invalid bytes at the end of {file.name}")


def _time_type(header: BatchHeader) -> str:
    if not header.magic:
        return "NoTimestampType"
    return "LogAppendTime" if header.attributes & LOG_APPEND_TIME_BIT else "CreateTime"


def _batch_line(position: int, batch: memoryview, header: BatchHeader) -> str:
    fields: dict[str, object] = {"offset": header.last_offset}
    if header.magic >= MAGIC:
        fields = {
            "baseOffset": header.base_offset,
            "lastOffset": header.last_offset,
            "count": header.record_count,
            "baseSequence": header.base_sequence,
            "lastSequence": header.last_sequence,
            "producerId": header.producer_id,
            "producerEpoch": header.producer_epoch,
            "partitionLeaderEpoch": header.leader_epoch,
            "isTransactional": header.is_transactional,
            "isControl": header.is_control,
            "deleteHorizonMs": header.delete_horizon,
        }
    return _line(
        **fields,
        position=position,
        **{_time_type(header): header.max_timestamp},
        size=header.size,
        magic=header.magic,
        compresscodec=CODECS[header.codec] if header.codec < len(CODECS) else f"unknown ({header.codec})",
        crc=header.crc if header.magic >= MAGIC else ~header.crc,
        isvalid=has_valid_crc(batch, 0, header),
    )


def _records(batch: memoryview, header: BatchHeader) -> Iterator[tuple[Record, str]]:
    """Yield each record with its metadata as text."""
    magic, time_type = header.magic, _time_type(header)
    batch, header = as_batch(batch, header)
    for record in records(batch, header, LIMIT, with_headers=True):
        sequence = header.base_sequence
        if sequence != NO_SEQUENCE:
            sequence = (sequence + record.offset - header.base_offset) & 0x7FFFFFFF
        fields: dict[str, object] = {
            "offset": record.offset,
            time_type: header.max_timestamp if header.attributes & LOG_APPEND_TIME_BIT else record.timestamp,
            "keySize": -1 if record.key is None else len(record.key),
            "valueSize": -1 if record.value is None else len(record.value),
        }
        if magic >= MAGIC:
            fields |= {"sequence": sequence, "headerKeys": f"[{','.join(name for name, _ in record.headers)}]"}
        marker = read_marker(batch, header) if header.is_control else None
        if marker is not None:
            fields["endTxnMarker"] = "COMMIT" if marker.committed else "ABORT"
            fields["coordinatorEpoch"] = marker.coordinator_epoch
        yield record, _line(**fields)


def _entries(file: Path, entry: struct.Struct, options: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """Yield the entries of an index, without the zeros that a running broker preallocates at its end.

    With --index-sanity-check, yield nothing.

    Raises:
        CommandFailed: With --index-sanity-check: a broker would rebuild the index.
    """
    data = file.read_bytes()
    found = list(entry.iter_unpack(data[: len(data) - len(data) % entry.size]))
    entries = list(takewhile(any, found))
    if not entries:
        _print(f"{file} is empty.")
    elif not options["index_sanity_check"]:
        yield from entries
    elif len(data) % entry.size or entries[-1][0] < entries[0][0] or entries[-1][entry is TIME_ENTRY] < 0:
        reason = f"{len(data)} bytes, entries of {entry.size} bytes from {entries[0]} to {entries[-1]}"
        raise CommandFailed(f"{file} is corrupt, so a broker builds it again when it starts: {reason}")
    else:
        _print(f"{file} passed sanity check.")


def _index(file: Path, options: dict[str, Any]) -> None:
    data, base = _bytes_of(file.with_suffix(".log")), _base_offset(file)
    for relative, position in _entries(file, OFFSET_ENTRY, options):
        offset = base + relative
        try:
            _, header = next(whole_batches(data[position : position + options["max_message_size"]]))
        except (StopIteration, MalformedFrame):
            raise CommandFailed(
                f"{file}: the entry of offset {offset} has position {position}, where no batch of the segment begins."
                " Remove the index file: a broker builds it again when it starts."
            ) from None
        if header.last_offset != offset:
            _warn(f"{file}: Index offset: {offset}, log offset: {header.last_offset}")
        if not options["verify_index_only"]:
            _print(_line(offset=offset, position=position))


def _time_index(file: Path, options: dict[str, Any]) -> None:
    data, base = _bytes_of(file.with_suffix(".log")), _base_offset(file)
    batches = list(whole_batches(data))
    before = -1
    for timestamp, relative in _entries(file, TIME_ENTRY, options):
        offset = base + relative
        at = bisect_left(batches, offset, key=lambda batch: batch[1].last_offset)
        position, header = batches[at] if at < len(batches) else (0, None)
        if header is None or header.last_offset != offset:
            found = -1 if header is None else header.last_offset
            _warn(f"{file}: Indexed offset: {offset}, found log offset: {found}")
        else:
            times = [record.timestamp for record in records(*as_batch(data[position:], header), LIMIT)]
            latest = header.max_timestamp if header.attributes & LOG_APPEND_TIME_BIT else max(times, default=-1)
            if latest != timestamp:
                _warn(f"{file}: Index timestamp: {timestamp}, log timestamp: {latest}")
            if before >= timestamp:
                _warn(f"{file}: Index timestamp: {timestamp}, Previously indexed timestamp: {before}")
        if not options["verify_index_only"]:
            _print(_line(timestamp=timestamp, offset=offset))
        before = timestamp


def _transaction_index(file: Path, options: dict[str, Any]) -> None:
    for entry in read_entries(file.read_bytes()):
        _print(_line(**_camel_case(entry._asdict())))


def _snapshot(file: Path, options: dict[str, Any]) -> None:
    try:
        entries = read_snapshot(file.read_bytes())
    except DamagedSnapshot as error:
        _warn(str(error))
        return
    for entry in entries:
        fields = {
            "producerId": entry.producer_id,
            "producerEpoch": entry.epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": entry.first_of_transaction,
            "lastTimestamp": entry.timestamp,
            "firstSequence": entry.first_sequence,
            "lastSequence": entry.last_sequence,
            "lastOffset": entry.last_offset,
            "offsetDelta": entry.offset_delta,
            "timestamp": entry.timestamp,
        }
        _print(_line(**fields))


def _checkpoint(file: Path, options: dict[str, Any]) -> None:
    names, numbers = CHECKPOINTS[file.name]
    file.stat()
    for entry in Checkpoint(str(file), len(names), len(numbers)).read():
        _print(_line(**dict(zip((*names, *numbers), entry, strict=True))))


PRINTERS: dict[str, Callable[[Path, dict[str, Any]], None]] = {
    ".log": _segment,
    ".index": _index,
    ".timeindex": _time_index,
    ".snapshot": _snapshot,
    ".txnindex": _transaction_index,
    **dict.fromkeys(CHECKPOINTS, _checkpoint),
}
"""Suffix of a file, or its whole name -> function that prints it."""


_bytes_option = partial(click.option, type=click.IntRange(0, LIMIT), show_default=True, metavar="BYTES")
_class_option = partial(click.option, is_flag=False, flag_value="StringDecoder", callback=_decoder, metavar="CLASS")


@click.command("dump-log", epilog=exit_codes())
@click.option("--files", metavar="FILE,..", required=True, help="Segments, indexes, snapshots and checkpoint files.")
@click.option("--print-data-log", is_flag=True, help="Print keys and values of records, as every decoder option does.")
@click.option("--deep-iteration", is_flag=True, help="Print a line for each record. --print-data-log implies it.")
@click.option("--skip-record-metadata", is_flag=True, help="Print only keys and values of records.")
@click.option("--index-sanity-check", is_flag=True, help="Only check the indexes, as a broker does when it starts.")
@click.option("--verify-index-only", is_flag=True, help="Only check that the indexes match their segments.")
@_bytes_option("--max-message-size", default=5 << 20, help="The largest batch to read where an index is checked.")
@_bytes_option("--max-bytes", default=LIMIT, help="Read only this many bytes from the beginning of a segment.")
@click.option("--offsets-decoder", is_flag=True, help="Decode records of the topic __consumer_offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="Decode records of the topic __transaction_state.")
@_class_option("--key-decoder-class", help="Decoder of keys.")
@_class_option("--value-decoder-class", help="Decoder of values.")
def command(files: str, **options: Any) -> int:
    """Print files of a log directory; the files are not changed.

    Options and fields are those of kafka-dump-log. The decoders are named as in Kafka, with or without the package:
    StringDecoder (the default), IntegerDecoder, LongDecoder and DefaultDecoder, which prints hexadecimal digits.
    """
    classes = options["key_decoder_class"], options["value_decoder_class"]
    options["decode"] = None
    if options["offsets_decoder"] or options["transaction_log_decoder"]:
        options["decode"] = _offsets if options["offsets_decoder"] else _transactions
    elif options["print_data_log"] or any(classes):
        options["decode"] = partial(_texts, tuple(each or CLASSES["StringDecoder"] for each in classes))
    for file in map(Path, files.split(",")):
        _print(f"Dumping {file}")
        print_file = PRINTERS.get(file.name) or PRINTERS.get(file.suffix)
        if print_file is None:
            _warn(f"Ignoring unknown file {file}")
            continue
        try:
            print_file(file, options)
        except OSError as error:
            raise CommandFailed(f"{error.filename or file}: {error.strerror}") from error
        except (MalformedFrame, ValueError, struct.error) as error:
            raise CommandFailed(f"{file}: {error}") from error
    return 0
