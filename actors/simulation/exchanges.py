"""Record the requests and responses between simulated hosts, and the newest epochs that each host has accepted.

The epochs are those of controllers, brokers and leaders.

Rule 1: a request is stale if an earlier response shows that the receiver had already accepted a newer epoch or
        generation. If a node handles two requests in one step, the order of handling decides which of them is stale. If
        a LeaderAndIsr request is based on an older version of the state znode, the receiver responds without an error
        and ignores the request.
Rule 2: each start of a node is a separate process, so a restarted broker has accepted nothing yet.
Rule 3: a group member counts as silent from its last request or response on. It does not count as silent while one of
        its requests waits for a response. This rule holds only as long as one process coordinates the group: a new
        coordinator restarts all session timeouts.
Rule 4: a member is confirmed in a generation when the current coordinator answers its SyncGroup or Heartbeat without an
        error. The confirmation ends when the member joins again or leaves, or when the coordinator may remove the
        member. A later coordinator finds the member in the log.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any

import attrs

from actors.core.topic.topic_name import GROUP_METADATA
from actors.simulation.observed_facts import Accepted, Confirmation, Process, ResponseSent
from actors.simulation.replicas import Replicas
from messages import errors
from messages.apis import (
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_fetch,
    sync_group,
)
from messages.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from messages.apis.add_partitions_to_txn import AddPartitionsToTxnRequest
from messages.apis.controlled_shutdown import ControlledShutdownRequest
from messages.apis.end_txn import EndTxnRequest
from messages.apis.fetch import FetchRequest
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.list_offsets import ListOffsetsRequest
from messages.apis.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from messages.apis.produce import ProduceRequest
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.apis.write_txn_markers import WritableTxnMarker, WriteTxnMarkersRequest, WriteTxnMarkersResponse
from messages.cluster import LeaderIsrAndControllerEpoch, TopicPartition
from messages.placement import slot
from messages.response_codes import codes_of
from messages.vocabulary import Message

LONGEST_FETCH = 60.0
"""Seconds after which a waiting OffsetFetch has its response, or never gets one."""

IN_GENERATION = (sync_group.SyncGroupRequest, heartbeat.HeartbeatRequest, offset_commit.OffsetCommitRequest)
MEMBERS = (join_group.JoinGroupRequest, *IN_GENERATION)
"""Requests that show that a group member is alive."""

NAMING_MEMBERS = (*IN_GENERATION, leave_group.LeaveGroupRequest)
"""Requests of a group whose members have an id."""

WITH_LEADER_EPOCHS = (FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest)
"""Requests whose partitions may contain the client's leader epoch."""

WATCHED = frozenset(
    (
        *(LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest, ControlledShutdownRequest, ProduceRequest),
        *(*MEMBERS, offset_fetch.OffsetFetchRequest, delete_groups.DeleteGroupsRequest, leave_group.LeaveGroupRequest),
        *(*WITH_LEADER_EPOCHS, WriteTxnMarkersRequest, describe_groups.DescribeGroupsRequest, EndTxnRequest),
        *(AddPartitionsToTxnRequest, AddOffsetsToTxnRequest),
    )
)
"""The classes of the requests whose responses are facts."""


@attrs.define
class GroupView:
    """The state of a consumer group as its coordinator sees it."""

    generation: int = -1
    members: tuple[str, ...] = ()
    since: float = 0.0
    """When all session timeouts last began again: at this process's first response without an error, and with each
    generation, also those of static members that did not join again."""
    heard_at: dict[str, float] = attrs.field(factory=dict)
    waiting: dict[str, set[Hashable]] = attrs.field(factory=dict)
    """The connections on which each member waits for a response."""
    session_timeouts: dict[str, float] = attrs.field(factory=dict)
    left: dict[str, None] = attrs.field(factory=dict)
    """The members of this generation whose LeaveGroup was answered without an error."""
    renewed_at: dict[str, float] = attrs.field(factory=dict)
    """When the last accepted request in this generation of each member arrived."""
    begun: int = -1
    """The last generation that this process has begun itself."""
    synced: int = -1
    """The last generation of which a member has received its assignment."""


@attrs.define(eq=False)
class Commit:
    """An offset commit of a client: the times when the request arrived and when it was acknowledged."""

    offset: int
    arrived_at: float
    acknowledged_at: float | None = None
    superseded_at: float = math.inf
    """The time of the acknowledgement of a later commit, which arrived after this one was acknowledged."""
    may_be_deleted: bool = False
    """Whether a client has requested the deletion of the group since."""


def kept_for(session_timeout: float) -> float:
    """Return the minimum number of seconds that a member stays in the group after a request, despite clock drift."""
    return session_timeout * 0.97 - 1.0


def _groups_of(request: Message) -> Iterable[str]:
    """Return the groups whose members a request names or describes."""
    if isinstance(request, describe_groups.DescribeGroupsRequest):
        return request.groups
    return (request.group_id,) if isinstance(request, NAMING_MEMBERS) else ()


def accepted_markers(
    request: WriteTxnMarkersRequest, response: WriteTxnMarkersResponse
) -> Iterator[tuple[TopicPartition, WritableTxnMarker]]:
    """Yield a (partition, marker) pair for each marker that a partition has written.

    The response may have no row for a marker without partitions, as in Kafka.
    """
    results = {result.producer_id: result.partitions for result in response.markers}
    for marker in request.markers:
        for each in results.get(marker.producer_id, ()):
            if each.error_code == errors.NONE and each.partition in marker.partitions:
                yield each.partition, marker


class Exchanges:
    """The pending requests between all hosts, and the newest epochs that each process has accepted.

    `states` are the partition states in ZooKeeper; `partitions` is the number of partitions of __consumer_offsets.
    Polls of followers are recorded only in a simulated cluster, because a trace has too many.
    """

    def __init__(
        self,
        states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch],
        replicas: Replicas,
        partitions: int,
        is_simulated: bool,
    ) -> None:
        self._is_simulated = is_simulated
        self._states = states
        self._replicas = replicas
        self._offsets_partitions = partitions
        self.accepted: dict[Process, Accepted] = {}
        self.groups: dict[tuple[Process, str], GroupView] = {}
        self.commits: dict[tuple[str, TopicPartition], list[Commit]] = {}
        self.member_ids: dict[str, set[str]] = {}
        """The member ids that a coordinator has ever given, by group."""
        self.markers: dict[Process, dict[tuple[int, TopicPartition], int]] = {}
        """By process: (producer id, partition) -> the newest coordinator epoch of an accepted marker."""
        self.confirmed: dict[str, dict[str, Confirmation]] = {}
        """The members that are confirmed in a generation (rule 4), by group and member id."""
        self._left_at: dict[str, float] = {}
        """When the last request arrived that may remove each member."""
        self._timeouts: dict[str, float] = {}
        """The session timeout of each dynamic member in seconds."""
        self._arrivals: dict[Hashable, ResponseSent] = {}

    def group_partition(self, group: str) -> TopicPartition:
        """Return the partition of __consumer_offsets of a group."""
        return TopicPartition(GROUP_METADATA, slot(group) % self._offsets_partitions)

    def handle_request(self, connection: Hashable, process: Process, request: Any, now: float) -> None:
        """Process a request that arrives at a process."""
        if type(request) not in WATCHED:
            return
        arrival = ResponseSent(process, request, now)
        mine = self.accepted.setdefault(process, Accepted())
        match request:
            case offset_fetch.OffsetFetchRequest():
                arrival.is_current = self._is_current(process, self.group_partition(request.group_id))
            case _ if isinstance(request, MEMBERS):
                self._takes_part(connection, arrival)
            case delete_groups.DeleteGroupsRequest():
                self._may_delete(request.groups)
            case ControlledShutdownRequest():
                arrival.states = dict(self._states)
            case WriteTxnMarkersRequest():
                arrival.markers = dict(self.markers.get(process, {}))
            case FetchRequest() | ListOffsetsRequest() | OffsetForLeaderEpochRequest():
                is_kept = isinstance(request, FetchRequest) and (self._is_simulated or request.replica_id < 0)
                if not is_kept and not any(part.current_leader_epoch >= 0 for part in request.partitions):
                    return
                arrival.accepted = Accepted(leader_epochs=self._epochs(mine, request.partitions))
            case LeaderAndIsrRequest() | StopReplicaRequest() | UpdateMetadataRequest():
                epochs = {}
                if not isinstance(request, UpdateMetadataRequest):
                    epochs = self._epochs(mine, request.partition_states)
                    if any(partition.topic == GROUP_METADATA for partition in epochs):
                        self._forget_groups(process)
                arrival.accepted = Accepted(mine.controller_epoch, mine.broker_epoch, epochs)
        arrival.confirmed = dict(self._confirmations(process, _groups_of(request), now))
        self._leaves(request, now)
        self._arrivals[connection] = arrival

    def _epochs(self, mine: Accepted, parts: Iterable[Any]) -> dict[TopicPartition, int]:
        known = mine.leader_epochs
        return {part.partition: known.get(part.partition, -1) for part in parts}

    def _takes_part(self, connection: Hashable, arrival: ResponseSent) -> None:
        """Process a request of a member that arrives at its coordinator."""
        request, process, now = arrival.request, arrival.process, arrival.at
        log_of_group = self.group_partition(request.group_id)
        view = self.groups.setdefault((process, request.group_id), GroupView())
        arrival.is_current = self._is_current(process, log_of_group)
        arrival.generation, arrival.left = view.generation, tuple(view.left)
        arrival.renewed = now - view.renewed_at.get(request.member_id, -math.inf)
        log = self._replicas.log(process[0], log_of_group)
        is_first = (
            isinstance(request, sync_group.SyncGroupRequest)
            and bool(request.assignments)
            and view.synced < request.generation_id == view.begun
        )
        if log is not None and (is_first or isinstance(request, offset_commit.OffsetCommitRequest)):
            arrival.log_end = log.end
        view.heard_at[request.member_id] = now
        view.waiting.setdefault(request.member_id, set()).add(connection)
        if isinstance(request, join_group.JoinGroupRequest):
            view.session_timeouts[request.member_id] = request.session_timeout_ms / 1000
        if isinstance(request, offset_commit.OffsetCommitRequest):
            for each in request.partitions:
                commits = self.commits.setdefault((request.group_id, each.partition), [])
                commits.append(Commit(each.committed_offset, now))

    def _confirmations(
        self, process: Process, groups: Iterable[str], now: float
    ) -> Iterator[tuple[tuple[str, str], Confirmation]]:
        for group in groups:
            members = self.confirmed.get(group)
            if members and self._is_current(process, self.group_partition(group)):
                for member in members:
                    confirmation = self.confirmation_of(group, member)
                    if confirmation is not None and now < confirmation.until:
                        yield (group, member), confirmation

    def confirmation_of(self, group: str, member: str) -> Confirmation | None:
        """Return a member's confirmation; None if it has none or a later request ended the confirmation (rule 4)."""
        confirmation = self.confirmed.get(group, {}).get(member)
        return None if confirmation is None or confirmation.since <= self._left_at.get(member, -1.0) else confirmation

    def _is_current(self, process: Process, partition: TopicPartition) -> bool:
        """Return whether a process has accepted the leader epoch that ZooKeeper has for a partition."""
        state, mine = self._states.get(partition), self.accepted.get(process)
        return (
            state is not None
            and mine is not None
            and state.leader == process[0]
            and mine.leader_epochs.get(partition) == state.leader_epoch
        )

    def _leaves(self, request: Message, now: float) -> None:
        """End the confirmation of members in their generation (rule 4).

        The members are those that rejoin or leave by this request, or whose group this request may delete.
        """
        gone: Iterable[str] = ()
        match request:
            case join_group.JoinGroupRequest():
                gone = (request.member_id,)
            case leave_group.LeaveGroupRequest():
                gone = tuple(each.member_id for each in request.members)
            case delete_groups.DeleteGroupsRequest():
                gone = tuple(member for group in request.groups for member in self.confirmed.get(group, ()))
        self._left_at.update(dict.fromkeys(gone, now))

    def waits(self, connection: Hashable) -> bool:
        """Return whether the response to a request is a fact."""
        return connection in self._arrivals

    def waiting(self) -> Iterable[ResponseSent]:
        """Return the requests that have no response yet."""
        return self._arrivals.values()

    def handle_response(self, connection: Hashable, response: Any, now: float) -> ResponseSent | None:
        """Handle a response that a process sent; return the fact for the monitors."""
        arrival = self._arrivals.pop(connection, None)
        if arrival is None or response is None:
            return None
        arrival.response, request, process = response, arrival.request, arrival.process
        match request:
            case LeaderAndIsrRequest() | StopReplicaRequest() | UpdateMetadataRequest():
                self._note_accepted(process, request, response, now)
            case _ if isinstance(request, MEMBERS):
                self._took_part(connection, arrival, now)
            case delete_groups.DeleteGroupsRequest():
                self._may_delete(request.groups)
            case leave_group.LeaveGroupRequest():
                view = self.groups.get((process, request.group_id), GroupView())
                gone = (each.member_id for each in response.members if each.error_code == errors.NONE)
                view.left.update(dict.fromkeys(gone))
            case WriteTxnMarkersRequest():
                self._note_markers(process, request, response)
        return arrival

    def _note_markers(
        self, process: Process, request: WriteTxnMarkersRequest, response: WriteTxnMarkersResponse
    ) -> None:
        newest = self.markers.setdefault(process, {})
        for partition, marker in accepted_markers(request, response):
            key = marker.producer_id, partition
            newest[key] = max(marker.coordinator_epoch, newest.get(key, -1))

    def _note_accepted(self, process: Process, request: Any, response: Any, now: float) -> None:
        if response.error_code != errors.NONE:
            return
        mine = self.accepted.setdefault(process, Accepted())
        mine.controller_epoch = max(mine.controller_epoch, request.controller_epoch)
        mine.broker_epoch = max(mine.broker_epoch, request.broker_epoch)
        if isinstance(request, LeaderAndIsrRequest | StopReplicaRequest):
            codes = {each.partition: each.error_code for each in response.partition_errors}
            for state in request.partition_states:
                if codes.get(state.partition, errors.NONE) != errors.NONE:
                    continue
                if isinstance(state, StopReplicaPartitionState):
                    if state.delete_partition:
                        mine.leader_epochs.pop(state.partition, None)
                        mine.zk_versions.pop(state.partition, None)
                elif state.leader == process[0] and state.zk_version >= mine.zk_versions.get(state.partition, 0):
                    mine.zk_versions[state.partition] = state.zk_version
                    if mine.leader_epochs.get(state.partition) != state.leader_epoch:
                        mine.led_since[state.partition] = now
                    mine.leader_epochs[state.partition] = state.leader_epoch

    def _took_part(self, connection: Hashable, arrival: ResponseSent, now: float) -> None:
        process, request, response, arrived_at = arrival.process, arrival.request, arrival.response, arrival.at
        view = self.groups.setdefault((process, request.group_id), GroupView())
        view.waiting.get(request.member_id, set()).discard(connection)
        view.heard_at[request.member_id] = now
        if isinstance(request, join_group.JoinGroupRequest):
            self.member_ids.setdefault(request.group_id, set()).add(response.member_id)
        codes = list(codes_of(response))
        if errors.GROUP_MAX_SIZE_REACHED in codes:
            view.renewed_at.pop(request.member_id, None)  # the group may drop this member
            self.confirmed.pop(request.group_id, None)
        if errors.NOT_COORDINATOR in codes or errors.COORDINATOR_LOAD_IN_PROGRESS in codes:
            self.groups.pop((process, request.group_id), None)
            return
        if errors.NONE not in codes:
            return
        view.since = view.since or now
        is_dynamic = (
            isinstance(request, sync_group.SyncGroupRequest | heartbeat.HeartbeatRequest)
            and request.group_instance_id is None
        )
        if is_dynamic and arrival.is_current:  # only the current coordinator can confirm a member
            until = arrived_at + kept_for(self._timeouts.get(request.member_id, 0.0))
            members = self.confirmed.setdefault(request.group_id, {})
            members[request.member_id] = Confirmation(request.generation_id, arrived_at, until)
        is_renewal = not isinstance(request, join_group.JoinGroupRequest) and request.generation_id == view.generation
        if is_renewal and arrived_at > self._left_at.get(request.member_id, -1.0):
            view.renewed_at[request.member_id] = arrived_at
        if isinstance(request, sync_group.SyncGroupRequest):
            view.synced = max(view.synced, request.generation_id)
        elif isinstance(request, join_group.JoinGroupRequest):
            if response.generation_id == 1 or 0 <= view.generation < response.generation_id:
                view.begun = response.generation_id
            if view.generation != response.generation_id:
                view.generation, view.since = response.generation_id, now
                view.members, view.left, view.renewed_at = (), {}, {}
            view.members = tuple(each.member_id for each in response.members) or view.members
            view.heard_at[response.member_id] = now
            view.session_timeouts[response.member_id] = request.session_timeout_ms / 1000
            if request.group_instance_id is None:  # static members are left out: another process can replace them
                self._timeouts[response.member_id] = request.session_timeout_ms / 1000
        elif isinstance(request, offset_commit.OffsetCommitRequest):
            for each, outcome in zip(request.partitions, response.partitions, strict=True):
                if outcome.error_code == errors.NONE:
                    self._acknowledge_commit((request.group_id, each.partition), each.committed_offset, arrived_at, now)

    def _acknowledge_commit(self, key: tuple[str, TopicPartition], offset: int, arrived_at: float, now: float) -> None:
        commits = self.commits.get(key, [])
        for commit in commits:
            if commit.offset == offset and commit.arrived_at == arrived_at:
                commit.acknowledged_at = now
            elif commit.acknowledged_at is not None and commit.acknowledged_at < arrived_at:
                commit.superseded_at = min(commit.superseded_at, now)
        self.commits[key] = [commit for commit in commits if commit.superseded_at > now - LONGEST_FETCH]

    def _may_delete(self, groups: Collection[str]) -> None:
        """Mark all earlier commits of these groups, because the deletion of a group may remove its commits."""
        for (group, _), commits in self.commits.items():
            if group in groups:
                for commit in commits:
                    commit.may_be_deleted = True

    def _forget_groups(self, process: Process) -> None:
        for key in [key for key in self.groups if key[0] == process]:
            del self.groups[key]
