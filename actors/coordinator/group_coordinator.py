"""GroupCoordinatorActor: which groups this broker coordinates, and who is asked about them (broker.md 1.6, 6.5).

Rule 1: a group belongs to one partition of __consumer_offsets, and its coordinator is who leads that; any broker says
        who it is. The first who asks causes the topic to be made, and hears that nobody coordinates yet.
Rule 2: a partition that comes to be led here is read to its end; its groups are being loaded until then. When it is led
        elsewhere its groups are unloaded: whoever waits hears so, and all is forgotten.
Rule 3: a request passes the gates of `actors.core.coordinator.gates`, then goes to the group's actor. Where there is no
        such group it is answered here; a first JoinGroup makes it, and a commit of who takes part in no group.
Rule 4: what is asked of several groups goes to each, and is answered when all have answered.
Rule 5: how many partitions the topic has is read once, in ZooKeeper: if it is enlarged later, groups stay with those
        who have their offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import attrs
from thespian.actors import ActorAddress, ActorExitRequest, ChildActorExited, WakeupMessage

from actors.coordinator.group import GroupActor
from actors.core.coordinator.gates import (
    NOBODYS,
    NOBODYS_ENTRY,
    REFUSED_ENTRY,
    Places,
    is_nameless_sync,
    makes_group,
    session_verdict,
    verdict,
)
from actors.core.coordinator.group_states import GroupState
from actors.core.coordinator.loading import LoadedGroup, Loading
from actors.core.coordinator.records import written_format
from actors.core.topic_name import GROUP_METADATA
from actors.runtime import Dispatcher
from messages.apis import API_BY_REQUEST
from messages.broker import (
    CreateMissingTopics,
    FindLeader,
    Forwarded,
    InternalTopicLeadership,
    LeaderFound,
    LedPartition,
    PartitionsDeleted,
)
from messages.cluster import TopicPartition
from messages.conversation import Answer, Ask, Failure
from messages.data_requests import EARLIEST, FetchPartition, OffsetQuery
from messages.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_REQUEST,
    NONE,
    UNKNOWN_SERVER_ERROR,
)
from messages.group_requests import (
    GROUP_KEY,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetDeleteRequest,
)
from messages.groups import (
    CheckExpiry,
    CommitOffsets,
    DeleteGroup,
    DescribeGroup,
    ExpireOffsets,
    ForgetOffsets,
    GroupChanged,
    GroupSettings,
    ServeLoaded,
    StartGroup,
    UnloadGroup,
)
from messages.network import ClientResponse
from messages.node import NodeSettings, StartGroupCoordinator
from messages.partition import AreKnown, FindOffset, Known, LogRead, OffsetFound, ReadLog
from messages.protocol_version import release_of
from messages.vocabulary import Message
from messages.zookeeper import Assignments, GetAssignments

log = logging.getLogger("kafka.coordinator.group.GroupCoordinator")

READ_BYTES = 128 * 1024
"""How much of a partition is read in one turn."""
GROUPS_AT_ONCE = 200
"""Groups that are begun in one turn."""
READ_VERSION, LIST_VERSION = 11, 5
EXPIRY = "expiry"

TRANSACTION_KEY = 1
OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8
"""What anybody may do with a group where nobody is refused anything: read, delete, describe."""

TEXTS = {NONE: "NONE", COORDINATOR_NOT_AVAILABLE: "The coordinator is not available."}
"""What FindCoordinator says beside its code."""

QUESTIONS: dict[type, Callable[[], Message]] = {
    DescribeGroupsRequest: DescribeGroup,
    DeleteGroupsRequest: DeleteGroup,
}
"""What each of several groups is asked (rule 4)."""


@attrs.define
class _Hosted:
    """A group that is coordinated here: its actor, its partition, and how it stands."""

    actor: ActorAddress
    partition: int
    state: str = ""
    protocol_type: str = ""


@attrs.define
class _Gathering:
    """A request about several groups, what they have answered, and how many have not."""

    forwarded: Forwarded
    results: list[Message]
    outstanding: int


@attrs.define
class _Reading:
    """A partition that is being read: what of it, by which actor, and the groups that are still to be begun."""

    loading: Loading
    actor: ActorAddress
    began: float
    groups: list[LoadedGroup] = attrs.field(factory=list)


class GroupCoordinatorActor(Dispatcher):
    """One per broker; see the module's rules."""

    def __init__(self) -> None:
        super().__init__()
        self._settings: NodeSettings
        self._group_settings: GroupSettings
        self._bridge: ActorAddress
        self._metadata_cache: ActorAddress
        self._topic_creation: ActorAddress
        self._places = Places()
        self._logs: dict[int, ActorAddress] = {}
        """The actors of the partitions that are led here."""
        self._groups: dict[str, _Hosted] = {}
        self._numbers = 0
        self._counting = False
        """Whether ZooKeeper is being asked how many partitions there are."""
        self._uncounted: list[Forwarded] = []
        """Who waits for that."""
        self._asked: dict[int, Forwarded] = {}
        """Requests of which the metadata cache is asked something."""
        self._gathered: dict[int, tuple[_Gathering, int]] = {}
        """By question: the request, and the place in it."""
        self._readings: dict[int, _Reading] = {}

    def receiveMsg_StartGroupCoordinator(self, message: StartGroupCoordinator, sender: ActorAddress) -> None:
        """Learn how groups are to be treated, and whom to ask."""
        settings = self._settings = message.settings
        self._bridge, self._metadata_cache = message.bridge, message.metadata_cache
        self._topic_creation = message.topic_creation
        self._group_settings = GroupSettings(
            initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
            min_session_timeout_ms=settings.group_min_session_timeout_ms,
            max_session_timeout_ms=settings.group_max_session_timeout_ms,
            max_size=settings.group_max_size,
            metadata_max_bytes=settings.offset_metadata_max_bytes,
            retention_ms=settings.offsets_retention_minutes * 60_000,
            commit_timeout_ms=settings.offsets_commit_timeout_ms,
            format=written_format(release_of(settings.inter_broker_protocol_version)),
        )
        self._wait_for_expiry()

    # ------------------------------------------------------------------------------------------------ requests

    def receiveMsg_Forwarded(self, message: Forwarded, sender: ActorAddress) -> None:
        """A client's request."""
        match message.request.request:
            case FindCoordinatorRequest() as request:
                self._find(message, request)
            case ListGroupsRequest() as request:
                self._respond(message, self._list(request))
            case DescribeGroupsRequest() | DeleteGroupsRequest():
                self._gather(message)
            case OffsetCommitRequest() | OffsetDeleteRequest() as request:
                partitions = tuple([each.partition for each in request.partitions])
                self.send(self._metadata_cache, AreKnown(self._ask_for(message), partitions))
            case _:
                self._route(message, message)

    def receiveMsg_Known(self, message: Known, sender: ActorAddress) -> None:
        """Which partitions of a commit there are."""
        forwarded = self._asked.pop(message.request)
        partitions = forwarded.request.request.partitions
        unknown = [each.partition for each, known in zip(partitions, message.known, strict=True) if not known]
        self._route(forwarded, CommitOffsets(forwarded, tuple(unknown)))

    def _route(self, forwarded: Forwarded, mail: Message) -> None:
        """Hand the group what concerns it (rule 3)."""
        request = forwarded.request.request
        code: int | None = INCONSISTENT_GROUP_PROTOCOL
        if not is_nameless_sync(request):
            code = verdict(type(request), request.group_id, self._places)
            code = session_verdict(request, self._group_settings) if code is None else code
        if not self._places.count:
            self._count()
        if code is not None:
            self._respond(forwarded, API_BY_REQUEST[type(request)].refusal(request, code))
            return
        hosted = self._groups.get(request.group_id)
        if hosted is None and makes_group(request):
            hosted = self._host(LoadedGroup(request.group_id, None, ()), self._places.partition_of(request.group_id))
        if hosted is None:
            self._respond(forwarded, NOBODYS[type(request)](request))
        else:
            self.send(hosted.actor, mail)

    def _host(self, loaded: LoadedGroup, partition: int) -> _Hosted:
        actor = self.createActor(GroupActor)
        hosted = self._groups[loaded.group] = _Hosted(actor, partition)
        place = TopicPartition(GROUP_METADATA, partition)
        self.send(actor, StartGroup(loaded.group, self._group_settings, place, self._logs[partition], *loaded[1:]))
        return hosted

    def receiveMsg_GroupChanged(self, message: GroupChanged, sender: ActorAddress) -> None:
        """A group stands otherwise; one that is over is let go."""
        hosted = self._groups.get(message.group)
        if hosted is None or hosted.actor != sender:
            return
        hosted.state, hosted.protocol_type = message.state, message.protocol_type
        if message.state == GroupState.DEAD.value:
            del self._groups[message.group]
            self.send(sender, ActorExitRequest())

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: ActorAddress) -> None:
        """A group left as it was told to."""

    def _respond(self, forwarded: Forwarded, response: Message) -> None:
        request = forwarded.request
        self.send(forwarded.client, ClientResponse(request.connection, request.correlation_id, response))

    def _ask_for(self, forwarded: Forwarded) -> int:
        """A number under which the metadata cache answers for this request."""
        self._numbers += 1
        self._asked[self._numbers] = forwarded
        return self._numbers

    # ------------------------------------------------------------------------------------------------ who coordinates

    def _find(self, forwarded: Forwarded, request: FindCoordinatorRequest) -> None:
        """Who coordinates a group (rule 1)? Nobody coordinates transactions here."""
        if request.key_type != GROUP_KEY:
            code = COORDINATOR_NOT_AVAILABLE if request.key_type == TRANSACTION_KEY else INVALID_REQUEST
            self._respond(forwarded, _nobody(code))
        elif not self._places.count:
            self._uncounted.append(forwarded)
            self._count()
        else:
            partition = TopicPartition(GROUP_METADATA, self._places.partition_of(request.key))
            self.send(self._metadata_cache, FindLeader(self._ask_for(forwarded), partition, forwarded.request.listener))

    def receiveMsg_LeaderFound(self, message: LeaderFound, sender: ActorAddress) -> None:
        """Who leads a group's partition."""
        forwarded, broker = self._asked.pop(message.request), message.broker
        if broker is None:
            self._respond(forwarded, _nobody(COORDINATOR_NOT_AVAILABLE))
        else:
            self._respond(forwarded, FindCoordinatorResponse(NONE, TEXTS[NONE], broker.id, broker.host, broker.port))

    def _count(self) -> None:
        """Ask how many partitions there are (rule 5)."""
        if not self._counting:
            self._counting = True
            self.send(self._bridge, Ask(0, GetAssignments((GROUP_METADATA,), watch=False)))

    def _counted(self, result: Assignments | Failure) -> None:
        self._counting = False
        waiting, self._uncounted = self._uncounted, []
        if isinstance(result, Assignments):
            self._places.count = next((len(topic.partitions) for topic in result.topics), 0)
            if not self._places.count and waiting:
                self.send(self._topic_creation, CreateMissingTopics((GROUP_METADATA,)))
        for forwarded in waiting:
            if self._places.count:
                self._find(forwarded, forwarded.request.request)
            else:
                self._respond(forwarded, _nobody(COORDINATOR_NOT_AVAILABLE))

    # ------------------------------------------------------------------------------------------------ admin requests

    def _list(self, request: ListGroupsRequest) -> ListGroupsResponse:
        wanted = {state.lower() for state in request.states_filter}
        groups = [
            ListedGroup(name, hosted.protocol_type, hosted.state)
            for name, hosted in self._groups.items()
            if not wanted or hosted.state.lower() in wanted
        ]
        return ListGroupsResponse(COORDINATOR_LOAD_IN_PROGRESS if self._readings else NONE, tuple(groups))

    def _gather(self, forwarded: Forwarded) -> None:
        """Ask each of the groups (rule 4)."""
        request = forwarded.request.request
        kind = type(request)
        gathering = _Gathering(forwarded, [None] * len(request.groups), len(request.groups))
        for place, group in enumerate(request.groups):
            code = verdict(kind, group, self._places)
            if code is not None:
                self._gathered_one(gathering, place, REFUSED_ENTRY[kind](group, code))
            elif group not in self._groups:
                self._gathered_one(gathering, place, NOBODYS_ENTRY[kind](group))
            else:
                self._numbers += 1
                self._gathered[self._numbers] = gathering, place
                self.send(self._groups[group].actor, Ask(self._numbers, QUESTIONS[kind]()))
        if not request.groups:
            self._respond(forwarded, API_BY_REQUEST[kind].response(()))

    def receiveMsg_Answer(self, message: Answer, sender: ActorAddress) -> None:
        """ZooKeeper has said how many partitions there are, or a group has answered."""
        if message.id == 0:
            self._counted(message.result)
            return
        gathering, place = self._gathered.pop(message.id)
        result, request = message.result, gathering.forwarded.request.request
        if isinstance(result, Failure):
            result = REFUSED_ENTRY[type(request)](request.groups[place], UNKNOWN_SERVER_ERROR)
        self._gathered_one(gathering, place, result)

    def _gathered_one(self, gathering: _Gathering, place: int, result: Message) -> None:
        request = gathering.forwarded.request.request
        if isinstance(request, DescribeGroupsRequest) and request.include_authorized_operations:
            result = attrs.evolve(result, authorized_operations=OPERATIONS)
        gathering.results[place] = result
        gathering.outstanding -= 1
        if not gathering.outstanding:
            response = API_BY_REQUEST[type(request)].response
            self._respond(gathering.forwarded, response(tuple(gathering.results)))

    # ---------------------------------------------------------------------------------------------- loading, unloading

    def receiveMsg_InternalTopicLeadership(self, message: InternalTopicLeadership, sender: ActorAddress) -> None:
        """Partitions are led here, or no longer (rule 2)."""
        for partition in message.lost:
            if partition.topic == GROUP_METADATA:
                self._unload(partition.partition)
        for led in message.led:
            if led.partition.topic == GROUP_METADATA:
                self._load(led)

    def _load(self, led: LedPartition) -> None:
        partition = led.partition.partition
        self._unload(partition)
        if not self._places.count:
            self._count()
        self._logs[partition] = led.actor
        self._places.loading.add(partition)
        self._numbers += 1
        self._readings[self._numbers] = _Reading(Loading(partition), led.actor, self.now)
        query = OffsetQuery(led.partition, EARLIEST)
        self.send(led.actor, FindOffset(self._numbers, 0, query, self._settings.node_id, LIST_VERSION))

    def receiveMsg_OffsetFound(self, message: OffsetFound, sender: ActorAddress) -> None:
        """Where a partition begins."""
        reading = self._readings.get(message.request)
        if reading is None:
            return
        if message.result.error_code != NONE:
            self._give_up(message.request, reading, message.result.error_code)
            return
        reading.loading.next = message.result.offset
        self._read_on(message.request, reading)

    def _read_on(self, number: int, reading: _Reading) -> None:
        loading = reading.loading
        place = TopicPartition(GROUP_METADATA, loading.partition)
        part = FetchPartition(place, loading.next, READ_BYTES)
        own = self._settings.node_id
        self.send(reading.actor, ReadLog(number, part, own, READ_VERSION, 0, READ_BYTES, at_least_one=True))

    def receiveMsg_LogRead(self, message: LogRead, sender: ActorAddress) -> None:
        """Some records of a partition."""
        reading = self._readings.get(message.request)
        if reading is None:
            return
        loading, result = reading.loading, message.result
        if result.error_code != NONE:
            self._give_up(message.request, reading, result.error_code)
            return
        if result.body.size:
            loading.next, rows = self.port("logs").key_values(result.body, loading.next)
            loading.take(rows)
        if result.body.size and loading.next < message.state.end:
            self._read_on(message.request, reading)
        else:
            reading.groups = loading.groups()
            self._serve(message.request, reading)

    def receiveMsg_ServeLoaded(self, message: ServeLoaded, sender: ActorAddress) -> None:
        """Begin with some more of the groups of a partition that has been read."""
        reading = self._readings.get(message.load)
        if reading is not None:
            self._serve(message.load, reading)

    def _serve(self, number: int, reading: _Reading) -> None:
        """Begin with groups that were read; with the last of them the partition is served."""
        partition = reading.loading.partition
        now, reading.groups = reading.groups[:GROUPS_AT_ONCE], reading.groups[GROUPS_AT_ONCE:]
        for loaded in now:
            self._host(loaded, partition)
        if reading.groups:
            self.send(self.myAddress, ServeLoaded(number))
            return
        del self._readings[number]
        self._places.loading.discard(partition)
        self._places.serving.add(partition)
        log.info(
            "[GroupCoordinator %d]: loaded %d records of %s-%d in %d ms",
            *(self._settings.node_id, reading.loading.records, GROUP_METADATA, partition),
            round((self.now - reading.began) * 1000),
        )

    def _give_up(self, number: int, reading: _Reading, code: int) -> None:
        """It cannot be read: it is led here no longer, or its disk has failed. News of that will come."""
        del self._readings[number]
        self._places.loading.discard(reading.loading.partition)
        log.error(
            "[GroupCoordinator %d]: %s-%d could not be loaded: error %d",
            *(self._settings.node_id, GROUP_METADATA, reading.loading.partition, code),
        )

    def _unload(self, partition: int) -> None:
        """The partition is led elsewhere: forget its groups (rule 2)."""
        self._logs.pop(partition, None)
        self._places.loading.discard(partition)
        self._places.serving.discard(partition)
        self._readings = {n: each for n, each in self._readings.items() if each.loading.partition != partition}
        for name in [name for name, hosted in self._groups.items() if hosted.partition == partition]:
            actor = self._groups.pop(name).actor
            self.send(actor, UnloadGroup())
            self.send(actor, ActorExitRequest())

    # ------------------------------------------------------------------------------------------------ forgetting

    def receiveMsg_PartitionsDeleted(self, message: PartitionsDeleted, sender: ActorAddress) -> None:
        """What was committed of partitions that are gone is worth nothing."""
        if any(partition.topic == GROUP_METADATA for partition in message.partitions):
            self._places.count = 0
        for hosted in self._groups.values():
            self.send(hosted.actor, ForgetOffsets(message.partitions))

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        """It is time to look for offsets that are over."""
        for hosted in self._groups.values():
            self.send(hosted.actor, ExpireOffsets())
        self._wait_for_expiry()

    def _wait_for_expiry(self) -> None:
        self.set_timer(EXPIRY, self._settings.offsets_retention_check_interval_ms / 1000, CheckExpiry())


def _nobody(code: int) -> FindCoordinatorResponse:
    """Nobody coordinates what was asked for."""
    return FindCoordinatorResponse(code, TEXTS.get(code))
