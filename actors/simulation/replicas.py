"""Record what the checker needs of replicas: their logs on disk, and how long each node has had no fault.

Rule 1: a log's offsets come from the calls of the port "logs" and their results, not from any actor's state.
Rule 2: a log outlives the process that wrote it; it is forgotten when it is deleted.
Rule 3: a node is healthy while it runs, its disks work, and nothing delays it or its connection to ZooKeeper. Rules
        that name a time hold for nodes that were healthy for all of it.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import attrs

from actors.runtime import AdapterCall
from actors.simulation.simulated_cluster import UP, Cluster, host_of
from actors.simulation.zookeeper_link import ZOOKEEPER
from messages.cluster import TopicPartition
from messages.partition import Replicate, TruncateFullyAndStartAt, TruncateToEpochEnd

MEMORY = 60.0
"""Seconds for which earlier log ends are remembered: more than twice any replica.lag.time.max.ms."""

FOLLOWING = (Replicate, TruncateToEpochEnd, TruncateFullyAndStartAt)
"""The messages by which a follower changes its log."""


@attrs.define
class LogView:
    """The log of one replica as the checker reads it from the disk."""

    start: int = 0
    end: int = 0
    high_watermark: int = 0
    epoch_start: int = 0
    """Where the log ended when this replica last became the leader."""
    ends: deque[tuple[float, int]] = attrs.field(factory=deque)
    """When the log end changed, and to what."""

    def end_at(self, moment: float) -> int:
        """The log end at an earlier time; the oldest one that is remembered, if that is later."""
        found = self.end
        for at, end in reversed(self.ends):
            found = end
            if at <= moment:
                break
        return found


@attrs.frozen
class HighWatermarkRaised:
    """Observed by the invariants: a leader raised the high watermark, which committed records of its log."""

    node: int
    partition: TopicPartition
    before: int
    after: int


class Replicas:
    """The logs of all replicas in a simulated cluster, by node and directory name, and the faults of its nodes."""

    def __init__(self) -> None:
        self.logs: dict[str, dict[int, LogView]] = {}
        self.unhealthy_at: dict[int, float] = {}
        """When each node was last seen unhealthy."""
        self.leaderless_at: dict[TopicPartition, float] = {}
        """Since when a partition has no live leader although it could have one."""
        self.uncontrolled_at: float | None = None
        """Since when there is no live controller although there could be one."""
        self._registered: dict[int, int] = {}

    def log(self, node: int, partition: TopicPartition) -> LogView | None:
        """The log of a replica; None if the node has none."""
        return self.logs.get(str(partition), {}).get(node)

    def holders(self, partition: TopicPartition, offset: int) -> list[int]:
        """The nodes whose logs reach this offset."""
        return [node for node, view in self.logs.get(str(partition), {}).items() if view.end >= offset]

    def touched(self, node: int, effect: AdapterCall, message: Any, now: float) -> HighWatermarkRaised | None:
        """A partition called the port "logs". Returns the move of a leader's high watermark, if that is what it did."""
        method, result = effect.method, effect.result
        if effect.error or not effect.args or not isinstance(effect.args[0], str):
            return None
        name = effect.args[0].rpartition("/")[2]
        views = self.logs.setdefault(name, {})
        view = views.get(node)
        if method == "open":
            start, end, _, high_watermark, _ = result
            view = views[node] = LogView(start, end, min(max(high_watermark, start), end))
            view.ends.append((now, end))
        elif method == "close":
            if effect.args[1]:
                views.pop(node, None)
        elif view is None:
            return None
        elif method in ("append", "append_as_coordinator", "append_marker"):
            self._grow(view, result[0], now)
            if effect.args[3]:
                view.high_watermark = view.end
        elif method == "replicate":
            self._grow(view, result[1], now)
        elif method in ("truncate", "restart"):
            view.start = result[0]
            view.epoch_start = 0
            view.ends.clear()
            self._grow(view, result[1], now)
            view.high_watermark = min(view.high_watermark, view.end)
        elif method == "advance_start":
            view.start = result
        elif method == "expire":
            view.start = result[0] or view.start
        elif method == "begin_epoch":
            view.epoch_start = view.end
        elif method == "note_high_watermark":
            before, view.high_watermark = view.high_watermark, effect.args[1]
            if not isinstance(message, FOLLOWING) and before < view.high_watermark:
                return HighWatermarkRaised(node, _partition(name), before, view.high_watermark)
        return None

    def _grow(self, view: LogView, end: int, now: float) -> None:
        view.end = end
        view.ends.append((now, end))
        while len(view.ends) > 1 and view.ends[1][0] < now - MEMORY:
            view.ends.popleft()

    # ------------------------------------------------------------------------------------------------ health

    def look(self, cluster: Cluster, registered: dict[int, int]) -> None:
        """Note which nodes are not healthy now (rule 3)."""
        for node in cluster.machines:
            if not self._is_well(cluster, node) or registered.get(node) != self._registered.get(node):
                self.unhealthy_at[node] = cluster.now
        self._registered = dict(registered)

    def healthy_for(self, cluster: Cluster, node: int) -> float:
        """For how many seconds a node has been healthy."""
        return cluster.now - self.unhealthy_at.get(node, 0.0) if node in cluster.machines else 0.0

    def _is_well(self, cluster: Cluster, node: int) -> bool:
        machine, wires, host = cluster.machines[node], cluster.wires, host_of(node)
        return (
            machine.state == UP
            and not (machine.pace or machine.loses)
            and cluster.zookeeper.up
            and not (machine.disks.faults or machine.disks.delays or machine.disks.hurt)
            and wires.is_steady(host, ZOOKEEPER)
        )


def _partition(log: str) -> TopicPartition:
    topic, _, number = log.rpartition("-")
    return TopicPartition(topic, int(number))
