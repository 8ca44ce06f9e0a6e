"""Blocking ZooKeeper requests, for commands and tests.

    with connect("localhost:2181/kafka") as zk:
        topics = zk.ask(GetTopics(watch=False)).topics

A client uses one thread and executes one request at a time. A failure is raised as the AskFailed subclass that the
answer names, or as ZooKeeperUnavailable if no server can be reached.
"""

from __future__ import annotations

import queue
import time
from typing import Any, TypeVar, cast

from messages.ask import Answer, ConnectionLoss, Continue, Failure, Question, error_of
from messages.store import StoreFailed
from zk_bridge.core import BridgeCore
from zk_bridge.store import UNPROTECTED, Store, StoreNews, StoreSecurity, ZooKeeperUnavailable

__all__ = ["Client", "ZooKeeperUnavailable", "connect"]

_ASKER = "asker"
_BRIDGE = "bridge"
_STORE = "store"
_C = TypeVar("_C", bound="Client")
R = TypeVar("R")


def connect(
    hosts: str, timeout: float = 10.0, session_timeout: float = 10.0, security: StoreSecurity = UNPROTECTED
) -> Client:
    """Connect to ZooKeeper.

    Args:
        hosts: Addresses of the servers and an optional chroot, "h:p,h:p/chroot".
        timeout: Time limit in seconds for connecting and for each request.
        session_timeout: ZooKeeper's session timeout in seconds.
        security: How the session is protected.

    Raises:
        ZooKeeperUnavailable: No server could be reached within `timeout`.
    """
    from zk_bridge.kazoo_store import KazooStore  # a cluster in memory does without kazoo, whose import takes time

    return Client(KazooStore(hosts, session_timeout, timeout, security=security), timeout)


def _serve(event_id: int) -> None:
    """Ignore the id: the requests of a command belong to no event."""


class Client:
    """A blocking ZooKeeper client. It starts the session of `store`; `close` ends the session."""

    def __init__(self, store: Store, timeout: float = 10.0) -> None:
        self._store = store
        self._timeout = timeout
        self._news: queue.SimpleQueue[StoreNews | Continue] = queue.SimpleQueue()
        self._core = BridgeCore(_BRIDGE, _STORE, _ASKER, self._send, _serve)
        self._asked = 0
        self._answer: Answer | None = None
        store.start(self._news.put)

    def __enter__(self: _C) -> _C:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End the session."""
        self._store.stop()

    def ask(self, question: Question[R], timeout: float | None = None) -> R:
        """Execute a request of messages.zookeeper and return its answer.

        Args:
            question: The request.
            timeout: Time limit in seconds; None means the `timeout` that was passed to `connect`.

        Raises:
            AskFailed: The request failed; the subclass is the one that the Failure names.
            ConnectionLoss: The request was not answered in time, or the store failed.
        """
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        self._asked += 1
        self._answer = None
        self._core.start(_ASKER, self._asked, question)
        while self._answer is None:
            try:
                news = self._news.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise ConnectionLoss(f"ZooKeeper did not answer {type(question).__name__} in time") from None
            if isinstance(news, StoreFailed):
                raise ConnectionLoss(news.reason)
            self._core.take(news)
        result = self._answer.result
        if isinstance(result, Failure):
            raise error_of(result)
        return cast("R", result)

    def _send(self, receiver: Any, message: Any) -> None:
        if receiver == _STORE:
            self._store.submit(message)
        elif receiver == _BRIDGE:
            self._news.put(message)
        elif isinstance(message, Answer) and message.id == self._asked:
            self._answer = message
