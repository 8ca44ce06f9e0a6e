"""The store on a real ZooKeeper, over kazoo: the only module that imports it.

Rule 1: one order. kazoo hands completions and watch events to two worker threads, which invert their order (11 % of the
        time when idle: zookeeper.md 5). Here both, and the session's states, go to the sink from the one thread that
        reads the socket, in the order in which they are read.
Rule 2: in batches. Reads are MultiReads (opcode 22), watches SetWatches (opcode 101), writes multi: three requests that
        kazoo lacks or builds operation by operation. They are serialised here into one buffer, and read out of one.
Rule 3: bounded. A MultiRead has at most READ_OPS operations and READ_BYTES, counting both what is sent and what is
        expected in answer, and at most IN_FLIGHT of them are under way; a transaction above WRITE_LIMIT is refused
        here, because a server would drop the connection without saying why (jute.maxbuffer).
Rule 4: servers older than 3.6 have no MultiRead. They answer UNIMPLEMENTED and hang up; from then on, reads are single
        requests, pipelined.

kazoo's own watch registry, retries and result objects are not used: kazoo forgets watches at every disconnect, and a
request that is lost with the connection must come back to the bridge, which knows whether it may be sent again.
"""

from __future__ import annotations

import contextlib
import itertools
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kazoo.client import CLOSED_STATES, KazooClient
from kazoo.exceptions import KazooException, WriterNotClosedException
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Watch
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry

from messages.store import (
    CHECK,
    CHILDREN_CHANGED,
    CODE_NAMES,
    CONNECTED,
    CONNECTION_LOSS,
    CREATE,
    CREATE_EPHEMERAL,
    CREATE_SEQUENTIAL,
    DELETE,
    EXPIRED,
    NODE_CHANGED,
    NODE_CREATED,
    NODE_DELETED,
    NODE_EXISTS,
    OK,
    OPERATION_TIMEOUT,
    RUNTIME_INCONSISTENCY,
    SESSION_EXPIRED,
    SESSION_MOVED,
    SET,
    SUSPENDED,
    TOO_LARGE,
    UNIMPLEMENTED,
    Children,
    SessionState,
    StoreArm,
    StoreRead,
    StoreReply,
    StoreWrite,
    WatchEvent,
    WriteOp,
    Written,
    Znode,
)
from zk_bridge import paths
from zk_bridge.store import Sink, StoreRequest, ZooKeeperUnavailable

READ_OPS = 1000
READ_BYTES = 512 * 1024
IN_FLIGHT = 4
ARM_BYTES = 128 * 1024
WRITE_LIMIT = 1_000_000
_CHILDREN_BYTES = 1024
"""What to expect of a node's children."""
SENT_AT_ONCE = 100
RECONNECT_DELAY = 0.05
RECONNECT_MAX_DELAY = 1.0

INT32 = 2**31 - 1

_GET_DATA = 4
_EXISTS = 3
_GET_CHILDREN = 8
_CREATE_TYPE = 1
_DELETE_TYPE = 2
_SET_TYPE = 5
_CHECK_TYPE = 13
_MULTI = 14
_MULTI_READ = 22
_SET_WATCHES = 101
_NEVER = 2**63 - 1
"""relativeZxid of a SetWatches that only arms: no node's last change is later."""

_int = struct.Struct("!i")
_op_start = struct.Struct("!iBii")  # type, done, error, length of the path
_result_start = struct.Struct("!iBi")  # type, done, error
_data_start = struct.Struct("!iBii")  # type, done, error, length of the data (or, of an error, its code)
_stat = struct.Struct("!q24xi8xq16x")  # czxid, version, ephemeralOwner of the 68 bytes
_STAT_BYTES = 68
_END = struct.pack("!iBi", -1, 1, -1)
_OPEN_ACL = struct.pack("!ii", 1, 31) + _int.pack(5) + b"world" + _int.pack(6) + b"anyone"
_FLAGS = {CREATE: _int.pack(0), CREATE_EPHEMERAL: _int.pack(1), CREATE_SEQUENTIAL: _int.pack(2)}
_EVENTS = {1: NODE_CREATED, 2: NODE_DELETED, 3: NODE_CHANGED, 4: CHILDREN_CHANGED}

_new: Callable[..., Any] = tuple.__new__


def _arm_weight(path: str) -> int:
    return len(path) + 4


# ---------------------------------------------------------------------------------------------------- requests
# What kazoo wants of a request: `type`, `serialize()` and `deserialize(buffer, offset)`.


class _MultiRead:
    """Data and children of many nodes in one request."""

    type = _MULTI_READ
    __slots__ = ("children", "data", "prefix")

    def __init__(self, data: tuple[str, ...], children: tuple[str, ...], prefix: str) -> None:
        self.data = data
        self.children = children
        self.prefix = prefix

    def serialize(self) -> bytes:
        parts: list[bytes] = []
        for kind, node_paths in ((_GET_DATA, self.data), (_GET_CHILDREN, self.children)):
            for path in node_paths:
                name = _full(self.prefix, path).encode()
                parts += (_op_start.pack(kind, 0, -1, len(name)), name, b"\0")
        parts.append(_END)
        return b"".join(parts)

    def deserialize(self, buffer: bytes, offset: int) -> tuple[list[Znode], list[Children]]:
        nodes: list[Znode] = []
        read_start, read_stat = _data_start.unpack_from, _stat.unpack_from
        for _ in self.data:
            kind, _, _, length = read_start(buffer, offset)
            offset += 13
            if kind == -1:
                nodes.append(Znode(length))  # an error has its code where data has its length
                continue
            end = offset + length if length > 0 else offset
            czxid, version, owner = read_stat(buffer, end)
            nodes.append(_new(Znode, (0, None if length < 0 else buffer[offset:end], version, czxid, owner)))
            offset = end + _STAT_BYTES
        children: list[Children] = []
        for _ in self.children:
            kind, _, _, count = read_start(buffer, offset)
            offset += 13
            if kind == -1:
                children.append(Children(count))
            else:
                names, offset = _strings(buffer, offset, count)
                children.append(Children(OK, names))
        return nodes, children


class _SingleData:
    """The data of one node, for servers without MultiRead."""

    type = _GET_DATA
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name.encode()

    def serialize(self) -> bytes:
        return _int.pack(len(self.name)) + self.name + b"\0"

    def deserialize(self, buffer: bytes, offset: int) -> Any:
        (length,) = _int.unpack_from(buffer, offset)
        offset += 4
        end = offset + max(length, 0)
        czxid, version, owner = _stat.unpack_from(buffer, end)
        return [Znode(OK, None if length < 0 else buffer[offset:end], version, czxid, owner)], []

    def refused(self, code: int) -> Any:
        """The answer of a node that cannot be read."""
        return [Znode(code)], []


class _SingleChildren(_SingleData):
    """The children of one node, for servers without MultiRead."""

    type = _GET_CHILDREN
    __slots__ = ()

    def deserialize(self, buffer: bytes, offset: int) -> Any:
        (count,) = _int.unpack_from(buffer, offset)
        return [], [Children(OK, _strings(buffer, offset + 4, count)[0])]

    def refused(self, code: int) -> Any:
        return [], [Children(code)]


class _WatchExists(_SingleData):
    """Arm a watch on one node that may be absent."""

    type = _EXISTS
    __slots__ = ()

    def serialize(self) -> bytes:
        return _int.pack(len(self.name)) + self.name + b"\1"

    def deserialize(self, buffer: bytes, offset: int) -> Any:
        return True


class _SetWatches:
    """Arm many watches at once."""

    type = _SET_WATCHES
    __slots__ = ("children", "data", "prefix")

    def __init__(self, data: tuple[str, ...], children: tuple[str, ...], prefix: str) -> None:
        self.data = data
        self.children = children
        self.prefix = prefix

    def serialize(self) -> bytes:
        parts = [struct.pack("!q", _NEVER)]
        for node_paths in (self.data, (), self.children):
            parts.append(_int.pack(len(node_paths)))
            for path in node_paths:
                name = _full(self.prefix, path).encode()
                parts += (_int.pack(len(name)), name)
        return b"".join(parts)

    @staticmethod
    def deserialize(buffer: bytes, offset: int) -> None:
        """The answer has no body."""


class _Multi:
    """A transaction. Serialised when it is made, so that its size is known before it is sent."""

    type = _MULTI
    __slots__ = ("body", "ops", "prefix")

    def __init__(self, ops: tuple[WriteOp, ...], prefix: str) -> None:
        self.ops = ops
        self.prefix = prefix
        parts: list[bytes] = []
        for kind, path, data, version in ops:
            name = _full(prefix, path).encode()
            length = len(name)
            if kind == SET:
                parts += (_op_start.pack(_SET_TYPE, 0, -1, length), name, *_buffer(data), _int.pack(version))
            elif kind == DELETE:
                parts += (_op_start.pack(_DELETE_TYPE, 0, -1, length), name, _int.pack(version))
            elif kind == CHECK:
                parts += (_op_start.pack(_CHECK_TYPE, 0, -1, length), name, _int.pack(version))
            else:
                parts += (_op_start.pack(_CREATE_TYPE, 0, -1, length), name, *_buffer(data), _OPEN_ACL, _FLAGS[kind])
        parts.append(_END)
        self.body = b"".join(parts)

    def serialize(self) -> bytes:
        return self.body

    def deserialize(self, buffer: bytes, offset: int) -> tuple[int, int, list[Written]]:
        """(code, culprit, results): the culprit is the first operation with an error of its own."""
        results: list[Written] = []
        for index, op in enumerate(self.ops):
            kind, _, _ = _result_start.unpack_from(buffer, offset)
            offset += 9
            if kind == -1:
                (code,) = _int.unpack_from(buffer, offset)
                offset += 4
                if code not in (OK, RUNTIME_INCONSISTENCY):
                    return code, index, []
            elif kind == _SET_TYPE:
                czxid, version, _ = _stat.unpack_from(buffer, offset)
                offset += _STAT_BYTES
                results.append(_new(Written, (version, czxid, op.path)))
            elif kind == _CREATE_TYPE:
                (length,) = _int.unpack_from(buffer, offset)
                path = buffer[offset + 4 : offset + 4 + length].decode()
                offset += 4 + length
                results.append(Written(path=path[len(self.prefix) :]))
            else:
                results.append(Written())
        return OK, -1, results


def _buffer(data: bytes | None) -> tuple[bytes, ...]:
    return (_int.pack(-1),) if data is None else (_int.pack(len(data)), data)


def _strings(buffer: bytes, offset: int, count: int) -> tuple[tuple[str, ...], int]:
    found = []
    for _ in range(count):
        (length,) = _int.unpack_from(buffer, offset)
        offset += 4
        found.append(buffer[offset : offset + length].decode())
        offset += length
    return tuple(found), offset


class _Result:
    """What kazoo calls with a request's outcome, on its connection thread: kazoo's AsyncResult without its queue."""

    __slots__ = ("done",)

    def __init__(self, done: Callable[[int, Any], None]) -> None:
        self.done = done

    def set(self, value: Any) -> None:
        self.done(OK, value)

    def set_exception(self, error: BaseException) -> None:
        code = getattr(error, "code", CONNECTION_LOSS)  # kazoo's own errors have none: the connection is closed
        self.done(CONNECTION_LOSS if code in (OPERATION_TIMEOUT, SESSION_MOVED) else code, None)


# ------------------------------------------------------------------------------------------------- the client


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """kazoo's connection, with its own way of being told of requests, and of telling of watch events.

    kazoo writes one byte into a pipe for each request, and blocks when some 270 wait: for ever, where the thread that
    writes is the one that should read. Here the pipe is a bell that is rung once until it is heard.
    """

    def __init__(self, client: KazooClient, retry: KazooRetry, logger: Any) -> None:
        super().__init__(client, retry, logger=logger)
        self._xid: int = 0
        self._rung = False

    def ring(self) -> None:
        """Say that there are requests; any thread."""
        bell = self._write_sock
        if not self._rung and bell is not None:
            self._rung = True
            with contextlib.suppress(OSError):  # just being closed
                bell.send(b"\0")

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        """Send what waits, but not so much that nobody reads what the server answers meanwhile."""
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

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        watch, _ = Watch.deserialize(buffer, offset)
        kind = _EVENTS.get(watch.type)
        if kind is not None and not self.client._stopped.is_set():
            self.client.news(WatchEvent(self.client.unchroot(watch.path), kind))


class _Client(KazooClient):  # type: ignore[misc]
    """kazoo's client, which tells us of session states in order with everything else.

    `gate` closes the gap in which a request could slip into a queue that kazoo is just throwing away.
    """

    def __init__(self, hosts: str, session_timeout: float, news: Callable[[Any], None]) -> None:
        handler = SequentialThreadingHandler()
        retry = KazooRetry(
            max_tries=-1, delay=RECONNECT_DELAY, max_delay=RECONNECT_MAX_DELAY, sleep_func=handler.sleep_func
        )
        super().__init__(hosts=hosts, timeout=session_timeout, handler=handler, connection_retry=retry)
        self._connection = _Connection(self, self._conn_retry.copy(), logger=self.logger)
        self.news = news
        self.gate = threading.RLock()

    def _session_callback(self, state: str) -> None:
        with self.gate:
            before = self.state
            super()._session_callback(state)
            if self._stopped.is_set():
                return
            if state == KeeperState.EXPIRED_SESSION:
                self.news(SessionState(EXPIRED))
            elif self.state != before:
                connected = state in (KeeperState.CONNECTED, KeeperState.CONNECTED_RO)
                self.news(SessionState(CONNECTED, self._session_id) if connected else SessionState(SUSPENDED))

    def request(self, request: Any, done: Callable[[int, Any], None]) -> None:
        """Queue a request; `done(code, value)` is called once."""
        with self.gate:
            if self._state in CLOSED_STATES:
                done(SESSION_EXPIRED if self._state == KeeperState.EXPIRED_SESSION else CONNECTION_LOSS, None)
                return
            self._queue.append((request, _Result(done)))
        self._connection.ring()


class KazooStore:
    """A session with the servers of `hosts` ("h:p,h:p/chroot").

    `session_timeout` and `connection_timeout` are in seconds. `create_chroot` makes the chroot's nodes at the start, as
    a Kafka broker does. `multi_read` False never tries MultiRead.
    """

    waits = True

    def __init__(
        self,
        hosts: str,
        session_timeout: float = 18.0,
        connection_timeout: float = 18.0,
        create_chroot: bool = False,
        multi_read: bool = True,
    ) -> None:
        self.hosts = hosts
        self.multi_read = multi_read
        self._connection_timeout = connection_timeout
        self._create_chroot = create_chroot
        self._sink: Sink | None = None
        self._announced = threading.Event()
        self._stopping = threading.Lock()
        self._started = self._stopped = False
        self._trouble = f"no answer within {connection_timeout:g} s"
        try:
            self._client = _Client(hosts, session_timeout, self._tell_of_connection)
        except (ValueError, KazooException) as error:
            raise ZooKeeperUnavailable(hosts, f"that is no address: {error}") from error

    @property
    def prefix(self) -> str:
        """The chroot, "" where there is none."""
        return str(self._client.chroot)

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
            threading.Thread(target=self.stop, name="zookeeper-stop", daemon=True).start()  # may take as long again
            raise ZooKeeperUnavailable(self.hosts, self._trouble)

    def stop(self) -> None:
        """Close the session; see Store.stop. Whoever comes second waits for the first: kazoo bears only one."""
        self._sink = None
        with self._stopping:
            if self._stopped or not self._started:
                return
            self._stopped = True
            try:
                self._client.stop()
            except WriterNotClosedException:  # a server that neither answers nor hangs up: the thread is left to notice
                return
            self._client.close()

    def submit(self, request: StoreRequest) -> None:
        """Send a request; see Store.submit."""
        if isinstance(request, StoreRead):
            _Reading(self, request).go_on()
        elif isinstance(request, StoreWrite):
            self._write(request)
        else:
            self._arm(request)

    def tell(self, news: Any) -> None:
        """Hand news to the sink, if it still listens."""
        sink = self._sink
        if sink is not None:
            sink(news)

    def _tell_of_connection(self, news: Any) -> None:
        """Hand on what the client has to say; the session is announced when its chroot is there."""
        if self._announced.is_set():
            self.tell(news)
        elif isinstance(news, SessionState) and news.state == CONNECTED:
            self._make_chroot(news)

    def send(self, request: Any, done: Callable[[int, Any], None]) -> None:
        """Queue one request of the protocol; `done(code, value)` is called once, from whichever thread."""
        self._client.request(request, done)

    def _make_chroot(self, connected: SessionState) -> None:
        """Create the chroot's nodes where that is wanted, then announce the session."""
        if not (self._create_chroot and self.prefix):
            self._announce(connected)
            return

        def made(path: str, code: int, value: Any) -> None:
            code = value[0] if code == OK else code
            if code not in (OK, NODE_EXISTS):  # when it was the connection that failed, the next one tries again
                self._trouble = f"chroot {path} cannot be made: {CODE_NAMES.get(code, code)}"
            elif path == self.prefix:
                self._announce(connected)

        for path in (*paths.ancestors(self.prefix), self.prefix):
            self.send(_Multi((WriteOp(CREATE, path),), ""), partial(made, path))

    def _announce(self, connected: SessionState) -> None:
        self.tell(connected)
        self._announced.set()

    def _write(self, request: StoreWrite) -> None:
        transaction = _Multi(request.ops, self.prefix)
        if len(transaction.body) > WRITE_LIMIT:
            self.tell(StoreReply(request.id, TOO_LARGE))
            return

        def done(code: int, value: Any) -> None:
            culprit, results = -1, ()
            if code == OK:
                code, culprit, results = value
            self.tell(StoreReply(request.id, code, results=tuple(results), culprit=culprit))

        self.send(transaction, done)

    def _arm(self, request: StoreArm) -> None:
        """Pipelined: SetWatches for nodes that exist, one exists each for those that may not. The last one answers."""
        present = [False] * len(request.exists)
        worst = [OK]
        requests: list[tuple[Any, Callable[[int, Any], None]]] = []

        def armed(code: int, value: Any) -> None:
            worst[0] = worst[0] or code

        def looked(index: int, code: int, value: Any) -> None:
            present[index] = code == OK and value is not None
            worst[0] = worst[0] or code

        for part in _bounded(request.data, _arm_weight, ARM_BYTES, ARM_BYTES):
            requests.append((_SetWatches(part, (), self.prefix), armed))
        for part in _bounded(request.children, _arm_weight, ARM_BYTES, ARM_BYTES):
            requests.append((_SetWatches((), part, self.prefix), armed))
        for index, path in enumerate(request.exists):
            requests.append((_WatchExists(_full(self.prefix, path)), partial(looked, index)))
        left = [len(requests)]

        def counted(done: Callable[[int, Any], None], code: int, value: Any) -> None:
            done(code, value)
            left[0] -= 1
            if left[0] == 0:
                self.tell(StoreReply(request.id, worst[0], present=tuple(present)))

        if not requests:
            self.tell(StoreReply(request.id))
        for each, done in requests:
            self.send(each, partial(counted, done))


class _Reading:
    """A StoreRead under way: its parts, a bounded number of them sent at a time, and what has come of them.

    The submitting thread begins it, kazoo's connection thread goes on, both inside the client's gate (a lock of its own
    would be taken in the other order when a connection is lost).
    """

    def __init__(self, store: KazooStore, request: StoreRead) -> None:
        self.store = store
        self.id = request.id
        self.gate = store.gate
        self.code = OK
        self.answers: list[tuple[list[Znode], list[Children]]] = []
        self.in_flight = 0
        self.over = False
        if store.multi_read:
            self.window = IN_FLIGHT
            parts: list[Any] = [_MultiRead(*part, store.prefix) for part in _read_parts(request)]
        else:
            self.window = READ_OPS
            parts = [_SingleData(_full(store.prefix, path)) for path in request.data]
            parts += [_SingleChildren(_full(store.prefix, path)) for path in request.children]
        self.parts: deque[tuple[int, Any]] = deque(enumerate(parts))
        self.answers = [([], [])] * len(parts)

    def go_on(self) -> None:
        """Send what may be sent; answer when nothing is under way any more."""
        with self.gate:
            while self.parts and self.in_flight < self.window and self.code == OK:
                index, part = self.parts.popleft()
                self.in_flight += 1
                self.store.send(part, partial(self.arrived, index, part))
            if self.in_flight == 0 and not self.over:
                self.over = True
                self.finish()

    def arrived(self, index: int, part: Any, code: int, value: Any) -> None:
        """A part is answered."""
        with self.gate:
            self.in_flight -= 1
            if code == UNIMPLEMENTED and part.type == _MULTI_READ:
                self.store.multi_read = False
                code = CONNECTION_LOSS  # the server hangs up; asked again, it gets single reads
            if code == OK:
                self.answers[index] = value
            elif code in (CONNECTION_LOSS, SESSION_EXPIRED) or part.type == _MULTI_READ:
                self.code = self.code or code
            else:
                self.answers[index] = part.refused(code)
            self.go_on()

    def finish(self) -> None:
        """Answer with everything, in the order asked."""
        if self.code != OK:
            self.store.tell(StoreReply(self.id, self.code))
            return
        nodes = tuple(itertools.chain.from_iterable([answer[0] for answer in self.answers]))
        children = tuple(itertools.chain.from_iterable([answer[1] for answer in self.answers]))
        self.store.tell(StoreReply(self.id, nodes=nodes, children=children))


def _full(prefix: str, path: str) -> str:
    """A path as the server knows it, below the chroot."""
    return prefix + path if path != "/" else prefix or "/"


def _read_parts(request: StoreRead) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Divide a read: data and children of each part, bounded in operations and in bytes expected either way."""
    for part in _bounded(request.data, lambda path: len(path) + paths.expected_bytes(path), READ_BYTES, READ_OPS):
        yield part, ()
    for part in _bounded(request.children, lambda path: len(path) + _CHILDREN_BYTES, READ_BYTES, READ_OPS):
        yield (), part


def _bounded(
    node_paths: tuple[str, ...], weight: Callable[[str], int], most_bytes: int, most: int
) -> Iterator[tuple[str, ...]]:
    """Divide paths into runs of at most `most`, and of at most `most_bytes` together."""
    start = size = 0
    for index, path in enumerate(node_paths):
        size += (weighs := weight(path))
        if index > start and (size > most_bytes or index - start >= most):
            yield node_paths[start:index]
            start, size = index, weighs
    if start < len(node_paths):
        yield node_paths[start:]
