"""The operations by which the buttons of a live page inject faults into a cluster, and undo them.

An operation has the name and the arguments of `actors.public.operations`. ACTIONS says which ones are offered for a
broker; what is in effect names the operation that ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, NamedTuple, Protocol

from actors.node.memory_cluster import FaultInEffect, MemoryCluster
from actors.public.operations import ClusterError, check_arguments


class PageAction(NamedTuple):
    """A button for a broker.

    Attributes:
        label: The text of the button.
        operation: The name of the operation.
        arguments: Its arguments, besides the broker.
        broker: The argument that is the broker's id.
        other: The argument that is another broker's id; "" if there is none.
        running: Whether it is offered for a running broker or for one that does not run.
        danger: Whether the broker ends.
        more: Whether it is only offered on the broker's own view.
    """

    label: str
    operation: str
    arguments: Mapping[str, Any] = {}
    broker: str = "broker_id"
    other: str = ""
    running: bool = True
    danger: bool = False
    more: bool = False

    def plain(self) -> dict[str, Any]:
        """Return the action as the page gets it."""
        return {**self._asdict(), "do": self.operation, "with": dict(self.arguments)}


KILL = PageAction("Kill", "kill", danger=True)
START = PageAction("Start", "start_broker", running=False)
PAUSE = PageAction("Pause", "pause")
STOP = PageAction("Stop", "stop_broker", danger=True, more=True)
ACTIONS = (
    KILL,
    START,
    PageAction("Pause", "inject_fault", {"kind": "pause"}, "broker"),
    STOP,
    PageAction("Expire session", "inject_fault", {"kind": "session_expiry"}, "broker", more=True),
    PageAction("Slow disk (0.2 s)", "inject_fault", {"kind": "slow_disk", "value": 0.2}, "broker", more=True),
    PageAction("Full disk", "inject_fault", {"kind": "full_disk"}, "broker", danger=True, more=True),
    PageAction("Mute", "inject_fault", {"kind": "mute"}, "broker", more=True),
    PageAction("Cut off clients", "cut_clients", more=True),
    PageAction("Cut off broker", "partition_network", {}, "a", "b", more=True),
)
"""The actions of a cluster in one process."""
UNDOING = ("remove_fault", "heal_network", "start_broker", "resume")


class Controls(Protocol):
    """A cluster that a page can change."""

    @property
    def actions(self) -> tuple[PageAction, ...]:
        """The buttons for a broker."""

    def effects(self) -> list[FaultInEffect]:
        """Return what is broken now."""

    def do(self, operation: str, arguments: Mapping[str, Any]) -> None:
        """Execute an operation. Raises ClusterError."""


def perform(controls: Controls, asked: Any) -> dict[str, str]:
    """Execute the operation that a page asks for: {"do": name, "with": arguments}. Return the reason if it failed."""
    try:
        operation, given = asked["do"], asked["with"]
        if operation not in {*UNDOING, *(each.operation for each in controls.actions)}:
            raise ClusterError(f"the page has no operation {operation}")
        controls.do(operation, check_arguments(operation, given))
    except (KeyError, TypeError, AttributeError):
        raise ValueError('the body should be {"do": NAME, "with": {...}}') from None
    except ClusterError as error:
        return {"failed": str(error)}
    return {}


class MemoryControls:
    """The controls of a cluster in one process; `do` and `effects` may be called by any thread but that of its loop."""

    actions = ACTIONS

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._loop = asyncio.get_running_loop()

    def effects(self) -> list[FaultInEffect]:
        """Return what is broken now."""

        async def read() -> list[FaultInEffect]:
            return self._cluster.effects

        found: list[FaultInEffect] = self._run(read())
        return found

    def do(self, operation: str, arguments: Mapping[str, Any]) -> None:
        """Execute an operation of the cluster."""

        async def execute() -> None:
            result = getattr(self._cluster, operation)(**arguments)
            if asyncio.iscoroutine(result):
                await result

        self._run(execute())

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
