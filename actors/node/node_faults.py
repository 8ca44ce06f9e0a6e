"""Faults of nodes (process, network, disks, clock and session) that tests inject into a cluster.

Rule 1: a fault of a disk or clock belongs to the machine: it remains in effect when the node's process restarts.
Rule 2: a muted node receives messages. Its own messages to other nodes wait until the fault is removed or the receiver
        times out, as after packet loss. ZooKeeper and clients still receive its messages.
Rule 3: a fault counts the affected operations: writes that wait or fail, messages that wait, readings of the clock. A
        pause or a session expiry takes effect at once, and counts one operation.
Rule 4: the node receives each change of a fault (NodeFaultInjected), so each change is in the log and in the trace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import attrs

from actors.gateway.request_faults import FaultError
from actors.node.adapters import TimeAdapter
from actors.node.assembly import Node
from actors.storage.log_directories import FAILING, FULL, SLOW, DiskFaults, FaultyAdapter

PAUSE, MUTE, SESSION_EXPIRY = "pause", "mute", "session_expiry"
SLOW_DISK, FULL_DISK, BROKEN_DISK, CLOCK_JUMP = "slow_disk", "full_disk", "broken_disk", "clock_jump"

INJECTED, MET, REMOVED = "injected", "met", "removed"

_OF_DISKS = {FULL: FULL_DISK, FAILING: BROKEN_DISK, SLOW: SLOW_DISK}


@attrs.define(str=False, eq=False)
class NodeFault:
    """A fault that is injected into one node.

    Attributes:
        kind: The kind of fault, such as `pause`.
        broker: The id of the node.
        value: The value that the kind needs, such as seconds; 0.0 if it needs none.
        to: For kind `mute`: the id of the only node to which messages are delayed. If it is None, messages to all nodes
            are delayed.
    """

    kind: str
    broker: int
    value: float = attrs.field(default=0.0, converter=float)
    to: int | None = None
    hits: int = 0
    """Number of affected operations (rule 3)."""
    removed: asyncio.Event = attrs.field(init=False, factory=asyncio.Event)

    def __attrs_post_init__(self) -> None:
        if self.to is not None and (self.kind != MUTE or self.to == self.broker):
            raise FaultError(
                f"a {self.kind} fault of broker {self.broker} cannot be limited to the messages for broker {self.to};"
                " only a mute fault can be limited, to the messages for one other broker"
            )

    def __str__(self) -> str:
        value = f" ({self.value:g})" if self.value else ""
        return f"{self.kind}{value} of broker {self.broker}"

    @property
    def calls(self) -> int:
        """Number of matching operations. It equals `hits`, because a node fault has no trigger."""
        return self.hits


class _Disks(DiskFaults):
    """The disks of a node of the cluster, with the faults that are injected into them."""

    def __init__(self, names: tuple[str, ...], hold_up: Callable[[float], None], met: Callable[[str], None]) -> None:
        super().__init__(names, hold_up)
        self._met = met

    def on_fault(self, fault: str) -> None:
        self._met(_OF_DISKS[fault])

    def set(self, faults: list[NodeFault]) -> None:
        """Set the node's active faults."""
        broken = {BROKEN_DISK: FAILING, FULL_DISK: FULL}
        kinds = {fault.kind for fault in faults}
        failing = next((code for kind, code in broken.items() if kind in kinds), None)
        seconds = sum(fault.value for fault in faults if fault.kind == SLOW_DISK)
        self.faults = {} if failing is None else dict.fromkeys(self.names, failing)
        self.delays = dict.fromkeys(self.names, seconds) if seconds else {}


class _WallClock(TimeAdapter):
    """The wall clock of a node of the cluster."""

    def __init__(self, met: Callable[[str], None]) -> None:
        self._met = met
        self._offset_ms = 0

    def wall_ms(self) -> int:
        """Return the milliseconds since 1970, UTC, shifted by the injected clock jumps."""
        if self._offset_ms:
            self._met(CLOCK_JUMP)
        return super().wall_ms() + self._offset_ms

    def set(self, faults: list[NodeFault]) -> None:
        """Set the node's active faults."""
        self._offset_ms = round(sum(fault.value for fault in faults if fault.kind == CLOCK_JUMP) * 1000)


class NodeFaults:
    """The faults that are currently injected into the nodes of a cluster.

    Args:
        hold_up: `hold_up(node, seconds)` blocks a node for this time.
        report: `report(fault, change)` notifies the fault's node (rule 4).
    """

    def __init__(self, hold_up: Callable[[int, float], None], report: Callable[[NodeFault, str], None]) -> None:
        self._hold_up = hold_up
        self._report = report
        self.active: list[NodeFault] = []
        self._machines: dict[int, tuple[_Disks, _WallClock]] = {}

    def clock(self, id: int, log_dirs: tuple[str, ...]) -> TimeAdapter:
        """Return the wall clock of a node.

        The first call also creates the objects for faults of the node's log directories.
        """
        if id not in self._machines:
            disks = _Disks(log_dirs, lambda seconds: self._hold_up(id, seconds), lambda kind: self._meet(id, kind))
            self._machines[id] = disks, _WallClock(lambda kind: self._meet(id, kind))
            self._set(id)
        return self._machines[id][1]

    def wrap(self, id: int, node: Node) -> None:
        """Apply disk faults to the I/O adapters of a node that is not started yet."""
        disks, _ = self._machines[id]
        for name in ("disk", "logs"):
            node.ports[name] = FaultyAdapter(node.ports[name], disks)

    def inject(self, fault: NodeFault) -> None:
        """Inject a fault."""
        self.active.append(fault)
        self._report(fault, INJECTED)
        self._set(fault.broker)

    def remove(self, fault: NodeFault) -> None:
        """Remove a fault, if it is active."""
        if fault in self.active:
            self.active.remove(fault)
            self._set(fault.broker)
            fault.removed.set()
            self._report(fault, REMOVED)

    def silences(self, sender: int, receiver: int) -> NodeFault | None:
        """Return the `mute` fault that delays messages from the sender to the receiver; None if there is none."""
        return next(
            (
                fault
                for fault in self.active
                if fault.kind == MUTE and fault.broker == sender != receiver and fault.to in (None, receiver)
            ),
            None,
        )

    async def passage(self, sender: int, receiver: int) -> None:
        """Wait until no fault delays messages from the sender to the receiver (rule 2)."""
        while (fault := self.silences(sender, receiver)) is not None:
            self.hit(fault)
            await fault.removed.wait()

    def hit(self, fault: NodeFault) -> None:
        """Count an operation that this fault affected."""
        fault.hits += 1
        if fault.hits == 1:
            self._report(fault, MET)

    def _meet(self, id: int, kind: str) -> None:
        for fault in self.active:
            if fault.broker == id and fault.kind == kind:
                self.hit(fault)

    def _set(self, id: int) -> None:
        """Apply the active faults of a node to its disks and clock."""
        faults = [fault for fault in self.active if fault.broker == id]
        for part in self._machines.get(id, ()):
            part.set(faults)
