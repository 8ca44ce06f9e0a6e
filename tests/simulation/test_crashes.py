"""A controller killed at any step of a deletion's completion leaves nothing of the topic (controller.md 6.1.9)."""

from __future__ import annotations

from functools import partial

import pytest

from actors.runtime import Delivery
from actors.simulation.monitors.monitor import Monitors
from actors.simulation.run import run
from actors.simulation.schedule import parse
from messages.events import TopicDeletionStopReplicaResponseReceived

DELETION = parse("brokers 2\nduration 8\nsteady yes\n2 create a 0,1\n4 delete a")


def crash(patch: pytest.MonkeyPatch, after: int) -> tuple[int, str | None]:
    """Delete a topic, and kill the controller after delivery number `after` of the deletion's completion.

    The process loses its queued messages. Return the number of counted deliveries, and the violation; None if no
    invariant was violated.
    """
    seen: list[str] = []
    observe = Monitors.look

    def look(monitors: Monitors, node: int, delivery: Delivery) -> None:
        observe(monitors, node, delivery)
        observed = monitors.observed
        begun = bool(seen) or isinstance(delivery.message, TopicDeletionStopReplicaResponseReceived)
        if begun and node == observed.znodes.controller and observed.znodes.deleting and len(seen) <= after:
            seen.append(delivery.actor_class)
            if len(seen) == after:
                process = observed.cluster.machines[node].node
                assert process is not None
                process.base.queue.clear()
                observed.cluster.scheduler.call_later(0.0, partial(observed.cluster.kill, node))

    patch.setattr(Monitors, "look", look)
    violation = run(DELETION).violation
    patch.undo()
    return len(seen), None if violation is None else str(violation)


def test_whatever_delivery_of_the_completion_is_the_controllers_last_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps, wrong = crash(monkeypatch, 10_000)
    assert wrong is None and steps > 20
    for step in range(1, steps + 1):
        reached, wrong = crash(monkeypatch, step)
        assert reached >= step and wrong is None, f"after delivery {step}: {wrong}"
