"""LogMaintenance does the periodic work for logs: checkpoints, retention, and the removal of deleted logs.

Rule 1: the tasks start with the first LeaderAndIsr request, which contains the hosted partitions (broker.md 1.2).
Rule 2: a deleted log is renamed at once, and removed after log.segment.delete.delay.ms (broker.md 2.2).
Rule 3: a directory in which a checkpoint cannot be written goes offline.

A cleaner of compacted topics would be one more task in `_intervals` and `run`.

Kafka: the scheduled tasks of `LogManager` (`kafka-log-retention`, `kafka-recovery-point-checkpoint`,
`kafka-delete-logs`) and `ReplicaManager.startHighWatermarkCheckPointThread`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from actors.broker.hosted_partitions import HostedPartitions
from actors.broker.hosted_topics import HostedTopics
from actors.broker.log_dirs import LogDirs
from messages.broker import RemoveDeletedLogs
from messages.cluster import TopicPartition
from messages.flow.conversation import Flow, Pause
from messages.partition import ExpireLog, MaintainLogs

_log = logging.getLogger("kafka.server.ReplicaManager")

REMOVALS_AT_ONCE = 100
"""Maximum number of directories removed in one turn: the deletion of a large topic must not delay the controller."""

LOGS_AT_ONCE = 1000
"""Maximum number of logs checked for retention before other actors get their turn."""

HIGH_WATERMARKS, RECOVERY_POINTS, RETENTION = "high watermarks", "recovery points", "retention"
"""The periodic tasks."""


class LogMaintenance:
    """The periodic tasks of a broker's logs, and the logs of deleted partitions whose files are still to be removed."""

    def __init__(
        self,
        log_dirs: LogDirs,
        hosted: HostedPartitions,
        topics: HostedTopics,
        wakeup_after: Callable[[timedelta, Any], None],
        wake_at: Callable[[float, Any], None],
        clock: Callable[[], float],
    ) -> None:
        self._log_dirs = log_dirs
        self._hosted = hosted
        self._topics = topics
        self._wakeup_after = wakeup_after
        self._wake_at = wake_at
        self._clock = clock
        self._started = False
        self._async_deletions: deque[tuple[float, str]] = deque()
        """(time in seconds, path) of deleted logs, the earliest first."""

    def start(self) -> None:
        """Start the periodic tasks, once (rule 1)."""
        if not self._started:
            self._started = True
            delay = self._topics.settings.log_initial_task_delay_ms
            for task, interval in self._intervals().items():
                first = interval if task == HIGH_WATERMARKS else min(interval, delay)
                self._wakeup_after(timedelta(milliseconds=first), MaintainLogs(task))

    def _intervals(self) -> dict[str, int]:
        settings = self._topics.settings
        return {
            HIGH_WATERMARKS: settings.replica_high_watermark_checkpoint_interval_ms,
            RECOVERY_POINTS: settings.log_flush_offset_checkpoint_interval_ms,
            RETENTION: settings.log_retention_check_interval_ms,
        }

    def run(self, task: str) -> Flow[None]:
        """Run one periodic task: write checkpoints, or delete segments that are too old.

        Args:
            task: `HIGH_WATERMARKS`, `RECOVERY_POINTS` or `RETENTION`.
        """
        failures: tuple[tuple[str, str], ...] = ()
        if task == HIGH_WATERMARKS:
            failures = self._log_dirs.logs.checkpoint_high_watermarks()
        elif task == RECOVERY_POINTS:
            failures = self._log_dirs.logs.checkpoint()
        else:
            yield from self._expire_logs()
        for directory, storage_error in failures:
            yield from self._log_dirs.fail(directory, storage_error)
        if failures:
            self._log_dirs.notify()
        self._wakeup_after(timedelta(milliseconds=self._intervals()[task]), MaintainLogs(task))

    def _expire_logs(self) -> Flow[None]:
        """Delete old segments in each partition that has some. Logs opened meanwhile wait for the next run."""
        position = 0
        while position >= 0:
            position, due = self._log_dirs.logs.expirable(position, LOGS_AT_ONCE)
            for partition in due:
                actor = self._hosted.actors.get(TopicPartition(*partition))
                if actor is not None:
                    self._hosted.send(actor, ExpireLog())
            yield Pause()

    def checkpoint_deletions(self) -> Flow[None]:
        """Remove deleted logs from the checkpoints, before the broker responds to StopReplica (broker.md 2.2)."""
        for directory, storage_error in self._log_dirs.logs.checkpoint_deletions():
            yield from self._log_dirs.fail(directory, storage_error)

    def schedule_async_delete(self, path: str) -> None:
        """Remove a renamed log after the delay (rule 2); do nothing if `path` is ""."""
        if path:
            delay = self._topics.settings.log_segment_delete_delay_ms / 1000
            self._async_deletions.append((self._clock() + delay, path))
            if len(self._async_deletions) == 1:
                self._wake_for_deletion()

    def remove_deleted_logs(self) -> None:
        """Remove the logs whose delay has passed."""
        for _ in range(REMOVALS_AT_ONCE):
            if not self._async_deletions or self._async_deletions[0][0] > self._clock():
                break
            path = self._async_deletions.popleft()[1]
            try:
                self._log_dirs.disk.remove_tree(path)
            except OSError as error:
                _log.error(
                    "[Broker id=%d] Failed to delete %s: %s. It will be deleted when the broker starts again.",
                    *(self._hosted.broker_id, path, error),
                )
        if self._async_deletions:
            self._wake_for_deletion()

    def _wake_for_deletion(self) -> None:
        self._wake_at(self._async_deletions[0][0], RemoveDeletedLogs())
