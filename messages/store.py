"""The messages between ZkBridgeActor and a ZooKeeper client; each request contains a batch of ZooKeeper operations.

Rule 1: the operations of a request are paths or `WriteOp`s in bare tuples, so that 100,000 operations are cheap to
        create, send and record.
Rule 2: the bridge numbers its requests; the client replies to each `id` with exactly one `StoreReply`.
Rule 3: the bridge receives all replies, watch events and session states in the order of their occurrence.
Rule 4: if a connection is lost or a session expires, the client first replies to every request in flight
        (CONNECTION_LOSS, SESSION_EXPIRED), and then sends the `SessionState`.

Codes are ZooKeeper's (`KeeperException.Code`), so a server's code that has no constant here is passed on unchanged.
"""

from __future__ import annotations

from typing import NamedTuple

from messages.vocabulary import Message, message

OK = 0
CONNECTION_LOSS = -4
UNIMPLEMENTED = -6
OPERATION_TIMEOUT = -7
BAD_ARGUMENTS = -8
NO_NODE = -101
NO_AUTH = -102
BAD_VERSION = -103
NODE_EXISTS = -110
NOT_EMPTY = -111
SESSION_EXPIRED = -112
SESSION_MOVED = -118
RUNTIME_INCONSISTENCY = -2
TOO_LARGE = -10_000
"""A code of this project, not of ZooKeeper: the request would exceed jute.maxbuffer and was not sent."""

CODE_NAMES = {
    OK: "OK",
    RUNTIME_INCONSISTENCY: "RUNTIME_INCONSISTENCY",
    CONNECTION_LOSS: "CONNECTION_LOSS",
    UNIMPLEMENTED: "UNIMPLEMENTED",
    BAD_ARGUMENTS: "BAD_ARGUMENTS",
    NO_NODE: "NO_NODE",
    NO_AUTH: "NO_AUTH",
    BAD_VERSION: "BAD_VERSION",
    NODE_EXISTS: "NODE_EXISTS",
    NOT_EMPTY: "NOT_EMPTY",
    SESSION_EXPIRED: "SESSION_EXPIRED",
    SESSION_MOVED: "SESSION_MOVED",
    TOO_LARGE: "TOO_LARGE",
}
"""Names of the codes in error texts."""

ANY_VERSION = -1

CHECK = "check"
CREATE = "create"
CREATE_EPHEMERAL = "create_ephemeral"
CREATE_SEQUENTIAL = "create_sequential"
SET = "set"
DELETE = "delete"


class WriteOp(NamedTuple):
    """A write in a ZooKeeper transaction; `version` is the znode version that it expects, or ANY_VERSION."""

    kind: str
    path: str
    data: bytes | None = None
    version: int = ANY_VERSION


class Znode(NamedTuple):
    """The result of reading a znode: an error code and, if it is OK, the znode's data and some fields of its stat.

    `version` is the data version, `czxid` the transaction that created the node, `owner` the session that owns an
    ephemeral znode (0: the znode is persistent).
    """

    code: int
    data: bytes | None = None
    version: int = -1
    czxid: int = -1
    owner: int = 0


class Children(NamedTuple):
    """The result of listing a znode's children: an error code, and the children's names in the server's order."""

    code: int
    names: tuple[str, ...] = ()


class Written(NamedTuple):
    """The result of one write: the znode's version and czxid after a set, its path after a create."""

    version: int = -1
    czxid: int = -1
    path: str = ""


class Watches(NamedTuple):
    """Paths on which one-shot watches are set.

    `data` and `children` list znodes that should exist; the watch of an absent znode fires "deleted" at once. The
    znodes in `exists` may be absent.
    """

    data: tuple[str, ...] = ()
    exists: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


@message
class StoreRead(Message):
    """A request to the ZooKeeper client to set `watches`, and then to read the data and the children of znodes.

    Each znode's result has its own error code. The StoreReply has `nodes` and `children` in the order of the request,
    and `present` for `watches.exists`: whether the znode exists. The reads are not one atomic operation.

    If `since` is given, it is the last zxid that was seen before an interruption. With `since`, a watch fires at once
    if its znode, or the list of its children, was changed after `since`. `present` is then empty; instead, the watch of
    a znode in `exists` fires at once if the znode exists now.
    """

    id: int
    data: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    watches: Watches = Watches()
    since: int | None = None


@message
class StoreWrite(Message):
    """A request to the ZooKeeper client to execute `ops` as one transaction.

    The StoreReply has `results`, or `code` and `culprit`.
    """

    id: int
    ops: tuple[WriteOp, ...]


@message
class StoreReply(Message):
    """The reply of the ZooKeeper client to the request with this id.

    `code` is OK or the error of the whole request: CONNECTION_LOSS (a write may have been applied), SESSION_EXPIRED, or
    TOO_LARGE. For a rejected transaction, `code` is that of the first failing operation, whose index is `culprit`.
    `zxid` is the newest transaction that the session has seen. All watches for changes up to that transaction fired
    before this reply.
    """

    id: int
    code: int = OK
    nodes: tuple[Znode, ...] = ()
    children: tuple[Children, ...] = ()
    results: tuple[Written, ...] = ()
    present: tuple[bool, ...] = ()
    culprit: int = -1
    zxid: int = 0


NODE_CREATED = "created"
NODE_DELETED = "deleted"
NODE_CHANGED = "changed"
CHILDREN_CHANGED = "children"


@message
class WatchEvent(Message):
    """A ZooKeeper watch fired; `kind` is created, deleted, changed or children."""

    path: str
    kind: str


@message
class StoreFailed(Message):
    """The ZooKeeper client has failed: it sends no more events or replies."""

    reason: str


CONNECTED = "connected"
SUSPENDED = "suspended"
EXPIRED = "expired"


@message
class SessionState(Message):
    """The state of the ZooKeeper session changed; `session_id` is 0 unless the state is `connected`.

    `suspended`: the connection is lost and the watches are gone, but the session may still exist. `expired`: the
    session's ephemeral znodes are gone too, and the client creates a new session.
    """

    state: str
    session_id: int = 0
