"""Answer Thespian's status requests (Thespian_StatusReq)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from thespian.actors import Thespian_ActorStatus
from thespian.system.timing import ExpirationTimer

from actors.runtime.kernel.reference import ActorRef
from actors.runtime.kernel.timers import Timer


def actor_status(
    ref: ActorRef,
    system: ActorRef,
    children: Iterable[ActorRef],
    timers: Iterable[Timer],
    queue: Iterable[tuple[Any, ...]],
) -> Thespian_ActorStatus:
    """Return children, pending wake-ups and queued messages of one actor."""
    status = Thespian_ActorStatus(ref, ref.class_name, system, ref.parent)
    for child in children:
        status.addChild(child)
    status.addWakeups([(ref, ExpirationTimer(timer.message.delayPeriod)) for timer in timers if timer.receiver is ref])
    for to, message, sender, *_ in queue:
        if to is ref:
            status.addPendingMessage(sender, to, type(message).__name__)
    return status
