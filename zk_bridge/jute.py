"""Encode requests to ZooKeeper and decode responses, faster than kazoo does; mainly for batches of many znodes.

It has three requests that kazoo lacks or builds one operation at a time: MultiRead (opcode 22), SetWatches (101) and
multi (14). It also has the single-node requests for servers older than 3.6. Each request is serialised into one buffer,
and its response is decoded from one buffer.

A request has the interface that kazoo expects: `type`, `serialize()` and `deserialize(buffer, offset)`. `deserialize`
raises `struct.error` or ValueError if the buffer is too short.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from messages import store
from zk_bridge import paths

_GET_DATA = 4
_EXISTS = 3
_GET_CHILDREN = 8
_CREATE_TYPE = 1
_DELETE_TYPE = 2
_SET_TYPE = 5
_CHECK_TYPE = 13
_MULTI = 14
MULTI_READ = 22
_SET_WATCHES = 101
_NEVER = 2**63 - 1
"""relativeZxid of a SetWatches that only sets watches: no node was changed by a later transaction."""

_int = struct.Struct("!i")
_op_start = struct.Struct("!iBii")  # type, done, error, length of the path
_result_start = struct.Struct("!iBi")  # type, done, error
_data_start = struct.Struct("!iBii")  # type, done, error, and one of: data length, number of children, error code
_stat = struct.Struct("!q24xi8xq16x")  # czxid, version, ephemeralOwner; the other fields of a stat are skipped
_STAT_BYTES = 68
_END = struct.pack("!iBi", -1, 1, -1)


def _acl(*entries: tuple[int, bytes, bytes]) -> bytes:
    texts = (_int.pack(perms) + _int.pack(len(kind)) + kind + _int.pack(len(id)) + id for perms, kind, id in entries)
    return _int.pack(len(entries)) + b"".join(texts)


_CREATOR, _READERS = (31, b"auth", b""), (1, b"world", b"anyone")
_OPEN_ACL, _PRIVATE_ACL, _READABLE_ACL = _acl((31, b"world", b"anyone")), _acl(_CREATOR), _acl(_CREATOR, _READERS)
_FLAGS = {store.CREATE: _int.pack(0), store.CREATE_EPHEMERAL: _int.pack(1), store.CREATE_SEQUENTIAL: _int.pack(2)}

_new: Callable[..., Any] = tuple.__new__


def below(prefix: str, path: str) -> str:
    """Return the server's path of a node: `path` below the chroot `prefix`."""
    return prefix + path if path != "/" else prefix or "/"


class _ManyNodes:
    """The base class of requests about many znodes.

    Attributes:
        data: Nodes whose data is requested.
        children: Nodes whose children are requested.
        prefix: The chroot; the paths are relative to it.
    """

    __slots__ = ("children", "data", "prefix")

    def __init__(self, data: tuple[str, ...], children: tuple[str, ...], prefix: str) -> None:
        self.data = data
        self.children = children
        self.prefix = prefix


class MultiRead(_ManyNodes):
    """A ZooKeeper request that reads the data and the children of many znodes at once."""

    type = MULTI_READ
    __slots__ = ()

    def serialize(self) -> bytes:
        parts: list[bytes] = []
        for kind, node_paths in ((_GET_DATA, self.data), (_GET_CHILDREN, self.children)):
            for path in node_paths:
                name = below(self.prefix, path).encode()
                parts += (_op_start.pack(kind, 0, -1, len(name)), name, b"\0")
        parts.append(_END)
        return b"".join(parts)

    def deserialize(self, buffer: bytes, offset: int) -> tuple[list[store.Znode], list[store.Children]]:
        nodes: list[store.Znode] = []
        read_start, read_stat = _data_start.unpack_from, _stat.unpack_from
        for _ in self.data:
            kind, _, _, length = read_start(buffer, offset)
            offset += 13
            if kind != _GET_DATA:
                nodes.append(store.Znode(_code(kind, length)))  # an error has its code in the length field
                continue
            end = offset + length if length > 0 else offset
            czxid, version, owner = read_stat(buffer, end)
            nodes.append(_new(store.Znode, (0, None if length < 0 else buffer[offset:end], version, czxid, owner)))
            offset = end + _STAT_BYTES
        children: list[store.Children] = []
        for _ in self.children:
            kind, _, _, count = read_start(buffer, offset)
            offset += 13
            if kind != _GET_CHILDREN:
                children.append(store.Children(_code(kind, count)))
            else:
                names, offset = _strings(buffer, offset, count)
                children.append(store.Children(store.OK, names))
        return nodes, children


class SingleData:
    """A ZooKeeper request that reads the data of one znode, for servers without MultiRead."""

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
        return [store.Znode(store.OK, None if length < 0 else buffer[offset:end], version, czxid, owner)], []

    def refusal(self, code: int) -> Any:
        """Return the result of a read that the server refused with the error `code`."""
        return [store.Znode(code)], []


class SingleChildren(SingleData):
    """A ZooKeeper request that lists the children of one znode, for servers without MultiRead."""

    type = _GET_CHILDREN
    __slots__ = ()

    def deserialize(self, buffer: bytes, offset: int) -> Any:
        (count,) = _int.unpack_from(buffer, offset)
        return [], [store.Children(store.OK, _strings(buffer, offset + 4, count)[0])]

    def refusal(self, code: int) -> Any:
        return [], [store.Children(code)]


class WatchExists:
    """A ZooKeeper request that sets a watch on a znode that does not have to exist. `path` is without the chroot."""

    type = _EXISTS
    __slots__ = ("name", "path")

    def __init__(self, name: str, path: str) -> None:
        self.name = name.encode()
        self.path = path

    def serialize(self) -> bytes:
        return _int.pack(len(self.name)) + self.name + b"\1"

    @staticmethod
    def deserialize(buffer: bytes, offset: int) -> None:
        """Do nothing: the response's code says whether the znode exists."""


class SetWatches:
    """A ZooKeeper request that sets many watches at once.

    With `since`, a watch fires at once if a later transaction has changed its node. A watch of `exists` also fires
    at once if the node exists.

    Args:
        watches: Existing nodes whose data is watched, absent nodes, and nodes whose children are watched.
        prefix: The chroot; the paths are relative to it.
        since: The newest zxid whose changes are known. If None, earlier changes of data or children fire no watch.
    """

    type = _SET_WATCHES
    __slots__ = ("paths", "prefix", "since")

    def __init__(self, watches: store.Watches, prefix: str, since: int | None = None) -> None:
        self.paths = watches
        self.prefix = prefix
        self.since = _NEVER if since is None else since

    def serialize(self) -> bytes:
        parts = [struct.pack("!q", self.since)]
        for node_paths in self.paths:
            parts.append(_int.pack(len(node_paths)))
            for path in node_paths:
                name = below(self.prefix, path).encode()
                parts += (_int.pack(len(name)), name)
        return b"".join(parts)

    @staticmethod
    def deserialize(buffer: bytes, offset: int) -> tuple[list[store.Znode], list[store.Children]]:
        """Return no results: the response has no body."""
        return [], []


class Multi:
    """A ZooKeeper transaction. The constructor encodes it, so that its size is known before it is sent.

    Args:
        ops: The operations.
        prefix: The chroot; the paths are relative to it.
        sets_acls: Whether new znodes get Kafka's ACLs; otherwise every client may do everything with them.
    """

    type = _MULTI
    __slots__ = ("body", "ops", "prefix")

    def __init__(self, ops: tuple[store.WriteOp, ...], prefix: str, sets_acls: bool = False) -> None:
        self.ops = ops
        self.prefix = prefix
        parts: list[bytes] = []
        for kind, path, data, version in ops:
            name = below(prefix, path).encode()
            length = len(name)
            if kind == store.SET:
                parts += (_op_start.pack(_SET_TYPE, 0, -1, length), name, *_buffer(data), _int.pack(version))
            elif kind == store.DELETE:
                parts += (_op_start.pack(_DELETE_TYPE, 0, -1, length), name, _int.pack(version))
            elif kind == store.CHECK:
                parts += (_op_start.pack(_CHECK_TYPE, 0, -1, length), name, _int.pack(version))
            else:
                acl = _acl_of(path) if sets_acls else _OPEN_ACL
                parts += (_op_start.pack(_CREATE_TYPE, 0, -1, length), name, *_buffer(data), acl, _FLAGS[kind])
        parts.append(_END)
        self.body = b"".join(parts)

    def serialize(self) -> bytes:
        return self.body

    def deserialize(self, buffer: bytes, offset: int) -> tuple[int, int, list[store.Written]]:
        """Return (code, culprit, results).

        The culprit is the index of the operation that made the transaction fail; -1 if no operation failed.
        """
        results: list[store.Written] = []
        for index, op in enumerate(self.ops):
            kind, _, _ = _result_start.unpack_from(buffer, offset)
            offset += 9
            if kind == -1:
                (code,) = _int.unpack_from(buffer, offset)
                offset += 4
                if code not in (store.OK, store.RUNTIME_INCONSISTENCY):
                    return code, index, []
            elif kind == _SET_TYPE:
                czxid, version, _ = _stat.unpack_from(buffer, offset)
                offset += _STAT_BYTES
                results.append(_new(store.Written, (version, czxid, op.path)))
            elif kind == _CREATE_TYPE:
                (length,) = _int.unpack_from(buffer, offset)
                path = buffer[offset + 4 : offset + 4 + length].decode()
                offset += 4 + length
                results.append(store.Written(path=path[len(self.prefix) :]))
            else:
                results.append(store.Written())
        return store.OK, -1, results


def _acl_of(path: str) -> bytes:
    """Return the ACL of a new znode (`paths`, rule 2)."""
    if path == paths.CONSUMERS:
        return _OPEN_ACL
    return _PRIVATE_ACL if path.startswith(paths.SENSITIVE) else _READABLE_ACL


def _buffer(data: bytes | None) -> tuple[bytes, ...]:
    return (_int.pack(-1),) if data is None else (_int.pack(len(data)), data)


def _code(kind: int, code: int) -> int:
    """Return the error code of a result. Raises ValueError if the result is not an error."""
    if kind != -1:
        raise ValueError(f"ZooKeeper sent a transaction result of the unknown type {kind}")
    return code


def _strings(buffer: bytes, offset: int, count: int) -> tuple[tuple[str, ...], int]:
    found = []
    for _ in range(count):
        (length,) = _int.unpack_from(buffer, offset)
        offset += 4
        if not 0 <= length <= len(buffer) - offset:
            raise ValueError(f"invalid length {length} of a string")
        found.append(buffer[offset : offset + length].decode())
        offset += length
    return tuple(found), offset
