"""Generators that handle requests to the bridge: each yields ZooKeeper operations and returns the result.

Rule 1: a generator has no side effects. It yields `Read`, `Write`, `DropWatches` or `GetSessionIds`. It receives a
        StoreReply for each of the first two, None for `DropWatches`, and a SessionIds for `GetSessionIds`. It returns a
        message, or raises a subclass of AskFailed. In the second case, the bridge answers with a Failure that has the
        name of the subclass.
Rule 2: if the connection is lost during a Read, the bridge sends this operation again after the reconnect.
        The generator receives only the final reply. If the connection is lost during a Write, the generator receives
        code CONNECTION_LOSS after the reconnect, because the write may have been applied.
Rule 3: every transaction of a controller begins with the fence (actors.md 3 row 2). It checks the version of
        /controller_epoch, and that /controller exists. So the term's own /controller exists, because the next one would
        raise the epoch. Without the second check, a request that the bridge or the client receives after the session
        has expired would be executed in the next session. Kafka begins that session only after its Expire event.
Rule 4: an unexpected code of ZooKeeper is raised as ZooKeeperRefused with the code and the path.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from messages import store
from messages.ask import ControllerMoved, ZooKeeperRefused
from messages.flow.conversation import SLICE, Pause, slices
from zk_bridge import paths

T = TypeVar("T")


class Read(NamedTuple):
    """Yielded by a request handler of the ZooKeeper bridge to read znodes; the `yield` returns the StoreReply.

    Before the read, watches are set for the actor that sent the request, so that it misses no change after the read.
    The watch table maps each path of `watches` to its event.
    """

    data: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    watches: store.Watches = store.Watches()


class Write(NamedTuple):
    """Yielded by a request handler of the ZooKeeper bridge to write znodes; the `yield` returns the StoreReply."""

    ops: tuple[store.WriteOp, ...]


class DropWatches(NamedTuple):
    """Yielded by a request handler of the ZooKeeper bridge to drop watches of the actor that sent the request.

    A watch is dropped if its event is one of `events` and its key is one of `keys`. If `keys` is None, the key is
    ignored.
    """

    events: tuple[str, ...]
    keys: tuple[str, ...] | None


class GetSessionIds(NamedTuple):
    """Yielded by a request handler of the ZooKeeper bridge to get the ids of the bridge's ZooKeeper sessions."""


class SessionIds(NamedTuple):
    """The id of the current ZooKeeper session, whether this session is connected, and the ids of former sessions."""

    current: int
    earlier: tuple[int, ...]
    connected: bool = False


Step: TypeAlias = Read | Write | DropWatches | GetSessionIds | Pause

Steps: TypeAlias = Generator[Step, Any, T]
"""A generator that yields steps, receives the reply to each, and returns a result."""

Conversation: TypeAlias = Steps[Any]
"""The steps of a request; the result is the answer."""

Starter: TypeAlias = Callable[[Any], Conversation]
"""A function that makes the generator for a request."""

WRITE_OPS = 1024
"""Maximum number of operations in a transaction. The requests that a controller sends at a time fit: 500 new partitions
of a topic with two operations each, or 1,000 changed partitions."""
WRITE_BYTES = 256 * 1024
_OP_BYTES = 32
"""Estimated size of an operation without its path and data: headers, lengths, version, ACL."""


def batches(
    ops: Iterable[Sequence[store.WriteOp]], most_ops: int = WRITE_OPS
) -> Iterator[list[Sequence[store.WriteOp]]]:
    """Group `ops` into transactions of bounded size.

    A transaction has at most `most_ops` operations and at most WRITE_BYTES bytes (a quarter of jute.maxbuffer). Larger
    transactions are not faster, and they delay every other session of the ensemble (zookeeper.md 3).

    Args:
        ops: Groups of operations. The operations of a group stay in one transaction.
        most_ops: Maximum number of operations in a transaction.
    """
    batch: list[Sequence[store.WriteOp]] = []
    count = size = 0
    for group in ops:
        weight = 0
        for op in group:
            weight += len(op.path) + len(op.data or b"") + _OP_BYTES
        if batch and (count + len(group) > most_ops or size + weight > WRITE_BYTES):
            yield batch
            batch, count, size = [], 0, 0
        batch.append(group)
        count += len(group)
        size += weight
    if batch:
        yield batch


def fence(epoch_zk_version: int | None) -> tuple[store.WriteOp, ...]:
    """Return the checks that begin a controller's transaction, or no operation if `epoch_zk_version` is None."""
    if epoch_zk_version is None:
        return ()
    return store.WriteOp(store.CHECK, paths.CONTROLLER_EPOCH, None, epoch_zk_version), store.WriteOp(
        store.CHECK, paths.CONTROLLER
    )


def error_for(code: int, path: str) -> ZooKeeperRefused:
    """Return the error for an unexpected code."""
    return ZooKeeperRefused(f"ZooKeeper returned {store.CODE_NAMES.get(code, code)} for {path}")


def check_fence(reply: store.StoreReply, ops: Sequence[store.WriteOp]) -> None:
    """Raise ControllerMoved if the transaction `ops` failed because of its fence."""
    if reply.code in (store.BAD_VERSION, store.NO_NODE) and 0 <= reply.culprit < len(ops):
        op = ops[reply.culprit]
        if op.kind == store.CHECK and op.path in (paths.CONTROLLER_EPOCH, paths.CONTROLLER):
            expected = f"no longer has version {op.version}" if reply.code == store.BAD_VERSION else "no longer exists"
            raise ControllerMoved(f"{op.path} {expected}")


def culprit(reply: store.StoreReply, ops: Sequence[store.WriteOp]) -> str:
    """Return the path of the operation that failed in the transaction `ops`."""
    return ops[reply.culprit].path if 0 <= reply.culprit < len(ops) else f"{len(ops)} operations"


def transact(ops: tuple[store.WriteOp, ...], *expected: int) -> Steps[store.StoreReply]:
    """Write `ops`, retry after each lost answer, and return the reply if its code is OK or one of `expected`.

    Use it only for transactions that may be applied twice without harm. If `expected` has CONNECTION_LOSS, a reply with
    this code is returned, and the write is not retried.

    Raises:
        ControllerMoved: The fence failed.
        ZooKeeperRefused: The transaction is too large, or failed with another code.
    """
    while True:
        reply: store.StoreReply = yield Write(ops)
        if reply.code == store.CONNECTION_LOSS and store.CONNECTION_LOSS not in expected:
            continue
        check_fence(reply, ops)
        if reply.code == store.TOO_LARGE:
            largest = max(ops, key=lambda op: len(op.data or b""))
            size = f"{len(largest.data or b''):,} bytes"
            raise ZooKeeperRefused(f"{largest.path} would have {size}, more than ZooKeeper accepts (jute.maxbuffer)")
        if reply.code != store.OK and reply.code not in expected:
            raise error_for(reply.code, culprit(reply, ops))
        return reply


def data_of(
    node_paths: tuple[str, ...], at_once: int = SLICE, watches: store.Watches | None = None
) -> Steps[tuple[store.Znode, ...]]:
    """Set `watches`, and read the data of nodes, in requests of at most `at_once` nodes.

    Returns:
        The nodes in the order of `node_paths`; the code of each is OK or NO_NODE.

    Raises:
        ZooKeeperRefused: A node, or the request, failed with another code.
    """
    found: list[store.Znode] = []
    for part in slices(node_paths, at_once):
        reply: store.StoreReply = yield Read(data=tuple(part), watches=watches or store.Watches())
        watches = None
        if reply.code != store.OK:
            raise error_for(reply.code, part[0])
        for path, node in zip(part, reply.nodes, strict=True):
            if node.code not in (store.OK, store.NO_NODE):
                raise error_for(node.code, path)
        found += reply.nodes
    return tuple(found)


def children_of(parents: tuple[str, ...], watch: bool = False) -> Steps[tuple[tuple[str, ...] | None, ...]]:
    """List the children of nodes, in requests of at most SLICE nodes. If `watch`, watch them first.

    Returns:
        The sorted names for each parent; None for a parent that does not exist.

    Raises:
        ZooKeeperRefused: A node, or the request, failed with a code other than NO_NODE.
    """
    names: list[tuple[str, ...] | None] = []
    for part in slices(parents):
        listed = tuple(part)
        reply: store.StoreReply = yield Read(children=listed, watches=store.Watches(children=listed if watch else ()))
        if reply.code != store.OK:
            raise error_for(reply.code, part[0])
        for path, found in zip(part, reply.children, strict=True):
            if found.code not in (store.OK, store.NO_NODE):
                raise error_for(found.code, path)
            names.append(tuple(sorted(found.names)) if found.code == store.OK else None)
    return tuple(names)


def in_pauses(steps: Generator[None, None, T]) -> Steps[T]:
    """Run a generator with a Pause after each of its steps, and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        yield Pause()


def create_missing(node_paths: Iterable[str]) -> Conversation:
    """Create persistent nodes with null data, and their parents, if they are missing."""
    wanted = tuple(dict.fromkeys(each for path in node_paths for each in (*paths.ancestors(path), path)))
    while True:
        nodes = yield from data_of(wanted)
        missing = tuple(
            store.WriteOp(store.CREATE, path)
            for path, node in zip(wanted, nodes, strict=True)
            if node.code == store.NO_NODE
        )
        if not missing:
            return
        reply = yield from transact(missing, store.CONNECTION_LOSS, store.NODE_EXISTS)
        if reply.code == store.OK:
            return


def delete_present(node_paths: Sequence[str], epoch_zk_version: int | None) -> Conversation:
    """Delete nodes in this order, in fenced transactions. Nodes that do not exist are skipped.

    Raises the same exceptions as `transact`.
    """
    check = fence(epoch_zk_version)
    for batch in batches((store.WriteOp(store.DELETE, path),) for path in node_paths):
        left = tuple(op for (op,) in batch)
        while left:
            reply = yield from transact((*check, *left), store.CONNECTION_LOSS, store.NO_NODE)
            if reply.code == store.OK:
                break
            nodes = yield from data_of(tuple(op.path for op in left))
            left = tuple(op for op, node in zip(left, nodes, strict=True) if node.code == store.OK)
