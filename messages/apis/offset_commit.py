"""OffsetCommit: commit offsets of a group (broker.md 6.5)."""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import (
    BY_TOPIC,
    COORDINATOR,
    GROUPS,
    MEMBER,
    Api,
    Binding,
    PartitionError,
    each_partition,
    on_group,
    on_topics,
)
from messages.apis.join_group import NO_GENERATION, NO_MEMBER
from messages.cluster import NO_EPOCH, TopicPartition
from messages.vocabulary import Message, message


@message
class CommittedPartition(Message):
    """An offset that a client commits for one partition, with the client's metadata."""

    partition: TopicPartition
    committed_offset: int
    committed_leader_epoch: int = NO_EPOCH
    committed_metadata: str | None = ""


@message
class OffsetCommitRequest(Message):
    """A client's request to commit offsets (API key 8).

    Admin clients, and consumers that are not group members, send generation -1 and an empty member id.
    `retention_time_ms` (versions 2-4) is the retention of the offsets; -1 is the broker's default.
    """

    version: int
    group_id: str
    generation_id: int
    member_id: str
    partitions: tuple[CommittedPartition, ...]
    group_instance_id: str | None = None
    retention_time_ms: int = -1


@message
class OffsetCommitResponse(Message):
    """The response to OffsetCommit, with a result for each partition."""

    partitions: tuple[PartitionError, ...]
    throttle_time_ms: int = 0


API = Api(
    key=8,
    versions=(2, 9),
    request=OffsetCommitRequest,
    response=OffsetCommitResponse,
    answerer=GROUPS,
    access=(
        on_group(Operation.READ),
        on_topics(Operation.READ),
    ),
    codes=f"NONE {COORDINATOR} COORDINATOR_NOT_AVAILABLE {MEMBER} ILLEGAL_GENERATION REBALANCE_IN_PROGRESS"
    " UNKNOWN_TOPIC_OR_PARTITION OFFSET_METADATA_TOO_LARGE INVALID_COMMIT_OFFSET_SIZE REQUEST_TIMED_OUT",
    sample=lambda about: OffsetCommitRequest(
        7, "own", NO_GENERATION, NO_MEMBER, (CommittedPartition(about.partition, 1),)
    ),
    odd="partition=absent committed_metadata=long group_id=@group group_id=@group;generation_id=0;member_id=stranger"
    " group_id=@group;generation_id=1;member_id=stranger as=member as=instance",
    refuse=each_partition(OffsetCommitResponse, PartitionError),
    bindings={
        OffsetCommitRequest: Binding(
            renamed={"generation_id": ("generation_id_or_member_epoch",)}, gathered=BY_TOPIC.gathered
        ),
        OffsetCommitResponse: BY_TOPIC,
    },
)
