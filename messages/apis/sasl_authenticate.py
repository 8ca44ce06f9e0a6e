"""SaslAuthenticate: a message of the connection's SASL mechanism (KIP-152).

A listener with SASL answers the request itself. Elsewhere, and after the authentication, it is refused.
"""

from __future__ import annotations

from messages import errors
from messages.apis.declaration import OPEN, REQUEST_HANDLER, Api
from messages.security import Secret
from messages.vocabulary import Message, message


@message
class SaslAuthenticateRequest(Message):
    """A client's request with a message of its SASL mechanism (API key 36)."""

    version: int
    auth_bytes: Secret = Secret(b"")


@message
class SaslAuthenticateResponse(Message):
    """The response to SaslAuthenticate; `session_lifetime_ms` is 0 if the session does not end."""

    error_code: int
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0


API = Api(
    key=36,
    versions=(0, 2),
    request=SaslAuthenticateRequest,
    response=SaslAuthenticateResponse,
    answerer=REQUEST_HANDLER,
    access=OPEN,
    codes="ILLEGAL_SASL_STATE",
    sample=lambda about: SaslAuthenticateRequest(2),
    # Kafka's error message for a request after the authentication, or on a listener without SASL.
    refuse=lambda request, code: SaslAuthenticateResponse(
        code, "SaslAuthenticate request received after successful authentication"
    ),
    elsewhere=errors.ILLEGAL_SASL_STATE,
)
