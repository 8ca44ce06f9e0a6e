"""Record what the checker needs of replicas: their logs on disk, and how long each node has had no fault.

Rule 1: a log's offsets come from the calls of the I/O adapter "logs" and their results, not from an actor's state.
Rule 2: a log outlives the process that wrote it; its record is removed when the log is deleted.
Rule 3: a node is healthy while it runs, its disks work, and nothing delays it or its connection to ZooKeeper. Rules
        with a time apply to nodes that were healthy for all of that time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import attrs

from actors.runtime import AdapterCall
from actors.simulation.simulated_cluster import UP, Cluster, host_of
from actors.simulation.zookeeper_link import ZOOKEEPER
from messages.cluster import TopicPartition
from messages.partition import Replicate, TruncateFullyAndStartAt, TruncateToEpochEnd

MEMORY = 60.0
"""Seconds for which earlier log end offsets are kept: more than twice any replica.lag.time.max.ms."""

FOLLOWING = (Replicate, TruncateToEpochEnd, TruncateFullyAndStartAt)
"""Messages with which a follower changes its log."""


@attrs.define
class LogView:
    """The log of one replica as the checker reads it from the disk."""

    start: int = 0
    end: int = 0
    high_watermark: int = 0
    epoch_start: int = 0
    """The log end offset when this replica last became leader."""
    ends: deque[tuple[float, int]] = attrs.field(factory=deque)
    """Changes of the log end offset: (time, offset)."""

    def end_at(self, moment: float) -> int:
        """Return the log end offset at an earlier time; if that is not kept, the oldest kept offset."""
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
        self.with_records: dict[str, TopicPartition] = {}
        """The partitions of which a log has, or had, records; by directory name."""
        self.unhealthy_at: dict[int, float] = {}
        """The time at which each node was last unhealthy."""
        self._registered: dict[int, int] = {}

    def log(self, node: int, partition: TopicPartition) -> LogView | None:
        """Return the log of a replica; None if the node has none."""
        return self.logs_of(partition).get(node)

    def logs_of(self, partition: TopicPartition) -> Mapping[int, LogView]:
        """Return the logs of a partition's replicas, by node."""
        return self.logs.get(str(partition), {})

    def holders(self, partition: TopicPartition, offset: int) -> list[int]:
        """Return the nodes whose logs reach this offset."""
        return [node for node, view in self.logs_of(partition).items() if view.end >= offset]

    def touched(self, node: int, effect: AdapterCall, message: Any, now: float) -> HighWatermarkRaised | None:
        """Process a call of the I/O adapter "logs"; return the observation if a leader raised its high watermark."""
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
        elif view is None:
            return None
        elif method == "close":
            if effect.args[1]:
                del views[node]
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
        if view.end and name not in self.with_records:
            self.with_records[name] = _partition(name)
        return None

    def _grow(self, view: LogView, end: int, now: float) -> None:
        view.end = end
        view.ends.append((now, end))
        while len(view.ends) > 1 and view.ends[1][0] < now - MEMORY:
            view.ends.popleft()

    # ------------------------------------------------------------------------------------------------ health

    def look(self, cluster: Cluster, registered: dict[int, int]) -> None:
        """Note which nodes are unhealthy now (rule 3)."""
        for node in cluster.machines:
            if not self._is_well(cluster, node) or registered.get(node) != self._registered.get(node):
                self.unhealthy_at[node] = cluster.now
        self._registered = dict(registered)

    def healthy_for(self, cluster: Cluster, node: int) -> float:
        """Return for how many seconds a node has been healthy."""
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
