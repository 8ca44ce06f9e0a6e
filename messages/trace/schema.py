"""What a trace holds: one header per segment, then one record per delivery, in the order of the deliveries.

Rule 1: a record is complete: what came in, from whom and why, what the handler asked of its ports and got, and how it
        ended. What the handler sent is not repeated: every sent message is a record of its own, with this one as cause.
Rule 2: the columns are the schema. Whoever renames, removes or redefines one raises SCHEMA_VERSION; replay refuses any
        other version by name.
Rule 3: a secret never reaches the disk: settings are masked by name before they enter the header.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

SCHEMA_VERSION = 1

SENT = "sent"
OUTSIDE = "outside"
TIMER = "timer"
CREATED = "created"
CLOSED = "closed"

DELIVERIES = (SENT, OUTSIDE, TIMER)
"""Kinds of record that are deliveries; the others tell of the run itself."""

NO_PAYLOAD = msgspec.Raw(b"null")
MASK = "***"
_SECRET = re.compile(r"password|secret|jaas|credential|token|keystore_key|keystore\.key", re.IGNORECASE)


class Header(msgspec.Struct, frozen=True):
    """First frame of every segment: whose run this is, and how it is to be read.

    `run` is unique, `segment` counts from 0. Clock times in records are seconds of the base's clock; adding
    `clock_offset` gives seconds since 1970. `settings` are those the node was started with, secrets masked.
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


class Effect(msgspec.Struct, frozen=True, array_like=True):
    """One call of a port during a delivery: its result, or the "errno strerror" of its OSError ("": it succeeded)."""

    port: str
    method: str
    args: tuple[Any, ...]
    result: Any = None
    error: str = ""


class Record(msgspec.Struct, frozen=True):
    """One delivery, or (`kind` "created", "closed") one event of the run itself.

    `n` is the delivery's number, from 1. `cause` is the number of the delivery during which the message was sent or
    the timer armed; -k means that it came from outside after delivery k. `sender` and `receiver` are addresses as
    text, `actor` the receiver's class ("" for an outsider). Times are clock seconds, `took` is the handler's time in
    seconds. `error` is what the handler raised.

    "created": a top-level actor was created after delivery `n`; `receiver` is its address, `type` its "module:Class".
    "closed": the recording ended here because the node stopped; `n` is the last delivery.
    """

    n: int
    kind: str
    cause: int
    sender: str
    receiver: str
    actor: str
    type: str
    queued_at: float
    taken_at: float
    took: float
    payload: msgspec.Raw
    effects: tuple[Effect, ...] = ()
    error: str | None = None


def masked(settings: object) -> dict[str, Any]:
    """The settings (an attrs value or a mapping) as plain values, those that may be secret replaced by MASK."""
    plain: dict[str, Any] = msgspec.to_builtins(settings)
    return {name: MASK if value and _SECRET.search(name) else value for name, value in plain.items()}
