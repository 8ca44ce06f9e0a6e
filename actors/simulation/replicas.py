"""The logs of all replicas, as the calls of the I/O adapter "logs" and their results show them.

Rule 1: a log outlives the process that wrote it. The log's `LogView` is removed when the log is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from actors.simulation import observed_facts
from messages import errors, log_results
from messages.apis.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from messages.cluster import TopicPartition, partition_of_log
from messages.partition import Replicate, TruncateFullyAndStartAt, TruncateToEpochEnd, last_stable_offset
from messages.vocabulary import Message

MEMORY = 60.0
"""Seconds for which earlier log end offsets are kept: more than twice any replica.lag.time.max.ms."""

REPLICATE = Replicate.__name__
FOLLOWING = frozenset((REPLICATE, TruncateToEpochEnd.__name__, TruncateFullyAndStartAt.__name__))
"""Messages with which a follower changes its log."""

_APPENDS = ("append", "append_as_coordinator", "append_marker")
_FILLING = frozenset((*_APPENDS, "replicate"))
"""Calls that write records to a log."""

_AFRESH = ("open", "close", "truncate", "restart", "begin_epoch")
"""Calls that end a log's noted high watermark: a new leader begins with that of its former follower."""


class Replicas:
    """The logs of all replicas in a cluster, by directory name and node."""

    def __init__(self) -> None:
        self.logs: dict[str, dict[int, observed_facts.LogView]] = {}
        self.with_records: dict[str, TopicPartition] = {}
        """The partitions of which a log has, or had, records; by directory name."""
        self.filled: set[str] = set()
        """The logs that were ever written to, by directory name."""
        self.truncated: set[TopicPartition] = set()
        """The partitions of which a follower has removed records that its leader did not have."""
        self.diverged: set[TopicPartition] = set()
        """The partitions of which a follower truncated its log, even if it removed no record."""
        self.opened: dict[tuple[int, str], int] = {}
        """Node and log directory -> the process start (`Machine.starts`) that last opened a log there."""
        self.lost_directories: dict[tuple[int, str], int] = {}
        """Node and log directory -> the process start that last took it offline."""

    def log(self, node: int, partition: TopicPartition) -> observed_facts.LogView | None:
        """Return the log of a replica; None if the node has none."""
        return self.logs_of(partition).get(node)

    def logs_of(self, partition: TopicPartition) -> Mapping[int, observed_facts.LogView]:
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

    def largest_high_watermark(self, partition: TopicPartition) -> int:
        """Return the largest high watermark of the replicas."""
        return max((view.high_watermark for view in self.logs_of(partition).values()), default=0)

    def handle_call(self, process: observed_facts.Process, effect: Any, message: str, now: float) -> Iterator[object]:
        """Process a call to the I/O adapter "logs" by the handler of a `message`, and yield its facts."""
        (node, starts), method, result = process, effect.method, effect.result
        if method == "checkpoint":
            yield observed_facts.PointsWritten(node)
        elif method == "close_all":
            yield observed_facts.DirectoriesClosed(node)
        if not effect.args or not isinstance(effect.args[0], str):
            return
        path: str = effect.args[0]
        directory, _, name = path.rpartition("/")
        if method == "lose":
            self.lost_directories[node, path] = starts
        if method in _FILLING:
            self.filled.add(name)
        if effect.error:
            return
        is_opened = method in _FILLING or (method == "open" and not effect.args[1])
        if is_opened and self.opened.get((node, directory)) != starts:
            self.opened[node, directory] = starts
            yield observed_facts.DirectoryOpened(node, directory)
        changed = log_results.named(method, result)
        views = self.logs.setdefault(name, {})
        view = before = views.get(node)
        if method == "open":
            start, end, high_watermark = changed.start, changed.end, changed.high_watermark
            view = views[node] = observed_facts.LogView(
                start, end, min(max(high_watermark, start), end), folder=path, starts=starts
            )
            view.ends.append((now, end))
            view.lost_before = high_watermark if high_watermark > end else 0
        if view is None:
            return
        end_before = 0 if before is None else before.end
        if method in _AFRESH or message == REPLICATE:
            view.noted = None
        if method == "close":
            if effect.args[1] and view.folder == path:  # not the folder that a copy has replaced
                del views[node]
        elif method in _FILLING:
            view.changes += 1
            self._grow(view, changed.end, now)
            if method != "replicate" and effect.args[3]:
                view.high_watermark = view.end
        elif method in ("truncate", "restart"):
            view.start = changed.start
            view.epoch_start = 0
            view.ends.clear()
            view.changes += 1
            self._grow(view, changed.end, now)
            view.high_watermark = min(view.high_watermark, view.end)
            if method == "truncate":
                self.diverged.add(partition_of_log(name))
                if view.end < end_before:
                    self.truncated.add(partition_of_log(name))
        elif method == "advance_start":
            view.start = result
        elif method == "expire":
            start, view.start = view.start, changed.start or view.start
            if start < view.start:
                yield observed_facts.LogExpired(node, partition_of_log(name), start, view.start)
        elif method == "swap":
            view.folder = result
            view.changes += 1
            self.opened[node, view.directory] = starts
            yield observed_facts.DirectoryOpened(node, view.directory)
            yield observed_facts.ReplicaSwapped(node, partition_of_log(name), view)
        elif method == "begin_epoch":
            view.epoch_start = view.end
        elif method == "note_high_watermark":
            yield from self._handle_high_watermark(node, path, view, effect.args[1], message)
        if view.end and name not in self.with_records:
            self.with_records[name] = partition_of_log(name)
        first = result if method == "note_high_watermark" else getattr(changed, "first_unstable", None)
        if first is not None:
            stable = last_stable_offset(first, view.start, view.high_watermark)
            if not view.limits or view.limits[-1][1:] != (view.high_watermark, stable):
                view.limits.append((now, view.high_watermark, stable))
                while len(view.limits) > 1 and view.limits[1][0] < now - MEMORY:
                    view.limits.popleft()
            opened_before = before if method == "open" else None
            yield observed_facts.LogCalled(node, partition_of_log(name), method, first, view, opened_before, end_before)

    def _handle_high_watermark(
        self, node: int, path: str, view: observed_facts.LogView, after: int, message: str
    ) -> Iterator[object]:
        """Process a new high watermark."""
        before, view.high_watermark = view.high_watermark, after
        if message not in FOLLOWING and before < after:
            yield observed_facts.HighWatermarkRaised(node, partition_of_log(path), before, after)
        if message != REPLICATE:
            noted, view.noted = view.noted, after
            if noted is not None and noted != after:
                yield observed_facts.HighWatermarkMoved(node, path, noted, after)

    def _grow(self, view: observed_facts.LogView, end: int, now: float) -> None:
        view.end = end
        view.ends.append((now, end))
        while len(view.ends) > 1 and view.ends[1][0] < now - MEMORY:
            view.ends.popleft()
