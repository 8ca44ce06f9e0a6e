"""StopReplicaRequests passes a controller's StopReplica requests to the partitions, which apply them (broker.md 2.1).

Rule 1: a deleted log is renamed, and removed from the checkpoints, before the response.
Rule 2: the response to a request with deletions waits until no ISR write of the deleted partitions is in flight or
        queued (broker.md 3.3).

Kafka: `ReplicaManager.stopReplicas`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from thespian.actors import ActorAddress

from actors.broker.hosted_partitions import HostedPartitions
from actors.broker.hosted_topics import HostedTopics
from actors.broker.log_dirs import PARTITIONS_AT_ONCE, LogDirs, directory_of
from actors.broker.log_maintenance import LogMaintenance
from actors.core.broker.state_changes import Origin, ignored
from messages.apis.declaration import PartitionError
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest
from messages.ask import AskFailed, Failure
from messages.broker import StopPartition
from messages.cluster import TopicPartition
from messages.errors import FENCED_LEADER_EPOCH, KAFKA_STORAGE_ERROR, NONE, UNKNOWN_SERVER_ERROR
from messages.flow import conversation
from messages.partition import DropIsrChanges
from messages.parts import Part, all_entries

_log = logging.getLogger("kafka.server.ReplicaManager")


class StopReplicaRequests:
    """Handles StopReplica requests, one at a time."""

    def __init__(
        self, hosted: HostedPartitions, topics: HostedTopics, log_dirs: LogDirs, maintenance: LogMaintenance
    ) -> None:
        self._hosted = hosted
        self._topics = topics
        self._log_dirs = log_dirs
        self._maintenance = maintenance
        self._broken: dict[TopicPartition, str] = {}
        """The partitions of the request whose disk failed, with its error."""
        self._writing: list[TopicPartition] = []
        """The deleted partitions of the request that have ISR writes without an outcome."""
        self._origin: Origin

    def serve(
        self,
        request: StopReplicaRequest,
        parts: Sequence[Part],
        origin: Origin,
        errors: list[PartitionError],
    ) -> conversation.Flow[None]:
        """Stop hosted partitions, and delete logs, including those of partitions that are not hosted (broker.md 2.1).

        Args:
            request: The controller's request; the last part if the request was split.
            parts: The earlier parts of a split request.
            origin: The request's sender, for logs.
            errors: Receives the error code of each partition.
        """
        orders: dict[TopicPartition, StopReplicaPartitionState] = {}
        yield from conversation.for_each(
            all_entries(parts, request), lambda states: orders.update((state.partition, state) for state in states)
        )
        deletions = sum(order.delete_partition for order in orders.values())
        _log.info(
            "[Broker id=%d] Handling StopReplica request from controller %d epoch %d for %d partitions, %d "
            "of which are to be deleted",
            *(self._hosted.broker_id, request.controller_id, request.controller_epoch, len(orders), deletions),
        )
        self._broken, self._writing, self._origin = {}, [], origin
        for window in conversation.chunks(orders.values(), PARTITIONS_AT_ONCE):
            yield from self._stop(window, errors)
        for partition, storage_error in self._broken.items():
            path = self._log_dirs.directories.find(partition)
            if storage_error and path is not None:
                yield from self._log_dirs.fail(directory_of(path), storage_error)
            self._hosted.take_offline(partition)
        if deletions:
            yield from self._maintenance.checkpoint_deletions()
        if self._writing:
            yield from self._end_isr_writes(tuple(self._writing))

    def _end_isr_writes(self, partitions: tuple[TopicPartition, ...]) -> conversation.Flow[None]:
        """Wait until no ISR write of these deleted partitions can reach ZooKeeper any more (rule 2).

        Otherwise such a write could succeed on the znode of a recreated topic, because that znode has the version that
        the write expects. Kafka waits for the lock that a partition holds during its write, however long the write
        takes.
        """
        while True:
            try:
                yield from conversation.ask(DropIsrChanges(partitions))
            except AskFailed as error:
                _log.warning(
                    "[Broker id=%d] StopReplica: failed to cancel pending ISR writes of %d partitions, retrying: %s",
                    *(self._hosted.broker_id, len(partitions), error),
                )
            else:
                return

    def _stop(
        self, orders: Sequence[StopReplicaPartitionState], errors: list[PartitionError]
    ) -> conversation.Flow[None]:
        asked: list[StopReplicaPartitionState] = []
        pairs: list[tuple[ActorAddress, StopPartition]] = []
        for order in orders:
            partition = order.partition
            actor = self._hosted.actors.get(partition)
            if actor is not None:
                asked.append(order)
                pairs.append((actor, StopPartition(order.leader_epoch, order.delete_partition)))
            elif partition in self._hosted.actors:
                errors.append(PartitionError(partition, KAFKA_STORAGE_ERROR))
            else:
                storage_error = self._delete_stray(partition) if order.delete_partition else ""
                if storage_error:
                    self._broken[partition] = storage_error
                errors.append(PartitionError(partition, KAFKA_STORAGE_ERROR if storage_error else NONE))
        if not pairs:
            yield conversation.Pause()
        results = yield from conversation.ask_all(pairs)
        stopped: list[TopicPartition] = []
        for order, result in zip(asked, results, strict=True):
            partition = order.partition
            if isinstance(result, Failure):
                errors.append(PartitionError(partition, UNKNOWN_SERVER_ERROR))
                continue
            error_code, storage_error = result.error_code, result.storage_error
            if error_code == NONE:
                stopped.append(partition)
            if error_code == FENCED_LEADER_EPOCH:
                how = f"(delete={str(order.delete_partition).lower()}) "
                text = ignored(self._origin, partition, error_code, order.leader_epoch, result.leader_epoch, how=how)
                self._hosted.log_change(logging.WARNING, text)
            if error_code == NONE and order.delete_partition:
                self._hosted.remove(partition)
                self._topics.drop(partition.topic)  # a recreated topic may have other settings
                if result.writes_isr:
                    self._writing.append(partition)
                if result.deleted:
                    self._log_dirs.directories.forget(partition)
                    self._maintenance.schedule_async_delete(result.deleted)
                elif storage_error := self._delete_stray(partition):
                    error_code = KAFKA_STORAGE_ERROR
            if error_code == KAFKA_STORAGE_ERROR:
                self._broken[partition] = storage_error
            errors.append(PartitionError(partition, error_code))
        self._hosted.unfollow(stopped)

    def _delete_stray(self, partition: TopicPartition) -> str:
        """Delete the log of a partition without an actor, if it exists; return the error text, or ""."""
        deleted, storage_error = self._log_dirs.delete(partition)
        self._maintenance.schedule_async_delete(deleted)
        return storage_error
