"""The columns of trace records, and how they are extracted from a line of a trace.

Rule 1: the schema is written out and never inferred, so that an empty trace has the same columns as any other.
Rule 2: the values of a message are read from its payload once (`messages.facts.record_values`), into typed columns. A
        column is null if the message has no such value. `error` describes what cannot be decoded.
Rule 3: an invalid line is a row of kind MALFORMED, so that invalid lines can be counted; no other count includes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from messages.facts.declarations import fields_of
from messages.facts.record_values import NOTHING, values_of
from messages.facts.trace_facts import gather
from messages.trace.errors import TraceError
from messages.trace.files.runs import Run, Slice, slice_lines, slices
from messages.trace.schema import CREATED, DELIVERIES, ENDED, TraceRecord
from messages.trace.text import records_of
from spark.selection import ALL, Selection

__all__ = ["ARROW", "DELIVERIES", "MALFORMED", "batches", "plan_slices"]

MALFORMED = "malformed"

STATE = pa.struct(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("leader", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("controller_epoch", pa.int32()),
        ("isr", pa.list_(pa.int32())),
        ("adding", pa.list_(pa.int32())),
        ("removing", pa.list_(pa.int32())),
    ]
)

EXCHANGE = pa.struct([("connection", pa.int64()), ("correlation", pa.int64()), ("request", pa.string())])

TRANSACTION = pa.struct(
    [
        ("transactional_id", pa.string()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("commit", pa.bool_()),
    ]
)

COLUMNS: dict[str, tuple[pa.DataType, str]] = {
    "run": (pa.string(), "The run of a node that recorded this: a node has a new run after each start."),
    "node": (pa.int32(), "Its broker id."),
    "n": (pa.int64(), "Number of the record in its run, from 1."),
    "kind": (
        pa.string(),
        f"`{'`, `'.join(DELIVERIES)}`: a message that an actor, the world outside or a timer sent. `{CREATED}`,"
        f" `{ENDED}`: an actor was created, the run ended. `{MALFORMED}`: a line that is no record.",
    ),
    "cause": (
        pa.int64(),
        "The `n` of the delivery during which the message was sent; -k if it came from outside after delivery k.",
    ),
    "event_id": (
        pa.int64(),
        "The `n` of the delivery that began what this one serves: a client's request or other message from outside, a"
        " timer, or an event of the controller.",
    ),
    "sender": (pa.string(), "Address of the sender."),
    "receiver": (pa.string(), "Address of the receiver."),
    "actor": (pa.string(), "Class of the receiver."),
    "type": (pa.string(), "Class of the message."),
    "at": (pa.float64(), "When the message was taken from the queue, in seconds since 1970."),
    "waited": (pa.float64(), "Seconds in the queue."),
    "took": (pa.float64(), "Seconds of handling."),
    "effects": (pa.int32(), "Number of calls to the world outside the actor: clock, disk, sockets, messages sent."),
    "failed": (pa.bool_(), "Whether the handler raised an exception."),
    "error": (pa.string(), "The exception, or why a transmission failed."),
    "request": (
        pa.string(),
        "Class of what the message carries: the request of Transmit, ClientRequest and Forwarded, the response of"
        " Received and ClientResponse, the question of Ask, the result of Answer.",
    ),
    "channel": (pa.string(), "Name of the connection that the node opened."),
    "broker": (pa.int32(), "The broker to which a controller's channel leads."),
    "correlation": (pa.int64(), "Correlation id; it also ties StoreReply to its request and Answer to its Ask."),
    "epoch": (pa.int32(), "Controller epoch: of an election that was won, and of each of a controller's requests."),
    "brokers": (pa.list_(pa.int32()), "Live brokers in an Answer that lists them."),
    "states": (
        pa.list_(STATE),
        "Partition states: of a controller's request or a part of it, of a partition that gets a leader, or whose ISR"
        " changes.",
    ),
    "connection": (pa.int64(), "Number of the connection that a client opened."),
    "subject": (pa.string(), "The znode of a WatchEvent; the event of a controller's Samples; an injected fault."),
    "topics": (pa.list_(pa.string()), "Topics to delete; topics whose znode a StoreWrite removes."),
    "items": (
        pa.int32(),
        "Operations or paths of a request to ZooKeeper; requests to ZooKeeper of an event in Samples; records of"
        " AppendBatches; of ChangeIsr 1 if the ISR grows and -1 if it shrinks; partitions of AddToTransaction,"
        " SendMarkers and PartitionsMarked.",
    ),
    "bytes": (pa.int64(), "Bytes of the batches, or of what a LogRead found."),
    "batches": (pa.int32(), "Number of record batches."),
    "exchanges": (pa.list_(EXCHANGE), "The requests in ClientRequests, or the responses in ClientResponses."),
    "event_ms": (pa.float64(), "Milliseconds that an event of the controller took."),
    "event_queue_ms": (pa.float64(), "Milliseconds that it waited."),
    "transactions": (
        pa.list_(TRANSACTION),
        "Transactions to which AddToTransaction adds partitions, whose markers SendMarkers sends (`commit` says which),"
        " or whose markers are in the partitions of PartitionsMarked.",
    ),
    "broker_epochs": (
        pa.list_(pa.int64()),
        "Broker epochs: of `brokers`, of a BrokerRegistered, and of the broker to which a controller sends a request.",
    ),
}
"""The columns of a record, with type and meaning. From `request` on they are taken from the payload."""

FACT_COLUMNS: dict[str, tuple[pa.DataType, str]] = {
    **{name: COLUMNS[name] for name in ("run", "node", "n", "event_id", "at")},
    "kind": (pa.string(), "Class of the fact, such as `StateWrite` (`messages/facts/declarations.py`)."),
    "fields": (pa.string(), "Its values by name, as JSON."),
}
"""The columns of a fact in the table of facts. `n` and `at` are those of the delivery that shows the fact."""

ARROW = pa.schema([(name, type) for name, (type, _) in COLUMNS.items()])

SLICE_BYTES = 1 << 22
"""Compressed bytes of a task, some 150,000 records."""
ROWS = 8192
"""Number of rows of a batch."""

_VALUES = ARROW.names[ARROW.get_field_index("request") :]
"""The columns from payloads: fields of RecordValues, as is `error`."""
_NOTHING: tuple[Any, ...] = (None,) * len(_VALUES)
_Row = msgspec.defstruct(
    "_Row",
    [
        (field.name, tuple[msgspec.Raw, ...] if field.name == "effects" else field.type)
        for field in msgspec.structs.fields(TraceRecord)
    ],
    array_like=True,
)
"""A record whose effects are counted, but not decoded."""
_decode: Callable[[bytes], TraceRecord] = msgspec.json.Decoder(_Row).decode  # type: ignore[assignment]


_json = msgspec.json.Encoder(enc_hook=str).encode


def plan_slices(runs: Sequence[Run], selection: Selection = ALL) -> list[Slice]:
    """Return slices of the selected runs. If a run has two copies, only one of them is read."""
    return [each for run in select_runs(runs, selection) for each in slices(run, SLICE_BYTES)]


def select_runs(runs: Sequence[Run], selection: Selection = ALL) -> list[Run]:
    """Return the selected runs, each once."""
    once = {run.header.run: run for run in reversed(runs) if selection.has_run(run.header.run, run.header.node)}
    return list(once.values())


def batches(slice: Slice, selection: Selection = ALL) -> Iterator[pa.RecordBatch]:
    """Yield the selected rows of a slice."""
    rows: list[tuple[Any, ...]] = []
    offset, has_record = slice.header.clock_offset, None if selection.has_all_records else selection.has_record
    for line in slice_lines(slice):
        try:
            records = (_decode(line),) if line.startswith(b"[") else records_of(line)
        except ValueError:  # the base class of msgspec's errors
            if has_record is None or has_record("", 0.0):
                rows.append(_malformed_row(slice, line))
        else:
            rows += [
                _row(slice, record)
                for record in records
                if has_record is None or has_record(record.actor, record.taken_at + offset)
            ]
        if len(rows) >= ROWS:
            yield _batch(rows)
            rows = []
    if rows:
        yield _batch(rows)


def fact_batches(run: Run, selection: Selection = ALL) -> Iterator[pa.RecordBatch]:
    """Yield the selected facts of a run, in the order of time."""
    schema = pa.schema([(name, type) for name, (type, _) in FACT_COLUMNS.items()])
    facts = sorted(gather((run,)).all(), key=lambda fact: fact.place)
    rows = [
        (place.run, place.node, place.n, place.event_id, place.at, type(fact).__name__, _json(fields_of(fact)).decode())
        for fact in facts
        if selection.start <= (place := fact.place).at < selection.end
    ]
    for first in range(0, len(rows), ROWS):
        yield _batch(rows[first : first + ROWS], schema)


def _batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema = ARROW) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def _malformed_row(slice: Slice, line: bytes) -> tuple[Any, ...]:
    blank = (0, "", "", "", "", 0.0, 0.0, 0.0, 0, False, line.decode(errors="replace"))
    return (slice.header.run, slice.header.node, 0, MALFORMED, 0, *blank, *_NOTHING)


def _row(slice: Slice, row: TraceRecord) -> tuple[Any, ...]:
    header, error, values = slice.header, row.error, _NOTHING
    try:
        found = values_of(row.type, row.payload)
    except TraceError as undecodable:
        error = error or f"the payload cannot be decoded: {undecodable}"
    else:
        if found is not NOTHING:
            values = found[:-1]
            error = found.error or error
    return (
        header.run,
        header.node,
        row.n,
        row.kind,
        row.cause,
        row.event_id,
        row.sender,
        row.receiver,
        row.actor,
        row.type,
        row.taken_at + header.clock_offset,
        row.taken_at - row.queued_at,
        row.finished_at - row.taken_at,
        len(row.effects),
        row.error is not None,
        error,
        *values,
    )
