"""Simulated members of consumer groups, which join, assign partitions, send heartbeats, commit and leave.

Rule 1: a member sends the requests of Kafka's clients: FindCoordinator, JoinGroup, SyncGroup, then heartbeats and
        commits in turn. After an error it returns to the step to which Kafka's client would return.
Rule 2: the assigned partitions are those of `__consumer_offsets`, which is never deleted; the group leader assigns them
        in the order of the member ids.
Rule 3: each commit of a group has a larger number than all earlier commits. The number is committed as the offset, so a
        fetched offset identifies its commit. A commit without a response may be stored or not, and may be applied after
        a later one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs

from actors.core.topic.topic_name import GROUP_METADATA
from messages import errors
from messages.apis import describe_groups, heartbeat, join_group, leave_group, offset_commit, offset_fetch, sync_group
from messages.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from messages.cluster import TopicPartition
from messages.vocabulary import Message

PARTS = 4
"""Number of assigned partitions, which are the first of the topic."""

EVERY = 1.0
"""Seconds between two heartbeats, and from an error to the next attempt."""

SESSION_MS, REBALANCE_MS = 6_000, 10_000

PATIENCE = 12.0
"""Seconds that a member waits for a response, enough for a rebalance."""

STATIC = "3"
"""The number of the static member of each group."""

READER = "2"
"""The number of the member of each group that never commits: only its heartbeats keep it in the group."""

NO_ANSWER = -1
"""The error code of a missing response."""

Tell = Callable[[Message | None], None]
Ask = Callable[[int, Message, Tell, float], None]
"""Send a request to a node, with a timeout in seconds (`Cluster.ask`)."""


@attrs.frozen
class AssignmentReceived:
    """A group member received its assignment for a generation."""

    group: SimulatedGroup
    generation: int
    leader: str
    member: str
    parts: tuple[int, ...]


@attrs.define(eq=False)
class SimulatedGroup:
    """A simulated consumer group: its members, their commits, and the last response to DescribeGroups about it."""

    name: str
    living: dict[str, SimulatedMember] = attrs.field(factory=dict)
    committed: dict[int, int] = attrs.field(factory=dict)
    """Part -> the last acknowledged number."""
    unsure: set[int] = attrs.field(factory=set)
    """Numbers that may have been committed."""
    last: int = 0
    """The last committed number."""
    leaders: dict[int, str] = attrs.field(factory=dict)
    """Generation -> the member id of the group leader."""
    owners: dict[tuple[int, int], str] = attrs.field(factory=dict)
    """(generation, part) -> the member id of the owner."""
    ids: dict[str, str] = attrs.field(factory=dict)
    """Member id -> member id, or the instance id of a static member."""
    has_static: bool = False
    """Whether a static member has joined."""
    is_deleted: bool = False
    """Whether a client has requested its deletion: its commits may be gone."""
    fetched: dict[int, int] | None = None
    described: describe_groups.DescribedGroup | None = None

    def begin(self, leader: str) -> None:
        """Record that the group is in generation 1 with this leader; discard an earlier group of this name."""
        if self.leaders.get(1) != leader:
            self.owners.clear()
            self.leaders = {1: leader}


def instance_of(group: str) -> str:
    """Return the instance id of a group's static member."""
    return f"{group}-{STATIC}"


class Members:
    """The simulated members of all consumer groups.

    For each assignment, they call `tell` with an AssignmentReceived.
    """

    def __init__(
        self, ask: Ask, call_later: Callable[[float, Callable[[], None]], Any], nodes: Sequence[int], seed: int
    ) -> None:
        self.tell: Callable[[AssignmentReceived], None] = lambda dealt: None
        self.groups: dict[str, SimulatedGroup] = {}
        self.committing = True
        """Whether members commit offsets, besides their heartbeats."""
        self.ask = ask
        self.call_later = call_later
        self._chance = random.Random(seed)
        self._nodes = nodes

    def join(self, group: str, number: str) -> None:
        """Start a member, unless it already takes part."""
        there = self.groups.setdefault(group, SimulatedGroup(group))
        if number not in there.living:
            instance = instance_of(group) if number == STATIC else None
            there.has_static |= number == STATIC
            there.living[number] = member = SimulatedMember(self, there, instance, number != READER)
            member.find()

    def leave(self, group: str, number: str, silently: bool = False) -> None:
        """Stop a member, with a LeaveGroup request or silently."""
        there = self.groups.get(group)
        member = None if there is None else there.living.pop(number, None)
        if member is not None:
            member.end(silently)

    def read_back(self, nodes: Sequence[int]) -> None:
        """Request each group's description and committed offsets from the group's coordinator.

        Each FindCoordinator request is sent to one of `nodes`, or to any node if `nodes` is empty.
        """
        for group in self.groups.values():
            group.fetched = group.described = None
            self.find_coordinator(group, partial(self._read_from, group), nodes)

    def find_coordinator(self, group: SimulatedGroup, tell: Tell, nodes: Sequence[int] = ()) -> None:
        """Send a FindCoordinator request to one of `nodes`, or to any node if `nodes` is empty."""
        self.ask(
            self._chance.choice(nodes or self._nodes),
            FindCoordinatorRequest(2, group.name),
            tell,
            PATIENCE,
        )

    def _read_from(self, group: SimulatedGroup, response: Message | None) -> None:
        if isinstance(response, FindCoordinatorResponse) and response.error_code == errors.NONE:
            node = response.node_id
            self.ask(node, offset_fetch.OffsetFetchRequest(5, group.name, None), partial(_fetched, group), PATIENCE)
            self.ask(
                node, describe_groups.DescribeGroupsRequest(4, (group.name,)), partial(_described, group), PATIENCE
            )


def _fetched(group: SimulatedGroup, response: Message | None) -> None:
    if isinstance(response, offset_fetch.OffsetFetchResponse) and response.error_code == errors.NONE:
        group.fetched = {
            each.partition.partition: each.committed_offset
            for each in response.partitions
            if each.partition.topic == GROUP_METADATA
        }


def _described(group: SimulatedGroup, response: Message | None) -> None:
    if isinstance(response, describe_groups.DescribeGroupsResponse) and response.groups[0].error_code == errors.NONE:
        group.described = response.groups[0]


class SimulatedMember:
    """A simulated group member, which sends its next request after each response."""

    def __init__(
        self, members: Members, group: SimulatedGroup, instance: str | None = None, commits: bool = True
    ) -> None:
        self.id = join_group.NO_MEMBER
        self.generation = join_group.NO_GENERATION
        self.parts: tuple[int, ...] = ()
        """The current assignment, while it is valid."""
        self.coordinator = -1
        """The group's coordinator by some node's response; -1 if unknown."""
        self._members = members
        self._group = group
        self._instance = instance
        self._commits = commits
        self._leader = join_group.NO_MEMBER
        self._over = False
        self.joining = False
        """Whether the member looks for its coordinator or joins: it is in no generation yet."""

    @property
    def leads(self) -> bool:
        """Whether the member is the group leader."""
        return self.id == self._leader

    def find(self) -> None:
        """Find the coordinator; this is the first step of a client."""
        self.joining = True
        self._members.find_coordinator(self._group, self._unless_over(self._found))

    def end(self, silently: bool) -> None:
        """Leave the group with a LeaveGroup request, or without one if `silently`."""
        self._over = True
        if not silently and self.id != join_group.NO_MEMBER:
            leaving = leave_group.LeaveGroupRequest(
                3, self._group.name, (leave_group.LeavingMember(self.id, self._instance),)
            )
            self._members.ask(self.coordinator, leaving, lambda response: None, PATIENCE)

    def _found(self, response: Message | None) -> None:
        if isinstance(response, FindCoordinatorResponse) and response.error_code == errors.NONE:
            self.coordinator = response.node_id
            self._join()
        else:
            self._refused(NO_ANSWER)

    def _join(self) -> None:
        self.parts = ()
        protocols = (join_group.JoinProtocol("range", b""),)
        group = self._group.name
        times = SESSION_MS, REBALANCE_MS
        self._ask(
            join_group.JoinGroupRequest(5, group, times[0], self.id, "consumer", protocols, times[1], self._instance),
            self._joined,
        )

    def _joined(self, response: Message | None) -> None:
        if not isinstance(response, join_group.JoinGroupResponse):
            self._refused(NO_ANSWER)
        elif response.error_code == errors.MEMBER_ID_REQUIRED:
            self.id = response.member_id
            self._join()
        elif response.error_code != errors.NONE:
            self._refused(response.error_code)
        else:
            if response.generation_id == 1:
                self._group.begin(response.leader)
            self._group.ids[response.member_id] = self._instance or response.member_id
            self.id, self.generation, self._leader = response.member_id, response.generation_id, response.leader
            ids = sorted(each.member_id for each in response.members)
            dealt = tuple(
                sync_group.MemberAssignment(id, bytes(range(place, PARTS, len(ids)))) for place, id in enumerate(ids)
            )
            group = self._group.name
            self._ask(
                sync_group.SyncGroupRequest(3, group, self.generation, self.id, dealt, self._instance), self._synced
            )

    def _synced(self, response: Any) -> None:
        if isinstance(response, sync_group.SyncGroupResponse) and response.error_code == errors.NONE:
            self.parts, self.joining = tuple(response.assignment), False
            name = self._instance or self.id
            self._members.tell(AssignmentReceived(self._group, self.generation, self._leader, name, self.parts))
            self._fetch()
        else:
            self._refused(NO_ANSWER if response is None else response.error_code)

    def _fetch(self) -> None:
        """Fetch the committed offsets of the assigned partitions before the next step, as a consumer does."""
        topics = (offset_fetch.OffsetFetchTopic(GROUP_METADATA, self.parts),)
        self._ask(
            offset_fetch.OffsetFetchRequest(5, self._group.name, topics), lambda response: self._later(self._beat)
        )

    def _beat(self) -> None:
        self._ask(
            heartbeat.HeartbeatRequest(3, self._group.name, self.generation, self.id, self._instance), self._beaten
        )

    def _beaten(self, response: Any) -> None:
        if response is None or response.error_code != errors.NONE:
            self._refused(NO_ANSWER if response is None else response.error_code)
        elif self._members.committing and self._commits and self.parts:
            self._commit()
        else:
            self._later(self._beat)

    def _commit(self) -> None:
        group = self._group
        group.last += 1
        group.unsure.add(group.last)
        parts = tuple(
            offset_commit.CommittedPartition(TopicPartition(GROUP_METADATA, part), group.last) for part in self.parts
        )
        request = offset_commit.OffsetCommitRequest(7, group.name, self.generation, self.id, parts, self._instance)
        self._ask(request, partial(self._committed, group.last))

    def _committed(self, number: int, response: Message | None) -> None:
        if not isinstance(response, offset_commit.OffsetCommitResponse):
            self._refused(NO_ANSWER)
            return
        committed, refused = self._group.committed, errors.NONE
        for each in response.partitions:
            part = each.partition.partition
            if each.error_code == errors.NONE:
                committed[part] = max(number, committed.get(part, 0))
            else:
                refused = each.error_code
        if refused != errors.NONE:
            self._refused(refused)
        else:
            self._group.unsure.discard(number)
            self._later(self._beat)

    def _refused(self, error: int) -> None:
        """Schedule the step with which Kafka's client would continue after this error (rule 1)."""
        if error in (errors.UNKNOWN_MEMBER_ID, errors.FENCED_INSTANCE_ID):
            self.id = join_group.NO_MEMBER
        stays = error in (
            errors.UNKNOWN_MEMBER_ID,
            errors.FENCED_INSTANCE_ID,
            errors.ILLEGAL_GENERATION,
            errors.REBALANCE_IN_PROGRESS,
        )
        self._later(self._join if stays else self.find)

    def _ask(self, request: Message, tell: Tell) -> None:
        self._members.ask(self.coordinator, request, self._unless_over(tell), PATIENCE)

    def _later(self, step: Callable[[], None]) -> None:
        self._members.call_later(EVERY, lambda: None if self._over else step())

    def _unless_over(self, tell: Tell) -> Tell:
        return lambda response: None if self._over else tell(response)
