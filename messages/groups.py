"""Mail of the group coordinator and its groups, and what a group writes to its log as values (broker.md 5.7, 6.5).

Times named `_ms` are wall time or durations in ms; offsets and epochs are -1 where there is none.
"""

from __future__ import annotations

from typing import NamedTuple

from thespian.actors import ActorAddress

from messages.broker import Forwarded
from messages.cluster import NO_EPOCH, TopicPartition
from messages.conversation import Question
from messages.group_requests import DeletedGroup, DescribedGroup
from messages.vocabulary import message

NO_TIME = -1

# ---------------------------------------------------------------------------------------------------- the log's values


@message
class CommittedOffset:
    """How far a group has come in a partition. `expires_at_ms`: when the client said so itself, else NO_TIME."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    committed_at_ms: int = NO_TIME
    expires_at_ms: int = NO_TIME


@message
class RecordedMember:
    """A member as the log keeps it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@message
class RecordedGroup:
    """A generation of a group as the log keeps it."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    since_ms: int
    members: tuple[RecordedMember, ...] = ()


@message
class OffsetRecord:
    """A record of one partition's offset; None forgets it."""

    group: str
    partition: TopicPartition
    value: CommittedOffset | None


@message
class GroupRecord:
    """A record of a group; None forgets it."""

    group: str
    value: RecordedGroup | None


class OffsetEntry(NamedTuple):
    """A partition, and how far the group has come in it."""

    partition: TopicPartition
    value: CommittedOffset


# ---------------------------------------------------------------------------------------------------- to a group


@message
class GroupSettings:
    """What the node's settings say of groups."""

    initial_rebalance_delay_ms: int = 3000
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1800000
    max_size: int = 2147483647
    metadata_max_bytes: int = 4096
    retention_ms: int = 10080 * 60_000
    commit_timeout_ms: int = 5000
    format: tuple[int, int] = (3, 3)
    """The versions in which offsets and groups are written."""


@message
class StartGroup:
    """First mail of GroupActor: which group it is, where its records go, and what the log said of it."""

    group: str
    settings: GroupSettings
    log: TopicPartition
    partition: ActorAddress
    record: RecordedGroup | None = None
    offsets: tuple[OffsetEntry, ...] = ()


@message
class CommitOffsets:
    """An OffsetCommit or OffsetDelete whose `unknown` partitions are nowhere in the cluster."""

    forwarded: Forwarded
    unknown: tuple[TopicPartition, ...] = ()


@message
class DescribeGroup(Question[DescribedGroup]):
    """How does the group stand? -> DescribedGroup"""


@message
class DeleteGroup(Question[DeletedGroup]):
    """Delete the group if it has no members. -> DeletedGroup"""


@message
class ExpireOffsets:
    """Forget the offsets whose time is over, and the group if nothing is left of it."""


@message
class ForgetOffsets:
    """These partitions are gone from the cluster."""

    partitions: tuple[TopicPartition, ...]


@message
class UnloadGroup:
    """Another broker hosts the group now: fail all waiting requests. The actor's last message."""


@message
class GroupChanged:
    """To the coordinator: how the group stands now. "Dead": it is over."""

    group: str
    state: str
    protocol_type: str


# ---------------------------------------------------------------------------------------------------- a group's timers


@message
class RebalanceDue:
    """End the join phase: remove members that have not joined; or end the initial delay."""


@message
class SyncDue:
    """Remove members that have not sent SyncGroup for this generation."""

    generation: int


@message
class MemberExpired:
    """Nothing was heard of the member for its session timeout."""

    member_id: str


# ---------------------------------------------------------------------------------------------------- the coordinator


@message
class CheckExpiry:
    """The coordinator to itself, from time to time: which offsets are over?"""


@message
class CountGroupPartitions:
    """To CoordinatorFinderActor: how many partitions has the groups' topic? -> GroupPartitions"""


@message
class GroupPartitions:
    """To the coordinator: how many there are; 0 where that cannot be said now, or there is no such topic."""

    count: int


# ---------------------------------------------------------------------------------------------------- loading


class LoadedGroup(NamedTuple):
    """A group as its partition has it."""

    group: str
    record: RecordedGroup | None
    offsets: tuple[OffsetEntry, ...]


@message
class LoadGroups:
    """First mail of GroupLoaderActor: the partition of the groups' topic, and the actor that leads it on this node."""

    partition: int
    log: ActorAddress
    node_id: int


@message
class GroupsLoaded:
    """To the coordinator: some groups of a partition that was read."""

    partition: int
    groups: tuple[LoadedGroup, ...]


@message
class LoadEnded:
    """To the coordinator, the loader's last mail: all is handed over, or the code for which it could not be read."""

    partition: int
    error_code: int
    records: int


@message
class HandOver:
    """The loader to itself: hand over some more groups."""
