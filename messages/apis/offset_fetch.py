"""OffsetFetch: the committed offsets of a group (broker.md 6.5)."""

from __future__ import annotations

from messages import errors
from messages.apis.declaration import BY_TOPIC, COORDINATOR, GROUPS, Api
from messages.cluster import NO_EPOCH, TopicPartition
from messages.vocabulary import Message, message


@message
class OffsetFetchTopic(Message):
    """The partitions of one topic for which a client requests the committed offsets."""

    name: str
    partition_indexes: tuple[int, ...]


@message
class OffsetFetchRequest(Message):
    """A client's request for committed offsets (API key 9). From version 2 on, `topics` may be None: all topics.

    If `require_stable` is set, a partition with a pending transactional commit gets UNSTABLE_OFFSET_COMMIT.
    """

    version: int
    group_id: str
    topics: tuple[OffsetFetchTopic, ...] | None
    require_stable: bool = False


@message
class FetchedOffset(Message):
    """The committed offset of one partition; -1 with error code NONE if no offset was committed."""

    partition: TopicPartition
    committed_offset: int
    committed_leader_epoch: int = NO_EPOCH
    metadata: str | None = ""
    error_code: int = 0


@message
class OffsetFetchResponse(Message):
    """The response to OffsetFetch; before version 2 an error is repeated for every partition."""

    error_code: int
    partitions: tuple[FetchedOffset, ...] = ()
    throttle_time_ms: int = 0


TOP_LEVEL_ERROR_SINCE = 2
"""The first version with a top-level error code."""


def _refuse(request: OffsetFetchRequest, code: int) -> OffsetFetchResponse:
    if request.version >= TOP_LEVEL_ERROR_SINCE:
        return OffsetFetchResponse(code)
    partitions = [
        TopicPartition(topic.name, number) for topic in request.topics or () for number in topic.partition_indexes
    ]
    return OffsetFetchResponse(errors.NONE, tuple([FetchedOffset(each, -1, error_code=code) for each in partitions]))


API = Api(
    key=9,
    versions=(1, 7),
    request=OffsetFetchRequest,
    response=OffsetFetchResponse,
    answerer=GROUPS,
    codes=f"NONE {COORDINATOR} UNSTABLE_OFFSET_COMMIT",
    sample=lambda about: OffsetFetchRequest(
        7, "own", (OffsetFetchTopic(about.partition.topic, (about.partition.partition,)),)
    ),
    odd="topics=null version=1;group_id=@group",
    refuse=_refuse,
    bindings={OffsetFetchResponse: BY_TOPIC},
)
