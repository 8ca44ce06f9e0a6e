"""GroupCoordinatorActor hosts the groups whose partitions of __consumer_offsets this broker leads (broker.md 1.6, 6.5).

Rule 1: a group belongs to one partition of __consumer_offsets, and the leader of that partition is the group's
        coordinator. CoordinatorFinderActor returns the coordinator and the number of partitions.
Rule 2: when this broker becomes leader of a partition, a child actor reads the partition to its end. Until then the
        groups of the partition are loading. When another broker becomes leader, the groups are unloaded: waiting
        requests fail, and the state is dropped.
Rule 3: a request passes the checks of `actors.core.coordinator.request_checks`, then it is sent to the group's actor.
        Three requests create a group that does not exist: a JoinGroup without a member id, an OffsetCommit without
        a generation, and a TxnOffsetCommit. This actor responds to all other requests for such a group, and to
        commits of which no partition exists.
Rule 4: a request about several groups is sent to each of these groups. The response is sent when all of them have
        answered.
Rule 5: when all in-sync replicas of a partition have a transaction's marker, a TransactionEnded message is sent to
        groups of the partition: those with offsets of the transaction's producer. While the groups are being loaded,
        the message waits, because the loader may have read the partition before the marker was appended.

Kafka: `GroupCoordinator`.
"""

from __future__ import annotations

import logging

import attrs
from thespian.actors import ActorAddress, ActorExitRequest, ChildActorExited, WakeupMessage

from actors.coordinator.group import GroupActor
from actors.coordinator.group_loader import GroupLoaderActor
from actors.core.coordinator import request_checks
from actors.core.coordinator.group_metadata_records import written_format
from actors.core.coordinator.group_states import GroupState
from actors.core.coordinator.request_checks import NOBODYS_ENTRY, REFUSED_ENTRY
from actors.core.topic.topic_name import GROUP_METADATA
from actors.runtime import Dispatcher
from messages import errors, groups
from messages.apis import API_BY_REQUEST
from messages.apis.delete_groups import DeleteGroupsRequest
from messages.apis.describe_groups import DescribeGroupsRequest
from messages.apis.list_groups import CLASSIC, ListedGroup, ListGroupsRequest, ListGroupsResponse
from messages.apis.offset_commit import OffsetCommitRequest
from messages.apis.offset_delete import OffsetDeleteRequest
from messages.apis.offset_fetch import GROUPS_SINCE, OffsetFetchedGroup, OffsetFetchRequest, OffsetFetchResponse
from messages.apis.txn_offset_commit import TxnOffsetCommitRequest
from messages.ask import Answer, Ask, Failure
from messages.broker import InternalTopicLeadership, LedPartition, PartitionsDeleted
from messages.cluster import TopicPartition
from messages.error_names import name_of
from messages.network import Forwarded
from messages.node import NodeSettings, StartGroupCoordinator
from messages.partition import CheckPartitionsExist, PartitionsExist
from messages.probes import probe
from messages.protocol_version import release_of
from messages.vocabulary import AnyMessage, Message

OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8
"""All operations that a client may perform without authorization: read, delete, describe."""


class PendingGroupsRequest:
    """A pending request about several groups, with the responses received so far."""

    def __init__(self, request: AnyMessage) -> None:
        self._request = request
        self.groups: tuple[str, ...] = request.groups
        """The groups of the response. A group that a DeleteGroups names twice is deleted once."""
        if isinstance(request, DeleteGroupsRequest):
            self.groups = tuple(dict.fromkeys(request.groups))
        elif isinstance(request, OffsetFetchRequest):
            self.groups = tuple([each.group_id for each in request.groups])
        self._results: list[AnyMessage] = [None] * len(self.groups)
        self._outstanding = len(self.groups)

    def question(self, place: int) -> Message:
        """Return the message that is sent to the group at this index in the request."""
        match self._request:
            case OffsetFetchRequest():
                return groups.FetchOffsets(self._of_one(place))
            case DeleteGroupsRequest():
                return groups.DeleteGroup()
        return groups.DescribeGroup()

    def _of_one(self, place: int) -> OffsetFetchRequest:
        group = self._request.groups[place]
        return OffsetFetchRequest(self._request.version, group.group_id, group.topics, self._request.require_stable)

    @property
    def response(self) -> AnyMessage:
        """The merged response; None until all groups have answered."""
        if self._outstanding:
            return None
        if isinstance(self._request, OffsetFetchRequest):
            return OffsetFetchResponse(errors.NONE, groups=tuple(self._results))
        return API_BY_REQUEST[type(self._request)].response(tuple(self._results))

    def store_result(self, place: int, result: AnyMessage) -> None:
        """Store the result of a group; `place` is the group's index in the request."""
        if isinstance(self._request, DescribeGroupsRequest) and self._request.include_authorized_operations:
            result = attrs.evolve(result, authorized_operations=OPERATIONS)
        elif isinstance(result, OffsetFetchResponse):
            result = OffsetFetchedGroup(self.groups[place], result.partitions)
        self._results[place] = result
        self._outstanding -= 1

    def store_error(self, place: int, code: int) -> None:
        """Store an error as the result of a group that cannot be reached or does not respond."""
        self.store_result(place, REFUSED_ENTRY[type(self._request)](self.groups[place], code))

    def nobodys(self, place: int) -> None:
        """Store the result for a group that does not exist."""
        if isinstance(self._request, OffsetFetchRequest):
            self.store_result(place, request_checks.NOBODYS[OffsetFetchRequest](self._of_one(place)))
        else:
            self.store_result(place, NOBODYS_ENTRY[type(self._request)](self.groups[place]))


log = logging.getLogger("kafka.coordinator.group.GroupCoordinator")

EXPIRY = "expiry"


@attrs.define
class _Hosted:
    """A group that this broker coordinates: its actor, its partition of __consumer_offsets and its state.

    `producer_ids` are the producers whose open transactions have offsets of the group.
    """

    actor: ActorAddress
    partition: int
    producer_ids: tuple[int, ...] = ()
    state: str = ""
    protocol_type: str = ""


@attrs.define
class _Loader:
    """The actor that is loading a partition of __consumer_offsets, and the time when loading began.

    `ended` has the transactions that have ended since then.
    """

    actor: ActorAddress
    began: float
    ended: list[groups.TransactionEnded] = attrs.field(factory=list)


class GroupCoordinatorActor(Dispatcher):
    """This actor hosts consumer groups and forwards requests to them; each broker has one."""

    def __init__(self) -> None:
        super().__init__()
        self._settings: NodeSettings
        self._group_settings: groups.GroupSettings
        self._metadata_cache: ActorAddress
        self._finder: ActorAddress
        self._places = request_checks.LedPartitions()
        self._logs: dict[int, ActorAddress] = {}
        """Partition of __consumer_offsets -> its actor, for the partitions that this broker leads."""
        self._groups: dict[str, _Hosted] = {}
        self._loaders: dict[int, _Loader] = {}
        self._counting = False
        """Whether a request for the number of partitions is in progress."""
        self._numbers = 0
        self._asked: dict[int, Forwarded] = {}
        """Requests that wait for the metadata cache, by number."""
        self._gathered: dict[int, tuple[Forwarded, PendingGroupsRequest, int]] = {}
        """Number of a request to a group -> the client's request, its results, and the index of the group."""

    def receiveMsg_StartGroupCoordinator(self, message: StartGroupCoordinator, sender: ActorAddress) -> None:
        """Set the group settings, the metadata cache and the coordinator finder."""
        settings = self._settings = message.settings
        self._metadata_cache = message.metadata_cache
        self._finder = message.finder
        self._group_settings = groups.GroupSettings(
            initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
            min_session_timeout_ms=settings.group_min_session_timeout_ms,
            max_session_timeout_ms=settings.group_max_session_timeout_ms,
            max_size=settings.group_max_size,
            metadata_max_bytes=settings.offset_metadata_max_bytes,
            retention_ms=settings.offsets_retention_minutes * 60_000,
            commit_timeout_ms=settings.offsets_commit_timeout_ms,
            format=written_format(release_of(settings.inter_broker_protocol_version)),
            node_id=settings.node_id,
        )
        self._wait_for_expiry()

    # ------------------------------------------------------------------------------------------------ requests

    def receiveMsg_Forwarded(self, message: Forwarded, sender: ActorAddress) -> None:
        """Handle a client's request."""
        match message.request.request:
            case ListGroupsRequest() as request:
                self.send(*message.reply(self._list(request)))
            case DescribeGroupsRequest() | DeleteGroupsRequest():
                self._gather(message)
            case OffsetFetchRequest() as request if request.version >= GROUPS_SINCE:
                self._gather(message)
            case OffsetCommitRequest() | TxnOffsetCommitRequest() | OffsetDeleteRequest() as request:
                partitions = tuple([each.partition for each in request.partitions])
                self._numbers += 1
                self._asked[self._numbers] = message
                self.send(self._metadata_cache, CheckPartitionsExist(self._numbers, partitions))
            case _:
                self._route(message, message)

    def receiveMsg_PartitionsExist(self, message: PartitionsExist, sender: ActorAddress) -> None:
        """Continue an offset commit or deletion after the metadata cache has returned which partitions exist."""
        forwarded = self._asked.pop(message.request)
        request = forwarded.request.request
        unknown = [each.partition for each, known in zip(request.partitions, message.known, strict=True) if not known]
        if isinstance(request, OffsetDeleteRequest) or any(message.known):
            self._route(forwarded, groups.CommitOffsets(forwarded, tuple(unknown)))
        else:
            self.send(
                *forwarded.reply(API_BY_REQUEST[type(request)].refusal(request, errors.UNKNOWN_TOPIC_OR_PARTITION))
            )

    def _route(self, forwarded: Forwarded, mail: Message | groups.CommitOffsets) -> None:
        """Send a message to the group, or respond if the request is invalid or the group does not exist (rule 3)."""
        request = forwarded.request.request
        code: int | None = errors.INCONSISTENT_GROUP_PROTOCOL
        if not request_checks.is_nameless_sync(request):
            code = request_checks.verdict(type(request), request.group_id, self._places)
            code = request_checks.session_verdict(request, self._group_settings) if code is None else code
        if not self._places.count:
            self._count()
        unknown = mail.unknown if isinstance(mail, groups.CommitOffsets) else ()
        if code is not None:
            refusal = API_BY_REQUEST[type(request)].refusal(request, code)
            self.send(*forwarded.reply(request_checks.with_unknown(refusal, unknown)))
            return
        hosted = self._groups.get(request.group_id)
        if hosted is None and request_checks.makes_group(request):
            hosted = self._host(groups.LoadedGroup(request.group_id), self._places.partition_of(request.group_id))
        if hosted is None:
            self.send(
                *forwarded.reply(request_checks.with_unknown(request_checks.NOBODYS[type(request)](request), unknown))
            )
        else:
            self.send(hosted.actor, mail)

    def _host(self, loaded: groups.LoadedGroup, partition: int) -> _Hosted:
        actor = self.createActor(GroupActor)
        producer_ids = tuple(dict.fromkeys(each.producer_id for each in loaded.pending))
        hosted = self._groups[loaded.group] = _Hosted(actor, partition, producer_ids)
        place = TopicPartition(GROUP_METADATA, partition)
        self.send(actor, groups.StartGroup(loaded, self._group_settings, place, self._logs[partition]))
        return hosted

    def receiveMsg_GroupChanged(self, message: groups.GroupChanged, sender: ActorAddress) -> None:
        """Store a group's state. A dead group's actor is stopped."""
        hosted = self._groups.get(message.group)
        if hosted is None or hosted.actor != sender:
            return
        hosted.state, hosted.protocol_type = message.state, message.protocol_type
        hosted.producer_ids = message.producer_ids
        if message.state == GroupState.DEAD.value:
            del self._groups[message.group]
            self.send(sender, ActorExitRequest())

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: ActorAddress) -> None:
        """Ignore the exit of a group or a loader: this actor requested it."""

    # ------------------------------------------------------------------------------------------------ admin requests

    def _list(self, request: ListGroupsRequest) -> ListGroupsResponse:
        wanted = {state.lower() for state in request.states_filter}
        types = {each.lower() for each in request.types_filter}
        listed = [
            ListedGroup(name, hosted.protocol_type, hosted.state)
            for name, hosted in self._groups.items()
            if (not wanted or hosted.state.lower() in wanted) and (not types or CLASSIC in types)
        ]
        return ListGroupsResponse(errors.COORDINATOR_LOAD_IN_PROGRESS if self._loaders else errors.NONE, tuple(listed))

    def _gather(self, forwarded: Forwarded) -> None:
        """Send a forwarded request to each group that the request names (rule 4)."""
        request = forwarded.request.request
        gathering = PendingGroupsRequest(request)
        for place, group in enumerate(gathering.groups):
            code = request_checks.verdict(type(request), group, self._places)
            if code is not None:
                gathering.store_error(place, code)
            elif group not in self._groups:
                gathering.nobodys(place)
            else:
                self._numbers += 1
                self._gathered[self._numbers] = forwarded, gathering, place
                self.send(self._groups[group].actor, Ask(self._numbers, gathering.question(place)))
        if gathering.response is not None:
            self.send(*forwarded.reply(gathering.response))

    def receiveMsg_Answer(self, message: Answer, sender: ActorAddress) -> None:
        """Store a group's answer, and respond when all have answered."""
        forwarded, gathering, place = self._gathered.pop(message.id)
        if isinstance(message.result, Failure):
            gathering.store_error(place, errors.UNKNOWN_SERVER_ERROR)
        else:
            gathering.store_result(place, message.result)
        if gathering.response is not None:
            self.send(*forwarded.reply(gathering.response))

    # ---------------------------------------------------------------------------------------------- loading, unloading

    @property
    def is_loading(self) -> bool:
        """Whether this actor is loading a partition."""
        return bool(self._places.loading)

    def receiveMsg_InternalTopicLeadership(self, message: InternalTopicLeadership, sender: ActorAddress) -> None:
        """Load and unload partitions after leadership changes (rule 2)."""
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
        loader = self.createActor(GroupLoaderActor)
        self._loaders[partition] = _Loader(loader, self.now)
        self.send(loader, groups.LoadGroups(partition, led.actor, self._settings.node_id))

    def _count(self) -> None:
        """Request the number of partitions, unless such a request is in progress."""
        if not self._counting:
            self._counting = True
            self.send(self._finder, groups.CountPartitions(GROUP_METADATA))

    def receiveMsg_PartitionCount(self, message: groups.PartitionCount, sender: ActorAddress) -> None:
        """Store the number of partitions."""
        self._counting = False
        self._places.count = message.count

    def _is_loading(self, partition: int, loader: ActorAddress) -> bool:
        """Return whether this loader is the partition's current loader, not an earlier one."""
        return partition in self._loaders and self._loaders[partition].actor == loader

    def receiveMsg_GroupsLoaded(self, message: groups.GroupsLoaded, sender: ActorAddress) -> None:
        """Create groups that were loaded."""
        if self._is_loading(message.partition, sender):
            for loaded in message.groups:
                self._host(loaded, message.partition)

    def receiveMsg_LoadEnded(self, message: groups.LoadEnded, sender: ActorAddress) -> None:
        """Serve a loaded partition. After a read error the partition is not served until its leadership changes."""
        partition = message.partition
        if not self._is_loading(partition, sender):
            return
        loader = self._loaders.pop(partition)
        self.send(sender, ActorExitRequest())
        self._places.loading.discard(partition)
        if message.error_code != errors.NONE:
            log.error(
                "[GroupMetadataManager brokerId=%d] Error loading offsets from %s-%d: %s",
                *(self._settings.node_id, GROUP_METADATA, partition, name_of(message.error_code)),
            )
            return
        self._places.serving.add(partition)
        for ended in loader.ended:
            self._end_transaction(ended)
        log.info(
            "[GroupMetadataManager brokerId=%d] Finished loading offsets and group metadata from %s-%d in "
            "%d milliseconds (%d records)",
            self._settings.node_id,
            GROUP_METADATA,
            partition,
            round((self.now - loader.began) * 1000),
            message.records,
        )

    def _unload(self, partition: int) -> None:
        """Drop the groups of a partition that another broker leads (rule 2)."""
        self._logs.pop(partition, None)
        self._places.loading.discard(partition)
        self._places.serving.discard(partition)
        if partition in self._loaders:
            probe("a coordinator gives up a partition that it loads")
            self.send(self._loaders.pop(partition).actor, ActorExitRequest())
        for name in [name for name, hosted in self._groups.items() if hosted.partition == partition]:
            actor = self._groups.pop(name).actor
            self.send(actor, groups.UnloadGroup())
            self.send(actor, ActorExitRequest())

    # ------------------------------------------------------------------------------------------------ transactions

    def receiveMsg_TransactionEnded(self, message: groups.TransactionEnded, sender: ActorAddress) -> None:
        """Send the end of a transaction to its groups at once, or after they are loaded (rule 5)."""
        if message.partition in self._loaders:
            probe("a transaction ends while the group of its offsets is loaded")
            self._loaders[message.partition].ended.append(message)
        else:
            self._end_transaction(message)

    def _end_transaction(self, ended: groups.TransactionEnded) -> None:
        for hosted in self._groups.values():
            if hosted.partition == ended.partition and ended.producer_id in hosted.producer_ids:
                self.send(hosted.actor, ended)

    # ------------------------------------------------------------------------------------------------ forgetting

    def receiveMsg_PartitionsDeleted(self, message: PartitionsDeleted, sender: ActorAddress) -> None:
        """Drop the committed offsets of deleted partitions."""
        if any(partition.topic == GROUP_METADATA for partition in message.partitions):
            self._places.count = 0
            self.send(self._finder, message)
        for hosted in self._groups.values():
            self.send(hosted.actor, groups.ForgetOffsets(message.partitions))

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        """Start the check for expired offsets in all groups."""
        for hosted in self._groups.values():
            self.send(hosted.actor, groups.ExpireOffsets())
        self._wait_for_expiry()

    def _wait_for_expiry(self) -> None:
        self.set_timer(EXPIRY, self._settings.offsets_retention_check_interval_ms / 1000, groups.CheckExpiry())
