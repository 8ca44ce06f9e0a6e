"""The bridge's client for a real ZooKeeper; it is based on kazoo.

Rule 1: operations are batched. Reads are sent as MultiRead requests, watches as SetWatches requests, and writes as
        multi requests (`jute`).
Rule 2: sizes are bounded. A MultiRead has at most READ_OPS operations. Its request and its expected response together
        have at most READ_BYTES. At most IN_FLIGHT MultiReads are in flight. A transaction above WRITE_LIMIT is refused
        before it is sent, because a server would close the connection without giving a reason (jute.maxbuffer).
Rule 3: servers older than 3.6 do not support MultiRead. They respond UNIMPLEMENTED and close the connection. From then
        on reads are pipelined single requests.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from messages.store import (
    CODE_NAMES,
    CONNECTED,
    CONNECTION_LOSS,
    CREATE,
    NO_NODE,
    NODE_EXISTS,
    OK,
    SESSION_EXPIRED,
    TOO_LARGE,
    UNIMPLEMENTED,
    Children,
    SessionState,
    StoreRead,
    StoreReply,
    StoreWrite,
    Watches,
    WriteOp,
    Znode,
)
from zk_bridge import jute, paths
from zk_bridge.kazoo_client import KazooSession
from zk_bridge.store import UNPROTECTED, WRITE_LIMIT, Sink, StoreRequest, StoreSecurity, ZooKeeperUnavailable

READ_OPS = 2000
READ_BYTES = 512 * 1024
IN_FLIGHT = 4
ARM_BYTES = 128 * 1024
_CHILDREN_BYTES = 1024
"""Expected size of the list of a node's children."""


class KazooStore:
    """The bridge's ZooKeeper client, which owns a KazooSession.

    Args:
        hosts: Addresses of the servers and an optional chroot, "h:p,h:p/chroot".
        session_timeout: Session timeout in seconds.
        connection_timeout: Maximum time in seconds that `start` waits for a connection.
        create_chroot: Whether `start` creates the chroot's nodes, as a Kafka broker does.
        multi_read: False disables MultiRead.
        security: How the session is protected.
    """

    waits = True

    def __init__(
        self,
        hosts: str,
        session_timeout: float = 18.0,
        connection_timeout: float = 18.0,
        create_chroot: bool = False,
        multi_read: bool = True,
        security: StoreSecurity = UNPROTECTED,
    ) -> None:
        self.hosts = hosts
        self.multi_read = multi_read
        self._connection_timeout = connection_timeout
        self._create_chroot = create_chroot
        self._sets_acls = security.sets_acls
        self._sink: Sink | None = None
        self._announced = threading.Event()
        self._stopping = threading.Lock()
        self._started = self._stopped = False
        self._trouble = f"no answer within {connection_timeout:g} s"
        self._client = KazooSession(hosts, session_timeout, self._report_connection, security)

    @property
    def prefix(self) -> str:
        """The chroot; "" without one."""
        return str(self._client.chroot)

    @property
    def seen(self) -> int:
        """Newest zxid in a response. The sink has received the watch events of all transactions up to this zxid."""
        return int(self._client.last_zxid)

    @property
    def gate(self) -> threading.RLock:
        """The client's lock."""
        return self._client.gate

    def start(self, sink: Sink) -> None:
        """Connect; see Store.start. Raises ZooKeeperUnavailable after the connection timeout."""
        self._sink = sink
        self._started = True
        self._client.start_async()
        if not self._announced.wait(self._connection_timeout):
            self._sink = None
            threading.Thread(target=self.stop, name="zookeeper-stop", daemon=True).start()  # `stop` may block
            raise ZooKeeperUnavailable(self.hosts, self._trouble)

    def stop(self) -> None:
        """Close the session; see Store.stop.

        A second call only waits for the first, because `KazooSession.end` may be called only once.
        """
        self._sink = None
        with self._stopping:
            if self._stopped or not self._started:
                return
            self._stopped = True
            self._client.end()

    def submit(self, request: StoreRequest) -> None:
        """Send a request; see Store.submit."""
        if isinstance(request, StoreRead):
            _StoreReading(self, request).go_on()
        else:
            self._write(request)

    def tell(self, news: Any) -> None:
        """Pass `news` to the sink, if the store is not stopped."""
        sink = self._sink
        if sink is not None:
            sink(news)

    def _report_connection(self, news: object) -> None:
        """Pass messages of KazooSession to the sink. The first `connected` is passed after the chroot exists."""
        if self._announced.is_set():
            self.tell(news)
        elif isinstance(news, SessionState) and news.state == CONNECTED:
            self._make_chroot(news)

    def send(self, request: object, done: Callable[[int, Any], None]) -> None:
        """Queue one request of the protocol. `done(code, value)` is called once, from any thread."""
        self._client.request(request, done)

    def _make_chroot(self, connected: SessionState) -> None:
        """Create the chroot's nodes if configured, then pass the `connected` state to the sink."""
        if not (self._create_chroot and self.prefix):
            self._announce(connected)
            return

        def note_result(path: str, code: int, value: Any) -> None:
            code = value[0] if code == OK else code
            if code not in (OK, NODE_EXISTS):  # not final: `_make_chroot` runs again at the next connection
                self._trouble = f"chroot {path} cannot be made: {CODE_NAMES.get(code, code)}"
            elif path == self.prefix:
                self._announce(connected)

        for path in (*paths.ancestors(self.prefix), self.prefix):
            self.send(jute.Multi((WriteOp(CREATE, path),), "", self._sets_acls), partial(note_result, path))

    def _announce(self, connected: SessionState) -> None:
        self.tell(connected)
        self._announced.set()

    def _write(self, request: StoreWrite) -> None:
        transaction = jute.Multi(request.ops, self.prefix, self._sets_acls)
        if len(transaction.body) > WRITE_LIMIT:
            self.tell(StoreReply(request.id, TOO_LARGE))
            return

        def done(code: int, value: Any) -> None:
            culprit, results = -1, ()
            if code == OK:
                code, culprit, results = value
            self.tell(StoreReply(request.id, code, results=tuple(results), culprit=culprit, zxid=self.seen))

        self.send(transaction, done)


class _StoreReading:
    """A StoreRead that is being executed: it is split into parts, and a limited number of parts are in flight.

    All watches are sent before the first read, and the server executes the requests of a session in their order.

    The submitting thread starts it, and kazoo's connection thread continues it. Each of them holds the client's gate
    during its part. A separate lock could cause a deadlock. To send a part, a thread would acquire the lock and then
    the gate. After a lost connection, kazoo's thread would acquire the gate and then the lock.
    """

    def __init__(self, store: KazooStore, request: StoreRead) -> None:
        self.store = store
        self.request = request
        self.gate = store.gate
        self.code = OK
        self.in_flight = 0
        self.over = False
        watches: list[Any] = list(_watch_parts(request, store.prefix))
        if store.multi_read:
            window = IN_FLIGHT
            parts: list[Any] = [jute.MultiRead(*part, store.prefix) for part in _read_parts(request)]
        else:
            window = READ_OPS
            parts = [jute.SingleData(jute.below(store.prefix, path)) for path in request.data]
            parts += [jute.SingleChildren(jute.below(store.prefix, path)) for path in request.children]
        self.window = len(watches) + window
        self.parts: deque[tuple[int, Any]] = deque(enumerate(watches + parts))
        self.present: dict[str, bool] = {}
        self.answers: list[tuple[list[Znode], list[Children]]] = [([], [])] * len(self.parts)

    def go_on(self) -> None:
        """Send further parts, unless a part has failed. If no part is in flight afterwards, send the reply."""
        with self.gate:
            while self.parts and self.in_flight < self.window and self.code == OK:
                index, part = self.parts.popleft()
                self.in_flight += 1
                self.store.send(part, partial(self.handle_response, index, part))
            if self.in_flight == 0 and not self.over:
                self.over = True
                self.finish()

    def handle_response(self, index: int, part: Any, code: int, value: Any) -> None:
        """Handle the response to a part."""
        with self.gate:
            self.in_flight -= 1
            if code == UNIMPLEMENTED and part.type == jute.MULTI_READ:
                self.store.multi_read = False
                code = CONNECTION_LOSS  # the server closes the connection, and the bridge's retry uses single reads
            if isinstance(part, jute.WatchExists) and code in (OK, NO_NODE):
                self.present[part.path] = code == OK
            elif code == OK:
                self.answers[index] = value
            elif code in (CONNECTION_LOSS, SESSION_EXPIRED) or not isinstance(part, jute.SingleData):
                self.code = self.code or code
            else:
                self.answers[index] = part.refusal(code)
            self.go_on()

    def finish(self) -> None:
        """Send the reply with all results, in the order requested."""
        if self.code != OK:
            self.store.tell(StoreReply(self.request.id, self.code))
            return
        nodes = tuple(itertools.chain.from_iterable([answer[0] for answer in self.answers]))
        children = tuple(itertools.chain.from_iterable([answer[1] for answer in self.answers]))
        for path, node in zip(self.request.data, nodes, strict=True) if self.present else ():
            if path in self.present:  # a watch event since then has reported the change
                self.present[path] = node.code == OK
        present = tuple(map(self.present.__getitem__, self.request.watches.exists)) if self.present else ()
        self.store.tell(StoreReply(self.request.id, OK, nodes, children, present=present, zxid=self.store.seen))


def _watch_parts(request: StoreRead, prefix: str) -> Iterator[Any]:
    """Yield the requests that set the watches of a read.

    SetWatches sets many watches at once, but only for nodes known to exist or to be absent. The nodes in `data` and
    `children` exist. If the request has `since`, the nodes in `exists` are absent. Otherwise they may exist, and each
    of them gets its own `exists` request.
    """
    for field, node_paths in request.watches._asdict().items():
        if field == "exists" and request.since is None:
            yield from (jute.WatchExists(jute.below(prefix, path), path) for path in node_paths)
        else:
            for part in _divide(node_paths, lambda path: len(path) + 4, ARM_BYTES, ARM_BYTES):
                yield jute.SetWatches(Watches(**{field: part}), prefix, request.since)


def _read_parts(request: StoreRead) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield the parts of a read as (data paths, children paths), bounded in operations and in bytes."""
    for part in _divide(request.data, lambda path: len(path) + paths.expected_bytes(path), READ_BYTES, READ_OPS):
        yield part, ()
    for part in _divide(request.children, lambda path: len(path) + _CHILDREN_BYTES, READ_BYTES, READ_OPS):
        yield (), part


def _divide(
    node_paths: tuple[str, ...], weight: Callable[[str], int], most_bytes: int, most: int
) -> Iterator[tuple[str, ...]]:
    """Divide paths into runs of at most `most` paths and `most_bytes` of total weight."""
    start = size = 0
    for index, path in enumerate(node_paths):
        size += (weighs := weight(path))
        if index > start and (size > most_bytes or index - start >= most):
            yield node_paths[start:index]
            start, size = index, weighs
    if start < len(node_paths):
        yield node_paths[start:]
