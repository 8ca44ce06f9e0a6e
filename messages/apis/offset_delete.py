"""OffsetDelete: delete committed offsets of a group (broker.md 6.5)."""

from __future__ import annotations

from messages import errors
from messages.acls import Operation
from messages.apis.declaration import BY_TOPIC, COORDINATOR, GROUPS, Api, PartitionError, on_group, on_topics
from messages.cluster import TopicPartition
from messages.vocabulary import Message, message


@message
class OffsetDeletePartition(Message):
    """A partition whose committed offset is to be deleted."""

    partition: TopicPartition


@message
class OffsetDeleteRequest(Message):
    """A client's request to delete committed offsets (API key 47)."""

    version: int
    group_id: str
    partitions: tuple[OffsetDeletePartition, ...]


@message
class OffsetDeleteResponse(Message):
    """The response to OffsetDelete; it has no partitions if it has a top-level error."""

    error_code: int
    partitions: tuple[PartitionError, ...] = ()
    throttle_time_ms: int = 0


def _refuse(request: OffsetDeleteRequest, code: int) -> OffsetDeleteResponse:
    if code != errors.TOPIC_AUTHORIZATION_FAILED:
        return OffsetDeleteResponse(code)
    return OffsetDeleteResponse(
        errors.NONE, tuple([PartitionError(each.partition, code) for each in request.partitions])
    )


API = Api(
    key=47,
    versions=(0, 0),
    request=OffsetDeleteRequest,
    response=OffsetDeleteResponse,
    answerer=GROUPS,
    access=(
        on_group(Operation.DELETE),
        on_topics(Operation.READ),
    ),
    codes=f"NONE INVALID_GROUP_ID {COORDINATOR} GROUP_ID_NOT_FOUND NON_EMPTY_GROUP UNKNOWN_TOPIC_OR_PARTITION"
    " GROUP_SUBSCRIBED_TO_TOPIC",
    sample=lambda about: OffsetDeleteRequest(0, "own", (OffsetDeletePartition(about.partition),)),
    odd="partition=absent group_id=unknown group_id=;partitions= group_id=passing group_id=@group",
    refuse=_refuse,
    bindings={OffsetDeleteRequest: BY_TOPIC, OffsetDeleteResponse: BY_TOPIC},
)
