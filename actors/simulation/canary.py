"""A test of the simulation itself: it patches a known bug into the code, and runs seeds until a violation is found.

The bug: a reassignment writes a new leader epoch but does not cache it, so an older epoch is sent (KAFKA-9212).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace

from actors.core.controller import leadership, reassignment
from actors.core.controller.context import ControllerContext
from actors.core.controller.leadership import Failures
from actors.simulation.run import RunOutcome, run
from actors.simulation.schedule import Schedule
from messages.cluster import Leadership, TopicPartition
from messages.flow.conversation import Flow

NAME = "stale leader epoch after a reassignment (KAFKA-9212)"
SEEDS = 12
"""Number of seeds within which the bug must be found."""


def write_states_uncached(
    context: ControllerContext, updates: Sequence[Leadership], failures: Failures, as_known: bool = False
) -> Flow[tuple[list[Leadership], list[TopicPartition]]]:
    """Write states as the real function does, but without caching them."""
    before = dict(context.leadership)
    written = yield from leadership.write_states(context, updates, failures, as_known)
    context.learn_leaderships(Leadership(partition, before[partition]) for partition, _ in written[0])
    return written


@contextmanager
def patch_bug() -> Iterator[None]:
    """Run the block with the bug patched into this process."""
    changed = SimpleNamespace(**{**vars(leadership), "write_states": write_states_uncached})
    reassignment.leadership = changed  # type: ignore[assignment]
    try:
        yield
    finally:
        reassignment.leadership = leadership


def run_with_bug(schedule: Schedule) -> RunOutcome:
    """Run a schedule with the bug."""
    with patch_bug():
        return run(schedule)
