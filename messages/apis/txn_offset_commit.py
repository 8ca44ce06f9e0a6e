"""TxnOffsetCommit: commit offsets in a transaction (transactions.md 1)."""

from __future__ import annotations

from messages import errors
from messages.acls import Operation
from messages.apis.declaration import (
    BY_TOPIC,
    COORDINATOR,
    GROUPS,
    MEMBER,
    Api,
    PartitionError,
    on_group,
    on_topics,
    on_transactional_id,
)
from messages.apis.join_group import NO_GENERATION, NO_MEMBER
from messages.apis.offset_commit import CommittedPartition
from messages.vocabulary import Message, message


@message
class TxnOffsetCommitRequest(Message):
    """A producer's request to the group coordinator to commit offsets in its transaction (API key 28).

    From version 3 on, the request has the consumer's generation, member and instance.
    """

    version: int
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[CommittedPartition, ...]
    generation_id: int = NO_GENERATION
    member_id: str = NO_MEMBER
    group_instance_id: str | None = None


@message
class TxnOffsetCommitResponse(Message):
    """The response to TxnOffsetCommit, with a result for each partition."""

    partitions: tuple[PartitionError, ...]
    throttle_time_ms: int = 0


LOADING_KNOWN_SINCE = 2
"""The first version whose clients support COORDINATOR_LOAD_IN_PROGRESS (14); older versions get
COORDINATOR_NOT_AVAILABLE (15).
"""
ABORTABLE_SINCE = 4
"""The first version whose clients know TRANSACTION_ABORTABLE (120); older versions get INVALID_TXN_STATE (48)."""


def _refuse(request: TxnOffsetCommitRequest, code: int) -> TxnOffsetCommitResponse:
    if code == errors.COORDINATOR_LOAD_IN_PROGRESS and request.version < LOADING_KNOWN_SINCE:
        code = errors.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponse(tuple([PartitionError(each.partition, code) for each in request.partitions]))


API = Api(
    key=28,
    versions=(0, 4),
    request=TxnOffsetCommitRequest,
    response=TxnOffsetCommitResponse,
    answerer=GROUPS,
    access=(
        on_transactional_id(Operation.WRITE),
        on_group(Operation.READ),
        on_topics(Operation.READ),
    ),
    codes=f"NONE INVALID_GROUP_ID {COORDINATOR} COORDINATOR_NOT_AVAILABLE {MEMBER} ILLEGAL_GENERATION"
    " UNKNOWN_TOPIC_OR_PARTITION OFFSET_METADATA_TOO_LARGE INVALID_COMMIT_OFFSET_SIZE REQUEST_TIMED_OUT"
    " INVALID_PRODUCER_EPOCH INVALID_PRODUCER_ID_MAPPING INVALID_TXN_STATE UNKNOWN_SERVER_ERROR"
    " TRANSACTION_ABORTABLE",
    sample=lambda about: TxnOffsetCommitRequest(
        3, "unknown-id", "own", 5, 0, (CommittedPartition(about.partition, 1),)
    ),
    odd="partition=absent committed_metadata=long generation_id=1;member_id=stranger group_id= as=member"
    " as=member;generation_id-1 as=instance",
    refuse=_refuse,
    bindings={TxnOffsetCommitRequest: BY_TOPIC, TxnOffsetCommitResponse: BY_TOPIC},
)
