"""OffsetFetch: the committed offsets of a group (broker.md 6.5)."""

from __future__ import annotations

from messages import errors
from messages.acls import Operation, ResourceType
from messages.apis.declaration import BY_TOPIC, COORDINATOR, GROUPS, Access, Api, Shown, on_group
from messages.cluster import NO_EPOCH, TopicPartition
from messages.vocabulary import Message, message


@message
class OffsetFetchTopic(Message):
    """The partitions of one topic for which a client requests the committed offsets."""

    name: str
    partition_indexes: tuple[int, ...]


@message
class OffsetFetchGroup(Message):
    """A group for which a client requests the committed offsets; `topics` is None for all topics."""

    group_id: str
    topics: tuple[OffsetFetchTopic, ...] | None


@message
class OffsetFetchRequest(Message):
    """A client's request for committed offsets (API key 9). From version 2 on, `topics` may be None: all topics.

    From version 8 on, `groups` replaces `group_id` and `topics`. If `require_stable` is set, a partition with a pending
    transactional commit gets UNSTABLE_OFFSET_COMMIT.
    """

    version: int
    group_id: str = ""
    topics: tuple[OffsetFetchTopic, ...] | None = None
    require_stable: bool = False
    groups: tuple[OffsetFetchGroup, ...] = ()


@message
class FetchedOffset(Message):
    """The committed offset of one partition; -1 with error code NONE if no offset was committed."""

    partition: TopicPartition
    committed_offset: int
    committed_leader_epoch: int = NO_EPOCH
    metadata: str | None = ""
    error_code: int = 0


@message
class OffsetFetchedGroup(Message):
    """The committed offsets of one group; a refused group has none."""

    group_id: str
    partitions: tuple[FetchedOffset, ...] = ()
    error_code: int = 0


@message
class OffsetFetchResponse(Message):
    """The response to OffsetFetch; before version 2 an error is repeated for every partition.

    From version 8 on, each of `groups` has its own error and offsets.
    """

    error_code: int
    partitions: tuple[FetchedOffset, ...] = ()
    throttle_time_ms: int = 0
    groups: tuple[OffsetFetchedGroup, ...] = ()


TOP_LEVEL_ERROR_SINCE = 2
"""The first version with a top-level error code."""

GROUPS_SINCE = 8
"""The first version whose requests name several groups."""


def _refuse(request: OffsetFetchRequest, code: int) -> OffsetFetchResponse:
    if request.version >= GROUPS_SINCE:
        groups = [OffsetFetchedGroup(each.group_id, error_code=code) for each in request.groups]
        return OffsetFetchResponse(errors.NONE, groups=tuple(groups))
    if request.version >= TOP_LEVEL_ERROR_SINCE:
        return OffsetFetchResponse(code)
    partitions = [
        TopicPartition(topic.name, number) for topic in request.topics or () for number in topic.partition_indexes
    ]
    return OffsetFetchResponse(errors.NONE, tuple([FetchedOffset(each, -1, error_code=code) for each in partitions]))


API = Api(
    key=9,
    versions=(1, 9),
    request=OffsetFetchRequest,
    response=OffsetFetchResponse,
    answerer=GROUPS,
    access=(
        on_group(Operation.DESCRIBE, when=lambda request: request.version < GROUPS_SINCE),
        Access(Operation.DESCRIBE, ResourceType.GROUP, lambda group: group.group_id, "groups", "groups"),
    ),
    shown=tuple(
        [
            Shown(
                Operation.DESCRIBE,
                ResourceType.TOPIC,
                lambda fetched: fetched.partition.topic,
                entries,
                lambda fetched, code: FetchedOffset(fetched.partition, -1, error_code=code),
                lambda request: request.topics is not None or any(each.topics is not None for each in request.groups),
            )
            for entries in ("partitions", "groups.partitions")
        ]
    ),
    codes=f"NONE {COORDINATOR} UNSTABLE_OFFSET_COMMIT",
    sample=lambda about: OffsetFetchRequest(
        7, "own", (OffsetFetchTopic(about.partition.topic, (about.partition.partition,)),)
    ),
    odd="topics=null version=1;group_id=@group version=8",
    refuse=_refuse,
    bindings={OffsetFetchResponse: BY_TOPIC, OffsetFetchedGroup: BY_TOPIC},
)
