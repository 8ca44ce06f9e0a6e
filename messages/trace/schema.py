"""The schema of traces: each file has a header, then one record for each delivered message.

Rule 1: a record is complete: the message, its sender and cause, the calls of I/O adapters with their results, and the
        outcome of the handler. The messages that the handler sent are not repeated: each has its own record, whose
        `cause` is this delivery.
Rule 2: the schema consists of the columns, the names of messages and the names of their fields. SCHEMA_VERSION is
        increased when any of these is renamed, removed or redefined, or when a column is added. Replay rejects a trace
        whose version is not in READABLE, and its error names the version.
Rule 3: secrets are never written to disk. Settings whose names indicate a secret, such as a password, are masked in the
        header, and in requests that change configs (`messages.sensitive_configs`).
Rule 4: the last record of a run marks the end, with the reason and the number of records. If this record is missing,
        the run ended early.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from messages.runtime import OUTSIDE, SENT, TIMER
from messages.sensitive_configs import masked_value

SCHEMA_VERSION = 8
READABLE = (8,)
"""Supported schema versions. In version 8, brokers start their actors in another order, and some messages changed."""

FULL = "full"
INPUTS = "inputs"
DETAILS = (FULL, INPUTS)
"""Levels of detail: FULL, or INPUTS, which omits the payloads of messages from actors, because a replay sends them
again.
"""

CREATED = "created"
ENDED = "ended"

DELIVERIES = (SENT, OUTSIDE, TIMER)
"""Record kinds of deliveries; other kinds describe the run."""

STOPPED = "stopped"
DISK_FULL = "disk full"
GIVEN_UP = "given up"
DUMPED = "dumped"
REASONS = (STOPPED, DISK_FULL, GIVEN_UP, DUMPED)
"""Reasons why a recording ended: the node stopped; the disk is full; the trace could not be written for another reason;
a flight recorder was dumped, and the node continues.
"""

Json: TypeAlias = Any  # type: ignore[explicit-any]
"""A value of JSON: text, a number, a boolean, None, or a list or dict of those."""
Payload = msgspec.Raw
"""A message in JSON, as a record stores it; equal if the bytes are equal."""
NO_PAYLOAD = Payload(b"null")


class Header(msgspec.Struct, frozen=True):
    """The header of a trace file: the node, the run, and the versions that are needed to read it.

    Attributes:
        run: The unique name of the run.
        segment: The number of the segment, from 0; 0 for the manifest too.
        settings: The settings with which the node was started; secrets are masked.
        clock_offset: The seconds to add to a record's clock time to get seconds since 1970.
        events: The controller's events, as pairs: the message type, and Kafka's name for the controller's state while
            it handles the event.
        columns: The fields of a TraceRecord.
        detail: One of DETAILS.
        begins: The number of the delivery after which the records begin. If it is not 0, a snapshot precedes the
            records.
    """

    schema_version: int
    run: str
    segment: int
    node: int
    roles: tuple[str, ...]
    settings: dict[str, Json]
    code_version: str
    started_ms: int
    clock_offset: float
    python: str
    platform: str
    events: tuple[tuple[str, str], ...] = ()
    columns: tuple[str, ...] = ()
    detail: str = FULL
    begins: int = 0


def in_full(header: Header, begins: int) -> Header:
    """Return a copy of `header` with full detail, for a run that begins after delivery number `begins`."""
    return msgspec.structs.replace(header, schema_version=SCHEMA_VERSION, detail=FULL, begins=begins)


def part_of(header: Header, run: str, begins: int) -> Header:
    """Return a copy of `header` for a run with the name `run` that begins after delivery number `begins`."""
    return msgspec.structs.replace(header, run=run, begins=begins)


class Effect(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A call that an actor made to an I/O adapter while it handled a message.

    `result` is the result of the call, `error` the text of the OSError that it raised ("" if it succeeded).
    """

    port: str
    method: str
    args: tuple[Json, ...]
    result: Json
    error: str


class TraceRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A record of a trace.

    It describes a delivered message, the creation of a top-level actor (`kind` "created") or the end of the run (`kind`
    "ended").

    In JSON, a record is an array of the fields below, in this order.

    "created": a top-level actor was created after delivery `n`; `receiver` is its address, `type` its "module:Class".
    "ended": the recording ended here; `n` is the last delivery, `type` one of REASONS, `payload` the number of earlier
    records, `error` the error that ended the recording.

    The values in a record have no references back to the record, so the garbage collector ignores records (`gc=False`).

    Attributes:
        n: The number of the delivery, from 1.
        kind: One of DELIVERIES, "created" or "ended".
        cause: The number of the delivery that sent the message or armed the timer; -k: the message came from outside
            after delivery k.
        event_id: The number of the delivery that began the event to which this delivery belongs: a client's request or
            other input, a timer, or an event of the controller.
        sender: The address of the sender as text.
        receiver: The address of the receiver as text.
        actor: The receiver's class; "" for an external endpoint.
        type: The type name of the message.
        queued_at: The clock time in seconds when the message was queued.
        taken_at: The clock time in seconds when the message was taken from the queue.
        finished_at: The clock time in seconds when the handler finished.
        payload: The message.
        effects: The calls of I/O adapters.
        error: The exception of the handler.
    """

    n: int
    kind: str
    cause: int
    event_id: int
    sender: str
    receiver: str
    actor: str
    type: str
    queued_at: float
    taken_at: float
    finished_at: float
    payload: Payload
    effects: tuple[Effect, ...]
    error: str | None


def with_payload(record: TraceRecord, type_: str, payload: bytes) -> TraceRecord:
    """Return a copy of a record that has no payload, with this payload and the type name `type_`."""
    return msgspec.structs.replace(record, type=type_, payload=Payload(payload))


def creation_record(n: int, receiver: str, actor: str, where: str, now: float) -> TraceRecord:
    """Return the record of a top-level actor created after delivery `n`; `where` is "module:Class"."""
    return TraceRecord(n, CREATED, -n, 0, "", receiver, actor, where, now, now, now, NO_PAYLOAD, (), None)


def end_record(n: int, reason: str, records: int, error: str | None, now: float) -> TraceRecord:
    """Return the end record after delivery `n`; `records` is the number of records before it."""
    payload = Payload(b"%d" % records)
    return TraceRecord(n, ENDED, -n, 0, "", "", "", reason, now, now, now, payload, (), error)


class Opened(msgspec.Struct, frozen=True, tag=True):
    """An entry of a trace's manifest: a segment of the trace was started.

    `digest` is the digest of the segment's first frame.
    """

    segment: int
    digest: str


class Removed(msgspec.Struct, frozen=True, tag=True):
    """A manifest entry: a segment was removed to save space; `digest` is the digest of the segment's last frame."""

    segment: int
    digest: str


class Ended(msgspec.Struct, frozen=True, tag=True):
    """An entry of a trace's manifest: the run has ended, with a `reason` and the number of `records`.

    `digest` is the digest of the run's last frame.
    """

    reason: str
    records: int
    digest: str


def masked_settings(settings: object) -> dict[str, Json]:
    """Return settings (an attrs value or a mapping) as plain values; the values of sensitive settings are masked."""
    plain: dict[str, Json] = msgspec.to_builtins(settings)
    return {name: masked_value(name, value) for name, value in plain.items()}
