"""ReplicaManager decides about the replicas on a broker: which partitions it hosts, leads, follows and deletes.

Rule 1: `handle` takes an event and returns a flow. The flow yields questions, pauses and effects, which
        `actors.broker.replica_manager` executes. Requests of the controller are applied one after the other
        (broker.md 1, 2), and each gets its response when all its partitions have replied.
Rule 2: a hosted partition is either online and has an actor, or offline because its log directory failed. An offline
        partition responds to each request with error code 56.
Rule 3: a partition checks an order (its part of a LeaderAndIsr request) before its fetcher is stopped or replaced, so
        that a refused order does not affect the fetcher. The partition itself refuses records that the old fetcher
        still sends, because the records' leader epoch or the partition's role no longer fits.
Rule 4: a log that cannot be created in one directory is created in another. An order that needs an existing log fails
        with error code 56 if that log is unavailable.
Rule 5: a partition that refuses to lead with error code 56, because its log lacks committed records, stays hosted. The
        controller treats it as offline. As soon as another broker leads, or the partition accepts a later order, this
        broker reports a changed log directory, so that the controller sends its state again and sets it online.
Rule 6: a deleted log is renamed, and removed from the checkpoints, before the response to StopReplica. This response
        waits until no ISR write of the deleted partitions is in flight or queued (broker.md 3.3).
Rule 7: a disk error takes its whole log directory offline, and with it every partition whose log is there. If no other
        directory is online, the node stops (broker.md 2.3). A notification in ZooKeeper informs the controller.
        Requests do not wait for this notification to be written. If the notification is lost with the ZooKeeper
        session, the broker's next registration informs the controller.
Rule 8: the coordinators are notified before the broker responds to the controller: of the partitions of internal topics
        that the broker now leads or no longer leads (broker.md 1.6), and of partitions that were deleted in the cluster
        (broker.md 3.9).

Rule 9: AlterReplicaLogDirs begins to copy a log to another directory. The partition copies it in turns, and then
        replaces its log by the copy. A move that a stop has interrupted begins again when the partition gets its role.

Kafka: `ReplicaManager` (`alterReplicaLogDirs`), `LogManager.handleLogDirFailure`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from actors.core.broker.hosted_topics import HostedTopics
from actors.core.broker.log_dirs import describe, directory_of
from actors.core.broker.partition_effects import Address, CallAdapter, RenameDeletedLog, Send
from actors.core.broker.replica_manager import (
    Epochs,
    PartitionCounts,
    PartitionsByRole,
    answer,
    errors_for,
    name_verdict,
)
from actors.core.broker.state_changes import Origin, ignored_line, stopped_fetchers
from actors.core.broker.state_changes import refused_line as refused_whole
from actors.core.broker.topic_stats import metrics_to_drop
from actors.core.broker.validation import check, log_disagreements, replica_disagreements
from actors.core.topic.topic_name import INTERNAL_TOPICS
from actors.storage.log_directories import LogDirectories
from messages import broker, errors, partition
from messages.apis.alter_replica_log_dirs import API as ALTER_LOG_DIRS
from messages.apis.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from messages.apis.declaration import PartitionError
from messages.apis.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest
from messages.apis.update_metadata import UpdateMetadataPartitionState, UpdateMetadataRequest
from messages.ask import Ask, AskFailed, Failure
from messages.cluster import MAX_LOG_NAME, NO_EPOCH, NO_LEADER, TopicPartition
from messages.flow import conversation
from messages.flow.conversation import Flow, ask, chunks, for_each
from messages.metrics import Gauge, Gauges, ReplicasCounts
from messages.network import ClientPart, Forwarded
from messages.node import NodeSettings, ReplicaManagerFailed, StartReplicaManager
from messages.parts import PartitionErrorsPart, all_entries, free_parts
from messages.transactions import FindLeaders
from messages.vocabulary import AnyMessage, Message, maker, value_class
from messages.zookeeper import GetControllerEpoch, NotifyLogDirFailure

_log = logging.getLogger("kafka.server.ReplicaManager")
_state_log = logging.getLogger("state.change.logger")

PARTITIONS_AT_ONCE = 50
"""Maximum number of partitions that take a role or stop before other actors get their turn."""

UNAWAITED = 0
"""The id of a question whose answer is dropped; the ids of other questions begin at 1."""

_partition_error = maker(PartitionError)

Taken = tuple[Address, LeaderAndIsrPartitionState, broker.RoleTaken]
"""The partition's actor, the order, and the partition's reply."""

Placed = tuple[Address, LeaderAndIsrPartitionState, broker.LogPlace | None, broker.PartitionContext | None]
"""The partition's actor, the order, the place of the log, and the context that a new partition needs."""

RoleOrder = broker.BecomeLeader | broker.BecomeFollower


@value_class
class CreatePartitions(conversation.Instruction):
    """An effect: create the actors of this number of partitions. The result is their addresses."""

    count: int


@value_class
class DismissPartition(conversation.Instruction):
    """An effect: stop the actor of a partition."""

    actor: Address


@value_class
class RemoveLater(conversation.Instruction):
    """An effect: remove a renamed log after log.segment.delete.delay.ms; nothing if `path` is ""."""

    path: str


@value_class
class StartLogMaintenance(conversation.Instruction):
    """An effect: start the periodic tasks of the logs, unless they are started."""


class ReplicaManager:
    """The replicas of a broker: partitions with their actors, topic settings, log directories and epochs.

    Args:
        start: The settings of the broker, and the addresses of its actors.
        me: The address of the replica manager's actor.
        node: The address that is informed when all log directories have failed.
        directories: The log directories.
    """

    def __init__(self, start: StartReplicaManager, me: Address, node: Address, directories: LogDirectories) -> None:
        self.broker_id = start.settings.node_id
        self.directories = directories
        self.actors: dict[TopicPartition, Address | None] = {}
        """Online partitions with their actors, offline ones with None."""
        self.topics = HostedTopics(start, me, self.actors)
        self.epochs = Epochs()
        self.shutting_down = False
        """Whether the node is shutting down: a leader would add this broker to the ISR if it fetched."""
        self._start = start
        self._node = node
        self._alive = broker.AliveBrokers(())
        self._counts = PartitionCounts()
        self._offline = 0
        self._published: tuple[Gauge, ...] = ()
        self._replicas: list[tuple[TopicPartition, int | None]] = []
        """Changed numbers of replicas: of led partitions, 0 of others, None to drop the metric."""
        self._news: list[partition.Hosting] = []
        self._led: dict[TopicPartition, broker.LedPartition] = {}
        self._no_longer_led: dict[TopicPartition, None] = {}
        self._unled: dict[TopicPartition, None] = {}
        """Partitions that have refused to lead (rule 5)."""
        self._ahead: dict[int, list[AnyMessage]] = {}
        """By connection: parts of its next request."""
        self._parts: list[AnyMessage] = []
        """Parts of the request that is being applied."""
        self._origin: Origin
        """The sender of the request that is being applied, for logs."""
        self._errors: list[PartitionError] = []
        """The error codes of the request that is being applied."""
        self._ids: dict[str, str] = {}
        """Topic -> its id, in the request that is being applied."""
        self._roles = PartitionsByRole(self.broker_id)
        """Reused by each request: the garbage collector would scan new tables as young objects."""
        self._broken: dict[TopicPartition, str] = {}
        """The partitions of a StopReplica request whose disk failed, with its error."""
        self._writing: list[TopicPartition] = []
        """The deleted partitions of a StopReplica request that have ISR writes without an outcome."""

    def handle(self, event: Message) -> Flow[None] | None:
        """Return the flow that handles an event; None if the event is not one of the replica manager's."""
        match event:
            case Forwarded(request=request):
                if isinstance(request.request, DescribeLogDirsRequest):
                    return self._describe_log_dirs(event, request.request)
                if isinstance(request.request, AlterReplicaLogDirsRequest):
                    return self._alter_log_dirs(event, request.request)
                return self._serve(event)
            case broker.TopicsConfigured(topics):
                return self.topics.apply_overrides(topics)
            case broker.BrokerConfigured(settings):
                return self._broker_configured(settings)
            case broker.PartitionHealth(tp, health_flags):
                return self._health_changed(tp, health_flags)
            case broker.LogFailed(tp, storage_error):
                return self._log_failed(self.directories.find(tp), storage_error)
            case broker.ReplicaMoved(tp, path, deleted):
                return self._replica_moved(tp, path, deleted)
            case broker.LogFileFailed(path, storage_error):
                return self._log_failed(directory_of(path), storage_error)
        return None

    def refuse_failed(self, forwarded: Forwarded) -> Flow[None]:
        """Respond with an error to a request whose flow failed: without a response the controller retries for ever."""
        request = forwarded.request.request
        if isinstance(request, DescribeLogDirsRequest):
            yield Send(*forwarded.reply(DescribeLogDirsResponse(())))
        elif isinstance(request, AlterReplicaLogDirsRequest):
            yield Send(*forwarded.reply(ALTER_LOG_DIRS.refusal(request, errors.UNKNOWN_SERVER_ERROR)))
        else:
            yield from self._refuse(forwarded, errors.UNKNOWN_SERVER_ERROR)

    def keep_part(self, connection: int, part: Message) -> None:
        """Keep a part of a large request until the rest of the request arrives and is applied."""
        self._ahead.setdefault(connection, []).append(part)

    # ------------------------------------------------------------------------------------------------ requests

    def _serve(self, forwarded: Forwarded) -> Flow[None]:
        request = forwarded.request.request
        self._parts, self._errors = self._ahead.pop(forwarded.request.connection, []), []
        self._origin = Origin.of_request(request, forwarded.request.correlation_id)
        error_code = self.epochs.verdict(request)
        if error_code == errors.STALE_CONTROLLER_EPOCH:
            yield from self._look_up_controller_epoch()
            error_code = self.epochs.verdict(request)
        if error_code != errors.NONE:
            text = refused_whole(self._origin, error_code, request, self.epochs.controller, self.epochs.broker)
            self._log_change(logging.WARNING, text)
            yield from self._refuse(forwarded, error_code)
            return
        self.epochs = self.epochs.obeying(request)
        match request:
            case LeaderAndIsrRequest():
                yield from self._take_leader_and_isr(request)
                yield StartLogMaintenance()
            case StopReplicaRequest():
                yield from self._stop_replicas(request)
            case UpdateMetadataRequest():
                yield from self._update_metadata(request)
            case _:
                raise TypeError(f"ReplicaManagerActor has no handler for {type(request).__name__}")
        if self.topics.settings.validate_state:
            check(self._disagreements())
        yield from self.notify()
        yield from self._answer(forwarded, errors.NONE)
        yield from self.publish()
        yield from free_parts(self._parts)

    def _look_up_controller_epoch(self) -> Flow[None]:
        """Lower the known controller epoch to ZooKeeper's, if no controller with the known epoch was elected.

        If ZooKeeper is unavailable, the epoch stays.
        """
        try:
            there = yield from ask(GetControllerEpoch())
        except AskFailed as error:
            _log.debug("Failed to read the controller epoch from ZooKeeper: %s", error)
            return
        if there.epoch < self.epochs.controller:
            _log.error(
                "[Broker id=%d] Ignoring controller epoch %d, because /controller_epoch in ZooKeeper is %d",
                *(self.broker_id, self.epochs.controller, there.epoch),
            )
        self.epochs = self.epochs.limit_controller_epoch(there.epoch)

    def _refuse(self, forwarded: Forwarded, error_code: int) -> Flow[None]:
        """Respond with one error code to a whole request."""
        request = forwarded.request.request
        self._errors = []
        if isinstance(request, LeaderAndIsrRequest):
            entries = all_entries(self._parts, request)
            yield from for_each(entries, lambda orders: self._errors.extend(errors_for(orders, error_code)))
        yield from self._answer(forwarded, error_code)
        yield from free_parts(self._parts)

    def _answer(self, forwarded: Forwarded, error_code: int) -> Flow[None]:
        """Respond to a controller's request, in parts if there are many errors."""
        request = forwarded.request
        *ahead, rest = (yield from conversation.cut(self._errors, tuple)) or [()]
        self._errors = []
        for entries in ahead:
            yield Send(forwarded.client, ClientPart(request.connection, PartitionErrorsPart(entries)))
        yield Send(*forwarded.reply(answer(request.request, error_code, rest)))

    def _update_metadata(self, request: UpdateMetadataRequest) -> Flow[None]:
        """Send the request's parts to the metadata cache, which applies all of them with the last part."""
        for place, part in enumerate(self._parts):
            yield from ask(broker.StageMetadata(part, begins=place == 0))
        merged = yield from ask(broker.MergeMetadata(request, begins=not self._parts))
        if merged.alive is not None:
            self._alive = merged.alive
        if self._unled:
            yield from for_each(all_entries(self._parts, request), self._led_elsewhere)
        if merged.deleted:
            for coordinator in self._start.coordinators:
                yield Send(coordinator, broker.PartitionsDeleted(merged.deleted))
        old = merged.old
        while old:
            old = (yield from ask(broker.DropOldTopics())).left

    def _led_elsewhere(self, states: Sequence[UpdateMetadataPartitionState]) -> Flow[None]:
        """Request the state of each partition that has refused to lead and now has another leader (rule 5)."""
        led = [
            state.partition
            for state in states
            if state.partition in self._unled and state.leader not in (NO_LEADER, self.broker_id)
        ]
        for tp in led:
            del self._unled[tp]
        if led:
            yield self._report()

    # ------------------------------------------------------------------------------------------------ LeaderAndIsr

    def _take_leader_and_isr(self, request: LeaderAndIsrRequest) -> Flow[None]:
        """Send each partition its new state, leaders first (broker.md 1.2)."""
        roles = self._roles
        roles.clear()
        self._ids = dict(request.topic_ids)
        yield from for_each(all_entries(self._parts, request), roles.take)
        _log.info(
            "[Broker id=%d] Handling LeaderAndIsr request from controller %d epoch %d: %d become-leader and "
            "%d become-follower partitions",
            *(self.broker_id, request.controller_id, request.controller_epoch),
            *(len(roles.leading), len(roles.following)),
        )
        yield from self.topics.read((roles.leading, roles.following))
        yield from self._lead()
        if roles.following:
            yield from self._follow()
            yield from for_each(roles.following, self._drop_producer_counts)
        roles.clear()

    def _lead(self) -> Flow[None]:
        leading = 0
        left: list[TopicPartition] = []
        for window in chunks(self._roles.leading.values(), PARTITIONS_AT_ONCE):
            taken = yield from self._take_roles(window, broker.become_leader)
            self._note_leaderships(taken)
            left += [order.partition for _, order, result in taken if result.leads]
            if len(left) >= conversation.SLICE:
                leading += yield from self._unfollow(left)
                left = []
        leading += yield from self._unfollow(left)
        if leading:
            self._log_change(logging.INFO, stopped_fetchers(self._origin, leading, leading=True))

    def _follow(self) -> Flow[None]:
        following = 0
        alive = frozenset(self._alive.ids)
        for window in chunks(self._roles.following.values(), PARTITIONS_AT_ONCE):
            taken = yield from self._take_roles(
                window,
                lambda order, log, host, topic_id: broker.BecomeFollower(
                    order, log, host, order.leader in alive, topic_id
                ),
            )
            following += yield from self._fetch(taken)
            self._note_leaderships(taken)
        if following:
            self._log_change(logging.INFO, stopped_fetchers(self._origin, following, leading=False))

    def _fetch(self, taken: Sequence[Taken]) -> Flow[int]:
        """Start to fetch the partitions that have a new role, each from its leader.

        Return the number of these partitions.

        A partition stops fetching from its old leader even if the new leader is unreachable. During a shutdown no
        partition begins to fetch. Otherwise a new leader would add this broker to the ISR just before this broker
        stops.
        """
        brokers = self._alive
        endpoints = {} if self.shutting_down else dict(zip(brokers.ids, brokers.endpoints, strict=True))
        by_leader: dict[int, list[partition.FollowedPartition]] = {}
        left: list[TopicPartition] = []
        for actor, order, result in taken:
            if result.changed and endpoints.get(order.leader) is None:
                left.append(order.partition)
            elif result.changed:
                by_leader.setdefault(order.leader, []).append(
                    partition.FollowedPartition(
                        *(order.partition, actor, order.leader_epoch),
                        *(result.log_end_offset, result.high_watermark, result.latest_epoch),
                        self.broker_id in order.adding_replicas,
                    )
                )
        for leader, partitions in by_leader.items():
            endpoint = endpoints[leader]
            assert endpoint is not None
            yield Send(self._start.fetcher_manager, partition.FollowLeader(leader, endpoint, tuple(partitions)))
        return (yield from self._unfollow(left)) + sum(map(len, by_leader.values()))

    def _take_roles(
        self,
        orders: Sequence[LeaderAndIsrPartitionState],
        become: Callable[
            [LeaderAndIsrPartitionState, broker.LogPlace | None, broker.PartitionContext | None, str], RoleOrder
        ],
    ) -> Flow[list[Taken]]:
        """Send these states to their partitions (rule 4); return the accepted states with the partitions' replies."""
        taken: list[Taken] = []
        ids, placed = self._ids, (yield from self._host(orders))
        if not placed:
            yield conversation.Pause()
        while placed:
            results = yield from conversation.ask_all(
                [
                    (actor, become(order, log, host, ids.get(order.partition.topic, "") if ids else ""))
                    for actor, order, log, host in placed
                ]
            )
            asked, placed = placed, []
            looks: dict[float, list[Address]] = {}
            failures: dict[str, str] = {}
            for (actor, order, log, _), result in zip(asked, results, strict=True):
                tp = order.partition
                if (isinstance(result, Failure) or not result.has_log) and log is not None and log.missing:
                    self.directories.forget(tp)
                if isinstance(result, Failure):
                    self._errors.append(PartitionError(tp, errors.UNKNOWN_SERVER_ERROR))
                    continue
                if result.replicas is not None:
                    self._replicas.append((tp, result.replicas))
                if result.look_at is not None:
                    looks.setdefault(result.look_at, []).append(actor)
                if result.storage_error and log is not None:
                    failures[directory_of(log.path)] = result.storage_error
                    if log.missing:
                        placed.append((actor, order, None, None))
                        continue
                error_code = result.error_code
                self._errors.append(_partition_error(tp, error_code))
                if error_code == errors.NONE:
                    taken.append((actor, order, result))
                    if self.directories.futures and log is not None:
                        yield from self._resume_move(tp)
                else:
                    self._log_ignored(order, error_code, result.leader_epoch)
                if error_code == errors.KAFKA_STORAGE_ERROR:
                    yield from self._role_failed(tp, result)
                    continue
                self._counts.count(tp, result.leads, result.health_flags)
                if self._unled and error_code == errors.NONE and tp in self._unled:
                    del self._unled[tp]
                    yield self._report()
            yield from self._publish_replicas(conversation.SLICE)
            for at, leaders in looks.items():
                yield Send(self._start.isr_keeper, partition.ScheduleFollowerCheck(at, tuple(leaders)))
            for directory, storage_error in failures.items():
                yield from self.fail(directory, storage_error)
            placed = [  # is_new=True: the first call of _place has already permitted a new log
                (actor, order, self._place(order.partition, is_new=True), None) for actor, order, _, _ in placed
            ]
        return taken

    def _host(self, orders: Sequence[LeaderAndIsrPartitionState]) -> Flow[list[Placed]]:
        """Create the actors of partitions that are not hosted yet, and find the place of each log."""
        actors, placed, new = self.actors, list[Placed](), list[LeaderAndIsrPartitionState]()
        for order in orders:
            tp = order.partition
            actor = actors.get(tp)
            if actor is not None:
                placed.append((actor, order, self._place(tp, order.is_new), None))
                continue
            error_code = errors.KAFKA_STORAGE_ERROR if tp in actors else name_verdict(tp)
            if error_code == errors.NONE:
                new.append(order)
            else:
                self._errors.append(PartitionError(tp, error_code))
                self._log_ignored(order, error_code)
        if new:
            created = cast("tuple[Address, ...]", (yield CreatePartitions(len(new))))
            for order, actor in zip(new, created, strict=True):
                tp = order.partition
                actors[tp] = actor
                self._news.append(partition.hosting((tp, actor, False)))
                placed.append((actor, order, self._place(tp, order.is_new), self.topics[tp.topic]))
        yield from self.notify()
        return placed

    def _role_failed(self, tp: TopicPartition, result: broker.RoleTaken) -> Flow[None]:
        """Record that a partition did not take its role because of its log (rules 4 and 5)."""
        if result.has_log and not result.storage_error:
            self._unled[tp] = None
            return
        yield from self._take_offline(tp)
        if not result.storage_error:  # the log directory stays online, but has no log of this partition
            self.directories.forget(tp)

    def _log_ignored(self, order: LeaderAndIsrPartitionState, code: int, known: int = NO_EPOCH) -> None:
        """Log why a partition's new state is ignored; at level INFO if the same state arrived before."""
        level = logging.INFO if order.leader_epoch == known else logging.WARNING
        text = ignored_line(self._origin, order.partition, code, order.leader_epoch, known, order.replicas)
        self._log_change(level, text)

    # ------------------------------------------------------------------------------------------------ StopReplica

    def _stop_replicas(self, request: StopReplicaRequest) -> Flow[None]:
        """Stop hosted partitions, and delete logs, also those of partitions that are not hosted (broker.md 2.1)."""
        orders: dict[TopicPartition, StopReplicaPartitionState] = {}
        yield from for_each(
            all_entries(self._parts, request),
            lambda states: orders.update((state.partition, state) for state in states),
        )
        deletions = sum(order.delete_partition for order in orders.values())
        _log.info(
            "[Broker id=%d] Handling StopReplica request from controller %d epoch %d for %d partitions, %d "
            "of which are to be deleted",
            *(self.broker_id, request.controller_id, request.controller_epoch, len(orders), deletions),
        )
        self._broken, self._writing = {}, []
        for window in chunks(orders.values(), PARTITIONS_AT_ONCE):
            yield from self._stop(window)
        for tp, storage_error in self._broken.items():
            path = self.directories.find(tp)
            if storage_error and path is not None:
                yield from self.fail(directory_of(path), storage_error)
            yield from self._take_offline(tp)
        if deletions:
            failures = cast("tuple[tuple[str, str], ...]", (yield CallAdapter("logs", "checkpoint_deletions", ())))
            for directory, storage_error in failures:
                yield from self.fail(directory, storage_error)
        if self._writing:
            yield from self._end_isr_writes(tuple(self._writing))

    def _end_isr_writes(self, partitions: tuple[TopicPartition, ...]) -> Flow[None]:
        """Wait until no ISR write of these deleted partitions can reach ZooKeeper any more (rule 6).

        Otherwise such a write could succeed on the znode of a recreated topic, because that znode has the version that
        the write expects. Kafka waits for the lock that a partition holds during its write, however long the write
        takes.
        """
        while True:
            try:
                yield from ask(partition.DropIsrChanges(partitions))
            except AskFailed as error:
                _log.warning(
                    "[Broker id=%d] StopReplica: failed to cancel pending ISR writes of %d partitions, retrying: %s",
                    *(self.broker_id, len(partitions), error),
                )
            else:
                return

    def _stop(self, orders: Sequence[StopReplicaPartitionState]) -> Flow[None]:
        asked: list[StopReplicaPartitionState] = []
        pairs: list[tuple[Address, broker.StopPartition]] = []
        for order in orders:
            tp = order.partition
            actor = self.actors.get(tp)
            if actor is not None:
                asked.append(order)
                pairs.append((actor, broker.StopPartition(order.leader_epoch, order.delete_partition)))
            elif tp in self.actors:
                self._errors.append(PartitionError(tp, errors.KAFKA_STORAGE_ERROR))
            else:
                storage_error = (yield from self._delete_stray(tp)) if order.delete_partition else ""
                if storage_error:
                    self._broken[tp] = storage_error
                error_code = errors.KAFKA_STORAGE_ERROR if storage_error else errors.NONE
                self._errors.append(PartitionError(tp, error_code))
        if not pairs:
            yield conversation.Pause()
        results = yield from conversation.ask_all(pairs)
        stopped: list[TopicPartition] = []
        for order, result in zip(asked, results, strict=True):
            tp = order.partition
            if isinstance(result, Failure):
                self._errors.append(PartitionError(tp, errors.UNKNOWN_SERVER_ERROR))
                continue
            error_code, storage_error = result.error_code, result.storage_error
            if error_code == errors.NONE:
                stopped.append(tp)
            if error_code == errors.FENCED_LEADER_EPOCH:
                how = f"(delete={str(order.delete_partition).lower()}) "
                text = ignored_line(self._origin, tp, error_code, order.leader_epoch, result.leader_epoch, how=how)
                self._log_change(logging.WARNING, text)
            if error_code == errors.NONE and order.delete_partition:
                yield from self._dismiss(tp, gone=True)
                del self.actors[tp]
                self.topics.drop(tp.topic)  # a recreated topic may have other settings
                if result.writes_isr:
                    self._writing.append(tp)
                yield from self._end_move(tp)
                if result.deleted:
                    self.directories.forget(tp)
                    yield RemoveLater(result.deleted)
                elif storage_error := (yield from self._delete_stray(tp)):
                    error_code = errors.KAFKA_STORAGE_ERROR
            if error_code == errors.KAFKA_STORAGE_ERROR:
                self._broken[tp] = storage_error
            self._errors.append(PartitionError(tp, error_code))
        yield from self._unfollow(stopped)

    def _delete_stray(self, tp: TopicPartition) -> Flow[str]:
        """Rename the log of a partition without an actor, if it exists; return the error text, or ""."""
        yield from self._end_move(tp)
        path = self.directories.find(tp)
        if path is None:
            return ""
        try:
            deleted = cast("str", (yield RenameDeletedLog(path)))
        except OSError as error:
            return error.strerror or str(error)
        self.directories.forget(tp)
        yield RemoveLater(deleted)
        return ""

    # ------------------------------------------------------------------------------------------------ hosted partitions

    def _dismiss(self, tp: TopicPartition, gone: bool = False) -> Flow[None]:
        yield DismissPartition(self.actors[tp])
        self._counts.remove(tp)
        self._replicas.append((tp, None))
        self._news.append(partition.Hosting(tp, None, gone))
        if tp.topic in INTERNAL_TOPICS:
            self._led.pop(tp, None)
            self._no_longer_led[tp] = None

    def _take_offline(self, tp: TopicPartition) -> Flow[None]:
        """Stop the actor of a partition whose log directory failed."""
        if self.actors.get(tp) is not None:
            yield from self._dismiss(tp)
            self.actors[tp] = None
            self._offline += 1

    def _take_all_offline(self, partitions: Sequence[tuple[str, int]]) -> Flow[None]:
        for topic, number in partitions:
            yield from self._take_offline(TopicPartition(topic, number))

    def _publish_replicas(self, least: int = 1) -> Flow[None]:
        """Send the counts of replicas if there are at least `least`."""
        if len(self._replicas) >= least:
            for counts in conversation.slices(self._replicas):
                yield Send(self._start.metrics, ReplicasCounts(tuple(counts)))
            self._replicas = []

    def _note_leaderships(self, taken: Iterable[Taken]) -> None:
        """Record which partitions of internal topics have changed their role, for the coordinators (rule 8)."""
        for actor, order, result in taken:
            if result.changed and order.partition.topic in INTERNAL_TOPICS:
                self._led.pop(order.partition, None)
                self._no_longer_led.pop(order.partition, None)
                if result.leads:
                    self._led[order.partition] = broker.LedPartition(order.partition, order.leader_epoch, actor)
                else:
                    self._no_longer_led[order.partition] = None

    def _unfollow(self, partitions: Sequence[TopicPartition]) -> Flow[int]:
        """Stop fetching these partitions; return how many they are."""
        if partitions:
            yield Send(self._start.fetcher_manager, partition.Unfollow(tuple(partitions)))
        return len(partitions)

    def notify(self) -> Flow[None]:
        """Send the changes to the coordinators, the fetchers and the request handlers."""
        if self._led or self._no_longer_led:
            leadership = broker.InternalTopicLeadership(tuple(self._led.values()), tuple(self._no_longer_led))
            for coordinator in self._start.coordinators:
                yield Send(coordinator, leadership)
        self._led, self._no_longer_led = {}, {}
        news, self._news = tuple(self._news), []
        yield from self._unfollow([tp for tp, actor, _ in news if actor is None])
        if news:
            yield Send(self._start.partition_requests, partition.PartitionsHosted(news))

    def publish(self) -> Flow[None]:
        """Send changed metrics."""
        yield from self._publish_replicas()
        gauges = self._counts.gauges(len(self.actors), self._offline, len(self.directories.offline))
        changed = tuple(gauge for gauge in gauges if gauge not in self._published)
        if changed:
            self._published = gauges
            yield Send(self._start.metrics, Gauges(changed))

    def _health_changed(self, tp: TopicPartition, health_flags: tuple[str, ...]) -> Flow[None]:
        if tp in self._counts.leading:
            self._counts.count(tp, True, health_flags)
            yield from self.publish()

    def _drop_producer_counts(self, followed: Sequence[TopicPartition]) -> Flow[None]:
        """Drop the producer counts of topics without a local leader."""
        dropped = metrics_to_drop((tp.topic for tp in followed), self._counts.led)
        if dropped is not None:
            yield Send(self._start.metrics, dropped)

    def _disagreements(self) -> list[str]:
        """Return the contradictions in this object's state; empty if consistent."""
        offline = [tp for tp, actor in self.actors.items() if actor is None]
        found = replica_disagreements(self.actors.keys() - offline, offline, self._offline, self._counts)
        return found + log_disagreements(offline, self.directories.homes, self.directories.live)

    def _log_change(self, level: int, text: str) -> None:
        """Write to the state change log."""
        _state_log.log(level, "[Broker id=%d] %s", self.broker_id, text)

    # ------------------------------------------------------------------------------------------------ log directories

    def _place(self, tp: TopicPartition, is_new: bool) -> broker.LogPlace | None:
        """Return the place of the partition's log, or a place for a new log; None if no directory can hold the log.

        Args:
            tp: The partition.
            is_new: Whether the log may be created.
        """
        path = self.directories.find(tp)
        if path is not None:
            return broker.log_place((path, False))
        path = self.directories.place(tp, is_new)
        return None if path is None else broker.log_place((path, True))

    def _alter_log_dirs(self, forwarded: Forwarded, request: AlterReplicaLogDirsRequest) -> Flow[None]:
        """Begin to move replicas; respond before the moves end (rule 9)."""
        wanted = {tp: each.path for each in request.dirs for tp in each.partitions}
        found = (yield from ask(FindLeaders(tuple(wanted)))).leaders
        results = []
        for (tp, directory), place in zip(wanted.items(), found, strict=True):
            results.append(PartitionError(tp, (yield from self._move(tp, directory, place.exists))))
        yield Send(*forwarded.reply(AlterReplicaLogDirsResponse(tuple(results))))

    def _move(self, tp: TopicPartition, directory: str, is_known: bool) -> Flow[int]:
        """Begin to move a replica to a directory, or remember the directory; return an error code."""
        directories = self.directories
        if len(f"{tp}.{'0' * 32}-future") > MAX_LOG_NAME:
            return errors.INVALID_TOPIC
        if directory not in self._start.settings.log_dirs:
            return errors.LOG_DIR_NOT_FOUND
        if directory in directories.offline or (tp in self.actors and self.actors[tp] is None):
            return errors.KAFKA_STORAGE_ERROR
        future = directories.future_of(tp)
        if future and directory_of(future) == directory:
            return errors.NONE
        yield from self._end_move(tp)
        if self.actors.get(tp) is None or directories.homes.get(tp) is None:
            directories.preferred[tp] = directory
            return errors.REPLICA_NOT_AVAILABLE if is_known else errors.UNKNOWN_TOPIC_OR_PARTITION
        if directories.homes[tp] == directory:
            return errors.NONE
        if directories.offline:
            return errors.KAFKA_STORAGE_ERROR
        return (yield from self._begin_move(tp, directory))

    def _begin_move(self, tp: TopicPartition, directory: str) -> Flow[int]:
        yield self._limit_moves(self.topics.settings)
        unique = yield CallAdapter("random", "uuid_hex", ())
        future = f"{directory}/{tp}.{unique}-future"
        self.directories.futures[future] = tp
        [moves] = yield from conversation.ask_all([(self.actors[tp], broker.MoveReplica(future))])
        if isinstance(moves, Failure) or not moves.has_log or moves.storage_error:
            self.directories.futures.pop(future, None)
        if isinstance(moves, Failure):
            return errors.UNKNOWN_SERVER_ERROR
        if moves.storage_error:
            yield from self._log_failed(future, moves.storage_error)
            return errors.KAFKA_STORAGE_ERROR
        return errors.NONE if moves.has_log else errors.REPLICA_NOT_AVAILABLE

    def _end_move(self, tp: TopicPartition) -> Flow[None]:
        """End a move in progress, if any, and delete its copy."""
        future = self.directories.future_of(tp)
        if not future:
            return
        actor = self.actors.get(tp)
        if actor is not None:
            yield from conversation.ask_all([(actor, broker.MoveReplica(""))])
        if self.directories.futures.pop(future, None) is None:
            return  # the move was completed meanwhile
        try:
            yield RemoveLater(cast("str", (yield RenameDeletedLog(future))))
        except OSError as error:
            yield from self._log_failed(future, error.strerror or str(error))

    def _resume_move(self, tp: TopicPartition) -> Flow[None]:
        """Begin a move again that an earlier process did not complete (rule 9)."""
        future = self.directories.future_of(tp)
        if not future:
            return
        home = self.directories.homes.get(tp)
        yield from self._end_move(tp)
        if home is not None and directory_of(future) != home and directory_of(future) in self.directories.live:
            yield from self._begin_move(tp, directory_of(future))

    def _replica_moved(self, tp: TopicPartition, path: str, deleted: str) -> Flow[None]:
        self.directories.register_move(tp, directory_of(path))
        _log.info("[Broker id=%d] Partition %s is moved to %s", self.broker_id, tp, directory_of(path))
        yield RemoveLater(deleted)

    def _broker_configured(self, settings: NodeSettings) -> Flow[None]:
        yield self._limit_moves(settings)
        yield from self.topics.broker_configured(settings)

    def _limit_moves(self, settings: NodeSettings) -> CallAdapter:
        rate, at_once = settings.replica_alter_log_dirs_io_max_bytes_per_second, settings.replica_fetch_max_bytes
        return CallAdapter("logs", "limit_copies", (rate, at_once))

    def _describe_log_dirs(self, forwarded: Forwarded, request: DescribeLogDirsRequest) -> Flow[None]:
        log_dirs = self._start.settings.log_dirs
        yield Send(*forwarded.reply((yield from describe(request, log_dirs, self.directories, self.actors))))

    def fail(self, directory: str, storage_error: str) -> Flow[None]:
        """Take a failed log directory offline with all its partitions; notify the controller or the node (rule 7)."""
        lost = self.directories.fail(directory)
        yield CallAdapter("logs", "lose", (directory,))
        _log.error(
            "[Broker id=%d] Stopping serving replicas in dir %s: %d partitions are offline (%s)",
            *(self.broker_id, directory, len(lost), storage_error),
        )
        yield from for_each(lost, self._take_all_offline, PARTITIONS_AT_ONCE)
        if self.directories.live:
            yield self._report()
        else:
            reason = f"all log directories have failed: {', '.join(self.directories.offline)}"
            yield Send(self._node, ReplicaManagerFailed(reason))

    def _report(self) -> Send:
        """Notify the controller, which then sends all partition states again to learn which replicas are online."""
        return Send(self._start.bridge, Ask(UNAWAITED, NotifyLogDirFailure(self.broker_id)))

    def _log_failed(self, path: str | None, storage_error: str) -> Flow[None]:
        """Handle a disk error that a partition or the listener reported for the log at `path`.

        Do nothing if `path` is None or its log directory is already offline.
        """
        if path is not None and directory_of(path) in self.directories.live:
            yield from self.fail(directory_of(path), storage_error)
            yield from self.notify()
            yield from self.publish()
