"""The server's side of SASL on one connection: which frames may arrive, and the answers (KIP-43, KIP-152, KIP-368).

Rule 1: until a client is authenticated, nothing but ApiVersions, SaslHandshake and the mechanism's messages is read.
Rule 2: a failure is answered after the listener's delay, and then the connection is closed.
Rule 3: if the session has a lifetime, its client authenticates again in time, with the same mechanism and principal.
        The first request after the end of the session closes the connection.

Kafka: `SaslServerAuthenticator`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from actors.core.security.sasl_exchange import AuthenticationFailed, Exchange
from actors.core.supported_apis import api_versions
from messages import errors
from messages.apis import API_BY_REQUEST
from messages.apis.api_versions import ApiVersionsRequest
from messages.apis.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from messages.apis.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from messages.releases import NEWEST
from messages.vocabulary import AnyMessage, Message, maker, value_class

MIN_REAUTHENTICATION_SECONDS = 1.0
"""Minimum time from one re-authentication of a connection to the next."""

_authenticated = maker(SaslAuthenticateResponse)


@value_class
class SaslMechanism:
    """An enabled mechanism of a listener.

    Attributes:
        begin: Starts an exchange.
        max_reauth_ms: Milliseconds for which a session lasts (connections.max.reauth.ms); 0 if it does not end.
    """

    begin: Callable[[], Exchange]
    max_reauth_ms: int = 0


class SaslState(enum.Enum):
    """How far a client is; TOKENS is AUTHENTICATING after a handshake of version 0, whose messages are bare frames."""

    INITIAL = "Initial"
    HANDSHAKE = "Handshake"
    AUTHENTICATING = "Authenticating"
    TOKENS = "Tokens"
    COMPLETE = "Complete"


class SaslAnswer(NamedTuple):
    """What a listener does with a frame.

    Attributes:
        response: The response; bytes are sent as a bare frame, None means nothing is sent.
        closes: The reason to close the connection; "" if it stays open.
        fails: Whether the authentication failed: the response and the close wait for the listener's delay.
        authenticated: Whether the client is authenticated from now on.
    """

    response: Message | bytes | None
    closes: str = ""
    fails: bool = False
    authenticated: bool = False


class SaslServer:
    """The state of one connection; times are seconds of any clock."""

    __slots__ = (
        *("_before", "_exchange", "_expires_at", "_mechanisms", "_reauthenticated_at", "_release", "by_token"),
        *("lifetime_ms", "mechanism", "principal", "state"),
    )

    def __init__(self, mechanisms: Mapping[str, SaslMechanism], release: str = NEWEST) -> None:
        self._mechanisms = mechanisms
        self._release = release
        self.state = SaslState.INITIAL
        self.mechanism = ""
        self.principal: str | None = None
        """The principal, once authenticated."""
        self.by_token = False
        """Whether the client has authenticated with a delegation token."""
        self.lifetime_ms = 0
        """The lifetime of the session; 0 if it does not end."""
        self._expires_at = math.inf
        self._reauthenticated_at = -math.inf
        """When the last re-authentication began."""
        self._before = ""
        """During a re-authentication, the mechanism of the session."""
        self._exchange: Exchange

    def admits(self, key: int) -> bool:
        """Return whether a request with this API key may be decoded (rule 1)."""
        return self.state not in (SaslState.INITIAL, SaslState.HANDSHAKE) or key in _FIRST

    def concerns(self, key: int, now: float) -> bool:
        """Return whether a request of an authenticated client with this API key may need this object (rule 3)."""
        return key == HANDSHAKE or now >= self._expires_at

    def request(self, request: AnyMessage, now: float) -> SaslAnswer | None:
        """Handle a request; return None if it is an ordinary request of an authenticated client."""
        if self.state is SaslState.COMPLETE:
            return self._further(request, now)
        if self.state is SaslState.AUTHENTICATING:
            if self._before not in ("", self.mechanism):
                return SaslAnswer(None, "it re-authenticates with another mechanism")
            if isinstance(request, SaslAuthenticateRequest):
                return self._authenticate(request.auth_bytes.value, now)
            refusal = API_BY_REQUEST[type(request)].refusal(request, errors.ILLEGAL_SASL_STATE)
            return SaslAnswer(refusal, "Unexpected Kafka request during SASL authentication", fails=True)
        if isinstance(request, SaslHandshakeRequest):
            return self._handshake(request)
        if self.state is SaslState.HANDSHAKE:
            return SaslAnswer(None, "a second ApiVersions request before the SASL handshake")
        response = api_versions(request, self._release)
        if response.error_code == errors.NONE:
            self.state = SaslState.HANDSHAKE
        return SaslAnswer(response)

    def token(self, token: bytes, now: float) -> SaslAnswer:
        """Handle a bare frame in state TOKENS."""
        answer = self._authenticate(token, now)
        sent = answer.response
        assert isinstance(sent, SaslAuthenticateResponse)
        return answer._replace(response=None if answer.fails else sent.auth_bytes)

    def _further(self, request: Message, now: float) -> SaslAnswer | None:
        """Handle a request of an authenticated client (rule 3)."""
        if (
            isinstance(request, SaslHandshakeRequest)
            and self.lifetime_ms
            and now - self._reauthenticated_at >= MIN_REAUTHENTICATION_SECONDS
        ):
            self._reauthenticated_at, self._before = now, self.mechanism
            return self._handshake(request)
        return SaslAnswer(None, "its session has expired") if now >= self._expires_at else None

    def _handshake(self, request: SaslHandshakeRequest) -> SaslAnswer:
        enabled = tuple(self._mechanisms)
        if request.mechanism not in self._mechanisms:
            refusal = SaslHandshakeResponse(errors.UNSUPPORTED_SASL_MECHANISM, enabled)
            return SaslAnswer(refusal, "Unsupported SASL mechanism", fails=True)
        self.mechanism = request.mechanism
        self._exchange = self._mechanisms[request.mechanism].begin()
        self.state = SaslState.TOKENS if request.version == 0 else SaslState.AUTHENTICATING
        return SaslAnswer(SaslHandshakeResponse(errors.NONE, enabled))

    def _authenticate(self, message: bytes, now: float) -> SaslAnswer:
        try:
            token, identity = self._exchange(message)
            if identity is None:
                return SaslAnswer(_authenticated(errors.NONE, "", token))
            principal = f"User:{identity.user}"
            if self._before and principal != self.principal:
                before = str(self.principal).replace(":", ".", 1)
                changing = "Cannot change principals during re-authentication from"
                raise AuthenticationFailed(f"{changing} {before}: {principal.replace(':', '.', 1)}")
        except AuthenticationFailed as failure:
            during = "re-authentication" if self._before else "authentication"
            invalid = f"Authentication failed during {during} due to invalid credentials with SASL mechanism"
            text = str(failure) or f"{invalid} {self.mechanism}"
            return SaslAnswer(SaslAuthenticateResponse(errors.SASL_AUTHENTICATION_FAILED, text), text, fails=True)
        self.state, self.principal, self._before = SaslState.COMPLETE, principal, ""
        self.by_token = identity.by_token
        lifetimes = self._mechanisms[self.mechanism].max_reauth_ms, identity.lifetime_ms
        self.lifetime_ms = min(filter(None, lifetimes), default=0)
        self._expires_at = now + self.lifetime_ms / 1000 if self.lifetime_ms else math.inf
        response = _authenticated(errors.NONE, "", token, self.lifetime_ms)
        return SaslAnswer(response, authenticated=True)


HANDSHAKE = API_BY_REQUEST[SaslHandshakeRequest].key
_FIRST = {HANDSHAKE, API_BY_REQUEST[ApiVersionsRequest].key}
