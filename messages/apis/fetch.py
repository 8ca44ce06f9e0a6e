"""Fetch: read record batches from partitions, as a consumer or as a follower (broker.md 5)."""

from __future__ import annotations

from typing import NamedTuple

from messages import errors
from messages.acls import KAFKA_CLUSTER, Operation, ResourceType
from messages.apis.declaration import EPOCHS, LEADERSHIP, PARTITIONS, Access, Api, NamedById, each_partition, on_topics
from messages.apis.metadata import MetadataBroker
from messages.cluster import NO_EPOCH, CurrentLeader, TopicPartition
from messages.records import EMPTY, NO_OFFSET, Body
from messages.vocabulary import Message, maker, message

CONSUMER = -1
NO_REPLICA = -1
"""The replica id of a client that is not a broker."""
READ_UNCOMMITTED = 0
READ_COMMITTED = 1
LAST_EPOCH = 2**31 - 1
"""The largest epoch of a fetch session."""
FORMAT_2_SINCE, FORMAT_1_SINCE = 4, 2
"""The first versions whose responses may have record batches of format 2, and messages of format 1."""
ZSTD_SINCE = 10
"""The first version in which a topic whose `compression.type` is zstd is served. Later versions suit all topics."""


def newest_format(version: int) -> int:
    """Return the newest format of records that a response of this version may have."""
    return 2 if version >= FORMAT_2_SINCE else int(version >= FORMAT_1_SINCE)


@message
class FetchPartition(Message):
    """The fetch offset of one partition; `log_start_offset` is the log start offset of the follower.

    `last_fetched_epoch` is the leader epoch of the reader's last record; if it is set, the leader checks whether the
    logs diverge.
    """

    partition: TopicPartition
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = NO_EPOCH
    log_start_offset: int = NO_OFFSET
    last_fetched_epoch: int = NO_EPOCH


@message
class FetchRequest(Message):
    """The request of a client or follower to read batches (API key 1); `replica_id` is -1 for clients.

    The response is sent when all partitions together have `min_bytes`, or after `max_wait_ms`. From version 13 on,
    topics have ids: the topic of each partition, also of the response, is the id's text.
    """

    version: int
    replica_id: int
    max_wait_ms: int
    min_bytes: int
    partitions: tuple[FetchPartition, ...]
    max_bytes: int = 0x7FFFFFFF
    isolation_level: int = READ_UNCOMMITTED
    session_id: int = 0
    session_epoch: int = -1
    forgotten: tuple[TopicPartition, ...] = ()
    rack_id: str = ""


IDS_SINCE = 13
"""The first version with topic ids in place of names."""
FETCH_LEADERS_SINCE = 16
"""The first version with the current leader of a partition that is not led here, or at another epoch (KIP-951)."""


def next_epoch(epoch: int) -> int:
    """Return the epoch of a fetch session's next request: `epoch` + 1, or 1 if `epoch` is the largest (KIP-227)."""
    return 1 if epoch == LAST_EPOCH else epoch + 1


def is_idle_poll(request: Message) -> bool:
    """Return whether a request is an incremental fetch of an existing session without any change of its partitions.

    Requests with topic ids are left out: a session keeps to names or to ids.
    """
    if not isinstance(request, FetchRequest) or request.version >= IDS_SINCE:
        return False
    return bool(request.session_id and request.session_epoch > 0 and not request.partitions and not request.forgotten)


@message
class AbortedTransaction(Message):
    """An aborted transaction, identified by its producer id and its first offset."""

    producer_id: int
    first_offset: int


class DivergingEpoch(NamedTuple):
    """An epoch of a leader's log, and its end offset."""

    epoch: int
    end_offset: int


@message
class FetchedPartition(Message):
    """The records and offsets of one partition in a fetch response.

    With an error it has no records, and the offsets are -1. `diverging_epoch` is set where the reader's log diverges:
    the leader's largest epoch that is not above the reader's, and the end of this epoch.
    """

    partition: TopicPartition
    error_code: int
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None
    preferred_read_replica: int = NO_REPLICA
    body: Body = EMPTY
    diverging_epoch: DivergingEpoch | None = None
    current_leader: CurrentLeader | None = None


fetched_partition = maker(FetchedPartition)
"""Makes one, for where there are many."""


@message
class FetchResponse(Message):
    """The response to Fetch; `session_id` 0 means that there is no fetch session.

    `node_endpoints` has the endpoints of the leaders in `current_leader` of the partitions.
    """

    partitions: tuple[FetchedPartition, ...]
    error_code: int = 0
    session_id: int = 0
    throttle_time_ms: int = 0
    node_endpoints: tuple[MetadataBroker, ...] = ()


API = Api(
    key=1,
    versions=(0, 17),
    request=FetchRequest,
    response=FetchResponse,
    answerer=PARTITIONS,
    access=(
        Access(
            Operation.CLUSTER_ACTION,
            ResourceType.CLUSTER,
            lambda request: None if request.replica_id == CONSUMER else KAFKA_CLUSTER,
            code=errors.TOPIC_AUTHORIZATION_FAILED,
        ),
        on_topics(Operation.READ, when=lambda request: request.replica_id == CONSUMER and request.version < IDS_SINCE),
        Access(
            Operation.READ,
            ResourceType.TOPIC,
            lambda part: NamedById(part.partition.topic),
            "partitions",
            "partitions",
            when=lambda request: request.replica_id == CONSUMER and request.version >= IDS_SINCE,
        ),
    ),
    codes=f"NONE {LEADERSHIP} {EPOCHS} OFFSET_OUT_OF_RANGE FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH"
    " UNSUPPORTED_COMPRESSION_TYPE UNKNOWN_TOPIC_ID FETCH_SESSION_TOPIC_ID_ERROR INCONSISTENT_TOPIC_ID",
    sample=lambda about: FetchRequest(
        11, CONSUMER, 0, 0, (FetchPartition(about.partition, 0, 1 << 16, about.leader_epoch),), max_bytes=1 << 16
    ),
    odd="partition=absent fetch_offset=1099511627776 version=9 current_leader_epoch-1 current_leader_epoch+1"
    " replica_id=90 session_id=1073741824;session_epoch=3 session_epoch=0",
    refuse=each_partition(FetchResponse, FetchedPartition),
    carries_records=True,
)
