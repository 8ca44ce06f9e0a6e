"""Compare recorded values with replayed ones, and describe the first difference."""

from __future__ import annotations

import json
from typing import Any

from actors.runtime.kernel.delivery import AdapterCall, Envelope
from actors.runtime.thespian.base import LocalBase
from actors.runtime.trace.replay_report import Divergence
from actors.runtime.trace.snapshots import system_lines
from actors.runtime.trace.state import displayed_state
from messages.runtime import OUTSIDE, TIMER
from messages.state import ActorState
from messages.trace.codec import ENCODER, MessageDecoder, address_text, encode, unencodable
from messages.trace.errors import TraceError
from messages.trace.files.snapshots import Snapshot, message_of
from messages.trace.schema import NO_PAYLOAD, TraceRecord
from messages.trace.schema import Effect as RecordedEffect

_LONG_TEXT = 300


class Diverged(Exception):
    """The replay of a node differs from its trace; `divergence` describes the first difference."""

    def __init__(self, n: int, what: str, recorded: str, replayed: str) -> None:
        super().__init__(what)
        self.divergence = Divergence(n, what, recorded, replayed)


def compare_message(record: TraceRecord, envelope: Envelope, content: bool) -> None:
    """Compare a sent message or a timer of the replayed actors with the record. Raises Diverged.

    `content` is True if the record has a payload. A record without a payload has the message's class name as its type.
    """
    type_, payload = (
        encode_message(envelope.message) if content else (type(envelope.message).__name__, bytes(NO_PAYLOAD))
    )
    way = (record.kind, record.cause, record.sender, record.receiver, record.queued_at, record.type)
    sender, receiver = address_text(envelope.sender), address_text(envelope.receiver)
    if way != (envelope.kind, envelope.cause, sender, receiver, envelope.queued_at, type_):
        raise Diverged(record.n, "another message", message_line(record), envelope_line(envelope))
    difference = payload_difference(record, payload)
    if difference is not None:
        place, was, became = difference
        raise Diverged(
            record.n,
            f"another {record.type} from {record.sender} to {record.receiver}",
            f"{record.type}{place} = {was}",
            f"{type_}{place} = {became}",
        )


def compare_outcome(
    record: TraceRecord, effects: tuple[AdapterCall, ...], error: str | None, actor_class: str, event_id: int
) -> None:
    """Compare I/O calls, error, actor class and event id of a delivery with the record. Raises Diverged."""
    at = f"while {record.receiver} handled {record.type}"
    for recorded, made in zip(record.effects, effects, strict=False):
        if ENCODER.encode(recorded) != ENCODER.encode(made):  # values equal in Python may differ: 1 and True
            raise Diverged(record.n, f"another effect {at}", call(*recorded_effect(recorded)[:3]), call(*made[:3]))
    if len(effects) < len(record.effects):
        missing = recorded_effect(record.effects[len(effects)])
        raise Diverged(record.n, f"an effect is missing {at}", call(*missing[:3]), "no further call")
    if error != record.error:
        fine = "handled without an error"
        raise Diverged(record.n, f"another outcome {at}", record.error or fine, error or fine)
    if actor_class != record.actor:
        raise Diverged(record.n, f"another class of actor {at}", record.actor, actor_class)
    if event_id != record.event_id:
        raise Diverged(record.n, f"another event was served {at}", f"event {record.event_id}", f"event {event_id}")


def payload_difference(record: TraceRecord, payload: bytes) -> tuple[str, str, str] | None:
    """Return the first difference of the payloads: (path such as ".isr[2]", recorded, replayed), or None."""
    recorded = bytes(record.payload)
    if payload == recorded:
        return None
    found = first_difference(json.loads(recorded), json.loads(payload))
    return None if found is None else (found[0], _short(_json(found[1])), _short(_json(found[2])))


def first_difference(recorded: Any, replayed: Any, place: str = "") -> tuple[str, Any, Any] | None:
    """Return the first difference of two decoded payloads: (path such as ".isr[2]", recorded, replayed), or None."""
    if type(recorded) is type(replayed):
        if isinstance(recorded, dict):
            for key in sorted(recorded.keys() | replayed.keys()):
                found = first_difference(recorded.get(key), replayed.get(key), f"{place}.{key}")
                if found is not None:
                    return found
            return None if recorded.keys() == replayed.keys() else (f"{place} (fields)", len(recorded), len(replayed))
        if isinstance(recorded, list):
            for index, (one, other) in enumerate(zip(recorded, replayed, strict=False)):
                found = first_difference(one, other, f"{place}[{index}]")
                if found is not None:
                    return found
            if len(recorded) == len(replayed):
                return None
            return f"{place} (length)", len(recorded), len(replayed)
        if recorded == replayed:
            return None
    return place, recorded, replayed


def state_difference(base: LocalBase, snapshot: Snapshot) -> Diverged:
    """Return the first difference between a snapshot and the state of `base`. Raises Damaged, OSError."""
    n, codec = snapshot.after, MessageDecoder()
    names = ["the system", *(str(ref) for ref in base.living())]
    for name, recorded, replayed in zip(names, snapshot.lines(), system_lines(base), strict=False):
        if recorded != replayed:
            was, became = (_display(message_of(line, codec)) for line in (recorded, replayed))
            place, one, other = first_difference(was, became) or ("", was, became)
            what = f"{name} holds something else after delivery {n}"
            return Diverged(n, what, f"{name}{place} = {_short(_json(one))}", f"{name}{place} = {_short(_json(other))}")
    resting = "the middle of a conversation" if base.resting else "rest"
    return Diverged(n, f"another state after delivery {n}", f"{snapshot.end}", f"not at {resting}")


def _display(state: object) -> object:
    return displayed_state(state) if isinstance(state, ActorState) else json.loads(encode(state)[1])


def encode_message(message: object) -> tuple[str, bytes]:
    """Return (type name, payload) of a message as a record stores them, even if the message has no JSON form."""
    try:
        return encode(message)
    except TraceError as error:
        return type(message).__name__, _json(unencodable(error)).encode()


def recorded_effect(effect: RecordedEffect) -> AdapterCall:
    """Return the recorded I/O call with tuples in place of JSON's lists."""
    return AdapterCall(effect.port, effect.method, _tuples(effect.args), _tuples(effect.result), effect.error)


def _tuples(value: object) -> Any:
    return tuple(_tuples(entry) for entry in value) if isinstance(value, list | tuple) else value


# ------------------------------------------------------------------------------------------------ words


def message_line(record: TraceRecord) -> str:
    """Return a record as one line."""
    payload = _short(bytes(record.payload).decode())
    return f"{route(record)} {payload} ({_cause(record.kind, record.cause)})"


def envelope_line(envelope: Envelope) -> str:
    """Return a replayed message as one line."""
    type_, payload = encode_message(envelope.message)
    way = f"{address_text(envelope.sender)} -> {address_text(envelope.receiver)}"
    return f"{way}: {type_} {_short(payload.decode())} ({_cause(envelope.kind, envelope.cause)})"


def route(record: TraceRecord) -> str:
    """Return sender, receiver and type of a record as text."""
    return f"{record.sender} -> {record.receiver}: {record.type}"


def call(port: str, method: str, args: tuple[Any, ...]) -> str:
    """Return a call to the I/O adapter `port` as Python code."""
    return _short(f"{port}.{method}({', '.join(map(repr, args))})")


def _cause(kind: str, cause: int) -> str:
    if kind == OUTSIDE:
        return f"from outside, after delivery {-cause}"
    return f"timer armed during delivery {cause}" if kind == TIMER else f"sent during delivery {cause}"


def _short(text: str) -> str:
    return text if len(text) <= _LONG_TEXT else f"{text[:_LONG_TEXT]}... ({len(text)} characters)"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
