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
from collections.abc import Callable, Generator, Sequence
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

REPLACED = (errors.UNKNOWN_MEMBER_ID, errors.FENCED_INSTANCE_ID)
"""Errors after which a member joins with a new member id."""

NO_ANSWER = -1
"""The error code of a missing response."""

Tell = Callable[[Message | None], None]
Ask = Callable[[int, Message, Tell, float], None]
"""Send a request to a node, with a timeout in seconds (`Cluster.ask`)."""

Script = Generator[Any, Any, None]
"""A simulated client: it yields (node, request) and receives the response, or None if no response arrives. To pause, it
yields a number of seconds."""

RunScript = Callable[[Script, float], None]
"""Run a script to its end, with the seconds that it waits for a response (`Cluster.run_script`)."""


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

    def __init__(self, ask: Ask, run_script: RunScript, nodes: Sequence[int], seed: int) -> None:
        self.tell: Callable[[AssignmentReceived], None] = lambda dealt: None
        self.groups: dict[str, SimulatedGroup] = {}
        self.committing = True
        """Whether members commit offsets, besides their heartbeats."""
        self.ask = ask
        self.run_script = run_script
        self._chance = random.Random(seed)
        self._nodes = nodes

    def join(self, group: str, number: str) -> None:
        """Start a member, unless it already takes part."""
        there = self.groups.setdefault(group, SimulatedGroup(group))
        if number not in there.living:
            instance = instance_of(group) if number == STATIC else None
            there.has_static |= number == STATIC
            there.living[number] = member = SimulatedMember(self, there, instance, number != READER)
            member.start()

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
            request = FindCoordinatorRequest(2, group.name)
            self.ask(self.any_node(nodes), request, partial(self._read_from, group), PATIENCE)

    def any_node(self, nodes: Sequence[int] = ()) -> int:
        """Return one of `nodes`, or any node if `nodes` is empty."""
        return self._chance.choice(nodes or self._nodes)

    def _read_from(self, group: SimulatedGroup, response: Message | None) -> None:
        if isinstance(response, FindCoordinatorResponse) and response.error_code == errors.NONE:
            node = response.node_id
            self.ask(
                node, offset_fetch.OffsetFetchRequest(5, group.name, None), partial(_store_fetched, group), PATIENCE
            )
            self.ask(
                node,
                describe_groups.DescribeGroupsRequest(4, (group.name,)),
                partial(_store_description, group),
                PATIENCE,
            )


def _store_fetched(group: SimulatedGroup, response: Message | None) -> None:
    if isinstance(response, offset_fetch.OffsetFetchResponse) and response.error_code == errors.NONE:
        group.fetched = {
            each.partition.partition: each.committed_offset
            for each in response.partitions
            if each.partition.topic == GROUP_METADATA
        }


def _store_description(group: SimulatedGroup, response: Message | None) -> None:
    if isinstance(response, describe_groups.DescribeGroupsResponse) and response.groups[0].error_code == errors.NONE:
        group.described = response.groups[0]


class MemberRefused(Exception):
    """A request of a member was refused with the error code in `args`, or got no response (NO_ANSWER)."""


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
        self.joining = False
        """Whether the member looks for its coordinator or joins: it is in no generation yet."""
        self._members = members
        self._group = group
        self._instance = instance
        self._commits = commits
        self._leader = join_group.NO_MEMBER
        self._script = self._take_part()

    @property
    def leads(self) -> bool:
        """Whether the member is the group leader."""
        return self.id == self._leader

    def start(self) -> None:
        """Take part in the group until `end`."""
        self._members.run_script(self._script, PATIENCE)

    def end(self, silently: bool) -> None:
        """Leave the group with a LeaveGroup request, or without one if `silently`."""
        self._script.close()
        if not silently and self.id != join_group.NO_MEMBER:
            leaving = leave_group.LeaveGroupRequest(
                3, self._group.name, (leave_group.LeavingMember(self.id, self._instance),)
            )
            self._members.ask(self.coordinator, leaving, lambda response: None, PATIENCE)

    def _take_part(self) -> Script:
        """Take part; after an error, go back to the step to which Kafka's client would return (rule 1)."""
        is_found = False
        while True:
            try:
                if not is_found:
                    yield from self._find()
                yield from self._join()
                while True:
                    yield EVERY
                    yield from self._beat()
            except MemberRefused as refused:
                (error,) = refused.args
                if error in REPLACED:
                    self.id = join_group.NO_MEMBER
                is_found = error in (*REPLACED, errors.ILLEGAL_GENERATION, errors.REBALANCE_IN_PROGRESS)
                yield EVERY

    def _send(self, request: Message, accepted: int = errors.NONE) -> Generator[Any, Any, Any]:
        """Send a request to the coordinator, and return a response without an error, or with the accepted one."""
        response = yield self.coordinator, request
        code = NO_ANSWER if response is None else response.error_code
        if code not in (errors.NONE, accepted):
            raise MemberRefused(code)
        return response

    def _find(self) -> Script:
        """Find the coordinator; this is the first step of a client."""
        self.joining = True
        found = yield self._members.any_node(), FindCoordinatorRequest(2, self._group.name)
        if not isinstance(found, FindCoordinatorResponse) or found.error_code != errors.NONE:
            raise MemberRefused(NO_ANSWER)
        self.coordinator = found.node_id

    def _join(self) -> Script:
        """Join, receive the assignment, and fetch the committed offsets, as a consumer does."""
        self.parts = ()
        group, instance, protocols = self._group, self._instance, (join_group.JoinProtocol("range", b""),)
        code = errors.MEMBER_ID_REQUIRED
        while code == errors.MEMBER_ID_REQUIRED:
            fields = group.name, SESSION_MS, self.id, "consumer", protocols, REBALANCE_MS, instance
            joined = yield from self._send(join_group.JoinGroupRequest(5, *fields), errors.MEMBER_ID_REQUIRED)
            self.id, code = joined.member_id, joined.error_code
        if joined.generation_id == 1:
            group.begin(joined.leader)
        group.ids[self.id] = instance or self.id
        self.generation, self._leader = joined.generation_id, joined.leader
        ids = sorted(each.member_id for each in joined.members)
        dealt = tuple(
            sync_group.MemberAssignment(id, bytes(range(place, PARTS, len(ids)))) for place, id in enumerate(ids)
        )
        synced = yield from self._send(
            sync_group.SyncGroupRequest(3, group.name, self.generation, self.id, dealt, instance)
        )
        self.parts, self.joining = tuple(synced.assignment), False
        self._members.tell(AssignmentReceived(group, self.generation, self._leader, instance or self.id, self.parts))
        topics = (offset_fetch.OffsetFetchTopic(GROUP_METADATA, self.parts),)
        yield self.coordinator, offset_fetch.OffsetFetchRequest(5, group.name, topics)

    def _beat(self) -> Script:
        """Send a heartbeat, and then a commit, if the member commits."""
        group = self._group
        yield from self._send(heartbeat.HeartbeatRequest(3, group.name, self.generation, self.id, self._instance))
        if not (self._members.committing and self._commits and self.parts):
            return
        group.last += 1
        number = group.last
        group.unsure.add(number)
        parts = tuple(
            offset_commit.CommittedPartition(TopicPartition(GROUP_METADATA, part), number) for part in self.parts
        )
        request = offset_commit.OffsetCommitRequest(7, group.name, self.generation, self.id, parts, self._instance)
        response = yield self.coordinator, request
        refused = [NO_ANSWER] if response is None else []
        for each in () if response is None else response.partitions:
            part = each.partition.partition
            if each.error_code == errors.NONE:
                group.committed[part] = max(number, group.committed.get(part, 0))
            else:
                refused.append(each.error_code)
        if refused:
            raise MemberRefused(refused[-1])
        group.unsure.discard(number)
