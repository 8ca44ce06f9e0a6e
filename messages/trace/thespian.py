"""How traces store Thespian's own messages."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from thespian.actors import (
    ActorAddress,
    ActorExitRequest,
    ChildActorExited,
    DeadEnvelope,
    PoisonMessage,
    WakeupMessage,
)

from messages.trace.forms import Boxed, Decoding, Form

_MICROSECOND = timedelta(microseconds=1)


class _Wakeup(msgspec.Struct):
    """The form in which a trace stores Thespian's WakeupMessage."""

    delay_us: int
    payload: Boxed


class _ChildExited(msgspec.Struct):
    """The form in which a trace stores Thespian's ChildActorExited."""

    child: ActorAddress


class _ExitRequest(msgspec.Struct):
    """The form in which a trace stores Thespian's ActorExitRequest."""

    recursive: bool


class _Dead(msgspec.Struct):
    """The form in which a trace stores Thespian's DeadEnvelope."""

    address: ActorAddress
    message: Boxed


class _Poison(msgspec.Struct):
    """The form in which a trace stores Thespian's PoisonMessage."""

    details: str | None
    poison: Boxed


def _exit_request(wire: _ExitRequest, decoding: Decoding) -> ActorExitRequest:
    return ActorExitRequest(recursive=wire.recursive)


def _microseconds(period: timedelta | float) -> int:
    """Return a timer's period in microseconds; `period` is a timedelta or a number of seconds."""
    return period // _MICROSECOND if isinstance(period, timedelta) else round(period * 1_000_000)


THESPIAN: dict[type, Form] = {
    WakeupMessage: Form(
        _Wakeup,
        lambda m, encoding: {"delay_us": _microseconds(m.delayPeriod), "payload": encoding.box(m.payload)},
        lambda w, decoding: WakeupMessage(
            w.delay_us * _MICROSECOND, decoding.decode(w.payload.type, w.payload.payload)
        ),
    ),
    ChildActorExited: Form(
        _ChildExited, lambda m, encoding: {"child": m.childAddress}, lambda w, decoding: ChildActorExited(w.child)
    ),
    ActorExitRequest: Form(_ExitRequest, lambda m, encoding: {"recursive": m.isRecursive}, _exit_request),
    DeadEnvelope: Form(
        _Dead,
        lambda m, encoding: {"address": m.deadAddress, "message": encoding.box(m.deadMessage)},
        lambda w, decoding: DeadEnvelope(w.address, decoding.decode(w.message.type, w.message.payload)),
    ),
    PoisonMessage: Form(
        _Poison,
        lambda m, encoding: {"details": m.details, "poison": encoding.box(m.poisonMessage)},
        lambda w, decoding: PoisonMessage(decoding.decode(w.poison.type, w.poison.payload), w.details),
    ),
}
"""Forms by class."""
