"""SaslHandshake: choose the SASL mechanism of a connection (KIP-43).

A listener with SASL answers the request itself. Elsewhere, and after the authentication, it is refused.
"""

from __future__ import annotations

from messages import errors
from messages.apis.declaration import OPEN, REQUEST_HANDLER, Api
from messages.vocabulary import Message, message


@message
class SaslHandshakeRequest(Message):
    """A client's request to authenticate with this SASL mechanism (API key 17)."""

    version: int
    mechanism: str


@message
class SaslHandshakeResponse(Message):
    """The response to SaslHandshake, with the mechanisms that the listener has enabled."""

    error_code: int
    mechanisms: tuple[str, ...] = ()


API = Api(
    key=17,
    versions=(0, 1),
    request=SaslHandshakeRequest,
    response=SaslHandshakeResponse,
    answerer=REQUEST_HANDLER,
    access=OPEN,
    codes="ILLEGAL_SASL_STATE",
    sample=lambda about: SaslHandshakeRequest(1, "PLAIN"),
    elsewhere=errors.ILLEGAL_SASL_STATE,
)
