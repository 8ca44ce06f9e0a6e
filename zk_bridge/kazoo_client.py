"""A ZooKeeper client based on kazoo with faster I/O; no other module imports kazoo.

Rule 1: one order. kazoo passes completions and watch events to two worker threads, which may deliver them in the wrong
        order (in 109 of 4,000 tries on an idle machine: zookeeper.md 5). Here the one thread that reads the socket
        passes completions, watch events and session states to the sink, in the order of reading.
Rule 2: an invalid response (a wrong id, too short a frame, an unknown watch) ends the connection, like a broken link.
        Requests in flight are lost with it, and the client reconnects. Unmodified kazoo would end its thread, and
        ZooKeeper's events would be lost. Only the newest zxid is kept over a reconnect. The client resets this zxid to
        0 if it received nothing for as long as the session timeout. The session is then over, and a server refuses a
        client whose zxid is later than the server's own.
Rule 3: each attempt to connect is limited to a third of the session timeout, or to less if there are more than three
        servers. A server may be unreachable. A starting server may accept the connection and never respond. Then kazoo
        would wait for the whole session timeout, and the session would expire.
Rule 4: each log line about connection attempts is written at most once in LINE_SECONDS, because a server may be down
        for hours.
Rule 5: if the thread that reads the socket ends unexpectedly, StoreFailed is sent. Otherwise the node would keep
        running without ZooKeeper. It also ends if ZooKeeper refuses the credentials, but not if the connection is lost
        while they are checked.
Rule 6: TLS is that of this node's own context. A TLS record may contain several responses, and the socket does not
        become readable for the second: `select` asks the TLS layer first.

kazoo's own watch registry, retries and result objects are not used. kazoo drops watches at every disconnect. Requests
that are lost with the connection must be reported to the bridge, which decides whether to send them again.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from kazoo.client import CLOSED_STATES, KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped, KazooException, WriterNotClosedException
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.connection import CLOSE_RESPONSE, ConnectionHandler
from kazoo.protocol.serialization import Close, Connect, Watch
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry

from actors.runtime.rate_limited_logger import RateLimitedLogger
from messages import store
from zk_bridge.store import UNPROTECTED, StoreSecurity, ZooKeeperUnavailable

SENT_AT_ONCE = 100
RECONNECT_DELAY = 0.05
RECONNECT_MAX_DELAY = 1.0
MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""Maximum size of a response. No valid response is as large, so a larger frame length is invalid."""

LINE_SECONDS = 10.0
SERVERS_TRIED = 3
"""Minimum number of servers to try within a session timeout (rule 3)."""

INT32 = 2**31 - 1

_EVENTS = {1: store.NODE_CREATED, 2: store.NODE_DELETED, 3: store.NODE_CHANGED, 4: store.CHILDREN_CHANGED}

Done = Callable[[int, Any], None]
"""Called once with a request's outcome: its code, and if that is OK the result of the request's `deserialize`."""


class _Result:
    """A replacement for kazoo's AsyncResult; kazoo calls `set_exception` if the connection fails."""

    __slots__ = ("done",)

    def __init__(self, done: Done) -> None:
        self.done = done

    def set_exception(self, error: BaseException) -> None:
        self.done(getattr(error, "code", store.CONNECTION_LOSS), None)  # no code: kazoo itself closed the connection


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """kazoo's connection to a ZooKeeper server, but with its own queues of requests, responses and watch events.

    kazoo writes one byte into a pipe for each request, and blocks at about 270 unread bytes. It blocks forever if the
    writing thread is also the thread that reads the pipe. Here at most one unread byte is in the pipe.
    """

    def __init__(self, client: KazooSession, retry: KazooRetry, logger: object, sasl_options: object) -> None:
        super().__init__(client, retry, logger=logger, sasl_options=sasl_options)
        self._xid: int = 0
        self._rung = False
        self._heard_at = time.monotonic()

    def ring(self) -> None:
        """Notify the connection thread of queued requests. Any thread may call this."""
        bell = self._write_sock
        if not self._rung and bell is not None:
            self._rung = True
            with contextlib.suppress(OSError):  # the socket may be closed at this very moment
                bell.send(b"\0")

    def zk_loop(self) -> None:
        """Run the thread. Its end is reported to the client (rule 5)."""
        why = "it gave up"
        try:
            super().zk_loop()
        except Exception as error:
            self.logger.exception("The ZooKeeper client thread failed")
            why = f"{type(error).__name__}: {error}"
        if self.client.is_refused:
            why = "ZooKeeper refuses the credentials in zookeeper.sasl.username and zookeeper.sasl.password"
        if not self.client._stopped.is_set():
            self.client.news(store.StoreFailed(f"the ZooKeeper client thread has ended: {why}"))

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        client = self.client
        if time.monotonic() - self._heard_at > client._session_timeout / 1000:
            client.last_zxid = 0
        session = client._session_id, client._session_passwd
        try:
            with _sense_expected():
                timeouts: tuple[float, float] = super()._connect(host, hostip, port)
                return timeouts
        except Exception:  # kazoo stores the response before it has read all of it: no password would fail for ever
            client._session_id, client._session_passwd = session
            raise

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        try:
            super()._authenticate_with_sasl(host, timeout)
        except AuthFailedError as error:
            if isinstance(error.__cause__, ConnectionDropped):
                raise error.__cause__ from None
            raise

    def _invoke(self, timeout: float, request: object, xid: int | None = None) -> Any:
        if isinstance(request, Connect):
            timeout = self.client.patience
        return super()._invoke(timeout, request, xid)

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        """Send at most SENT_AT_ONCE queued requests, so that responses are read between batches."""
        self._read_sock.recv(4096)
        self._rung = False
        client = self.client
        for _ in range(SENT_AT_ONCE):
            if not client._queue:
                return
            request, result = client._queue[0]
            self._xid = self._xid % INT32 + 1
            self._submit(request, connect_timeout, self._xid)
            client._queue.popleft()
            client._pending.append((request, result, self._xid))
        self.ring()

    def _read_socket(self, read_timeout: float) -> Any:
        with _sense_expected():
            self._heard_at = time.monotonic()
            return super()._read_socket(read_timeout)

    def _read(self, length: int, timeout: float) -> bytes:
        if not 0 <= length <= MAX_ANSWER_BYTES:
            raise ConnectionDropped(f"a frame of {length} bytes is announced")
        read: bytes = super()._read(length, timeout)
        return read

    def _read_response(self, header: Any, buffer: bytes, offset: int) -> Any:
        """Pass the response to the oldest request in flight.

        If the id is wrong, the request stays in flight, and is reported as lost when the connection ends.
        """
        client = self.client
        request, result, xid = client._pending[0]
        if header.xid != xid:
            raise ConnectionDropped(f"an answer to request {header.xid} comes where {xid} waits")
        code, value = header.err, None
        if code == store.OK and result is not None:
            value = request.deserialize(buffer, offset)
        client._pending.popleft()
        if header.zxid > 0:
            client.last_zxid = header.zxid
        if isinstance(request, Close):
            return CLOSE_RESPONSE
        result.done(store.CONNECTION_LOSS if code in (store.OPERATION_TIMEOUT, store.SESSION_MOVED) else code, value)
        return None

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        watch, end = Watch.deserialize(buffer, offset)
        if end != len(buffer):
            raise ValueError("ZooKeeper sent a watch event with a wrong length")
        kind = _EVENTS[watch.type]
        if not self.client._stopped.is_set():
            self.client.news(store.WatchEvent(self.client.unchroot(watch.path), kind))


class _KazooThreads(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads and sockets, but with a separate timeout for connecting."""

    patience = 0.0
    tls: Any = None

    def create_connection(self, *args: object, **options: object) -> Any:
        connected = super().create_connection(*args, **{**options, "timeout": self.patience})
        if self.tls is None:
            return connected
        try:
            connected.settimeout(self.patience)
            return self.tls.wrap_socket(connected, server_hostname=options.get("hostname"))
        except OSError:
            connected.close()
            raise

    def select(self, reads: Any, writes: Any, errors: Any, timeout: Any = None) -> Any:
        decrypted = [each for each in reads if getattr(each, "pending", int)()] if self.tls is not None else []
        if not decrypted:
            return super().select(reads, writes, errors, timeout)
        ready, *others = super().select(reads, writes, errors, 0)
        return [*decrypted, *(each for each in ready if each not in decrypted)], *others


@contextlib.contextmanager
def _sense_expected() -> Iterator[None]:
    """Raise ConnectionDropped for errors that an invalid response causes, so that kazoo reconnects (rule 2).

    Errors of kazoo and of the network are raised unchanged.
    """
    try:
        yield
    except (KazooException, KazooTimeoutError, OSError):
        raise
    except Exception as error:
        raise ConnectionDropped(f"ZooKeeper's answer makes no sense: {type(error).__name__}: {error}") from error


class KazooSession(KazooClient):  # type: ignore[misc]
    """A ZooKeeper session that uses kazoo.

    It calls `news` with each change of its state, in order with all other events. `gate` is a lock that is held while a
    request is queued and while the state changes. Without it, a request could be added to a queue that kazoo is
    discarding.

    Args:
        hosts: Addresses of the servers, "h:p,h:p/chroot".
        session_timeout: Session timeout in seconds.
        news: Called with each SessionState, WatchEvent and StoreFailed.
        security: How the session is protected.

    Raises:
        ZooKeeperUnavailable: `hosts` is not a valid address.
    """

    def __init__(
        self,
        hosts: str,
        session_timeout: float,
        news: Callable[[Any], None],
        security: StoreSecurity = UNPROTECTED,
    ) -> None:
        handler = _KazooThreads()
        handler.tls = security.tls
        sasl = None
        if security.user:
            password = security.password.value.decode()
            sasl = {"mechanism": "DIGEST-MD5", "username": security.user, "password": password}
        retry = KazooRetry(
            max_tries=-1, delay=RECONNECT_DELAY, max_delay=RECONNECT_MAX_DELAY, sleep_func=handler.sleep_func
        )
        try:
            super().__init__(
                hosts=hosts,
                timeout=session_timeout,
                handler=handler,
                connection_retry=retry,
                logger=RateLimitedLogger(
                    logging.getLogger("kazoo.client"), 1, LINE_SECONDS, time.monotonic, each_text=True
                ),
            )
        except (ValueError, KazooException) as error:
            raise ZooKeeperUnavailable(hosts, f"that is no address: {error}") from error
        handler.patience = self.patience = session_timeout / max(SERVERS_TRIED, len(self.hosts))
        self._connection = _Connection(self, self._conn_retry.copy(), logger=self.logger, sasl_options=sasl)
        self.news = news
        self.gate = threading.RLock()
        self.is_refused = False
        """Whether ZooKeeper has refused the credentials."""

    def _session_callback(self, state: str) -> None:
        with self.gate:
            before = self.state
            self.is_refused = state == KeeperState.AUTH_FAILED or self.is_refused
            super()._session_callback(state)
            if self._stopped.is_set():
                return
            if state == KeeperState.EXPIRED_SESSION:
                self.news(store.SessionState(store.EXPIRED))
            elif self.state != before:
                connected = state in (KeeperState.CONNECTED, KeeperState.CONNECTED_RO)
                self.news(
                    store.SessionState(store.CONNECTED, self._session_id)
                    if connected
                    else store.SessionState(store.SUSPENDED)
                )

    def request(self, request: object, done: Done) -> None:
        """Queue a request. Any thread may call this. `done` is called at once if the session is closed."""
        with self.gate:
            if self._state in CLOSED_STATES:
                done(
                    store.SESSION_EXPIRED if self._state == KeeperState.EXPIRED_SESSION else store.CONNECTION_LOSS, None
                )
                return
            self._queue.append((request, _Result(done)))
        self._connection.ring()

    def end(self) -> None:
        """Close the session and its threads. Call it once."""
        with contextlib.suppress(WriterNotClosedException):  # the server neither responds nor closes the link
            self.stop()
            self.close()
