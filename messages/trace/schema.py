"""The schema of traces: each file has a header, then one record for each message that was delivered.

Rule 1: a record is complete: what came in, from whom and why, what the handler asked of its ports and got, and how it
        ended. What the handler sent is not repeated: every sent message is a record of its own, with this one as cause.
Rule 2: the columns, and the names of messages and of their fields, are the schema. Renaming, removing or redefining one
        raises SCHEMA_VERSION; replay refuses any version that is not READABLE by name.
Rule 3: a secret never reaches the disk: settings are masked by name before they enter the header.
Rule 4: the last record of a run says that it is the last, why, and how many there are. A run without it ended early.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

SCHEMA_VERSION = 7
READABLE = (7,)
"""Schema versions that are read. Version 7 has event ids; messages had other names in versions 2 to 5."""

FULL = "full"
INPUTS = "inputs"
DETAILS = (FULL, INPUTS)
"""What records hold: everything; of what actors sent everything but the payloads, which a replay sends again."""

SENT = "sent"
OUTSIDE = "outside"
TIMER = "timer"
CREATED = "created"
ENDED = "ended"

DELIVERIES = (SENT, OUTSIDE, TIMER)
"""Kinds of record that are deliveries; the others describe the run itself."""

STOPPED = "stopped"
DISK_FULL = "disk full"
GIVEN_UP = "given up"
DUMPED = "dumped"
REASONS = (STOPPED, DISK_FULL, GIVEN_UP, DUMPED)
"""Why a recording ended: the node stopped; space ran out; the trace could not be written for another reason; it is what
a flight recorder kept, and the node goes on."""

Payload = msgspec.Raw
"""A message in JSON, as a record holds it: equal where the bytes are."""
NO_PAYLOAD = Payload(b"null")
MASK = "***"
_SECRET = re.compile(r"password|secret|jaas|credential|token|keystore_key|keystore\.key", re.IGNORECASE)


class Header(msgspec.Struct, frozen=True):
    """The header of a trace file: the node, the run, and the versions that are needed to read it.

    `run` is unique, `segment` counts from 0 (the manifest, too, has 0). Clock times in records are seconds of the
    base's clock; adding `clock_offset` gives seconds since 1970. `settings` are those the node was started with,
    secrets masked. `events` are the controller's events: (message type, Kafka's name of the state that handles it).
    `columns` are those of a Record. `detail` is one of DETAILS. The run's records begin after delivery `begins`, with a
    snapshot where that is not 0.
    """

    schema_version: int
    run: str
    segment: int
    node: int
    roles: tuple[str, ...]
    settings: dict[str, Any]
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
    """The header of the same run where nothing is left out, and which begins after that delivery."""
    return msgspec.structs.replace(header, schema_version=SCHEMA_VERSION, detail=FULL, begins=begins)


def part_of(header: Header, run: str, begins: int) -> Header:
    """The header of a run of that name, which begins after that delivery."""
    return msgspec.structs.replace(header, run=run, begins=begins)


class Effect(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A call of an I/O adapter while a message was handled: its result, or the text of its OSError ("" if it
    succeeded).
    """

    port: str
    method: str
    args: tuple[Any, ...]
    result: Any
    error: str


class TraceRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A record of a trace: a delivered message, or the start or end of the run (`kind` "created" or "ended").

    It is a JSON array of these fields, in this order.

    `n` is the delivery's number, from 1. `cause` is the number of the delivery during which the message was sent or
    the timer armed; -k means that it came from outside after delivery k. `event_id` is the number of the delivery that
    began what this one serves: a client's request or other input, a timer, or an event of the controller. `sender` and
    `receiver` are addresses as text, `actor` the receiver's class ("" for an external endpoint). Times are clock
    seconds: when the message was queued, taken from the queue, and when the handler was done with it. `error` is what
    the handler raised.

    "created": a top-level actor was created after delivery `n`; `receiver` is its address, `type` its "module:Class".
    "ended": the recording ended here; `n` is the last delivery, `type` one of REASONS, `payload` the number of records
    before this one, `error` what went wrong.

    Records hold values only, none of which leads back to them: the garbage collector need not know them.
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


def completed(record: TraceRecord, type_: str, payload: bytes) -> TraceRecord:
    """The record with the payload that it leaves out, and the name of its type."""
    return msgspec.structs.replace(record, type=type_, payload=Payload(payload))


def created(n: int, receiver: str, actor: str, where: str, now: float) -> TraceRecord:
    """A top-level actor was created after delivery `n`; `where` is "module:Class"."""
    return TraceRecord(n, CREATED, -n, 0, "", receiver, actor, where, now, now, now, NO_PAYLOAD, (), None)


def ended(n: int, reason: str, records: int, error: str | None, now: float) -> TraceRecord:
    """The recording ended after delivery `n`; `records` is their number."""
    payload = Payload(b"%d" % records)
    return TraceRecord(n, ENDED, -n, 0, "", "", "", reason, now, now, now, payload, (), error)


class Opened(msgspec.Struct, frozen=True, tag=True):
    """A manifest entry: a segment was started; `digest` is the hexadecimal digest of its first frame."""

    segment: int
    digest: str


class Removed(msgspec.Struct, frozen=True, tag=True):
    """A manifest entry: a segment was removed to limit the trace's size; `digest` is the digest of its last frame."""

    segment: int
    digest: str


class Ended(msgspec.Struct, frozen=True, tag=True):
    """A manifest entry: the run ended for this `reason`; `digest` is the digest of its last frame.

    It has the number of records of the run.
    """

    reason: str
    records: int
    digest: str


def masked(settings: object) -> dict[str, Any]:
    """The settings (an attrs value or a mapping) as plain values, those that may be secret replaced by MASK."""
    plain: dict[str, Any] = msgspec.to_builtins(settings)
    return {name: MASK if value and _SECRET.search(name) else value for name, value in plain.items()}
