"""Requests of SASL, ACLs and delegation tokens, which a node refuses: it serves none of them (broker.md 6.2).

As in `messages.requests`: one class for all versions. What may be a password or a token is not read into a message:
what a message holds is written to the trace.
"""

from __future__ import annotations

from messages.vocabulary import message

LITERAL = 3
"""The pattern type of an ACL whose resource is named in full."""


@message
class SaslHandshakeRequest:
    """Client to broker: authenticate by this SASL mechanism (API key 17)."""

    version: int
    mechanism: str


@message
class SaslHandshakeResponse:
    """The answer to SaslHandshake: the mechanisms that the listener takes."""

    error_code: int
    mechanisms: tuple[str, ...] = ()


@message
class SaslAuthenticateRequest:
    """Client to broker: a token of the SASL mechanism (API key 36)."""

    version: int


@message
class SaslAuthenticateResponse:
    """The answer to SaslAuthenticate."""

    error_code: int
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0


@message
class DescribeAclsRequest:
    """Client to any broker: which ACLs match this filter (API key 29)? None matches any text."""

    version: int
    resource_type_filter: int
    resource_name_filter: str | None
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int
    pattern_type_filter: int = LITERAL


@message
class DescribeAclsResponse:
    """The answer to DescribeAcls, without ACLs."""

    error_code: int
    error_message: str | None = None
    throttle_time_ms: int = 0


@message
class AclCreation:
    """An ACL to be created."""

    resource_type: int
    resource_name: str
    principal: str
    host: str
    operation: int
    permission_type: int
    resource_pattern_type: int = LITERAL


@message
class CreateAclsRequest:
    """Client to any broker: create these ACLs (API key 30)."""

    version: int
    creations: tuple[AclCreation, ...]


@message
class AclCreationResult:
    """The outcome of one creation."""

    error_code: int
    error_message: str | None = None


@message
class CreateAclsResponse:
    """The answer to CreateAcls: a result for each creation."""

    results: tuple[AclCreationResult, ...]
    throttle_time_ms: int = 0


@message
class DeleteAclsFilter:
    """Which ACLs to delete, as in DescribeAclsRequest."""

    resource_type_filter: int
    resource_name_filter: str | None
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int
    pattern_type_filter: int = LITERAL


@message
class DeleteAclsRequest:
    """Client to any broker: delete the ACLs that match these filters (API key 31)."""

    version: int
    filters: tuple[DeleteAclsFilter, ...]


@message
class DeleteAclsFilterResult:
    """The outcome of one filter, without ACLs."""

    error_code: int
    error_message: str | None = None


@message
class DeleteAclsResponse:
    """The answer to DeleteAcls: a result for each filter."""

    filter_results: tuple[DeleteAclsFilterResult, ...]
    throttle_time_ms: int = 0


@message
class CreateDelegationTokenRequest:
    """Client to any broker: create a delegation token for the connection's principal (API key 38)."""

    version: int


@message
class CreateDelegationTokenResponse:
    """The answer to CreateDelegationToken. Times are in ms since 1970, -1 without a token."""

    error_code: int
    principal_type: str = "User"
    principal_name: str = "ANONYMOUS"
    issue_timestamp_ms: int = -1
    expiry_timestamp_ms: int = -1
    max_timestamp_ms: int = -1
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: int = 0


@message
class RenewDelegationTokenRequest:
    """Client to any broker: renew a delegation token (API key 39)."""

    version: int


@message
class RenewDelegationTokenResponse:
    """The answer to RenewDelegationToken."""

    error_code: int
    expiry_timestamp_ms: int = -1
    throttle_time_ms: int = 0


@message
class ExpireDelegationTokenRequest:
    """Client to any broker: end a delegation token (API key 40)."""

    version: int


@message
class ExpireDelegationTokenResponse:
    """The answer to ExpireDelegationToken."""

    error_code: int
    expiry_timestamp_ms: int = -1
    throttle_time_ms: int = 0


@message
class DelegationTokenOwner:
    """A principal whose tokens are asked for."""

    principal_type: str
    principal_name: str


@message
class DescribeDelegationTokenRequest:
    """Client to any broker: which delegation tokens do these principals own (None: all) (API key 41)?"""

    version: int
    owners: tuple[DelegationTokenOwner, ...] | None


@message
class DescribeDelegationTokenResponse:
    """The answer to DescribeDelegationToken, without tokens."""

    error_code: int
    throttle_time_ms: int = 0
