"""ReplicaManagerActor: the one mailbox for what the controller orders a broker to do (broker.md 1, 2).

Rule 1: LeaderAndIsr, StopReplica and UpdateMetadata are obeyed one after the other. Each is answered when all its
        partitions have answered; what comes before the log directories are loaded waits.
Rule 2: a hosted partition is online (it has an actor) or offline (its log directory is lost: code 56 to everything).
Rule 3: a disk error takes its whole log directory offline, and with it every partition whose log is there; with the
        last directory the node (broker.md 2.3). A log that could not be made there is made in another directory; an
        order that needed what was there fails with code 56.
        The controller is told by a notification in ZooKeeper, for whose writing nobody waits: the session may be away.
        One that is lost with its session is not missed, as the registration that follows is news enough.
Rule 4: a deleted log is gone with the answer: renamed by then, removed after log.segment.delete.delay.ms.
"""

from __future__ import annotations

import logging
from collections import deque
from datetime import timedelta

from thespian.actors import ActorAddress, ActorExitRequest, ChildActorExited, WakeupMessage

from actors.broker.partition import PartitionActor
from actors.core.broker.replica_manager import Census, ControllerResponse, Epochs, leaders_first, name_verdict, refusal
from actors.runtime import FlowActor
from actors.storage.log_directories import LogDirectories, LogDirectoryRefused, deleted_path
from messages.broker import (
    BecomeFollower,
    BecomeLeader,
    Forwarded,
    ForwardedPart,
    GetAliveBrokers,
    HostPartition,
    LogPlace,
    MergeMetadata,
    RemoveDeletedLogs,
    StopPartition,
)
from messages.cluster import TopicPartition
from messages.conversation import Ask, Failure, Flow, ask, ask_all
from messages.errors import KAFKA_STORAGE_ERROR, NONE, UNKNOWN_SERVER_ERROR
from messages.metrics import Gauge, Gauges
from messages.network import ClientPart, ClientResponse
from messages.node import BrokerEpoch, NodeSettings, ReplicaManagerFailed, ReplicaManagerStarted, StartReplicaManager
from messages.parts import Part, cut, joined
from messages.requests import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from messages.vocabulary import Message
from messages.zookeeper import NotifyLogDirFailure

_log = logging.getLogger("kafka_actors.replica_manager")

REMOVALS_AT_ONCE = 100
"""Directories removed in one turn, so that the deletion of a large topic does not hold up the controller's requests."""

TIMER_RESOLUTION = 0.001
"""Seconds by which a timer may be early."""

UNAWAITED = 0
"""The id of a question whose answer is dropped: the shell's own begin at 1."""

RoleOrder = BecomeLeader | BecomeFollower


class ReplicaManagerActor(FlowActor):
    """Hosts this broker's partitions; see the module's rules."""

    def __init__(self) -> None:
        super().__init__()
        self._settings: NodeSettings
        self._metrics: ActorAddress
        self._node: ActorAddress
        self._directories: LogDirectories | None = None
        self._early: list[Forwarded] = []
        self._ahead: dict[int, list[Part]] = {}
        """By connection: parts of the request that comes next on it."""
        self._epochs = Epochs()
        self._hosted: dict[TopicPartition, ActorAddress | None] = {}
        """Online partitions with their actors, offline ones with None."""
        self._offline = 0
        self._census = Census()
        self._published: tuple[Gauge, ...] = ()
        self._doomed: deque[tuple[float, str]] = deque()
        """(when due, path) of deleted logs, soonest first."""

    # ------------------------------------------------------------------------------------------------ start, stop

    def receiveMsg_StartReplicaManager(self, message: StartReplicaManager, sender: ActorAddress) -> None:
        """Load the log directories, answer how that went, and begin with what has come meanwhile."""
        settings = self._settings = message.settings
        self._metrics = message.metrics
        self._node = sender
        self.peers = {"metadata_cache": message.metadata_cache, "bridge": message.bridge}
        directories = LogDirectories(settings.log_dirs, settings.node_id, message.cluster_id)
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
        self._directories = directories
        _log.info(
            "[Broker id=%d] %d logs in %d log directories, %d deleted ones still to be removed",
            settings.node_id,
            len(directories),
            len(directories.live),
            len(leftovers),
        )
        for path in leftovers:
            self._doom(path)
        self._publish()
        self.send(sender, ReplicaManagerStarted(offline))
        early, self._early = self._early, []
        for forwarded in early:
            self.send(self.myAddress, forwarded)

    def receiveMsg_ForwardedPart(self, message: ForwardedPart, sender: ActorAddress) -> None:
        """Keep it until its request comes, and that request's turn."""
        self._ahead.setdefault(message.connection, []).append(message.part)

    def receiveMsg_BrokerEpoch(self, message: BrokerEpoch, sender: ActorAddress) -> None:
        """A new registration: requests for earlier ones are stale from now on."""
        self._epochs = self._epochs.registered(message.epoch)

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, sender: ActorAddress) -> None:
        """The node stops: others may have the log directories."""
        if self._directories is not None:
            self._directories.unlock(self.port("disk"))

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: ActorAddress) -> None:
        """A partition left as it was told to."""

    # ------------------------------------------------------------------------------------------------ requests

    def flow(self, message: Message) -> Flow[None] | None:
        """One controller request, or the removal of deleted logs."""
        match message:
            case Forwarded():
                if self._directories is not None:
                    return self._serve(message, self._directories)
                self._early.append(message)
                return None
            case WakeupMessage(payload=RemoveDeletedLogs()):
                self._remove_deleted_logs()
                return None
        return super().flow(message)

    def event_failed(self, event: Message, error: Exception) -> None:
        """A request whose flow broke is answered as a whole: the controller would send it again for ever otherwise."""
        if isinstance(event, Forwarded):
            self._respond(event, refusal(event.request.request, UNKNOWN_SERVER_ERROR))

    def _serve(self, forwarded: Forwarded, directories: LogDirectories) -> Flow[None]:
        parts = self._ahead.pop(forwarded.request.connection, [])
        request = joined(parts, forwarded.request.request)
        error_code = self._epochs.verdict(request)
        if error_code != NONE:
            _log.warning(
                "[Broker id=%d] refused %s of controller %d epoch %d with error %d",
                self._settings.node_id,
                type(request).__name__,
                request.controller_id,
                request.controller_epoch,
                error_code,
            )
            self._respond(forwarded, refusal(request, error_code))
            return
        self._epochs = self._epochs.obeying(request)
        response: ControllerResponse
        match request:
            case LeaderAndIsrRequest():
                response = yield from self._lead_and_follow(request, directories)
            case StopReplicaRequest():
                response = yield from self._stop_replicas(request, directories)
            case UpdateMetadataRequest():
                yield from ask(MergeMetadata(request))
                response = UpdateMetadataResponse(NONE)
            case _:
                raise TypeError(f"{type(request).__name__} is no request of a controller")
        self._respond(forwarded, response)
        self._publish()

    def _respond(self, forwarded: Forwarded, response: ControllerResponse) -> None:
        request = forwarded.request
        parts, last = cut(response)
        for part in parts:
            self.send(forwarded.client, ClientPart(request.connection, part))
        self.send(forwarded.client, ClientResponse(request.connection, request.correlation_id, last))

    # ------------------------------------------------------------------------------------------------ LeaderAndIsr

    def _lead_and_follow(self, request: LeaderAndIsrRequest, directories: LogDirectories) -> Flow[ControllerResponse]:
        """Hand every order to its partition, leaders first, and gather the codes (broker.md 1.2)."""
        own_id = self._settings.node_id
        leading = sum(order.leader == own_id for order in request.partition_states)
        _log.info(
            "[Broker id=%d] LeaderAndIsr of controller %d epoch %d: %d to lead, %d to follow",
            own_id,
            request.controller_id,
            request.controller_epoch,
            leading,
            len(request.partition_states) - leading,
        )
        alive: frozenset[int] = frozenset()
        if leading < len(request.partition_states):
            brokers = yield from ask(GetAliveBrokers())
            alive = frozenset(brokers.ids)
        errors: list[PartitionError] = []
        pairs: list[tuple[ActorAddress, RoleOrder]] = []
        for order in leaders_first(request.partition_states, own_id):
            error_code = name_verdict(order.partition)
            if error_code != NONE:
                errors.append(PartitionError(order.partition, error_code))
                continue
            actor = self._host(order.partition)
            if actor is None:
                errors.append(PartitionError(order.partition, KAFKA_STORAGE_ERROR))
                continue
            log = _log_place(directories, order)
            if order.leader == own_id:
                pairs.append((actor, BecomeLeader(order, log)))
            else:
                pairs.append((actor, BecomeFollower(order, log, order.leader in alive)))
        while pairs:
            results = yield from ask_all(pairs)
            homeless: list[tuple[ActorAddress, RoleOrder]] = []
            failures: dict[str, str] = {}
            for (actor, question), result in zip(pairs, results, strict=True):
                partition, log = question.state.partition, question.log
                if isinstance(result, Failure):
                    errors.append(PartitionError(partition, UNKNOWN_SERVER_ERROR))
                    continue
                if not result.has_log and log is not None and log.missing:
                    directories.forget(partition)
                    if result.storage_error:
                        failures[log.path.rpartition("/")[0]] = result.storage_error
                        homeless.append((actor, question))
                        continue
                errors.append(PartitionError(partition, result.error_code))
                if result.error_code == KAFKA_STORAGE_ERROR:
                    self._take_offline(partition)
                else:
                    self._census.count(partition, result.leads, result.under_replicated)
            for directory, storage_error in failures.items():
                self._lose(directory, storage_error, directories)
            pairs = self._rehouse(homeless, errors, directories)
        return LeaderAndIsrResponse(NONE, tuple(errors))

    def _rehouse(
        self, homeless: list[tuple[ActorAddress, RoleOrder]], errors: list[PartitionError], directories: LogDirectories
    ) -> list[tuple[ActorAddress, RoleOrder]]:
        """The orders once more, for logs that could not be made where they were placed; 56 where no place is left."""
        pairs: list[tuple[ActorAddress, RoleOrder]] = []
        for actor, question in homeless:
            partition = question.state.partition
            path = directories.place(partition, is_new=True)  # that it may be made was decided before
            if path is None:
                errors.append(PartitionError(partition, KAFKA_STORAGE_ERROR))
                self._take_offline(partition)
            else:
                log = LogPlace(path, missing=True)
                match question:
                    case BecomeLeader(state):
                        pairs.append((actor, BecomeLeader(state, log)))
                    case BecomeFollower(state, _, leader_alive):
                        pairs.append((actor, BecomeFollower(state, log, leader_alive)))
        return pairs

    def _host(self, partition: TopicPartition) -> ActorAddress | None:
        """The partition's actor, made where there is none yet; None while it is offline."""
        if partition not in self._hosted:
            actor = self.createActor(PartitionActor)
            self.send(actor, HostPartition(partition, self._settings.node_id))
            self._hosted[partition] = actor
        return self._hosted[partition]

    # ------------------------------------------------------------------------------------------------ StopReplica

    def _stop_replicas(self, request: StopReplicaRequest, directories: LogDirectories) -> Flow[ControllerResponse]:
        """Stop hosted partitions, and delete logs, also those that nobody hosts (broker.md 2.1)."""
        _log.info(
            "[Broker id=%d] StopReplica of controller %d epoch %d: %d to stop, %d of them to delete",
            self._settings.node_id,
            request.controller_id,
            request.controller_epoch,
            len(request.partition_states),
            sum(order.delete_partition for order in request.partition_states),
        )
        errors: list[PartitionError] = []
        asked: list[StopReplicaPartitionState] = []
        pairs: list[tuple[ActorAddress, StopPartition]] = []
        broken: dict[TopicPartition, str] = {}
        for partition, order in {order.partition: order for order in request.partition_states}.items():
            if partition not in self._hosted:
                storage_error = self._delete_stray(partition, directories) if order.delete_partition else ""
                if storage_error:
                    broken[partition] = storage_error
                errors.append(PartitionError(partition, KAFKA_STORAGE_ERROR if storage_error else NONE))
                continue
            actor = self._hosted[partition]
            if actor is None:
                errors.append(PartitionError(partition, KAFKA_STORAGE_ERROR))
                continue
            asked.append(order)
            pairs.append((actor, StopPartition(order.leader_epoch, order.delete_partition)))
        results = yield from ask_all(pairs)
        for order, result in zip(asked, results, strict=True):
            partition = order.partition
            if isinstance(result, Failure):
                errors.append(PartitionError(partition, UNKNOWN_SERVER_ERROR))
                continue
            error_code, storage_error = result.error_code, result.storage_error
            if error_code == NONE and order.delete_partition:
                self._dismiss(partition)
                del self._hosted[partition]
                if result.deleted:
                    directories.forget(partition)
                    self._doom(result.deleted)
                elif storage_error := self._delete_stray(partition, directories):
                    error_code = KAFKA_STORAGE_ERROR
            if error_code == KAFKA_STORAGE_ERROR:
                broken[partition] = storage_error
            errors.append(PartitionError(partition, error_code))
        self._break(broken, directories)
        return StopReplicaResponse(NONE, tuple(errors))

    def _delete_stray(self, partition: TopicPartition, directories: LogDirectories) -> str:
        """Delete the log that no partition has opened, if there is one. The disk's words where that failed."""
        path = directories.find(partition)
        if path is None:
            return ""
        deleted = deleted_path(path, self.port("random").uuid_hex())
        try:
            self.port("disk").rename(path, deleted)
        except OSError as error:
            return error.strerror or str(error)
        directories.forget(partition)
        self._doom(deleted)
        return ""

    # ------------------------------------------------------------------------------------------------ lost directories

    def _break(self, broken: dict[TopicPartition, str], directories: LogDirectories) -> None:
        """Take partitions offline, and the directories that failed them with all they hold (rule 3)."""
        for partition, storage_error in broken.items():
            path = directories.find(partition)
            if storage_error and path is not None:
                self._lose(path.rpartition("/")[0], storage_error, directories)
            self._take_offline(partition)

    def _lose(self, directory: str, storage_error: str, directories: LogDirectories) -> None:
        """A log directory has failed: everything in it goes offline, and the controller or the node is told."""
        lost = directories.fail(directory)
        _log.error(
            "[Broker id=%d] log directory %s is offline with %d partitions: %s",
            self._settings.node_id,
            directory,
            len(lost),
            storage_error,
        )
        for topic, number in lost:
            self._take_offline(TopicPartition(topic, number))
        if directories.live:
            self.send(self.peers["bridge"], Ask(UNAWAITED, NotifyLogDirFailure(self._settings.node_id)))
        else:
            reason = f"all log directories have failed: {', '.join(directories.offline)}"
            self.send(self._node, ReplicaManagerFailed(reason))

    def _take_offline(self, partition: TopicPartition) -> None:
        if self._hosted.get(partition) is not None:
            self._dismiss(partition)
            self._hosted[partition] = None
            self._offline += 1

    def _dismiss(self, partition: TopicPartition) -> None:
        """Let the partition's actor go."""
        self.send(self._hosted[partition], ActorExitRequest())
        self._census.strike(partition)

    # ------------------------------------------------------------------------------------------------ deleted logs

    def _doom(self, path: str) -> None:
        """Remove a renamed log when its delay is over."""
        delay = self._settings.log_segment_delete_delay_ms / 1000
        self._doomed.append((self.now + delay, path))
        if len(self._doomed) == 1:
            self.wakeupAfter(timedelta(seconds=delay), RemoveDeletedLogs())

    def _remove_deleted_logs(self) -> None:
        due = self.now + TIMER_RESOLUTION
        for _ in range(REMOVALS_AT_ONCE):
            if not self._doomed or self._doomed[0][0] > due:
                break
            path = self._doomed.popleft()[1]
            try:
                self.port("disk").remove_tree(path)
            except OSError as error:
                _log.error("[Broker id=%d] %s stays until the next start: %s", self._settings.node_id, path, error)
        if self._doomed:
            self.wakeupAfter(timedelta(seconds=max(0.0, self._doomed[0][0] - self.now)), RemoveDeletedLogs())

    # ------------------------------------------------------------------------------------------------ figures

    def _publish(self) -> None:
        """Tell the metrics what has changed."""
        gauges = self._census.gauges(len(self._hosted), self._offline)
        changed = tuple(gauge for gauge in gauges if gauge not in self._published)
        if changed:
            self._published = gauges
            self.send(self._metrics, Gauges(changed))


def _log_place(directories: LogDirectories, order: LeaderAndIsrPartitionState) -> LogPlace | None:
    """Where the log of the order's partition is, or may be made; None where no directory can take it."""
    path = directories.find(order.partition)
    if path is not None:
        return LogPlace(path)
    path = directories.place(order.partition, order.is_new)
    return None if path is None else LogPlace(path, missing=True)
