"""A known bug that a simulation must find, patched into one process for a few runs: does the simulator still see?

The bug: a failed broker does not make its replicas ineligible for deletion (KAFKA-10548), so deletions never end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from actors.core.controller import deletion_plan
from actors.core.controller.context import ControllerContext, ReplicasByBroker
from actors.simulation.run import RunOutcome, run
from actors.simulation.schedule import Schedule
from messages.conversation import Flow

NAME = "deletion stuck after a broker failure (KAFKA-10548)"
SEEDS = 12
"""Number of seeds within which it must be found."""


def _ignore(context: ControllerContext, failed: ReplicasByBroker) -> Flow[None]:
    """Do nothing about replicas that cannot be deleted now."""
    yield from ()


@contextmanager
def _patched() -> Iterator[None]:
    """Have the bug in this process."""
    right = deletion_plan.fail
    deletion_plan.fail = _ignore
    try:
        yield
    finally:
        deletion_plan.fail = right


def run_with_bug(schedule: Schedule) -> RunOutcome:
    """Execute a schedule with the bug."""
    with _patched():
        return run(schedule)
