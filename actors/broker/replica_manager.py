"""ReplicaManagerActor applies the controller's LeaderAndIsr, StopReplica and UpdateMetadata requests in order
(broker.md 1, 2).

Rule 1: LeaderAndIsr, StopReplica and UpdateMetadata are obeyed one after the other. Each is answered when all its
        partitions have answered; what comes before the log directories are loaded waits. A large one is obeyed in
        slices (actors.md 3), between which others of the node have their turns, but no other controller request.
Rule 2: a hosted partition is online (it has an actor) or offline (its log directory is lost: code 56 to everything).
Rule 3: a disk error takes its whole log directory offline, and with it every partition whose log is there; with the
        last directory the node (broker.md 2.3). A log that could not be made there is made in another directory; an
        order that needed what was there fails with code 56.
        A notification in ZooKeeper informs the controller. No request waits for its write: the session may be lost.
        One that is lost with its session is not missed, as the registration that follows is news enough.
Rule 4: a deleted log is gone with the answer: renamed by then, removed after log.segment.delete.delay.ms.
Rule 5: the coordinator hears which partitions of the internal topics are led here, and which no longer, before the
        controller has its answer; and which partitions of the cluster are deleted (broker.md 1.6, 3.9).
Rule 6: a partition judges an order first, and only then its fetcher is stopped or replaced: a refused order leaves the
        fetcher alone. Records that the old fetcher still brings to an accepted partition are refused by the partition
        itself, because their leader epoch or its role no longer fits (`PartitionActor._fenced`).
Rule 7: StopReplica with delete is answered when no ISR write of its partitions is in flight or queued (broker.md 3.3).

Kafka: `ReplicaManager`.
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from thespian.actors import ActorAddress, ActorExitRequest, ChildActorExited, WakeupMessage

from actors.broker.partition import PartitionActor
from actors.core.broker.log_dirs import FoundLog, described, wanted_logs
from actors.core.broker.replica_manager import (
    ControllerResponse,
    Epochs,
    PartitionCounts,
    RoleOrders,
    answer,
    name_verdict,
    refused,
)
from actors.core.broker.replication_quota import FOLLOWER, LEADER, SIDES, throttled_topic
from actors.core.broker.state_changes import Origin, ignored, stopped_fetchers
from actors.core.broker.state_changes import refused as refused_whole
from actors.core.broker.topic_figures import outdated
from actors.core.broker.validation import check, log_disagreements, replica_disagreements
from actors.core.log_settings import log_config, log_settings
from actors.core.topic_name import INTERNAL_TOPICS
from actors.runtime import FlowActor
from actors.storage.log_directories import LogDirectories, LogDirectoryRefused, deleted_path
from messages.broker import (
    AliveBrokers,
    BecomeFollower,
    BecomeLeader,
    BrokerConfigured,
    DropOldTopics,
    Forwarded,
    ForwardedPart,
    GetAliveBrokers,
    Host,
    InternalTopicLeadership,
    LedPartition,
    LogFailed,
    LogFileFailed,
    LogPlace,
    MergeMetadata,
    PartitionHealth,
    PartitionsDeleted,
    RemoveDeletedLogs,
    RoleTaken,
    StageMetadata,
    StopPartition,
    TopicsConfigured,
    become_leader,
)
from messages.cluster import NO_EPOCH, ConfigEntry, TopicPartition
from messages.conversation import (
    SLICE,
    Ask,
    AskFailed,
    Failure,
    Flow,
    Pause,
    ask,
    ask_all,
    chunks,
    grow_tables,
    in_slices,
    in_turns,
)
from messages.error_codes import (
    FENCED_LEADER_EPOCH,
    KAFKA_STORAGE_ERROR,
    NONE,
    STALE_CONTROLLER_EPOCH,
    UNKNOWN_SERVER_ERROR,
)
from messages.log_dir_requests import DescribeLogDirsRequest, DescribeLogDirsResponse
from messages.metrics import Gauge, Gauges
from messages.network import ClientPart, ClientResponse
from messages.node import (
    BrokerEpoch,
    NodeSettings,
    ReplicaManagerFailed,
    ReplicaManagerStarted,
    ShuttingDown,
    StartReplicaManager,
)
from messages.partition import (
    ISR_KEEPER,
    Configure,
    DropIsrChanges,
    ExpireLog,
    FollowedPartition,
    FollowLeader,
    Hosting,
    KeepLogs,
    LogSettings,
    PartitionsHosted,
    ThrottleReplicas,
    Unfollow,
    WatchFollowers,
)
from messages.parts import PartitionErrorsPart, entries_of, let_go
from messages.requests import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    PartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from messages.vocabulary import Message
from messages.zookeeper import GetControllerEpoch, GetTopicConfigs, NotifyLogDirFailure

_log = logging.getLogger("kafka.server.ReplicaManager")
state_log = logging.getLogger("state.change.logger")

REMOVALS_AT_ONCE = 100
"""Directories removed in one turn, so that the deletion of a large topic does not hold up the controller's requests."""

LOGS_AT_ONCE = 1000
"""Logs that are looked at for what is too old before others get their turn."""
ORDERS_AT_ONCE = 50
"""Partitions that are worked on before others of the node get their turn: each takes mail, and an actor and a directory
where it is new."""

TOPICS_AT_ONCE = 200
"""Topics whose configuration is worked out before others get their turn."""

UNAWAITED = 0
"""The id of a question whose answer is dropped: the shell's own begin at 1."""

RoleOrder = BecomeLeader | BecomeFollower
Taken = tuple[ActorAddress, LeaderAndIsrPartitionState, RoleTaken]
"""A partition's actor, the order, and how it was obeyed."""

HIGH_WATERMARKS, RECOVERY_POINTS, RETENTION = "high watermarks", "recovery points", "retention"
"""What is done for logs from time to time."""


class ReplicaManagerActor(FlowActor):
    """This actor manages the replicas on a broker, like Kafka's ReplicaManager; each broker has one."""

    def __init__(self) -> None:
        super().__init__()
        self._settings: NodeSettings
        self._metrics: ActorAddress
        self._node: ActorAddress
        self._directories: LogDirectories | None = None
        self._early: list[Forwarded] = []
        self._ahead: dict[int, list[Message]] = {}
        """By connection: parts of the request that comes next on it."""
        self._parts: list[Message] = []
        """Parts of the request that is being obeyed."""
        self._orders: RoleOrders
        """What a LeaderAndIsr orders. Tables made for each would be young, and looked through for garbage."""
        self._epochs = Epochs()
        self._origin: Origin
        """Whose request is being obeyed."""
        self._hosted: dict[TopicPartition, ActorAddress | None] = {}
        """Online partitions with their actors, offline ones with None."""
        self._offline = 0
        self._partition_counts = PartitionCounts()
        self._published: tuple[Gauge, ...] = ()
        self._isr_keeper: ActorAddress
        self._verifier: ActorAddress | None = None
        self._fetcher_manager: ActorAddress
        self._partition_requests: ActorAddress
        self._topics: dict[str, Host] = {}
        """The log configuration of hosted topics; topics with equal overrides share one."""
        self._overrides: dict[str, tuple[ConfigEntry, ...]] = {}
        """The overrides of hosted topics that have any."""
        self._throttled: dict[str, dict[str, tuple[int, ...] | None]] = {side: {} for side in SIDES}
        """The partitions of each topic that are throttled, if there ever were any; None: all."""
        self._news: list[Hosting] = []
        """Changes of hosted partitions, to be sent."""
        self._coordinators: tuple[ActorAddress, ...] = ()
        self._led: dict[TopicPartition, LedPartition] = {}
        self._no_longer_led: dict[TopicPartition, None] = {}
        """Changes of leaders of internal topics, to be sent (rule 5)."""
        self._housekeeping = False
        self._shutting_down = False
        self._async_deletions: deque[tuple[float, str]] = deque()
        """(when due, path) of deleted logs, soonest first."""

    # ------------------------------------------------------------------------------------------------ start, stop

    def receiveMsg_StartReplicaManager(self, message: StartReplicaManager, sender: ActorAddress) -> None:
        """Load the log directories, answer how that went, and begin with what has come meanwhile."""
        settings = self._settings = message.settings
        self._orders = RoleOrders(settings.node_id)
        self._metrics = message.metrics
        self._node = sender
        self.peers = {
            "metadata_cache": message.metadata_cache,
            "bridge": message.bridge,
            ISR_KEEPER: message.isr_keeper,
        }
        self._isr_keeper, self._verifier = message.isr_keeper, message.verifier
        self._fetcher_manager = message.fetcher_manager
        self._partition_requests = message.partition_requests
        self._coordinators = message.coordinators
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
            "[Broker id=%d] Found %d logs in %d log directories, and %d deleted logs to remove",
            settings.node_id,
            len(directories),
            len(directories.live),
            len(leftovers),
        )
        for path in leftovers:
            self._schedule_async_delete(path)
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

    def receiveMsg_ShuttingDown(self, message: ShuttingDown, sender: ActorAddress) -> None:
        """The node stops soon: who took over from it would count it in sync again, if it fetched."""
        self._shutting_down = True

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: ActorAddress) -> None:
        """A partition has exited as requested."""

    # ------------------------------------------------------------------------------------------------ requests

    def flow(self, message: Message) -> Flow[None] | None:
        """One request of a controller, a client's about log directories, or what is done from time to time."""
        match message:
            case Forwarded(request=request):
                if self._directories is None:
                    self._early.append(message)
                    return None
                if isinstance(request.request, DescribeLogDirsRequest):
                    return self._describe_log_dirs(message, request.request, self._directories)
                return self._serve(message, self._directories)
            case WakeupMessage(payload=RemoveDeletedLogs()):
                self._remove_deleted_logs()
                return None
            case WakeupMessage(payload=KeepLogs(what)):
                return None if self._directories is None else self._keep_logs(what, self._directories)
            case TopicsConfigured(topics):
                hosted = [topic for topic in topics if topic.topic in self._topics]
                self._keep_overrides([(topic, overrides) for topic, overrides, _ in hosted])
                return self._reconfigure(tuple(topic.topic for topic in hosted))
            case BrokerConfigured(settings):
                self._settings = settings
                return self._reconfigure(tuple(self._topics))
            case PartitionHealth(partition, health_flags):
                if partition in self._partition_counts.leading:
                    self._partition_counts.count(partition, True, health_flags)
                    self._publish()
                return None
            case LogFailed(partition, storage_error):
                if self._directories is not None:
                    return self._handle_log_failure(partition, storage_error, self._directories)
                return None
            case LogFileFailed(path, storage_error):
                if self._directories is not None:
                    directory = path.rpartition("/")[0].rpartition("/")[0]
                    return self._handle_failure_of(directory, storage_error, self._directories)
                return None
        return super().flow(message)

    def event_failed(self, event: Message, error: Exception) -> Flow[None] | None:
        """A request whose flow broke is answered as a whole: the controller would send it again for ever otherwise."""
        if not isinstance(event, Forwarded):
            return None
        if isinstance(event.request.request, DescribeLogDirsRequest):
            self._respond(event, DescribeLogDirsResponse(()))
            return None
        return self._refuse(event, UNKNOWN_SERVER_ERROR)

    def _serve(self, forwarded: Forwarded, directories: LogDirectories) -> Flow[None]:
        request = forwarded.request.request
        self._parts = self._ahead.pop(forwarded.request.connection, [])
        origin = self._origin = Origin.of(request, forwarded.request.correlation_id)
        error_code = self._epochs.verdict(request)
        if error_code == STALE_CONTROLLER_EPOCH:
            yield from self._look_up_controller_epoch()
            error_code = self._epochs.verdict(request)
        if error_code != NONE:
            known = self._epochs
            self._say(logging.WARNING, refused_whole(origin, error_code, request, known.controller, known.broker))
            yield from self._refuse(forwarded, error_code)
            return
        self._epochs = self._epochs.obeying(request)
        errors: list[PartitionError] = []
        match request:
            case LeaderAndIsrRequest():
                yield from self._lead_and_follow(request, directories, errors)
            case StopReplicaRequest():
                yield from self._stop_replicas(request, directories, errors)
            case UpdateMetadataRequest():
                yield from self._update_metadata(request)
            case _:
                raise TypeError(f"ReplicaManagerActor has no handler for {type(request).__name__}")
        if self._settings.validate_state:
            self._validate(directories)
        self._tell_news()
        yield from self._answer(forwarded, NONE, errors)
        self._publish()
        yield from let_go(self._parts)

    def _look_up_controller_epoch(self) -> Flow[None]:
        """Forget an epoch that no controller ever had. While ZooKeeper is away, what was once believed holds."""
        try:
            there = yield from ask(GetControllerEpoch())
        except AskFailed as error:
            _log.debug("Failed to read the controller epoch from ZooKeeper: %s", error)
            return
        if there.epoch < self._epochs.controller:
            _log.error(
                "[Broker id=%d] Ignoring controller epoch %d, because /controller_epoch in ZooKeeper is %d",
                self._settings.node_id,
                self._epochs.controller,
                there.epoch,
            )
        self._epochs = self._epochs.corrected(there.epoch)

    def _validate(self, directories: LogDirectories) -> None:
        """Raises InconsistentBroker where what we know contradicts itself."""
        offline = [partition for partition, actor in self._hosted.items() if actor is None]
        online = self._hosted.keys() - offline
        check(
            replica_disagreements(online, offline, self._offline, self._partition_counts)
            + log_disagreements(offline, directories.homes, directories.live)
        )

    def _refuse(self, forwarded: Forwarded, error_code: int) -> Flow[None]:
        """Answer a request as a whole."""
        request = forwarded.request.request
        errors: list[list[PartitionError]] = []
        if isinstance(request, LeaderAndIsrRequest):
            entries = entries_of(self._parts, request)
            errors = yield from in_turns(lambda orders: refused(orders, error_code), entries)
        yield from self._answer(forwarded, error_code, itertools.chain.from_iterable(errors))
        yield from let_go(self._parts)

    def _answer(self, forwarded: Forwarded, error_code: int, errors: Iterable[PartitionError]) -> Flow[None]:
        """Answer a controller's request, in parts where the errors are many."""
        request = forwarded.request
        *ahead, rest = (yield from in_turns(tuple, chunks(errors))) or [()]
        for entries in ahead:
            self.send(forwarded.client, ClientPart(request.connection, PartitionErrorsPart(entries)))
        self._respond(forwarded, answer(request.request, error_code, rest))

    def _respond(self, forwarded: Forwarded, response: ControllerResponse | DescribeLogDirsResponse) -> None:
        request = forwarded.request
        self.send(forwarded.client, ClientResponse(request.connection, request.correlation_id, response))

    # ------------------------------------------------------------------------------------------------ DescribeLogDirs

    def _describe_log_dirs(
        self, forwarded: Forwarded, request: DescribeLogDirsRequest, directories: LogDirectories
    ) -> Flow[None]:
        """Tell a client where logs are, and how large."""
        wanted = wanted_logs(request)
        logs = [
            (path, partition, is_future)
            for path, partition, is_future in directories.paths()
            if wanted is None or partition in wanted
        ]

        def measure(part: Sequence[tuple[str, tuple[str, int], bool]]) -> list[FoundLog]:
            sizes = self.port("logs").sizes(tuple(path for path, _, _ in part))
            return [
                FoundLog(path.rpartition("/")[0], TopicPartition(*partition), size, self._is_open(partition), is_future)
                for (path, partition, is_future), size in zip(part, sizes, strict=True)
            ]

        found = yield from in_slices(measure, logs)
        reported = described(self._settings.log_dirs, directories.offline, itertools.chain.from_iterable(found))
        self._respond(forwarded, reported)

    def _is_open(self, partition: tuple[str, int]) -> bool:
        return self._hosted.get(TopicPartition(*partition)) is not None

    # ------------------------------------------------------------------------------------------------ UpdateMetadata

    def _update_metadata(self, request: UpdateMetadataRequest) -> Flow[None]:
        """Hand it to the cache, which changes with the last part."""
        for place, part in enumerate(self._parts):
            yield from ask(StageMetadata(part, begins=place == 0))
        merged = yield from ask(MergeMetadata(request, begins=not self._parts))
        if merged.deleted:
            for coordinator in self._coordinators:
                self.send(coordinator, PartitionsDeleted(merged.deleted))
        old = merged.old
        while old:
            old = (yield from ask(DropOldTopics())).left

    # ------------------------------------------------------------------------------------------------ LeaderAndIsr

    def _lead_and_follow(
        self, request: LeaderAndIsrRequest, directories: LogDirectories, errors: list[PartitionError]
    ) -> Flow[None]:
        """Hand every order to its partition, leaders first, and gather the codes (broker.md 1.2)."""
        own_id, orders = self._settings.node_id, self._orders
        orders.clear()
        yield from in_turns(orders.take, entries_of(self._parts, request))
        _log.info(
            "[Broker id=%d] Handling LeaderAndIsr request from controller %d epoch %d: %d become-leader and "
            "%d become-follower"
            " partitions",
            own_id,
            request.controller_id,
            request.controller_epoch,
            len(orders.leading),
            len(orders.following),
        )
        yield from self._read_configs(orders)
        leading = 0
        left: list[TopicPartition] = []
        for window in chunks(orders.leading.values(), ORDERS_AT_ONCE):
            taken = yield from self._take_roles(window, become_leader, directories, errors)
            self._note_leaderships(taken)
            left += [order.partition for _, order, result in taken if result.leads]
            if len(left) >= SLICE:
                leading += self._unfollow(left)
                left = []
        leading += self._unfollow(left)
        if leading:
            self._say(logging.INFO, stopped_fetchers(self._origin, leading, leading=True))
        if orders.following:
            following = 0
            brokers = yield from ask(GetAliveBrokers())
            alive = frozenset(brokers.ids)
            for window in chunks(orders.following.values(), ORDERS_AT_ONCE):
                taken = yield from self._take_roles(
                    window,
                    lambda order, log, host: BecomeFollower(order, log, host, order.leader in alive),
                    directories,
                    errors,
                )
                following += self._follow(taken, brokers)
                self._note_leaderships(taken)
            if following:
                self._say(logging.INFO, stopped_fetchers(self._origin, following, leading=False))
            yield from in_slices(self._drop_figures, tuple(orders.following))
        orders.clear()
        self._start_log_maintenance()

    def _note_leaderships(self, taken: Sequence[Taken]) -> None:
        """Remember which roles in internal topics are news (rule 5)."""
        for actor, order, result in taken:
            if result.changed and order.partition.topic in INTERNAL_TOPICS:
                self._led.pop(order.partition, None)
                self._no_longer_led.pop(order.partition, None)
                if result.leads:
                    self._led[order.partition] = LedPartition(order.partition, order.leader_epoch, actor)
                else:
                    self._no_longer_led[order.partition] = None

    def _drop_figures(self, followed: Sequence[TopicPartition]) -> None:
        """Drop the producer counts of topics without a local leader."""
        dropped = outdated((partition.topic for partition in followed), self._partition_counts.led)
        if dropped is not None:
            self.send(self._metrics, dropped)

    def _unfollow(self, partitions: Sequence[TopicPartition]) -> int:
        """Stop the fetchers of partitions that have accepted their orders; how many partitions (rule 6)."""
        if partitions:
            self.send(self._fetcher_manager, Unfollow(tuple(partitions)))
        return len(partitions)

    def _read_configs(self, orders: RoleOrders) -> Flow[None]:
        """Read the configuration of new topics; use the defaults if it is unavailable."""
        new: dict[str, tuple[ConfigEntry, ...]] = {}
        for role in (orders.leading, orders.following):
            yield from in_turns(
                lambda part: new.update((topic, ()) for topic, _ in part if topic not in self._topics), chunks(role)
            )
        if not new:
            return
        try:
            read = yield from ask(GetTopicConfigs(tuple(new)))
            new.update((topic, entries) for topic, entries, _ in read.topics)
        except AskFailed as error:
            _log.error(
                "[Broker id=%d] Failed to read topic configs, new topics use the defaults: %s",
                self._settings.node_id,
                error,
            )
        yield from in_slices(self._configure, tuple(new.items()), TOPICS_AT_ONCE)

    def _configure(self, topics: Sequence[tuple[str, tuple[ConfigEntry, ...]]]) -> None:
        default = self._host_of("", ())
        for topic, overrides in topics:
            self._topics[topic] = self._host_of(topic, overrides) if overrides else default
        self._keep_overrides(topics)

    def _keep_overrides(self, topics: Sequence[tuple[str, tuple[ConfigEntry, ...]]]) -> None:
        for topic, overrides in topics:
            if overrides:
                self._overrides[topic] = overrides
            else:
                self._overrides.pop(topic, None)
        self._throttle(topics)

    def _throttle(self, topics: Sequence[tuple[str, tuple[ConfigEntry, ...]]]) -> None:
        """Send changed throttles to leaders and fetchers."""
        for side, whom in ((LEADER, self._partition_requests), (FOLLOWER, self._fetcher_manager)):
            known, reported = self._throttled[side], []
            for topic, overrides in topics:
                throttled = throttled_topic(topic, overrides, side, self._settings.node_id)
                if throttled.partitions != known.get(topic, ()):
                    known[topic] = throttled.partitions
                    reported.append(throttled)
            if reported:
                self.send(whom, ThrottleReplicas(tuple(reported)))

    def _reconfigure(self, topics: Sequence[str]) -> Flow[None]:
        """Apply changed configurations to the hosted partitions of these topics."""
        changed: dict[str, LogSettings] = {}
        default = self._host_of("", ())

        def work_out(part: Sequence[str]) -> None:
            for topic in part:
                old, overrides = self._topics.get(topic), self._overrides.get(topic)
                new = self._host_of(topic, overrides) if overrides else default
                if old is not None and new.settings != old.settings:
                    self._topics[topic], changed[topic] = new, new.settings

        yield from in_slices(work_out, topics, TOPICS_AT_ONCE)

        def tell(partitions: Sequence[TopicPartition]) -> None:
            for partition in partitions:
                actor = self._hosted.get(partition) if partition.topic in changed else None
                if actor is not None:
                    self.send(actor, Configure(changed[partition.topic]))

        if changed:
            yield from in_slices(tell, tuple(self._hosted))

    def _follow(self, taken: Sequence[Taken], brokers: AliveBrokers) -> int:
        """Fetch from the leaders of the partitions whose role is new; how many there are.

        A partition whose new leader cannot be reached leaves its old one all the same, and so does every partition
        while the broker shuts down: a new leader would count it in sync again, just before it goes.
        """
        endpoints = {} if self._shutting_down else dict(zip(brokers.ids, brokers.endpoints, strict=True))
        by_leader: dict[int, list[FollowedPartition]] = {}
        left: list[TopicPartition] = []
        for actor, order, result in taken:
            if result.changed and endpoints.get(order.leader) is None:
                left.append(order.partition)
            elif result.changed:
                by_leader.setdefault(order.leader, []).append(
                    FollowedPartition(
                        order.partition,
                        actor,
                        order.leader_epoch,
                        result.log_end_offset,
                        result.high_watermark,
                        result.latest_epoch,
                        self._settings.node_id in order.adding_replicas,
                    )
                )
        for leader, partitions in by_leader.items():
            endpoint = endpoints[leader]
            assert endpoint is not None
            self.send(self._fetcher_manager, FollowLeader(leader, endpoint, tuple(partitions)))
        return self._unfollow(left) + sum(map(len, by_leader.values()))

    def _take_roles(
        self,
        orders: Sequence[LeaderAndIsrPartitionState],
        become: Callable[[LeaderAndIsrPartitionState, LogPlace | None, Host | None], RoleOrder],
        directories: LogDirectories,
        errors: list[PartitionError],
    ) -> Flow[list[Taken]]:
        """Have partitions obey these orders. A log that cannot be made in one directory is made in another.

        Returns those that did.
        """
        taken: list[Taken] = []
        placed: list[tuple[ActorAddress, LeaderAndIsrPartitionState, LogPlace | None, Host | None]] = []
        looks: dict[float, list[ActorAddress]] = {}
        yield from grow_tables(len(orders), self._hosted, directories.homes, *self._partition_counts.tables)
        for order in orders:
            partition, host, error_code = order.partition, None, KAFKA_STORAGE_ERROR
            if partition in self._hosted:
                actor = self._hosted[partition]
            elif (error_code := name_verdict(partition)) == NONE:
                actor, host = self._begin_to_host(partition), self._topics[partition.topic]
            else:
                actor = None
            if actor is not None:
                placed.append((actor, order, _log_place(directories, partition, order.is_new), host))
            else:
                errors.append(PartitionError(partition, error_code))
                self._ignored(order, error_code)
        self._tell_news()
        if not placed:
            yield Pause()
        while placed:
            results = yield from ask_all([(actor, become(order, log, host)) for actor, order, log, host in placed])
            asked, placed = placed, []
            failures: dict[str, str] = {}
            for (actor, order, log, _), result in zip(asked, results, strict=True):
                partition = order.partition
                if (isinstance(result, Failure) or not result.has_log) and log is not None and log.missing:
                    directories.forget(partition)
                if isinstance(result, Failure):
                    errors.append(PartitionError(partition, UNKNOWN_SERVER_ERROR))
                    continue
                if result.look_at is not None:
                    looks.setdefault(result.look_at, []).append(actor)
                if result.storage_error and log is not None:
                    failures[log.path.rpartition("/")[0]] = result.storage_error
                    if log.missing:
                        placed.append((actor, order, None, None))
                        continue
                errors.append(PartitionError(partition, result.error_code))
                if result.error_code != NONE:
                    self._ignored(order, result.error_code, result.leader_epoch)
                if result.error_code == KAFKA_STORAGE_ERROR:
                    self._take_offline(partition)
                    if not result.storage_error:  # its directory stays online, but nothing is made in the log's place
                        directories.forget(partition)
                else:
                    if result.error_code == NONE:
                        taken.append((actor, order, result))
                    self._partition_counts.count(partition, result.leads, result.health_flags)
            for at, leaders in looks.items():
                self.send(self._isr_keeper, WatchFollowers(at, tuple(leaders)))
            looks.clear()
            for directory, storage_error in failures.items():
                yield from self._handle_log_dir_failure(directory, storage_error, directories)
            placed = [  # that their logs may be made was decided
                (actor, order, _log_place(directories, order.partition, is_new=True), None)
                for actor, order, _, _ in placed
            ]
        return taken

    def _ignored(self, order: LeaderAndIsrPartitionState, code: int, known: int = NO_EPOCH) -> None:
        """Say why an order is not obeyed. That it came a second time is nothing to worry about."""
        level = logging.INFO if order.leader_epoch == known else logging.WARNING
        self._say(level, ignored(self._origin, order.partition, code, order.leader_epoch, known, order.replicas))

    def _say(self, level: int, words: str) -> None:
        state_log.log(level, "[Broker id=%d] %s", self._settings.node_id, words)

    def _host_of(self, topic: str, overrides: tuple[ConfigEntry, ...]) -> Host:
        """The log configuration of a topic with these overrides."""
        settings = log_settings(self._settings, topic, overrides)
        actors = self.myAddress, self._isr_keeper, self._verifier
        return Host(self._settings.node_id, settings, log_config(settings), *actors)

    def _begin_to_host(self, partition: TopicPartition) -> ActorAddress:
        """A new actor for the partition."""
        actor = self._hosted[partition] = self.createActor(PartitionActor)
        self._news.append(Hosting(partition, actor))
        return actor

    # ------------------------------------------------------------------------------------------------ StopReplica

    def _stop_replicas(
        self, request: StopReplicaRequest, directories: LogDirectories, errors: list[PartitionError]
    ) -> Flow[None]:
        """Stop hosted partitions, and delete logs, also of partitions that are not hosted (broker.md 2.1)."""
        orders: dict[TopicPartition, StopReplicaPartitionState] = {}
        yield from in_turns(
            lambda states: orders.update((state.partition, state) for state in states),
            entries_of(self._parts, request),
        )
        _log.info(
            "[Broker id=%d] Handling StopReplica request from controller %d epoch %d for %d partitions, %d "
            "of them to delete",
            self._settings.node_id,
            request.controller_id,
            request.controller_epoch,
            len(orders),
            sum(order.delete_partition for order in orders.values()),
        )
        broken: dict[TopicPartition, str] = {}
        writing: list[TopicPartition] = []
        for window in chunks(orders.values(), ORDERS_AT_ONCE):
            yield from self._stop(window, directories, errors, broken, writing)
        for partition, storage_error in broken.items():
            path = directories.find(partition)
            if storage_error and path is not None:
                yield from self._handle_log_dir_failure(path.rpartition("/")[0], storage_error, directories)
            self._take_offline(partition)
        if any(order.delete_partition for order in orders.values()):
            yield from self._write_off(directories)
        if writing:
            yield from self._end_isr_writes(tuple(writing))

    def _end_isr_writes(self, partitions: tuple[TopicPartition, ...]) -> Flow[None]:
        """Wait until no ISR write of these deleted partitions can reach ZooKeeper any more (rule 7).

        The znode of a topic that is created again has the version that an old write expects. Kafka waits for the lock
        that a partition holds during its write, however long that takes.
        """
        while True:
            try:
                yield from ask(DropIsrChanges(partitions))
            except AskFailed as error:
                _log.warning(
                    "[Broker id=%d] StopReplica: failed to cancel pending ISR writes of %d partitions, retrying: %s",
                    *(self._settings.node_id, len(partitions), error),
                )
            else:
                return

    def _write_off(self, directories: LogDirectories) -> Flow[None]:
        """Remove the deleted logs from the checkpoints before the request is answered, as Kafka (broker.md 2.2)."""
        for directory, storage_error in self.port("logs").checkpoint_deletions():
            yield from self._handle_log_dir_failure(directory, storage_error, directories)

    def _stop(
        self,
        orders: Sequence[StopReplicaPartitionState],
        directories: LogDirectories,
        errors: list[PartitionError],
        broken: dict[TopicPartition, str],
        writing: list[TopicPartition],
    ) -> Flow[None]:
        """Stop these; `broken` takes the partitions whose disk failed, with its words, and `writing` the deleted ones
        that have ISR writes without an outcome.
        """
        asked: list[StopReplicaPartitionState] = []
        pairs: list[tuple[ActorAddress, StopPartition]] = []
        for order in orders:
            partition = order.partition
            actor = self._hosted.get(partition)
            if actor is not None:
                asked.append(order)
                pairs.append((actor, StopPartition(order.leader_epoch, order.delete_partition)))
            elif partition in self._hosted:
                errors.append(PartitionError(partition, KAFKA_STORAGE_ERROR))
            else:
                storage_error = self._delete_stray(partition, directories) if order.delete_partition else ""
                if storage_error:
                    broken[partition] = storage_error
                errors.append(PartitionError(partition, KAFKA_STORAGE_ERROR if storage_error else NONE))
        if not pairs:
            yield Pause()
        results = yield from ask_all(pairs)
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
                words = ignored(self._origin, partition, error_code, order.leader_epoch, result.leader_epoch, how=how)
                self._say(logging.WARNING, words)
            if error_code == NONE and order.delete_partition:
                self._dismiss(partition, gone=True)
                del self._hosted[partition]
                self._topics.pop(partition.topic, None)  # made again, it may be configured otherwise
                self._overrides.pop(partition.topic, None)
                if result.writes_isr:
                    writing.append(partition)
                if result.deleted:
                    directories.forget(partition)
                    self._schedule_async_delete(result.deleted)
                elif storage_error := self._delete_stray(partition, directories):
                    error_code = KAFKA_STORAGE_ERROR
            if error_code == KAFKA_STORAGE_ERROR:
                broken[partition] = storage_error
            errors.append(PartitionError(partition, error_code))
        self._unfollow(stopped)

    def _delete_stray(self, partition: TopicPartition, directories: LogDirectories) -> str:
        """Delete the log that no partition has opened, if there is one. The disk's words where that failed."""
        path = directories.find(partition)
        if path is None:
            return ""
        deleted = deleted_path(path, self.port("random").uuid_hex())
        try:
            self.port("logs").close(path, True)
            renamed = self.port("disk").rename(path, deleted)
        except OSError as error:
            return error.strerror or str(error)
        directories.forget(partition)
        if renamed:
            self._schedule_async_delete(deleted)
        return ""

    # ------------------------------------------------------------------------------------------------ lost directories

    def _handle_log_dir_failure(self, directory: str, storage_error: str, directories: LogDirectories) -> Flow[None]:
        """A log directory has failed: everything in it goes offline; notify the controller or the node."""
        lost = directories.fail(directory)
        self.port("logs").lose(directory)
        _log.error(
            "[Broker id=%d] Stopping serving replicas in dir %s: %d partitions are offline (%s)",
            *(self._settings.node_id, directory, len(lost), storage_error),
        )
        yield from in_slices(self._take_all_offline, lost, ORDERS_AT_ONCE)
        if directories.live:
            self.send(self.peers["bridge"], Ask(UNAWAITED, NotifyLogDirFailure(self._settings.node_id)))
        else:
            reason = f"all log directories have failed: {', '.join(directories.offline)}"
            self.send(self._node, ReplicaManagerFailed(reason))

    def _take_all_offline(self, partitions: Sequence[tuple[str, int]]) -> None:
        for topic, number in partitions:
            self._take_offline(TopicPartition(topic, number))

    def _take_offline(self, partition: TopicPartition) -> None:
        if self._hosted.get(partition) is not None:
            self._dismiss(partition)
            self._hosted[partition] = None
            self._offline += 1

    def _dismiss(self, partition: TopicPartition, gone: bool = False) -> None:
        """Let the partition's actor go."""
        self.send(self._hosted[partition], ActorExitRequest())
        self._partition_counts.remove(partition)
        self._news.append(Hosting(partition, None, gone))
        if partition.topic in INTERNAL_TOPICS:
            self._led.pop(partition, None)
            self._no_longer_led[partition] = None

    def _tell_news(self) -> None:
        """Tell those who send data to partitions where they are now, and the coordinators what they coordinate."""
        if self._led or self._no_longer_led:
            leadership = InternalTopicLeadership(tuple(self._led.values()), tuple(self._no_longer_led))
            for coordinator in self._coordinators:
                self.send(coordinator, leadership)
        self._led, self._no_longer_led = {}, {}
        news, self._news = tuple(self._news), []
        lost = tuple(partition for partition, actor, _ in news if actor is None)
        if lost:
            self.send(self._fetcher_manager, Unfollow(lost))
        if news:
            self.send(self._partition_requests, PartitionsHosted(news))

    # ------------------------------------------------------------------------------------------------ keeping logs

    def _start_log_maintenance(self) -> None:
        """Begin with what is done from time to time, once the controller has said what is hosted (broker.md 1.2)."""
        if not self._housekeeping:
            self._housekeeping = True
            delay = self._settings.log_initial_task_delay_ms
            for what, every in self._intervals().items():
                first = every if what == HIGH_WATERMARKS else min(every, delay)
                self.wakeupAfter(timedelta(milliseconds=first), KeepLogs(what))

    def _intervals(self) -> dict[str, int]:
        settings = self._settings
        return {
            HIGH_WATERMARKS: settings.replica_high_watermark_checkpoint_interval_ms,
            RECOVERY_POINTS: settings.log_flush_offset_checkpoint_interval_ms,
            RETENTION: settings.log_retention_check_interval_ms,
        }

    def _keep_logs(self, what: str, directories: LogDirectories) -> Flow[None]:
        """Write checkpoints, or have partitions drop what is too old. A directory that takes none is lost (rule 3)."""
        failures: tuple[tuple[str, str], ...] = ()
        if what == HIGH_WATERMARKS:
            failures = self.port("logs").checkpoint_high_watermarks()
        elif what == RECOVERY_POINTS:
            failures = self.port("logs").checkpoint()
        else:
            yield from self._expire_logs()
        for directory, storage_error in failures:
            yield from self._handle_log_dir_failure(directory, storage_error, directories)
        if failures:
            self._tell_news()
            self._publish()
        self.wakeupAfter(timedelta(milliseconds=self._intervals()[what]), KeepLogs(what))

    def _expire_logs(self) -> Flow[None]:
        """Have those partitions look at their logs that have something to drop; of logs that come and go meanwhile some
        are left to the next time.
        """
        position = 0
        while position >= 0:
            position, due = self.port("logs").expirable(position, LOGS_AT_ONCE)
            for partition in due:
                actor = self._hosted.get(TopicPartition(*partition))
                if actor is not None:
                    self.send(actor, ExpireLog())
            yield Pause()

    def _handle_log_failure(
        self, partition: TopicPartition, storage_error: str, directories: LogDirectories
    ) -> Flow[None]:
        """The disk failed under a partition that was reading or writing (rule 3)."""
        path = directories.find(partition)
        if path is not None:
            yield from self._handle_failure_of(path.rpartition("/")[0], storage_error, directories)

    def _handle_failure_of(self, directory: str, storage_error: str, directories: LogDirectories) -> Flow[None]:
        """A log directory has failed outside any order; nothing where that is known."""
        if directory in directories.live:
            yield from self._handle_log_dir_failure(directory, storage_error, directories)
            self._tell_news()
            self._publish()

    # ------------------------------------------------------------------------------------------------ deleted logs

    def _schedule_async_delete(self, path: str) -> None:
        """Remove a renamed log when its delay is over."""
        delay = self._settings.log_segment_delete_delay_ms / 1000
        self._async_deletions.append((self.now + delay, path))
        if len(self._async_deletions) == 1:
            self.wake_at(self._async_deletions[0][0], RemoveDeletedLogs())

    def _remove_deleted_logs(self) -> None:
        for _ in range(REMOVALS_AT_ONCE):
            if not self._async_deletions or self._async_deletions[0][0] > self.now:
                break
            path = self._async_deletions.popleft()[1]
            try:
                self.port("disk").remove_tree(path)
            except OSError as error:
                _log.error(
                    "[Broker id=%d] Failed to delete %s, retrying at the next start: %s",
                    self._settings.node_id,
                    path,
                    error,
                )
        if self._async_deletions:
            self.wake_at(self._async_deletions[0][0], RemoveDeletedLogs())

    # ------------------------------------------------------------------------------------------------ figures

    def _publish(self) -> None:
        """Tell the metrics what has changed."""
        lost = 0 if self._directories is None else len(self._directories.offline)
        gauges = self._partition_counts.gauges(len(self._hosted), self._offline, lost)
        changed = tuple(gauge for gauge in gauges if gauge not in self._published)
        if changed:
            self._published = gauges
            self.send(self._metrics, Gauges(changed))


def _log_place(directories: LogDirectories, partition: TopicPartition, is_new: bool) -> LogPlace | None:
    """Where the partition's log is, or may be created; None if no directory can take it."""
    path = directories.find(partition)
    if path is not None:
        return LogPlace(path)
    path = directories.place(partition, is_new)
    return None if path is None else LogPlace(path, missing=True)
