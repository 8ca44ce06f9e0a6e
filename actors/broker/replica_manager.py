"""ReplicaManagerActor applies the controller's LeaderAndIsr, StopReplica and UpdateMetadata requests in order.

Rule 1: these requests are applied one after the other (broker.md 1, 2). Each request gets its response when all its
        partitions have replied. Requests wait until the log directories are loaded. A large request is applied in
        slices (actors.md 3): between slices, other actors of the node run, but no other controller request is applied.
Rule 2: each kind of work has its own class, whose instance belongs to this actor: hosted partitions, topic settings,
        log directories, log maintenance, LeaderAndIsr and StopReplica requests. They share this actor's event loop,
        because a request, a disk error and a change of settings must see the same hosted partitions.
Rule 3: the coordinators are notified of the partitions that were deleted in the cluster (broker.md 3.9).

Kafka: `ReplicaManager`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from thespian.actors import ActorAddress, ChildActorExited, WakeupMessage

from actors.broker.hosted_partitions import HostedPartitions
from actors.broker.hosted_topics import HostedTopics
from actors.broker.leader_and_isr import LeaderAndIsrRequests
from actors.broker.log_dirs import LogDirs, directory_of
from actors.broker.log_maintenance import LogMaintenance
from actors.broker.stop_replica import StopReplicaRequests
from actors.core.broker.replica_manager import Epochs, answer, refused
from actors.core.broker.state_changes import Origin
from actors.core.broker.state_changes import refused as refused_whole
from actors.core.broker.validation import check
from actors.runtime import FlowActor
from actors.storage.log_directories import LogDirectories, LogDirectoryRefused
from messages import broker
from messages.apis.declaration import PartitionError
from messages.apis.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.stop_replica import StopReplicaRequest
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.ask import AskFailed
from messages.errors import NONE, STALE_CONTROLLER_EPOCH, UNKNOWN_SERVER_ERROR
from messages.flow.conversation import Flow, ask, cut, for_each
from messages.network import ClientPart
from messages.node import BrokerEpoch, ReplicaManagerStarted, ShuttingDown, StartReplicaManager
from messages.partition import ISR_KEEPER, MaintainLogs
from messages.parts import PartitionErrorsPart, all_entries, free_parts
from messages.vocabulary import AnyMessage, Message
from messages.zookeeper import GetControllerEpoch

_log = logging.getLogger("kafka.server.ReplicaManager")


class ReplicaManagerActor(FlowActor):
    """This actor manages the replicas on a broker, like Kafka's ReplicaManager; each broker has one."""

    def __init__(self) -> None:
        super().__init__()
        self._hosted: HostedPartitions
        self._topics: HostedTopics
        self._log_dirs: LogDirs | None = None
        """None until the log directories are loaded."""
        self._maintenance: LogMaintenance
        self._leader_and_isr: LeaderAndIsrRequests
        self._stop_replica: StopReplicaRequests
        self._early: list[AnyMessage] = []
        """Messages that arrived before the log directories were loaded."""
        self._ahead: dict[int, list[AnyMessage]] = {}
        """By connection: parts of its next request."""
        self._parts: list[AnyMessage] = []
        """Parts of the request that is being applied."""
        self._epochs = Epochs()

    # ------------------------------------------------------------------------------------------------ start, stop

    def receiveMsg_StartReplicaManager(self, message: StartReplicaManager, sender: ActorAddress) -> None:
        """Load the log directories, reply with the outcome, and process the messages that arrived meanwhile."""
        settings = message.settings
        self.peers = {
            "metadata_cache": message.metadata_cache,
            "bridge": message.bridge,
            ISR_KEEPER: message.isr_keeper,
        }
        hosted = self._hosted = HostedPartitions(message, self.send, self.createActor)
        topics = self._topics = HostedTopics(hosted, self.myAddress)
        directories = LogDirectories(settings.log_dirs, settings.node_id, message.cluster_id)
        log_dirs = LogDirs(directories, hosted, sender, *map(self.port, ("logs", "disk", "random")))
        maintenance = LogMaintenance(log_dirs, hosted, topics, self.wakeupAfter, self.wake_at, self.clock)
        self._maintenance = maintenance
        self._leader_and_isr = LeaderAndIsrRequests(hosted, topics, log_dirs)
        self._stop_replica = StopReplicaRequests(hosted, topics, log_dirs, maintenance)
        try:
            leftovers = directories.load(log_dirs.disk)
        except LogDirectoryRefused as refused:
            self.send(sender, ReplicaManagerStarted(refused=str(refused)))
            return
        offline = tuple(directories.offline)
        if not directories.live:
            reason = f"none of the log directories can be used: {', '.join(offline)}"
            self.send(sender, ReplicaManagerStarted(offline, reason))
            return
        self._log_dirs = log_dirs
        _log.info(
            "[Broker id=%d] Found %d logs in %d log directories, and %d logs that are marked for deletion",
            *(settings.node_id, len(directories), len(directories.live), len(leftovers)),
        )
        for path in leftovers:
            maintenance.schedule_async_delete(path)
        log_dirs.publish()
        self.send(sender, ReplicaManagerStarted(offline))
        early, self._early = self._early, []
        for event in early:
            self.send(self.myAddress, event)

    def clock(self) -> float:
        """Return the time in seconds, for objects that this actor owns."""
        return self.now

    def receiveMsg_ForwardedPart(self, message: broker.ForwardedPart, sender: ActorAddress) -> None:
        """Keep a part of a large request until the rest of the request arrives and is applied."""
        self._ahead.setdefault(message.connection, []).append(message.part)

    def receiveMsg_BrokerEpoch(self, message: BrokerEpoch, sender: ActorAddress) -> None:
        """Set the broker epoch of a new registration; requests with an earlier broker epoch are stale from now on."""
        self._epochs = self._epochs.registered(message.epoch)

    def receiveMsg_ShuttingDown(self, message: ShuttingDown, sender: ActorAddress) -> None:
        """Stop following partitions, because the node is shutting down."""
        self._leader_and_isr.shutting_down = True

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: ActorAddress) -> None:
        """Ignore the exit of a partition that this actor has stopped."""

    # ------------------------------------------------------------------------------------------------ requests

    def flow(self, message: Message) -> Flow[None] | None:
        """Handle a controller's request, a client's request about log directories, or periodic work."""
        log_dirs = self._log_dirs
        if log_dirs is None:
            self._early.append(message)
            return None
        match message:
            case broker.Forwarded(request=request):
                if isinstance(request.request, DescribeLogDirsRequest):
                    return self._describe_log_dirs(message, request.request, log_dirs)
                return self._serve(message, log_dirs)
            case WakeupMessage(payload=broker.RemoveDeletedLogs()):
                self._maintenance.remove_deleted_logs()
                return None
            case WakeupMessage(payload=MaintainLogs(what)):
                return self._maintenance.run(what)
            case broker.TopicsConfigured(topics):
                return self._topics.configured(topics)
            case broker.BrokerConfigured(settings):
                return self._topics.broker_configured(settings)
            case broker.PartitionHealth(partition, health_flags):
                if partition in self._hosted.counts.leading:
                    self._hosted.counts.count(partition, True, health_flags)
                    log_dirs.publish()
                return None
            case broker.LogFailed(partition, storage_error):
                return log_dirs.log_failed(log_dirs.directories.find(partition), storage_error)
            case broker.LogFileFailed(path, storage_error):
                return log_dirs.log_failed(directory_of(path), storage_error)
        return super().flow(message)

    def event_failed(self, event: Message, error: Exception) -> Flow[None] | None:
        """Respond with an error to a request whose flow failed: without a response the controller retries for ever."""
        if not isinstance(event, broker.Forwarded):
            return None
        if isinstance(event.request.request, DescribeLogDirsRequest):
            self.send(*event.reply(DescribeLogDirsResponse(())))
            return None
        return self._refuse(event, UNKNOWN_SERVER_ERROR)

    def _serve(self, forwarded: broker.Forwarded, log_dirs: LogDirs) -> Flow[None]:
        request = forwarded.request.request
        parts = self._parts = self._ahead.pop(forwarded.request.connection, [])
        origin = Origin.of(request, forwarded.request.correlation_id)
        error_code = self._epochs.verdict(request)
        if error_code == STALE_CONTROLLER_EPOCH:
            yield from self._look_up_controller_epoch()
            error_code = self._epochs.verdict(request)
        if error_code != NONE:
            known = self._epochs
            text = refused_whole(origin, error_code, request, known.controller, known.broker)
            self._hosted.log_change(logging.WARNING, text)
            yield from self._refuse(forwarded, error_code)
            return
        self._epochs = self._epochs.obeying(request)
        errors: list[PartitionError] = []
        match request:
            case LeaderAndIsrRequest():
                yield from self._leader_and_isr.serve(request, parts, origin, errors)
                self._maintenance.start()
            case StopReplicaRequest():
                yield from self._stop_replica.serve(request, parts, origin, errors)
            case UpdateMetadataRequest():
                yield from self._update_metadata(request)
            case _:
                raise TypeError(f"ReplicaManagerActor has no handler for {type(request).__name__}")
        if self._topics.settings.validate_state:
            check(self._hosted.disagreements() + log_dirs.disagreements())
        self._hosted.notify()
        yield from self._answer(forwarded, NONE, errors)
        log_dirs.publish()
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
        if there.epoch < self._epochs.controller:
            _log.error(
                "[Broker id=%d] Ignoring controller epoch %d, because /controller_epoch in ZooKeeper is %d",
                *(self._hosted.broker_id, self._epochs.controller, there.epoch),
            )
        self._epochs = self._epochs.corrected(there.epoch)

    def _refuse(self, forwarded: broker.Forwarded, error_code: int) -> Flow[None]:
        """Respond with one error code to a whole request."""
        request = forwarded.request.request
        errors: list[PartitionError] = []
        if isinstance(request, LeaderAndIsrRequest):
            entries = all_entries(self._parts, request)
            yield from for_each(entries, lambda orders: errors.extend(refused(orders, error_code)))
        yield from self._answer(forwarded, error_code, errors)
        yield from free_parts(self._parts)

    def _answer(self, forwarded: broker.Forwarded, error_code: int, errors: Iterable[PartitionError]) -> Flow[None]:
        """Respond to a controller's request, in parts if there are many errors."""
        request = forwarded.request
        *ahead, rest = (yield from cut(errors, tuple)) or [()]
        for entries in ahead:
            self.send(forwarded.client, ClientPart(request.connection, PartitionErrorsPart(entries)))
        self.send(*forwarded.reply(answer(request.request, error_code, rest)))

    def _describe_log_dirs(
        self, forwarded: broker.Forwarded, request: DescribeLogDirsRequest, log_dirs: LogDirs
    ) -> Flow[None]:
        self.send(*forwarded.reply((yield from log_dirs.describe(request))))

    def _update_metadata(self, request: UpdateMetadataRequest) -> Flow[None]:
        """Send the request's parts to the metadata cache, which applies all of them with the last part."""
        for place, part in enumerate(self._parts):
            yield from ask(broker.StageMetadata(part, begins=place == 0))
        merged = yield from ask(broker.MergeMetadata(request, begins=not self._parts))
        if self._leader_and_isr.unled:
            yield from for_each(all_entries(self._parts, request), self._leader_and_isr.led_elsewhere)
        if merged.deleted:
            for coordinator in self._hosted.start.coordinators:
                self.send(coordinator, broker.PartitionsDeleted(merged.deleted))
        old = merged.old
        while old:
            old = (yield from ask(broker.DropOldTopics())).left
