"""An in-memory ZooKeeper server and sessions on it; tests can inject failures.

It is used for clusters in one process, for the simulation and for tests. It passes the same contract tests as the real
store.

Rule 1: `submit` executes and answers a request before it returns. Watch events come before the reply that shows the
        change.
Rule 2: requests wait while the client is disconnected. `reconnect` executes them in order. If the session has expired,
        they get SESSION_EXPIRED instead.
Rule 3: watches belong to a connection. `disconnect` drops them, as kazoo does when it loses a connection.
Rule 4: a session expires if it is disconnected for its timeout. Its ephemerals are deleted at that moment, and the
        client is notified when it reconnects. `call_later` (of a scheduler or an asyncio loop) supplies the timer.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from actors.runtime import CallLater, ScheduledCall
from messages import store
from zk_bridge.store import WRITE_LIMIT, Sink, StoreNews, StoreRequest, ZooKeeperUnavailable


class _Node:
    """A znode of the in-memory server."""

    __slots__ = ("children", "created", "czxid", "data", "mzxid", "owner", "pzxid", "version")

    def __init__(self, data: bytes | None, czxid: int, owner: int) -> None:
        self.data = data
        self.version = 0
        self.czxid = self.mzxid = self.pzxid = czxid  # zxids of creation, last change, last change of children
        self.owner = owner
        self.children: dict[str, None] = {}
        self.created = 0  # number of children ever created: the next sequence number

    def put(self, data: bytes | None, version: int, mzxid: int) -> None:
        """Set the node's data and version, as changed by transaction `mzxid`."""
        self.data = data
        self.version = version
        self.mzxid = mzxid


class _Refused(Exception):
    """ZooKeeper rejected a transaction (multi).

    `culprit` is the index of the operation that failed, and `code` is its error code.
    """

    def __init__(self, code: int, culprit: int) -> None:
        super().__init__(code, culprit)
        self.code = code
        self.culprit = culprit


class MemoryZooKeeper:
    """An in-memory ZooKeeper server: its znodes and its sessions.

    Several MemoryStores may use one server, all on one thread.

    Args:
        call_later: The timer; None means that sessions end only by `stop` and `expire`.
    """

    def __init__(self, call_later: CallLater | None = None) -> None:
        self.call_later = call_later
        self.zxid = 0
        self.nodes: dict[str, _Node] = {"/": _Node(None, 0, 0)}
        self.sessions: list[MemoryStore] = []
        self.up = True
        self.observers: list[Callable[[tuple[store.WriteOp, ...], tuple[store.Written, ...], int], None]] = []
        """Functions that are called after every transaction with its operations, their results, and its session."""
        self._session_ids = itertools.count(0x1000)

    def new_session(self) -> int:
        """Return a new session id."""
        return next(self._session_ids)

    # ---------------------------------------------------------------------------------------------- reading

    def read(self, path: str) -> store.Znode:
        """Return the result of reading a node."""
        node = self.nodes.get(path)
        return (
            store.Znode(store.NO_NODE)
            if node is None
            else store.Znode(store.OK, node.data, node.version, node.czxid, node.owner)
        )

    def children(self, path: str) -> store.Children:
        """Return the result of listing a node's children."""
        node = self.nodes.get(path)
        return store.Children(store.NO_NODE) if node is None else store.Children(store.OK, tuple(node.children))

    def walk(self, top: str = "/") -> Iterator[tuple[str, bytes | None]]:
        """Yield all nodes at and below `top` with their data, sorted by path."""
        below = top.rstrip("/") + "/"
        for path in sorted(self.nodes):
            if path == top or path.startswith(below):
                yield path, self.nodes[path].data

    # ---------------------------------------------------------------------------------------------- writing

    def write(self, ops: tuple[store.WriteOp, ...], session: int) -> tuple[store.Written, ...]:
        """Execute all operations or none, and return their results. Raises _Refused."""
        undo: list[Callable[[], None]] = []
        changes: list[store.WatchEvent] = []
        results: list[store.Written] = []
        self.zxid += 1
        try:
            for index, op in enumerate(ops):
                if op.kind in (store.CREATE, store.CREATE_EPHEMERAL, store.CREATE_SEQUENTIAL):
                    results.append(self._create(op, index, session, undo, changes))
                else:
                    results.append(self._change(op, index, undo, changes))
        except _Refused:
            for step in reversed(undo):
                step()
            raise
        for observer in self.observers:
            observer(ops, tuple(results), session)
        for change in changes:
            for each in tuple(self.sessions):
                each.fire_watches(change)
        return tuple(results)

    def _change(
        self, op: store.WriteOp, index: int, undo: list[Callable[[], None]], changes: list[store.WatchEvent]
    ) -> store.Written:
        """Execute a check, a set or a delete."""
        node = self.nodes.get(op.path)
        if node is None:
            raise _Refused(store.NO_NODE, index)
        if op.version not in (store.ANY_VERSION, node.version):
            raise _Refused(store.BAD_VERSION, index)
        if op.kind == store.CHECK:
            return store.Written()
        if op.kind == store.SET:
            undo.append(partial(node.put, node.data, node.version, node.mzxid))
            node.put(op.data, node.version + 1, self.zxid)
            changes.append(store.WatchEvent(op.path, store.NODE_CHANGED))
            return store.Written(node.version, node.czxid, op.path)
        if op.kind != store.DELETE:
            raise _Refused(store.BAD_ARGUMENTS, index)
        if node.children:
            raise _Refused(store.NOT_EMPTY, index)
        undo.append(partial(self._link, op.path, node, self.nodes[_split(op.path)[0]].pzxid))
        self._unlink(op.path, self.zxid)
        changes += [
            store.WatchEvent(op.path, store.NODE_DELETED),
            store.WatchEvent(_split(op.path)[0], store.CHILDREN_CHANGED),
        ]
        return store.Written()

    def _create(
        self,
        op: store.WriteOp,
        index: int,
        session: int,
        undo: list[Callable[[], None]],
        changes: list[store.WatchEvent],
    ) -> store.Written:
        parent, _ = _split(op.path)
        above = self.nodes.get(parent)
        if above is None:
            raise _Refused(store.NO_NODE, index)
        path = f"{op.path}{above.created:010d}" if op.kind == store.CREATE_SEQUENTIAL else op.path
        if path in self.nodes:
            raise _Refused(store.NODE_EXISTS, index)
        undo.append(partial(self._uncreate, path, above, above.pzxid))
        self._link(path, _Node(op.data, self.zxid, session if op.kind == store.CREATE_EPHEMERAL else 0), self.zxid)
        above.created += 1
        changes += [store.WatchEvent(path, store.NODE_CREATED), store.WatchEvent(parent, store.CHILDREN_CHANGED)]
        return store.Written(path=path)

    def _link(self, path: str, node: _Node, pzxid: int) -> None:
        parent, name = _split(path)
        self.nodes[path] = node
        self.nodes[parent].children[name] = None
        self.nodes[parent].pzxid = pzxid

    def _unlink(self, path: str, pzxid: int) -> None:
        parent, name = _split(path)
        del self.nodes[path], self.nodes[parent].children[name]
        self.nodes[parent].pzxid = pzxid

    def _uncreate(self, path: str, above: _Node, pzxid: int) -> None:
        self._unlink(path, pzxid)
        above.created -= 1

    def end_session(self, session: int) -> None:
        """Delete the ephemerals of a session. For session 0, which owns the persistent nodes, do nothing."""
        for path in [path for path, node in self.nodes.items() if node.owner == session != 0]:
            self.write((store.WriteOp(store.DELETE, path),), 0)


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent or "/", name


class MemoryStore:
    """A ZooKeeper client that has a session with a MemoryZooKeeper.

    The session expires if the client is disconnected for `session_timeout` seconds. `disconnect`, `reconnect`, `expire`
    and `lose_next_answer` inject network and server faults.
    """

    waits = False

    def __init__(self, server: MemoryZooKeeper, session_timeout: float = 18.0) -> None:
        self.server = server
        self.session_id = 0
        self._session_timeout = session_timeout
        self._expiry: ScheduledCall | None = None
        """Timer that ends the session, while it is disconnected or paused."""
        self._expired = False
        """Whether the server has ended the session and the client is not yet notified."""
        self.connected = False
        self._sink: Sink = _deaf
        self._held: list[StoreNews] | None = None
        """Messages from the server to a paused client; None if it is not paused."""
        self._client: Sink = _deaf
        """Sink of the client while it is paused."""
        self._waiting: deque[StoreRequest] = deque()
        self._data_watches: set[str] = set()
        self._child_watches: set[str] = set()
        self._losing = 0

    def start(self, sink: Sink) -> None:
        """Begin a session. Raises ZooKeeperUnavailable if the server is not `up`."""
        if not self.server.up:
            raise ZooKeeperUnavailable("memory", "it is down")
        self._sink = sink
        self.server.sessions.append(self)
        self.reconnect()

    def stop(self) -> None:
        """End the session and delete its ephemerals."""
        self._sink = _deaf
        self.connected = False
        self._forget_watches()
        self._set_expiry(False)
        if self in self.server.sessions:
            self.server.sessions.remove(self)
            self.server.end_session(self.session_id)

    def abandon(self) -> None:
        """Simulate a killed process: the store never reconnects, and the session ends after its timeout."""
        self._sink = _deaf
        self.disconnect()

    def pause(self) -> None:
        """Suspend the client: messages from the server wait, and the session expires after its timeout."""
        if self._held is None:
            self._held = []
            self._client, self._sink = self._sink, self._held.append
            if self.connected:
                self._set_expiry(True)

    def resume(self) -> None:
        """Deliver the messages that waited. Then report the expiry if the session has expired."""
        if self._held is None:
            return
        held, self._held = self._held, None
        self._sink = self._client
        for news in held:
            self._sink(news)
        if self.connected and self._expired:
            self.connected = False
            self._forget_watches()
            self._sink(store.SessionState(store.SUSPENDED))
            self.reconnect()
        elif self.connected:
            self._set_expiry(False)

    def fail(self, reason: str) -> None:
        """Report that the store has failed."""
        self._sink(store.StoreFailed(reason))

    def submit(self, request: StoreRequest) -> None:
        """Execute and answer the request, or queue it while disconnected."""
        if not self.connected:
            self._waiting.append(request)
            return
        if isinstance(request, store.StoreWrite):
            reply = self._written(request)
        else:
            present = self._watch(request.watches, request.since)
            nodes = tuple([self.server.read(path) for path in request.data])
            children = tuple(map(self.server.children, request.children))
            reply = store.StoreReply(request.id, nodes=nodes, children=children, present=present, zxid=self.server.zxid)
        if self._losing and (reply.nodes or reply.children or isinstance(request, store.StoreWrite)):
            self._losing -= 1
            self._sink(store.StoreReply(request.id, store.CONNECTION_LOSS))
            self.disconnect()
        else:
            self._sink(reply)

    def _written(self, request: store.StoreWrite) -> store.StoreReply:
        if sum(len(op.path) + len(op.data or b"") for op in request.ops) > WRITE_LIMIT:
            return store.StoreReply(request.id, store.TOO_LARGE)
        try:
            results = self.server.write(request.ops, self.session_id)
        except _Refused as refused:
            return store.StoreReply(request.id, refused.code, culprit=refused.culprit, zxid=self.server.zxid)
        return store.StoreReply(request.id, results=results, zxid=self.server.zxid)

    def _watch(self, watches: store.Watches, since: int | None) -> tuple[bool, ...]:
        """Set watches; return whether the nodes in `watches.exists` exist."""
        nodes = self.server.nodes
        never = self.server.zxid if since is None else since
        for path in watches.data:
            if path not in nodes:
                self._sink(store.WatchEvent(path, store.NODE_DELETED))
            elif nodes[path].mzxid > never:
                self._sink(store.WatchEvent(path, store.NODE_CHANGED))
            else:
                self._data_watches.add(path)
        for path in watches.exists:
            if since is not None and path in nodes:
                self._sink(store.WatchEvent(path, store.NODE_CREATED))
            else:
                self._data_watches.add(path)
        for path in watches.children:
            if path not in nodes:
                self._sink(store.WatchEvent(path, store.NODE_DELETED))
            elif nodes[path].pzxid > never:
                self._sink(store.WatchEvent(path, store.CHILDREN_CHANGED))
            else:
                self._child_watches.add(path)
        return tuple([path in nodes for path in watches.exists]) if since is None else ()

    # ------------------------------------------------------------------------------------------ what happens to it

    def fire_watches(self, change: store.WatchEvent) -> None:
        """If watches are set for this change, remove them and send one event."""
        heard = change.path in self._data_watches if change.kind != store.CHILDREN_CHANGED else False
        if change.kind in (store.CHILDREN_CHANGED, store.NODE_DELETED) and change.path in self._child_watches:
            heard = True
        if not heard:
            return
        if change.kind != store.CHILDREN_CHANGED:
            self._data_watches.discard(change.path)
        if change.kind in (store.CHILDREN_CHANGED, store.NODE_DELETED):
            self._child_watches.discard(change.path)
        self._sink(change)

    def disconnect(self, left: float | None = None) -> None:
        """Disconnect. The session and its ephemerals stay; its watches are dropped.

        Args:
            left: Seconds until the session expires; None means its timeout. A value below the timeout means that the
                server has received nothing from the session for a while before the disconnect. A value other than None
                also applies to a session that is already disconnected.
        """
        if not self.connected:
            if left is not None and self._expiry is not None:
                self._set_expiry(True, left)
            return
        self.connected = False
        self._forget_watches()
        self._set_expiry(True, left)
        self._sink(store.SessionState(store.SUSPENDED))

    def reconnect(self) -> None:
        """Reconnect, with a new session if the old one has ended, and execute the queued requests.

        If the old session has expired, its expiry is reported first.
        """
        if self.connected or not self.server.up:
            return
        self._set_expiry(False)
        if self._expired:
            self._report_expiry()
        if self.session_id == 0:
            self.session_id = self.server.new_session()
        self.connected = True
        self._sink(store.SessionState(store.CONNECTED, self.session_id))
        while self._waiting and self.connected:
            self.submit(self._waiting.popleft())

    def expire(self, reconnect: bool = True) -> None:
        """Expire the session and delete its ephemerals and watches.

        Then start a new session, as kazoo does, if `reconnect`.
        """
        self.disconnect()
        self._set_expiry(False)
        self._end()
        self._report_expiry()
        if reconnect:
            self.reconnect()

    def _set_expiry(self, cut: bool, left: float | None = None) -> None:
        """Start the timer that ends a session whose connection is cut. If `cut` is False, stop the timer.

        The timer ends after `left` seconds, or after the session timeout if `left` is None.
        """
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if cut and self.server.call_later is not None:
            self._expiry = self.server.call_later(self._session_timeout if left is None else left, self._end)

    def _end(self) -> None:
        """End the session at the server. If the server is down, try again after another session timeout."""
        self._expiry = None
        if not self.server.up:
            self._set_expiry(True)
            return
        self._expired = True
        self.server.end_session(self.session_id)

    def _report_expiry(self) -> None:
        self._expired, self.session_id = False, 0
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            self._sink(store.StoreReply(request.id, store.SESSION_EXPIRED))
        self._sink(store.SessionState(store.EXPIRED))

    def lose_next_answer(self, count: int = 1) -> None:
        """Execute the next `count` reads or writes, but disconnect before each is answered."""
        self._losing += count

    def _forget_watches(self) -> None:
        self._data_watches.clear()
        self._child_watches.clear()


def _deaf(news: object) -> None:
    """Ignore all messages. This function is the sink of a store that is not started."""
