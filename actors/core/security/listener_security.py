"""How the connections of a listener are protected, with the secrets that this takes; it is never part of a message."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from ssl import SSLContext
from types import MappingProxyType

import attrs

from actors.core.security.sasl_server import SaslMechanism

MAX_RECEIVE_BYTES = 524288
"""Kafka's default of sasl.server.max.receive.size."""


@attrs.frozen(repr=False)
class SaslClient:
    """How this node authenticates to the listeners of other nodes.

    Attributes:
        mechanism: The mechanism.
        messages: Starts an exchange: a generator yields each message, and the server's response is sent to it. It
            raises AuthenticationFailed if the server does not prove its identity.
    """

    mechanism: str
    messages: Callable[[], Generator[bytes, bytes, None]]


@attrs.frozen(repr=False)
class Tls:
    """How connections of a listener are encrypted.

    Attributes:
        server: The context of accepted connections.
        client: The context of connections to this listener of another node.
        principal: Function (client certificate in DER) -> the principal. Raises ValueError.
        certificate: This node's certificate, in DER.
    """

    server: SSLContext
    client: SSLContext
    principal: Callable[[bytes], str]
    certificate: bytes


@attrs.frozen(repr=False)
class ListenerSecurity:
    """The protection of one listener.

    Attributes:
        mechanisms: The enabled SASL mechanisms; empty without SASL.
        max_receive_bytes: Maximum size of a frame before the client is authenticated.
        failure_delay: Seconds before a failed authentication is answered.
        client: How this node connects to this listener of another node; None without SASL.
        tls: How the connections are encrypted; None if they are not.
    """

    mechanisms: Mapping[str, SaslMechanism]
    max_receive_bytes: int = MAX_RECEIVE_BYTES
    failure_delay: float = 0.1
    client: SaslClient | None = None
    tls: Tls | None = None


Security = Mapping[str, ListenerSecurity]
"""The protected listeners by name; a listener that is missing is PLAINTEXT."""

UNPROTECTED: Security = MappingProxyType({})
