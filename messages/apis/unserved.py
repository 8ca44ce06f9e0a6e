"""The APIs of features that a node does not support (broker.md 6.2): it refuses their requests.

As Kafka in ZooKeeper mode does on a PLAINTEXT listener without an authorizer. Fields that may contain a password or
token are not decoded, because the trace stores every field of a message.
"""

from __future__ import annotations

from functools import partial

from messages import errors
from messages.apis.declaration import OPEN, REQUEST_HANDLER, Api
from messages.vocabulary import Message, message


@message
class CreateDelegationTokenRequest(Message):
    """A client's request for a delegation token for its principal (API key 38)."""

    version: int


@message
class CreateDelegationTokenResponse(Message):
    """The response to CreateDelegationToken; times are in ms since 1970, or -1 if no token was created."""

    error_code: int
    principal_type: str = "User"
    principal_name: str = "ANONYMOUS"
    issue_timestamp_ms: int = -1
    expiry_timestamp_ms: int = -1
    max_timestamp_ms: int = -1
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: int = 0
    token_requester_principal_type: str = "User"
    token_requester_principal_name: str = "ANONYMOUS"


@message
class RenewDelegationTokenRequest(Message):
    """A client's request to renew a delegation token (API key 39)."""

    version: int


@message
class RenewDelegationTokenResponse(Message):
    """The response to RenewDelegationToken."""

    error_code: int
    expiry_timestamp_ms: int = -1
    throttle_time_ms: int = 0


@message
class ExpireDelegationTokenRequest(Message):
    """A client's request to change the time at which a delegation token expires (API key 40)."""

    version: int


@message
class ExpireDelegationTokenResponse(Message):
    """The response to ExpireDelegationToken."""

    error_code: int
    expiry_timestamp_ms: int = -1
    throttle_time_ms: int = 0


@message
class DelegationTokenOwner(Message):
    """A principal whose delegation tokens a client requests."""

    principal_type: str
    principal_name: str


@message
class DescribeDelegationTokenRequest(Message):
    """A client's request for the delegation tokens of these principals, or of all principals (API key 41)."""

    version: int
    owners: tuple[DelegationTokenOwner, ...] | None


@message
class DescribeDelegationTokenResponse(Message):
    """The response to DescribeDelegationToken; its list of tokens is always empty."""

    error_code: int
    throttle_time_ms: int = 0


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


_UNSERVED = partial(Api, versions=(0, 2), answerer=REQUEST_HANDLER, access=OPEN)
_TOKENS = partial(
    _UNSERVED,
    feature="delegation tokens",
    codes="DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
    elsewhere=errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
)
_CONSUMER_PROTOCOL = partial(
    _UNSERVED,
    versions=(0, 0),
    feature="the consumer rebalance protocol",
    codes="UNSUPPORTED_VERSION",
    elsewhere=errors.UNSUPPORTED_VERSION,
)

CREATE_DELEGATION_TOKEN = _TOKENS(
    key=38,
    versions=(0, 3),
    request=CreateDelegationTokenRequest,
    response=CreateDelegationTokenResponse,
    sample=lambda about: CreateDelegationTokenRequest(2),
)
RENEW_DELEGATION_TOKEN = _TOKENS(
    key=39,
    request=RenewDelegationTokenRequest,
    response=RenewDelegationTokenResponse,
    sample=lambda about: RenewDelegationTokenRequest(2),
)
EXPIRE_DELEGATION_TOKEN = _TOKENS(
    key=40,
    request=ExpireDelegationTokenRequest,
    response=ExpireDelegationTokenResponse,
    sample=lambda about: ExpireDelegationTokenRequest(2),
)
DESCRIBE_DELEGATION_TOKEN = _TOKENS(
    key=41,
    versions=(0, 3),
    request=DescribeDelegationTokenRequest,
    response=DescribeDelegationTokenResponse,
    sample=lambda about: DescribeDelegationTokenRequest(2, None),
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
