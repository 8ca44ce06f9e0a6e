"""ReplicaManagerActor passes events to a `ReplicaManager` and executes its effects; it also maintains the logs.

`actors.core.broker.hosting` holds the state of the hosted replicas and makes the decisions.

Rule 1: requests wait until the log directories are loaded. A large request is applied in slices (actors.md 3): between
        slices, other actors of the node run, but no other controller request is applied.
Rule 2: the periodic tasks for logs (checkpoints, retention) start with the first LeaderAndIsr request, which contains
        the hosted partitions (broker.md 1.2).
Rule 3: a deleted log is renamed at once, and removed after log.segment.delete.delay.ms (broker.md 2.2).
Rule 4: a directory in which a checkpoint cannot be written goes offline.

Compacted topics are cleaned by `actors.broker.log_cleaner`.

Kafka: `ReplicaManager`, the scheduled tasks of `LogManager` (`kafka-log-retention`, `kafka-recovery-point-checkpoint`,
`kafka-delete-logs`) and `ReplicaManager.startHighWatermarkCheckPointThread`.
"""

from __future__ import annotations

import logging
from collections import deque
from datetime import timedelta
from typing import Any

from thespian.actors import ActorAddress, ActorExitRequest, ChildActorExited, WakeupMessage

from actors.broker.partition import PartitionActor
from actors.core.broker import hosting
from actors.core.broker.partition_effects import CallAdapter, RenameDeletedLog, Send
from actors.runtime import FlowActor
from actors.storage.log_directories import LogDirectories, LogDirectoryRefused, rename_deleted
from messages.broker import ForwardedPart, RemoveDeletedLogs
from messages.cluster import TopicPartition
from messages.flow.conversation import Flow, Pause
from messages.network import Forwarded
from messages.node import BrokerEpoch, ReplicaManagerStarted, ShuttingDown, StartReplicaManager
from messages.partition import ISR_KEEPER, ApplyRetention, ExpireLog, MaintainLogs, RetentionApplied
from messages.vocabulary import AnyMessage, Message

_log = logging.getLogger("kafka.server.ReplicaManager")

REMOVALS_AT_ONCE = 100
"""Maximum number of directories removed in one turn: the deletion of a large topic must not delay the controller."""

LOGS_AT_ONCE = 1000
"""Maximum number of logs checked for retention before other actors get their turn."""

HIGH_WATERMARKS, RECOVERY_POINTS, RETENTION, FLUSH = "high watermarks", "recovery points", "retention", "flush"
"""The periodic tasks."""

TASKS = {HIGH_WATERMARKS: "checkpoint_high_watermarks", RECOVERY_POINTS: "checkpoint", FLUSH: "flush_old"}
"""Task -> the method of the adapter for logs that does it."""

NEVER = 2**63 - 1
"""Interval of a task that is not done: the default of `log.flush.scheduler.interval.ms`."""


class ReplicaManagerActor(FlowActor):
    """This actor manages the replicas on a broker, like Kafka's ReplicaManager; each broker has one."""

    def __init__(self) -> None:
        super().__init__()
        self.replicas: hosting.ReplicaManager
        self._loaded = False
        """Whether the log directories are loaded."""
        self._early: list[AnyMessage] = []
        """Messages that arrived before the log directories were loaded."""
        self._maintains = False
        self._async_deletions: deque[tuple[float, str]] = deque()
        """(time in seconds, path) of deleted logs, the earliest first."""

    # ------------------------------------------------------------------------------------------------ start, stop

    def receiveMsg_StartReplicaManager(self, message: StartReplicaManager, sender: ActorAddress) -> None:
        """Load the log directories, reply with the outcome, and process the messages that arrived meanwhile."""
        settings = message.settings
        self.peers = {
            "metadata_cache": message.metadata_cache,
            "bridge": message.bridge,
            ISR_KEEPER: message.isr_keeper,
        }
        directories = LogDirectories(settings.log_dirs, settings.node_id, message.cluster_id)
        self.replicas = hosting.ReplicaManager(message, self.myAddress, sender, directories)
        try:
            leftovers = directories.load(self.port("disk"))
        except LogDirectoryRefused as refused:
            self.send(sender, ReplicaManagerStarted(refused=str(refused)))
            return
        offline = tuple(directories.offline)
        if not directories.live:
            reason = f"none of the log directories can be used: {', '.join(offline)}"
            self.send(sender, ReplicaManagerStarted(offline, reason))
            return
        self._loaded = True
        _log.info(
            "[Broker id=%d] Found %d logs in %d log directories, and %d logs that are marked for deletion",
            *(settings.node_id, len(directories), len(directories.live), len(leftovers)),
        )
        for path in leftovers:
            self._remove_later(path)
        for effect in self.replicas.publish():
            self.perform(effect)
        self.send(sender, ReplicaManagerStarted(offline))
        early, self._early = self._early, []
        for event in early:
            self.send(self.myAddress, event)

    def receiveMsg_ForwardedPart(self, message: ForwardedPart, sender: ActorAddress) -> None:
        """Keep a part of a large request until the rest of the request arrives and is applied."""
        self.replicas.keep_part(message.connection, message.part)

    def receiveMsg_BrokerEpoch(self, message: BrokerEpoch, sender: ActorAddress) -> None:
        """Set the broker epoch of a new registration; requests with an earlier broker epoch are stale from now on."""
        self.replicas.epochs = self.replicas.epochs.with_broker_epoch(message.epoch)

    def receiveMsg_ShuttingDown(self, message: ShuttingDown, sender: ActorAddress) -> None:
        """Stop following partitions, because the node is shutting down."""
        self.replicas.shutting_down = True

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: ActorAddress) -> None:
        """Ignore the exit of a partition that this actor has stopped."""

    # ------------------------------------------------------------------------------------------------ events, effects

    def flow(self, message: Message) -> Flow[None] | None:
        """Maintain the logs, or pass an event to the replica manager."""
        if not self._loaded:
            self._early.append(message)
            return None
        match message:
            case WakeupMessage(payload=RemoveDeletedLogs()):
                self._remove_deleted_logs()
                return None
            case WakeupMessage(payload=MaintainLogs(what)):
                return self._maintain(what)
            case ApplyRetention(topic):
                return self._apply_retention(topic)
        return self.replicas.handle(message) or super().flow(message)

    def event_failed(self, event: Message, error: Exception) -> Flow[None] | None:
        """Respond with an error to a request whose flow failed."""
        return self.replicas.refuse_failed(event) if isinstance(event, Forwarded) else None

    def perform(self, instruction: Any) -> object:
        """Execute an effect, and return its result."""
        match instruction:
            case Send(to, message):
                self.send(to, message)
            case CallAdapter():
                return self.call_adapter(*instruction)
            case RenameDeletedLog(path):
                return rename_deleted(path, *map(self.port, ("logs", "disk", "random")))
            case hosting.CreatePartitions(count):
                return tuple([self.createActor(PartitionActor) for _ in range(count)])
            case hosting.DismissPartition(actor):
                self.send(actor, ActorExitRequest())
            case hosting.RemoveLater(path):
                self._remove_later(path)
            case hosting.StartLogMaintenance():
                self._start_maintenance()
        return None

    # ------------------------------------------------------------------------------------------------ maintenance

    def _start_maintenance(self) -> None:
        """Start the periodic tasks, once (rule 2)."""
        if not self._maintains:
            self._maintains = True
            delay = self.replicas.topics.settings.log_initial_task_delay_ms
            for task, interval in self._intervals().items():
                if interval == NEVER:
                    continue
                first = interval if task == HIGH_WATERMARKS else min(interval, delay)
                self.wakeupAfter(timedelta(milliseconds=first), MaintainLogs(task))

    def _intervals(self) -> dict[str, int]:
        settings = self.replicas.topics.settings
        return {
            HIGH_WATERMARKS: settings.replica_high_watermark_checkpoint_interval_ms,
            RECOVERY_POINTS: settings.log_flush_offset_checkpoint_interval_ms,
            RETENTION: settings.log_retention_check_interval_ms,
            FLUSH: settings.log_flush_scheduler_interval_ms,
        }

    def _maintain(self, task: str) -> Flow[None]:
        """Run one periodic task: write checkpoints, flush logs, or delete segments that are too old.

        Args:
            task: `HIGH_WATERMARKS`, `RECOVERY_POINTS`, `RETENTION` or `FLUSH`.
        """
        failures: tuple[tuple[str, str], ...] = ()
        if task == RETENTION:
            yield from self._expire_logs()
        else:
            failures = self.call_adapter("logs", TASKS[task], ())
        for directory, storage_error in failures:
            yield from self.replicas.fail(directory, storage_error)
        if failures:
            yield from self.replicas.notify()
            yield from self.replicas.publish()
        self.wakeupAfter(timedelta(milliseconds=self._intervals()[task]), MaintainLogs(task))

    def _expire_logs(self) -> Flow[None]:
        """Delete old segments in each partition that has some. Logs opened meanwhile wait for the next run."""
        position = 0
        while position >= 0:
            position, due = self.call_adapter("logs", "expirable", (position, LOGS_AT_ONCE))
            for partition in due:
                actor = self.replicas.actors.get(TopicPartition(*partition))
                if actor is not None:
                    self.send(actor, ExpireLog())
            yield Pause()

    def _apply_retention(self, topic: str) -> Flow[None]:
        """Delete old segments of one topic, and reply when its partitions have done so."""
        asker = self.sender
        actors = [actor for tp, actor in self.replicas.actors.items() if tp.topic == topic and actor is not None]
        for actor in actors:
            self.send(actor, ExpireLog())
        yield Pause()
        self.send(asker, RetentionApplied(len(actors)))

    def _remove_later(self, path: str) -> None:
        """Remove a renamed log after the delay (rule 3); do nothing if `path` is ""."""
        if path:
            delay = self.replicas.topics.settings.log_segment_delete_delay_ms / 1000
            self._async_deletions.append((self.now + delay, path))
            if len(self._async_deletions) == 1:
                self.wake_at(self._async_deletions[0][0], RemoveDeletedLogs())

    def _remove_deleted_logs(self) -> None:
        """Remove the logs whose delay has passed."""
        for _ in range(REMOVALS_AT_ONCE):
            if not self._async_deletions or self._async_deletions[0][0] > self.now:
                break
            path = self._async_deletions.popleft()[1]
            try:
                self.call_adapter("disk", "remove_tree", (path,))
            except OSError as error:
                _log.error(
                    "[Broker id=%d] Failed to delete %s: %s. It will be deleted when the broker starts again.",
                    *(self.replicas.broker_id, path, error),
                )
        if self._async_deletions:
            self.wake_at(self._async_deletions[0][0], RemoveDeletedLogs())
