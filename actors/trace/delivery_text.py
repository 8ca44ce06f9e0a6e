"""Format deliveries as lines of text and as JSON; large fields are replaced by their size."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from actors.trace.reader import TraceDelivery
from messages.trace.schema import TraceRecord

ITEMS = 3
"""Maximum number of entries of a list that a line shows."""
TEXT = 60
"""Maximum length of a string in a line."""
FIELDS = 160
"""Maximum length of a message's fields in a line."""
DEPTH = 4
PAYLOAD_BYTES = 16 << 10
"""Maximum size of a message that JSON lines contain."""


_INNER = re.compile(rb'"(?:question|request|response|result)":\["(\w+)"')
"""The class of a message inside a message: `Ask`, `Answer`, `Transmit`, ..."""
CARRIERS = frozenset(
    "Ask Answer Forwarded Transmit Received ClientRequest ClientRequests ClientResponse ClientResponses".split()
)


def title(record: TraceRecord) -> str:
    """Return the class of the message, and of the message inside it: `Ask GetBrokers`."""
    name = record.type
    if name in CARRIERS:
        inner = _INNER.search(record.payload)
        if inner is not None:
            return f"{name} {inner[1].decode()}"
    return name


def line_of(delivery: TraceDelivery, many: bool) -> str:
    """Return a delivery in one line.

    Args:
        delivery: The delivery.
        many: Whether the trace has several nodes; then the line begins with the node.
    """
    node = f"node {delivery.node} " if many else ""
    line = f"{node}{clock(delivery.at)} {delivery.seq} {route(delivery)}: {summary(delivery)}"
    if delivery.effects:
        line += f" [{calls(delivery)}]"
    return line if delivery.error is None else f"{line} ERROR {delivery.error}"


def clock(at: float) -> str:
    """Return a time of day in UTC, with microseconds."""
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S.%f}"


def logged_at(text: str) -> float:
    """Return the time at the begin of a log line, such as "2026-11-30 05:50:18,123", in seconds since 1970."""
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S,%f").timestamp()


def route(delivery: TraceDelivery) -> str:
    """Return the sender and the receiver."""
    return f"{delivery.sender or delivery.kind} -> {delivery.receiver}"


def calls(delivery: TraceDelivery) -> str:
    """Return the I/O calls, each kind with its count."""
    counts: dict[str, int] = {}
    for effect in delivery.effects:
        name = f"{effect.port}.{effect.method}" + (" failed" if effect.error else "")
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(name if count == 1 else f"{name} x{count}" for name, count in counts.items())


def summary(delivery: TraceDelivery) -> str:
    """Return the message's class and fields, shortened."""
    if not delivery.has_payload:
        return delivery.message
    if delivery.payload_bytes > PAYLOAD_BYTES:
        return f"{delivery.message} <{delivery.payload_bytes:,} bytes>"
    return message_text(delivery.message, delivery.payload)


def message_text(name: str, payload: object) -> str:
    """Return the class and fields of a message, shortened."""
    if not isinstance(payload, dict):
        return f"{name} {_value_text(payload, 0)}" if payload is not None else name
    text = ", ".join(f"{field}={_value_text(value, 1)}" for field, value in payload.items())
    return f"{name}({text if len(text) <= FIELDS else text[:FIELDS].rstrip(', ') + ', ...'})"


def _value_text(value: object, depth: int) -> str:
    match value:
        case str():
            return value if len(value) <= TEXT else f"<{len(value):,} characters>"
        case None | bool() | int() | float():
            return json.dumps(value)
        case [str(name), dict(fields)] if name[:1].isupper():  # a message inside a message
            return _message(name, fields, depth)
        case _ if depth >= DEPTH:
            return "..."
        case list():
            shown = [_value_text(each, depth + 1) for each in value[:ITEMS]]
            more = [f"... {len(value) - ITEMS:,} more"] if len(value) > ITEMS else []
            return f"[{', '.join([*shown, *more])}]"
        case dict():
            return "{" + ", ".join(f"{name}={_value_text(each, depth + 1)}" for name, each in value.items()) + "}"
    return str(value)


def _message(name: str, fields: dict[str, Any], depth: int) -> str:
    if depth >= DEPTH:
        return f"{name}(...)" if fields else name
    text = ", ".join(f"{field}={_value_text(each, depth + 1)}" for field, each in fields.items())
    return f"{name}({text})" if text else name


def json_line(delivery: TraceDelivery, largest: float | None = None) -> str:
    """Return a delivery as one line of JSON (`as_dict`).

    By default payloads larger than PAYLOAD_BYTES are omitted (None).
    """
    return msgspec.json.encode(as_dict(delivery, PAYLOAD_BYTES if largest is None else largest)).decode()


def as_dict(delivery: TraceDelivery, largest: float) -> dict[str, Any]:
    """Return a delivery as plain values.

    Args:
        delivery: The delivery.
        largest: Maximum size of the payload in bytes. A larger payload is replaced by None, and `payload_bytes` has its
            size.
    """
    record = delivery.record
    fits = delivery.payload_bytes <= largest
    made: dict[str, Any] = {
        "node": delivery.node,
        "run": delivery.run.name,
        "seq": record.n,
        "kind": record.kind,
        "cause": record.cause,
        "sender": record.sender,
        "receiver": record.receiver,
        "message": record.type,
        "at": delivery.at,
        "waited_ms": round(delivery.waited_ms, 6),
        "took_ms": round(delivery.took_ms, 6),
        "payload": record.payload if fits else None,
        "effects": record.effects,
        "error": record.error,
    }
    if not fits:
        made["payload_bytes"] = delivery.payload_bytes
    return made
