"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken (KIP-48).

An HMAC is the secret of a token. The listener that receives it puts the token's id in its place, and computes it for
responses, so that no actor and no trace sees it. Times are in ms since 1970.
"""

from __future__ import annotations

from functools import partial

from messages import errors
from messages.acls import Operation, ResourceType
from messages.apis.declaration import DELEGATION_TOKENS, Access, Api, Shown
from messages.security import Secret
from messages.vocabulary import Message, message

NO_HMAC = Secret(b"")


@message
class TokenPrincipal(Message):
    """A principal that owns or renews delegation tokens."""

    principal_type: str
    principal_name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.principal_name}"


def token_principal(text: str) -> TokenPrincipal:
    """Return the principal in a text such as User:alice."""
    kind, _, name = text.partition(":")
    return TokenPrincipal(kind, name)


@message
class CreateDelegationTokenRequest(Message):
    """A client's request for a delegation token for its principal, or for another owner (API key 38)."""

    version: int
    renewers: tuple[TokenPrincipal, ...] = ()
    max_lifetime_ms: int = -1
    owner_principal_type: str | None = None
    owner_principal_name: str | None = None

    @property
    def owner(self) -> str | None:
        """The other owner; None if the token is for the client itself."""
        return f"{self.owner_principal_type}:{self.owner_principal_name}" if self.owner_principal_name else None


@message
class CreateDelegationTokenResponse(Message):
    """The response to CreateDelegationToken; the times are -1 if no token was created."""

    error_code: int
    principal_type: str = "User"
    principal_name: str = "ANONYMOUS"
    issue_timestamp_ms: int = -1
    expiry_timestamp_ms: int = -1
    max_timestamp_ms: int = -1
    token_id: str = ""
    hmac: Secret = NO_HMAC
    throttle_time_ms: int = 0
    token_requester_principal_type: str = "User"
    token_requester_principal_name: str = "ANONYMOUS"


@message
class RenewDelegationTokenRequest(Message):
    """A client's request to renew a delegation token (API key 39); `token_id` is "" if no token has this HMAC."""

    version: int
    hmac: Secret = NO_HMAC
    renew_period_ms: int = -1
    token_id: str = ""


@message
class RenewDelegationTokenResponse(Message):
    """The response to RenewDelegationToken."""

    error_code: int
    expiry_timestamp_ms: int = -1
    throttle_time_ms: int = 0


@message
class ExpireDelegationTokenRequest(Message):
    """A client's request to change the time at which a delegation token expires (API key 40).

    `token_id` is "" if no token has this HMAC.
    """

    version: int
    hmac: Secret = NO_HMAC
    expiry_time_period_ms: int = -1
    token_id: str = ""


@message
class ExpireDelegationTokenResponse(Message):
    """The response to ExpireDelegationToken."""

    error_code: int
    expiry_timestamp_ms: int = -1
    throttle_time_ms: int = 0


@message
class DescribeDelegationTokenRequest(Message):
    """A client's request for the delegation tokens of these principals, or of all principals (API key 41)."""

    version: int
    owners: tuple[TokenPrincipal, ...] | None


@message
class DescribedToken(Message):
    """A delegation token."""

    principal_type: str
    principal_name: str
    token_requester_principal_type: str
    token_requester_principal_name: str
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int
    token_id: str
    renewers: tuple[TokenPrincipal, ...]
    hmac: Secret = NO_HMAC


@message
class DescribeDelegationTokenResponse(Message):
    """The response to DescribeDelegationToken, with the tokens that the client may see."""

    error_code: int
    tokens: tuple[DescribedToken, ...] = ()
    throttle_time_ms: int = 0


_TOKENS = partial(
    Api,
    answerer=DELEGATION_TOKENS,
    codes="DELEGATION_TOKEN_AUTH_DISABLED",
    elsewhere=errors.DELEGATION_TOKEN_AUTH_DISABLED,
)

CREATE_DELEGATION_TOKEN = _TOKENS(
    key=38,
    versions=(0, 3),
    request=CreateDelegationTokenRequest,
    response=CreateDelegationTokenResponse,
    access=(Access(Operation.CREATE_TOKENS, ResourceType.USER, lambda request: request.owner),),
    sample=lambda about: CreateDelegationTokenRequest(2),
)
RENEW_DELEGATION_TOKEN = _TOKENS(
    key=39,
    versions=(0, 2),
    request=RenewDelegationTokenRequest,
    response=RenewDelegationTokenResponse,
    access=(),
    sample=lambda about: RenewDelegationTokenRequest(2),
)
EXPIRE_DELEGATION_TOKEN = _TOKENS(
    key=40,
    versions=(0, 2),
    request=ExpireDelegationTokenRequest,
    response=ExpireDelegationTokenResponse,
    access=(),
    sample=lambda about: ExpireDelegationTokenRequest(2),
)
DESCRIBE_DELEGATION_TOKEN = _TOKENS(
    key=41,
    versions=(0, 3),
    request=DescribeDelegationTokenRequest,
    response=DescribeDelegationTokenResponse,
    access=(),
    shown=(
        Shown(
            Operation.DESCRIBE,
            ResourceType.DELEGATION_TOKEN,
            lambda token: token.token_id,
            "tokens",
            of=lambda token: (f"{token.principal_type}:{token.principal_name}", *map(str, token.renewers)),
        ),
    ),
    sample=lambda about: DescribeDelegationTokenRequest(2, None),
)
