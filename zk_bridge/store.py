"""The interface of the bridge's ZooKeeper client.

The client executes operations. It delivers replies and watch events in the order in which the server sends them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

from messages import store
from messages.security import Secret

StoreRequest: TypeAlias = store.StoreRead | store.StoreWrite
StoreNews: TypeAlias = store.StoreReply | store.WatchEvent | store.SessionState | store.StoreFailed
Sink: TypeAlias = Callable[[StoreNews], None]

WRITE_LIMIT = 1_000_000
"""Maximum bytes of a transaction; a server refuses larger ones (jute.maxbuffer)."""


class StoreSecurity(NamedTuple):
    """How a session with ZooKeeper is protected.

    Attributes:
        tls: The `ssl.SSLContext` of the connections; None without TLS.
        user: The user of SASL DIGEST-MD5; "" without SASL.
        password: The user's password.
        sets_acls: Whether new znodes get Kafka's ACLs (zookeeper.set.acl).
    """

    tls: Any = None
    user: str = ""
    password: Secret = Secret(b"")
    sets_acls: bool = False


UNPROTECTED = StoreSecurity()


class ZooKeeperUnavailable(Exception):
    """No ZooKeeper server could be reached; the exception's message has the addresses and the reason."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"ZooKeeper at {where} cannot be reached: {reason}")
        self.where = where
        self.reason = reason


class Store(Protocol):
    """The interface of a ZooKeeper session; `KazooStore` and `MemoryStore` implement it.

    They pass the same contract tests.
    """

    waits: bool
    """Whether `start` and `stop` wait for a server. A caller that must not block calls them on another thread."""

    def start(self, sink: Sink) -> None:
        """Connect. From then on pass all replies, events and state changes to `sink`, in order, from any thread.

        Return once connected. The first message is SessionState(connected).

        Raises:
            ZooKeeperUnavailable: No server could be reached.
        """

    def submit(self, request: StoreRequest) -> None:
        """Send a request. Its StoreReply is passed to the sink. Requests take effect in the order submitted."""

    def stop(self) -> None:
        """End the session. Its ephemerals are deleted at once, and the sink receives no further messages."""
