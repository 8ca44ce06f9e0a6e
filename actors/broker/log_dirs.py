"""LogDirs handles the log directories of a broker: placement, failure, deletion and description of logs.

Rule 1: a disk error takes its whole log directory offline, and with it every partition whose log is there. If no other
        directory is online, the node stops (broker.md 2.3). A notification in ZooKeeper informs the controller.
        Requests do not wait for this notification to be written. If the notification is lost with the ZooKeeper
        session, the broker's next registration informs the controller.
Rule 2: a log that cannot be created in one directory is created in another.

Moving a log to another directory (AlterReplicaLogDirs) is not supported; it would be implemented here. `LogDirectories`
already lists the logs whose move Kafka's own broker did not complete.

Kafka: `LogManager`, `ReplicaManager.handleLogDirFailure`.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from typing import Any

from thespian.actors import ActorAddress

from actors.broker.hosted_partitions import HostedPartitions
from actors.core.broker.log_dirs import FoundLog, described, wanted_logs
from actors.core.broker.validation import log_disagreements
from actors.storage.log_directories import LogDirectories, rename_deleted
from messages.apis.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from messages.ask import Ask
from messages.broker import LogPlace, log_place
from messages.cluster import TopicPartition
from messages.flow.conversation import Flow, cut, for_each
from messages.node import ReplicaManagerFailed
from messages.zookeeper import NotifyLogDirFailure

_log = logging.getLogger("kafka.server.ReplicaManager")

PARTITIONS_AT_ONCE = 50
"""Maximum number of partitions taken offline before other actors get their turn."""

UNAWAITED = 0
"""The id of a question whose answer is dropped; the ids of other questions begin at 1."""


def directory_of(path: str) -> str:
    """Return the log directory of a log's path."""
    return path.rpartition("/")[0]


class LogDirs:
    """The log directories of a broker, and for each one the partitions whose logs it holds."""

    def __init__(
        self,
        directories: LogDirectories,
        hosted: HostedPartitions,
        node: ActorAddress,
        logs: Any,
        disk: Any,
        random: Any,
    ) -> None:
        self.directories = directories
        self._hosted = hosted
        self._node = node
        self.logs = logs
        """The I/O adapter of the logs."""
        self.disk = disk
        self._random = random

    def place(self, partition: TopicPartition, is_new: bool) -> LogPlace | None:
        """Return the place of the partition's log, or a place for a new log.

        Args:
            partition: The partition.
            is_new: Whether the log may be created.

        Returns:
            None if no directory can hold the log.
        """
        path = self.directories.find(partition)
        if path is not None:
            return log_place((path, False))
        path = self.directories.place(partition, is_new)
        return None if path is None else log_place((path, True))

    def describe(self, request: DescribeLogDirsRequest) -> Flow[DescribeLogDirsResponse]:
        """Find the logs that a client requests, and their sizes."""
        wanted = wanted_logs(request)
        found = [each for each in self.directories.paths() if wanted is None or each[1] in wanted]

        def measure(part: Sequence[tuple[str, tuple[str, int], bool]]) -> list[FoundLog]:
            sizes = self.logs.sizes(tuple(path for path, _, _ in part))
            return [
                FoundLog(directory_of(path), TopicPartition(*partition), size, self._is_open(partition), is_future)
                for (path, partition, is_future), size in zip(part, sizes, strict=True)
            ]

        measured = yield from cut(found, measure)
        log_dirs, offline = self._hosted.start.settings.log_dirs, self.directories.offline
        return described(log_dirs, offline, itertools.chain.from_iterable(measured))

    def _is_open(self, partition: tuple[str, int]) -> bool:
        return self._hosted.actors.get(TopicPartition(*partition)) is not None

    def delete(self, partition: TopicPartition) -> tuple[str, str]:
        """If a partition without an actor has a log, rename this log for later removal.

        Returns:
            (New path or "" if there is no log, error text or "").
        """
        path = self.directories.find(partition)
        if path is None:
            return "", ""
        try:
            deleted = rename_deleted(path, self.logs, self.disk, self._random)
        except OSError as error:
            return "", error.strerror or str(error)
        self.directories.forget(partition)
        return deleted, ""

    # ------------------------------------------------------------------------------------------------ failure

    def fail(self, directory: str, storage_error: str) -> Flow[None]:
        """Take a failed log directory offline with all its partitions; notify the controller or the node (rule 1)."""
        lost = self.directories.fail(directory)
        self.logs.lose(directory)
        broker_id = self._hosted.broker_id
        _log.error(
            "[Broker id=%d] Stopping serving replicas in dir %s: %d partitions are offline (%s)",
            *(broker_id, directory, len(lost), storage_error),
        )
        yield from for_each(lost, self._hosted.take_all_offline, PARTITIONS_AT_ONCE)
        if self.directories.live:
            self.report()
        else:
            reason = f"all log directories have failed: {', '.join(self.directories.offline)}"
            self._hosted.send(self._node, ReplicaManagerFailed(reason))

    def report(self) -> None:
        """Notify the controller, which then sends all partition states again to learn which replicas are online."""
        self._hosted.send(self._hosted.start.bridge, Ask(UNAWAITED, NotifyLogDirFailure(self._hosted.broker_id)))

    def log_failed(self, path: str | None, storage_error: str) -> Flow[None]:
        """Handle a disk error that a partition or the listener reported for the log at `path`.

        Do nothing if `path` is None or its log directory is already offline.
        """
        if path is not None and directory_of(path) in self.directories.live:
            yield from self.fail(directory_of(path), storage_error)
            self.notify()

    def notify(self) -> None:
        """Send the changes of hosted partitions to the other actors."""
        self._hosted.notify()
        self.publish()

    def publish(self) -> None:
        """Send changed metrics."""
        self._hosted.publish(len(self.directories.offline))

    def disagreements(self) -> list[str]:
        """Return the contradictions in this object's state; empty if consistent."""
        return log_disagreements(self._hosted.offline(), self.directories.homes, self.directories.live)
