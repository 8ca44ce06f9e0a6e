"""Deliveries as the recorder receives them."""

from __future__ import annotations

from typing import Any

from thespian.actors import ActorAddress

from actors.runtime.kernel.delivery import AdapterCall, Delivery
from messages.trace.schema import SENT

SENDER, RECEIVER = ActorAddress("A.1"), ActorAddress("B.2")


def delivery(
    n: int,
    message: Any,
    *times: float,
    kind: str = SENT,
    effects: tuple[AdapterCall, ...] = (),
    error: str | None = None,
) -> Delivery:
    """Return delivery number `n`; `times` are queued_at, taken_at and finished_at."""
    times = times or (1.0, 2.0, 3.0)
    return Delivery(n, kind, n - 1, n, SENDER, RECEIVER, "B", message, *times, effects, error)
