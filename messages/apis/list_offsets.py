"""ListOffsets: first offsets, last offsets, and offsets for timestamps."""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import BY_TOPIC, EPOCHS, LEADERSHIP, PARTITIONS, Api, each_partition, on_topics
from messages.apis.fetch import CONSUMER, READ_UNCOMMITTED
from messages.cluster import NO_EPOCH, TopicPartition
from messages.records import EARLIEST, LARGEST_TIMESTAMP, LATEST, NO_OFFSET
from messages.vocabulary import Message, message

EARLIEST_LOCAL, LATEST_TIERED = -4, -5
"""Special values of the time in a ListOffsets request, with those of a search in a log."""

SINCE = {LATEST: 0, EARLIEST: 0, LARGEST_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
"""Special value -> the first version that has it."""


@message
class OffsetQuery(Message):
    """A client's query for an offset of a partition: by time (ms), or by a special value.

    In version 0 it is a query for up to `max_num_offsets` offsets, at which segments begin, or the log ends.
    """

    partition: TopicPartition
    timestamp: int
    current_leader_epoch: int = NO_EPOCH
    max_num_offsets: int = 1


@message
class ListOffsetsRequest(Message):
    """A client's or follower's request for first offsets, last offsets, or offsets for timestamps (API key 2)."""

    version: int
    replica_id: int
    partitions: tuple[OffsetQuery, ...]
    isolation_level: int = READ_UNCOMMITTED


@message
class ListedOffset(Message):
    """The result of ListOffsets for one partition.

    It has the offset, and the time and leader epoch of the record at this offset (-1: none). In version 0, it has
    `old_style_offsets`, in descending order.
    """

    partition: TopicPartition
    error_code: int
    timestamp: int = -1
    offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH
    old_style_offsets: tuple[int, ...] = ()


@message
class ListOffsetsResponse(Message):
    """The response to ListOffsets."""

    partitions: tuple[ListedOffset, ...]
    throttle_time_ms: int = 0


API = Api(
    key=2,
    versions=(0, 9),
    request=ListOffsetsRequest,
    response=ListOffsetsResponse,
    answerer=PARTITIONS,
    access=(on_topics(Operation.DESCRIBE),),
    codes=f"NONE {LEADERSHIP} {EPOCHS} OFFSET_NOT_AVAILABLE LEADER_NOT_AVAILABLE UNSUPPORTED_VERSION INVALID_REQUEST"
    " UNSUPPORTED_FOR_MESSAGE_FORMAT",
    sample=lambda about: ListOffsetsRequest(5, CONSUMER, (OffsetQuery(about.partition, LATEST, about.leader_epoch),)),
    odd="timestamp=-2 timestamp=-3 timestamp=-3;version=7"
    " timestamp=0;version=4 version=2 partition=absent current_leader_epoch-1 current_leader_epoch+1",
    refuse=each_partition(ListOffsetsResponse, ListedOffset),
    bindings={ListOffsetsRequest: BY_TOPIC, ListOffsetsResponse: BY_TOPIC},
)
