"""The APIs of features that a node does not support (broker.md 6.2): it refuses their requests, as Kafka does."""

from __future__ import annotations

from functools import partial

from messages import errors
from messages.apis.declaration import OPEN, REQUEST_HANDLER, Api
from messages.vocabulary import Message, message


@message
class ConsumerGroupHeartbeatRequest(Message):
    """A heartbeat of a consumer that uses the consumer rebalance protocol (API key 68)."""

    version: int
    group_id: str
    member_id: str
    member_epoch: int


@message
class ConsumerGroupHeartbeatResponse(Message):
    """The response to ConsumerGroupHeartbeat, without an assignment."""

    error_code: int
    error_message: str | None = None
    throttle_time_ms: int = 0


@message
class ConsumerGroupDescribeRequest(Message):
    """A client's request to describe groups of the consumer rebalance protocol (API key 69)."""

    version: int
    group_ids: tuple[str, ...]


@message
class UndescribedGroup(Message):
    """The error of one group in a response to ConsumerGroupDescribe."""

    error_code: int
    group_id: str


@message
class ConsumerGroupDescribeResponse(Message):
    """The response to ConsumerGroupDescribe; the groups are in the order of the request."""

    groups: tuple[UndescribedGroup, ...]
    throttle_time_ms: int = 0


_CONSUMER_PROTOCOL = partial(
    Api,
    versions=(0, 0),
    answerer=REQUEST_HANDLER,
    access=OPEN,
    feature="the consumer rebalance protocol",
    codes="UNSUPPORTED_VERSION",
    elsewhere=errors.UNSUPPORTED_VERSION,
)

CONSUMER_GROUP_HEARTBEAT = _CONSUMER_PROTOCOL(
    key=68,
    request=ConsumerGroupHeartbeatRequest,
    response=ConsumerGroupHeartbeatResponse,
    sample=lambda about: ConsumerGroupHeartbeatRequest(0, about.group, "member", 0),
)
CONSUMER_GROUP_DESCRIBE = _CONSUMER_PROTOCOL(
    key=69,
    request=ConsumerGroupDescribeRequest,
    response=ConsumerGroupDescribeResponse,
    sample=lambda about: ConsumerGroupDescribeRequest(0, (about.group,)),
    refuse=lambda request, code: ConsumerGroupDescribeResponse(
        tuple([UndescribedGroup(code, group_id) for group_id in request.group_ids])
    ),
)
