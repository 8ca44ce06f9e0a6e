"""The outcome of a SASL exchange, and the mechanism PLAIN (RFC 4616). Kafka: `PlainSaslServer`."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Generator, Mapping
from typing import NamedTuple

from messages.security import Secret

OTHER_AUTHORIZATION_ID = "Authentication failed: Client requested an authorization id that is different from username"


class AuthenticationFailed(Exception):
    """The client or the server could not prove its identity; the text is "" if the peer gets Kafka's general text."""


class SaslIdentity(NamedTuple):
    """An authenticated client.

    Attributes:
        user: The user's name.
        lifetime_ms: Milliseconds for which the credential is valid; 0 if it does not expire.
        by_token: Whether the client has authenticated with a delegation token of the user.
    """

    user: str
    lifetime_ms: int = 0
    by_token: bool = False


Exchange = Callable[[bytes], tuple[bytes, SaslIdentity | None]]
"""Function (message of the client) -> the response, and the client once authenticated. Raises AuthenticationFailed."""

SASL_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
"""Pattern of a name in a message: a comma and an equals sign are escaped (RFC 5801)."""


def escape(name: str) -> str:
    """Return a name as a message contains it."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescape(name: str) -> str:
    """Return the name that a message contains."""
    return name.replace("=2C", ",").replace("=3D", "=")


def plain(users: Mapping[str, Secret]) -> Exchange:
    """Return the only step of PLAIN, for these users and passwords."""

    def exchange(message: bytes) -> tuple[bytes, SaslIdentity | None]:
        tokens = message.decode("utf-8", "replace").split("\0", 3)
        if len(tokens) != 3:
            raise AuthenticationFailed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}")
        authorization_id, user, password = tokens
        if not user:
            raise AuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed("Authentication failed: password not specified")
        known = users.get(user)
        if not hmac.compare_digest((known or STRANGERS).value, password.encode()) or known is None:
            raise AuthenticationFailed("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise AuthenticationFailed(OTHER_AUTHORIZATION_ID)
        return b"", SaslIdentity(user)

    return exchange


def plain_messages(user: str, password: Secret) -> Generator[bytes, bytes, None]:
    """Yield the only message of a client of PLAIN."""
    yield b"\0".join((b"", user.encode(), password.value))


STRANGERS = Secret(b"the password of no user")
"""Compared with the password of an unknown user, so that an unknown user takes as long as a known one."""
