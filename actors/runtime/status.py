"""Thespian's status answers: what an actor of ours says to Thespian_StatusReq."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from thespian.actors import Thespian_ActorStatus
from thespian.system.timing import ExpirationTimer

if TYPE_CHECKING:
    from actors.runtime.reference import ActorRef


def actor_status(
    ref: ActorRef, timers: Iterable[tuple[Any, ...]], queue: Iterable[tuple[Any, ...]]
) -> Thespian_ActorStatus:
    """Children, pending wake-ups and queued messages of one actor."""
    status = Thespian_ActorStatus(ref, ref.class_name, ref.base.system_address, ref.parent)
    for child in (ref.children or {}).values():
        status.addChild(child)
    status.addWakeups([(timer[2], ExpirationTimer(timer[3].delayPeriod)) for timer in timers if timer[2] is ref])
    for to, message, sender, *_ in queue:
        if to is ref:
            status.addPendingMessage(sender, to, type(message).__name__)
    return status
