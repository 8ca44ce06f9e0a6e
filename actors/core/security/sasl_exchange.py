"""The outcome of a SASL exchange, and the mechanism PLAIN (RFC 4616)."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping

from messages.security import Secret

OTHER_AUTHORIZATION_ID = "Authentication failed: Client requested an authorization id that is different from username"


class AuthenticationFailed(Exception):
    """The client or the server could not prove its identity; the text is "" if the peer gets Kafka's general text."""


Exchange = Callable[[bytes], tuple[bytes, str | None]]
"""Function (message of the client) -> the response, and the user once authenticated. Raises AuthenticationFailed."""


def plain(users: Mapping[str, Secret]) -> Exchange:
    """Return the only step of PLAIN, for these users and passwords."""

    def exchange(message: bytes) -> tuple[bytes, str | None]:
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
        return b"", user

    return exchange


STRANGERS = Secret(b"the password of no user")
"""Compared with the password of an unknown user, so that an unknown user takes as long as a known one."""
