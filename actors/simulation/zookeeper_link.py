"""The ZooKeeper session of a simulated node, over a simulated connection to an in-memory server.

Rule 1: requests and responses travel on one stream each way, and take effect on arrival. When the connection breaks,
        pending requests fail with CONNECTION_LOSS, though the server may have executed them. Later requests wait for
        the next connection, as in the client library. `loses` decides whether the connection breaks before a write's
        response.
Rule 2: the server expires a session when it has received no request or ping from the session during the session
        timeout. A session sends nothing while its connection is cut or its process is paused, and after its process
        has ended. The client closes a connection after two thirds of the session timeout without a response, and
        connects again as soon as possible (zookeeper.md).
Rule 3: a paused process receives nothing until it resumes. If its session expires meanwhile, the process notices the
        closed connection a moment after it resumes. The requests that it sends before that are lost.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.runtime import ScheduledCall, VirtualScheduler
from actors.simulation.wire import Wires
from messages import store
from zk_bridge.memory_store import MemoryStore, MemoryZooKeeper
from zk_bridge.store import Sink, StoreNews, StoreRequest, ZooKeeperUnavailable

ZOOKEEPER = "zookeeper"
"""The server's host."""

GIVES_UP = 2 / 3
"""The share of the session timeout after which a client without a response closes the connection."""

RECONNECTS = 0.1
"""Seconds from the loss of a connection to the next attempt."""


class ZooKeeperLink:
    """The ZooKeeper session of a simulated node."""

    waits = False

    def __init__(
        self, host: str, server: MemoryZooKeeper, wires: Wires, scheduler: VirtualScheduler, timeout: float
    ) -> None:
        self.host = host
        self._wires = wires
        self._scheduler = scheduler
        self._timeout = timeout
        self._server = server
        self._session = MemoryStore(server, timeout)
        self._sink: Sink | None = None
        self._connection = 0
        """The number of the connection; messages of an older one are lost."""
        self._asked: dict[int, None] = {}
        """The requests without a response."""
        self._waiting: list[StoreRequest] = []
        """Requests that wait for the next connection."""
        self._believing = False
        """Whether the client considers itself connected."""
        self._paused = False
        self.loses: Callable[[], bool] = lambda: False
        """Whether the connection breaks before the response to a write that the server has executed."""
        self._silent: ScheduledCall | None = None
        """The scheduled end of a silent session at the server."""
        self._deaf: ScheduledCall | None = None
        """The scheduled end of a silent connection at the client."""

    @property
    def session_id(self) -> int:
        """The session's id, 0 without a session."""
        return self._session.session_id

    # ------------------------------------------------------------------------------------------- for the node

    def start(self, sink: Sink) -> None:
        """See Store.start.

        Raises:
            ZooKeeperUnavailable: The server cannot be reached now.
        """
        if self._is_cut():
            raise ZooKeeperUnavailable(ZOOKEEPER, "it does not answer")
        self._sink = sink
        self._session.start(self._from_server)

    def submit(self, request: StoreRequest) -> None:
        """See Store.submit."""
        if self._believing:
            self._ask(request)
        else:
            self._waiting.append(request)

    def stop(self) -> None:
        """See Store.stop."""
        self._sink = None
        self._quiet()
        self._connection += 1
        self._session.stop()

    # ------------------------------------------------------------------------------------------- for the simulation

    def kill(self) -> None:
        """End the process: the server expires the session after its timeout."""
        self._sink = None
        self._quiet()
        self._connection += 1
        self._session.abandon()

    def reset(self) -> None:
        """Break the connection at both ends; the client connects again if possible."""
        if self._sink is not None and self._session.connected:
            self._break(self._timeout)
            self._scheduler.call_later(RECONNECTS, self._reconnect)

    def expire(self) -> None:
        """Expire the session at the server, and close its connection."""
        if self._sink is not None and self._session.session_id:
            self._break(0.0)
            self._scheduler.call_later(RECONNECTS, self._reconnect)

    def wire_changed(self) -> None:
        """Adjust to a connection that was cut or restored in at least one direction."""
        if self._sink is None or self._paused:
            return
        if not self._is_cut():
            self._quiet()
            if not self._session.connected:
                self._scheduler.call_later(RECONNECTS, self._reconnect)
        elif self._session.connected and self._deaf is None:
            heard = not self._wires.is_cut(self.host, ZOOKEEPER)
            left = self._timeout if heard else self._timeout * (1 - GIVES_UP)
            self._deaf = self._scheduler.call_later(self._timeout * GIVES_UP, lambda: self._give_up(left))

    def server_changed(self) -> None:
        """Adjust to a server that has stopped or has started again; a stop closes every connection."""
        if self._session.connected:
            self._break(self._timeout)
        self.wire_changed()

    def pause(self) -> None:
        """Suspend the process (rule 3)."""
        self._paused = True
        self._quiet()
        if self._session.connected:
            self._silent = self._scheduler.call_later(self._timeout, self._expire_paused)

    def resume(self) -> None:
        """Resume the process; it notices a lost connection a moment later."""
        self._paused = False
        if self._silent is not None:
            self._silent.cancel()
            self._silent = None
        if self._sink is not None and not self._session.connected:
            self._scheduler.call_later(RECONNECTS, self._reconnect)
        self.wire_changed()

    # -------------------------------------------------------------------------------------- between both

    def _is_cut(self) -> bool:
        wires = self._wires
        return wires.is_cut(self.host, ZOOKEEPER) or wires.is_cut(ZOOKEEPER, self.host) or not self._server.up

    def _carry(self, deliver: Callable[[], None], there: bool) -> None:
        source, target = (self.host, ZOOKEEPER) if there else (ZOOKEEPER, self.host)
        self._wires.carry(source, target, deliver, (source, target))

    def _ask(self, request: StoreRequest) -> None:
        self._asked[request.id] = None
        connection = self._connection

        def handle_request() -> None:
            if connection == self._connection and self._session.connected:
                self._session.submit(request)
                if isinstance(request, store.StoreWrite) and self.loses():
                    self._scheduler.call_later(0.0, self.reset)

        self._carry(handle_request, there=True)

    def _from_server(self, news: StoreNews) -> None:
        """Process a message of the server, except the end of a connection, which each side detects (`_break`)."""
        if isinstance(news, store.SessionState) and news.state == store.SUSPENDED:
            return
        connection = self._connection
        # After a reconnect, the old connection's messages are dropped because they may be outdated. Only the expiry of
        # the session is kept: it is final.
        lasting = isinstance(news, store.SessionState) and news.state == store.EXPIRED

        def handle_news() -> None:
            if self._sink is None or not (lasting or connection == self._connection):
                return
            waiting: list[StoreRequest] = []
            if isinstance(news, store.StoreReply):
                self._asked.pop(news.id, None)
            elif isinstance(news, store.SessionState):  # a connection, or the end of the session, ends the wait
                self._believing = news.state == store.CONNECTED
                waiting, self._waiting = self._waiting, []
            if lasting:
                for request in waiting:
                    self._sink(store.StoreReply(request.id, store.SESSION_EXPIRED))
            self._sink(news)
            if not lasting:
                for request in waiting:
                    self._ask(request)

        self._carry(handle_news, there=False)

    def _break(self, left: float) -> None:
        """End the connection now and the session `left` seconds later. Pending requests fail (rule 1)."""
        self._quiet()
        self._connection += 1
        self._session.disconnect(left)
        asked, self._asked = self._asked, {}
        if self._sink is not None:
            for id in asked:
                self._sink(store.StoreReply(id, store.CONNECTION_LOSS))
            if self._believing:
                self._believing = False
                self._sink(store.SessionState(store.SUSPENDED))

    def _give_up(self, left: float) -> None:
        self._deaf = None
        self._break(left)

    def _expire_paused(self) -> None:
        """Expire a paused process's session at the server; the process notices only after it resumes (rule 3)."""
        self._silent = None
        self._session.disconnect(0.0)

    def _reconnect(self) -> None:
        if self._sink is None or self._paused or self._session.connected:
            return
        if self._is_cut():
            return  # `wire_changed` will continue
        if self._believing:
            self._break(0.0)
        self._session.reconnect()

    def _quiet(self) -> None:
        for call in (self._deaf, self._silent):
            if call is not None:
                call.cancel()
        self._deaf = self._silent = None
