"""Record what the checker must know about replicas: their logs on disk, and how long each node has had no fault.

Rule 1: a log's offsets come from the calls of the I/O adapter "logs" and from the results of these calls, not from an
        actor's state.
Rule 2: a log outlives the process that wrote it. The log's `LogView` is removed when the log is deleted.
Rule 3: a node is healthy while it runs, its disks work, and nothing delays it or its connection to ZooKeeper.
        Invariants with a time limit apply only to nodes that were healthy for that whole time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from actors.runtime import AdapterCall
from actors.simulation.log_transactions import LogTransactions
from actors.simulation.simulated_cluster import UP, Cluster, host_of
from actors.simulation.zookeeper_link import ZOOKEEPER
from messages import errors
from messages.apis.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from messages.cluster import TopicPartition, partition_of_log
from messages.partition import Replicate, TruncateFullyAndStartAt, TruncateToEpochEnd, last_stable_offset
from messages.vocabulary import Message

MEMORY = 60.0
"""Seconds for which earlier log end offsets are kept: more than twice any replica.lag.time.max.ms."""

SLACK = 4.0
"""Seconds that a rule allows beyond its time: for writes to ZooKeeper, slow messages and the drift of clocks."""

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
    limits: deque[tuple[float, int, int]] = attrs.field(factory=deque)
    """Changes of what consumers can read: (time, high watermark, last stable offset)."""
    transactions: LogTransactions | None = None
    folder: Path = Path()
    lost_before: int = 0
    """The checkpointed high watermark that was above the log's end when it was opened; 0 if none was."""
    starts: int = 0
    """The start of the process that opened the log (`Machine.starts`)."""
    durable_end: int = 0
    """The end of the records that the process found when it opened the log, or of the complete segments."""
    kept_start: int = 0
    """The log start offset at the last checkpoint."""

    def end_at(self, moment: float) -> int:
        """Return the log end offset at an earlier time, or the oldest kept one if none is kept for that time."""
        found = self.end
        for at, end in reversed(self.ends):
            found = end
            if at <= moment:
                break
        return found

    def readable_since(self, offset: int, committed: bool) -> float | None:
        """Return the time since which consumers can read an offset; None if they cannot read it.

        `committed` is whether the consumers use READ_COMMITTED.
        """
        since = None
        for at, high_watermark, stable in reversed(self.limits):
            if (stable if committed else high_watermark) <= offset:
                break
            since = at
        return since


@attrs.frozen
class HighWatermarkRaised:
    """A leader raised the high watermark, so more records of its log are committed."""

    node: int
    partition: TopicPartition
    before: int
    after: int


@attrs.frozen
class LogCalled:
    """A call of the I/O adapter "logs" that opened a log, changed it, or moved its high watermark.

    Attributes:
        method: The name of the called method.
        first_unstable: The first unstable offset in the call's result.
        view: The log after the call.
        end_before: The log end offset before the call.
        kept_start: The log start offset at the last checkpoint before the call.
    """

    node: int
    partition: TopicPartition
    method: str
    first_unstable: int
    view: LogView
    end_before: int
    kept_start: int


_APPENDS = ("append", "append_as_coordinator", "append_marker")
_FILLING = (*_APPENDS, "replicate")

_FIRST_UNSTABLE = dict.fromkeys(_APPENDS, 1) | {"open": 4, "replicate": 2, "truncate": 2, "restart": 2}
"""Call -> the position of the first unstable offset in its result."""

_CALLS = (*_FIRST_UNSTABLE, "note_high_watermark")


class Replicas:
    """The logs of all replicas in a simulated cluster, by node and directory name, and the faults of its nodes."""

    def __init__(self) -> None:
        self.logs: dict[str, dict[int, LogView]] = {}
        self.with_records: dict[str, TopicPartition] = {}
        """The partitions of which a log has, or had, records; by directory name."""
        self.truncated: set[TopicPartition] = set()
        """The partitions of which a follower has removed records that its leader did not have."""
        self.unhealthy_at: dict[int, float] = {}
        """The time at which each node was last unhealthy."""
        self._registered: dict[int, int] = {}

    def log(self, node: int, partition: TopicPartition) -> LogView | None:
        """Return the log of a replica; None if the node has none."""
        return self.logs_of(partition).get(node)

    def logs_of(self, partition: TopicPartition) -> Mapping[int, LogView]:
        """Return the logs of a partition's replicas, by node."""
        return self.logs.get(str(partition), {})

    def leads_without_records(
        self, node: int, request: Message, response: Message
    ) -> Iterator[tuple[TopicPartition, tuple[int, ...]]]:
        """Yield the partitions that a node accepts to lead without committed records, and their ISRs."""
        if not isinstance(request, LeaderAndIsrRequest) or not isinstance(response, LeaderAndIsrResponse):
            return
        codes = {each.partition: each.error_code for each in response.partition_errors}
        for state in request.partition_states:
            view = self.log(node, state.partition)
            accepted = state.leader == node and response.error_code == codes.get(state.partition) == errors.NONE
            if accepted and view is not None and view.end < view.lost_before:
                yield state.partition, state.isr

    def holders(self, partition: TopicPartition, offset: int) -> list[int]:
        """Return the nodes whose logs reach this offset."""
        return [node for node, view in self.logs_of(partition).items() if view.end >= offset]

    def committed(self, partition: TopicPartition) -> int:
        """Return the largest high watermark of the replicas."""
        return max((view.high_watermark for view in self.logs_of(partition).values()), default=0)

    def touched(self, cluster: Cluster, node: int, effect: AdapterCall, message: Any) -> Iterator[Any]:
        """Process a node's call to the I/O adapter "logs", and yield its events for the invariants.

        The events are HighWatermarkRaised and LogCalled; a call can yield none, one or both.
        """
        method, result, now = effect.method, effect.result, cluster.now
        if method == "checkpoint":
            self._checkpointed(cluster, node)
        if effect.error or not effect.args or not isinstance(effect.args[0], str):
            return
        name = effect.args[0].rpartition("/")[2]
        views = self.logs.setdefault(name, {})
        view = views.get(node)
        end_before, start_before, high_watermark_before = 0, 0, 0
        if view is not None:
            end_before, start_before, high_watermark_before = view.end, view.kept_start, view.high_watermark
        if method == "open":
            start, end, _, high_watermark, _ = result
            view = views[node] = LogView(start, end, min(max(high_watermark, start), end), durable_end=end)
            view.ends.append((now, end))
            view.folder = Path(cluster.machines[node].disks.path(effect.args[0]))
            view.starts = cluster.machines[node].starts
            view.lost_before = high_watermark if high_watermark > end else 0
        elif view is None:
            return
        elif method == "close":
            if effect.args[1]:
                del views[node]
        elif method in _APPENDS:
            self._grow(view, result[0], now)
            if effect.args[3]:
                view.high_watermark = view.end
        elif method == "replicate":
            self._grow(view, result[1], now)
        elif method in ("truncate", "restart"):
            view.start = result[0]
            view.kept_start = min(view.kept_start, view.start)
            view.epoch_start = 0
            view.ends.clear()
            self._grow(view, result[1], now)
            view.high_watermark = min(view.high_watermark, view.end)
            view.durable_end = min(view.durable_end, view.end)
            if method == "truncate" and view.end < end_before:
                self.truncated.add(partition_of_log(name))
        elif method == "advance_start":
            view.start = result
        elif method == "expire":
            view.start = result[0] or view.start
        elif method == "begin_epoch":
            view.epoch_start = view.end
        elif method == "note_high_watermark":
            view.high_watermark = effect.args[1]
            if not isinstance(message, FOLLOWING) and high_watermark_before < view.high_watermark:
                yield HighWatermarkRaised(node, partition_of_log(name), high_watermark_before, view.high_watermark)
        if view.end and name not in self.with_records:
            self.with_records[name] = partition_of_log(name)
        if method in _CALLS:
            self._read_transactions(view, effect)
            first = result if method == "note_high_watermark" else result[_FIRST_UNSTABLE[method]]
            stable = last_stable_offset(first, view.start, view.high_watermark)
            if not view.limits or view.limits[-1][1:] != (view.high_watermark, stable):
                view.limits.append((now, view.high_watermark, stable))
                while len(view.limits) > 1 and view.limits[1][0] < now - MEMORY:
                    view.limits.popleft()
            yield LogCalled(node, partition_of_log(name), method, first, view, end_before, start_before)

    def _read_transactions(self, view: LogView, effect: AdapterCall) -> None:
        """Update the transactions of a log after a call that changed its files or its high watermark."""
        if view.transactions is None or effect.method in ("open", "truncate", "restart"):
            view.transactions = LogTransactions(view.folder, view.end)
        elif effect.method in _FILLING:
            view.transactions.read_on(view.end)
        if effect.method == "note_high_watermark" or (effect.method in _APPENDS and effect.args[3]):
            view.transactions.replicated(view.high_watermark)

    def _checkpointed(self, cluster: Cluster, node: int) -> None:
        """Note what is durable on the disks of a node, unless one of these disks has a fault."""
        disks = cluster.machines[node].disks
        for name in () if disks.faults or disks.hurt else self.with_records:
            view = self.logs[name].get(node)
            if view is not None and view.end:
                view.kept_start = view.start
                active = max((int(file.stem) for file in view.folder.glob("*.log")), default=0)
                view.durable_end = max(view.durable_end, active)

    def _grow(self, view: LogView, end: int, now: float) -> None:
        view.end = end
        view.ends.append((now, end))
        while len(view.ends) > 1 and view.ends[1][0] < now - MEMORY:
            view.ends.popleft()

    # ------------------------------------------------------------------------------------------------ health

    def note_unhealthy(self, cluster: Cluster, registered: dict[int, int]) -> None:
        """Note which nodes are unhealthy now (rule 3)."""
        for node in cluster.machines:
            if not self._is_well(cluster, node) or registered.get(node) != self._registered.get(node):
                self.unhealthy_at[node] = cluster.now
        self._registered = dict(registered)

    def healthy_for(self, cluster: Cluster, node: int) -> float:
        """Return for how many seconds a node has been healthy; 0.0 if the node is unhealthy now.

        A fault counts even if it began after the last `note_unhealthy`.
        """
        if node not in cluster.machines or not self._is_well(cluster, node):
            return 0.0
        return cluster.now - self.unhealthy_at.get(node, 0.0)

    def _is_well(self, cluster: Cluster, node: int) -> bool:
        machine, wires, host = cluster.machines[node], cluster.wires, host_of(node)
        return (
            machine.state == UP
            and not (machine.pace or machine.loses or cluster.is_stalled(machine))
            and cluster.zookeeper.up
            and not (machine.disks.faults or machine.disks.delays or machine.disks.hurt)
            and wires.is_steady(host, ZOOKEEPER)
        )
