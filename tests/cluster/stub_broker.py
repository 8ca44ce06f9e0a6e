"""A stub of a broker: it registers, responds to a controller's requests at once, and records when each arrived.

If it leads a partition to which replicas are added, it expands the ISR at once. It runs in its own process, and gets
its commands by a pipe, so that it does not slow the measured controller. It shares the machine's cores with that
controller, which waits for its responses. So it skips over a request's bytes, as encoded at
inter.broker.protocol.version 2.6, and decodes only requests that add replicas.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import re
import socket
import struct
import threading
import time
from itertools import islice
from multiprocessing.connection import Connection
from typing import NamedTuple

from kazoo.client import KazooClient

from messages.apis.controlled_shutdown import ControlledShutdownRequest
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from messages.wire import decode_request, decode_response, encode_request
from messages.wire.primitives import length, read_length

SESSION_SECONDS = 60
_SIZE = struct.Struct(">i")
_HEAD = struct.Struct(">hhih")
"""API key, version, correlation id, and length of the client id."""
_CONTROLLER = struct.Struct(">ii")
"""Controller id and controller epoch."""
_EPOCHS = 16
"""Size of the controller id, controller epoch and broker epoch, after a request's header and its tags."""
_WELL = b"\0\0\0"
"""The bytes after a partition's number in a response: error code 0, no tags."""


_ARRAY = b"(?:%b)" % b"|".join(b"%b.{%d}" % (re.escape(bytes([n + 1])), 4 * n) for n in range(33))
"""Matches an array of at most 32 broker ids."""


class _Shape(NamedTuple):
    """How one version of a request encodes a partition, and whether the response lists the partitions.

    The expression matches a partition. Its groups are the number of the partition and the adding replicas.
    """

    kind: str
    version: int
    partition: re.Pattern[bytes]
    named: bool


def _partition(*parts: bytes) -> re.Pattern[bytes]:
    return re.compile(b"(.{4})" + b"".join(parts), re.DOTALL)


_SHAPES = {
    4: _Shape(
        *("LeaderAndIsrRequest", 4),
        _partition(b".{12}", _ARRAY, b".{4}", _ARRAY, b"(%b)" % _ARRAY, _ARRAY, b".{2}"),
        named=True,
    ),
    5: _Shape("StopReplicaRequest", 3, _partition(b".{6}()"), named=True),
    6: _Shape(
        *("UpdateMetadataRequest", 6), _partition(b".{12}", _ARRAY, b".{4}", _ARRAY, _ARRAY, b".()"), named=False
    ),
}
_NONE_ADDING = {b"", b"\1"}


class Arrival(NamedTuple):
    """A request that has arrived completely: time (monotonic seconds), type, partitions, and controller epoch."""

    at: float
    kind: str
    partitions: int
    epoch: int


class StubBroker:
    """The handle of a stub's process. A command is the name of a method of `_Stub` and its arguments."""

    def __init__(self, broker_id: int, port: int, zookeeper: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.broker_id = broker_id
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(broker_id, port, zookeeper, theirs), daemon=True)
        self._process.start()

    def begin(self, what: str, *args: object) -> None:
        """Send a command to the process without waiting for its result."""
        self._pipe.send((what, args))

    def end(self) -> object:
        """Wait for the result of a command that `begin` sent, and return it. Raise the error if it failed."""
        result = self._pipe.recv()
        if isinstance(result, Exception):
            raise result
        return result

    def is_done(self) -> bool:
        """Return whether a result is available, so that `end` does not wait."""
        return self._pipe.poll()

    def ask(self, what: str, *args: object) -> object:
        """Send a command, and return its result."""
        self.begin(what, *args)
        return self.end()

    def stop(self) -> None:
        """Terminate the process, and wait until it has ended."""
        self._process.terminate()
        self._process.join(10)


def _serve(broker_id: int, port: int, zookeeper: str, pipe: Connection) -> None:
    stub = _Stub(broker_id, port, zookeeper)
    while True:
        what, args = pipe.recv()
        try:
            pipe.send(getattr(stub, what)(*args))
        except Exception as error:
            pipe.send(RuntimeError(f"stub {broker_id}: {what}: {error!r}"))


class _Stub:
    def __init__(self, broker_id: int, port: int, zookeeper: str) -> None:
        self._id = broker_id
        self._port = port
        self._arrivals: list[Arrival] = []
        self._listening: socket.socket | None = None
        self._connections: list[socket.socket] = []
        self._czxid = -1
        self._zk = KazooClient(zookeeper, timeout=SESSION_SECONDS)
        self._zk.start(SESSION_SECONDS)

    # ------------------------------------------------------------------------------------------------ commands

    def register(self) -> float:
        """Listen, register in ZooKeeper, and return the time when the registration began."""
        self._listening = socket.create_server(("127.0.0.1", self._port), backlog=16, reuse_port=False)
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()
        registration = {
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "endpoints": [f"PLAINTEXT://127.0.0.1:{self._port}"],
            "jmx_port": -1,
            "port": self._port,
            "host": "127.0.0.1",
            "version": 4,
            "timestamp": "0",
        }
        began = time.monotonic()
        _, stat = self._zk.create(
            f"/brokers/ids/{self._id}", json.dumps(registration).encode(), ephemeral=True, include_data=True
        )
        self._czxid = stat.czxid
        return began

    def vanish(self) -> float:
        """Close all connections, delete the registration in ZooKeeper, and return the time when the deletion began."""
        assert self._listening is not None
        for each in (self._listening, *self._connections):
            with contextlib.suppress(OSError):  # the peer may have closed the connection already
                each.shutdown(socket.SHUT_RDWR)  # without it, a thread that waits at the socket keeps it open
            each.close()
        self._connections.clear()
        began = time.monotonic()
        self._zk.delete(f"/brokers/ids/{self._id}")
        return began

    def forget(self) -> None:
        """Clear the recorded arrivals."""
        self._arrivals.clear()

    def arrivals(self) -> list[Arrival]:
        """Return the arrivals since `forget`, or since the start."""
        return list(self._arrivals)

    def session(self) -> int:
        """Return the id of the stub's ZooKeeper session."""
        return int(self._zk.client_id[0])

    def shut_down(self, host: str, port: int) -> tuple[float, float, int]:
        """Request a controlled shutdown from the controller at this address.

        Returns:
            The times of the request and of the response, and the number of partitions that the stub still leads.
        """
        with socket.create_connection((host, port), SESSION_SECONDS) as link:
            link.settimeout(300)
            began = time.monotonic()
            link.sendall(encode_request(ControlledShutdownRequest(3, self._id, self._czxid), 1, f"stub-{self._id}"))
            frame = _frame(link)
        assert frame is not None, "the controller hung up"
        _, response = decode_response(ControlledShutdownRequest, 3, frame)
        assert response.error_code == 0, f"controlled shutdown: error {response.error_code}"
        return began, time.monotonic(), len(response.remaining_partitions)

    # ------------------------------------------------------------------------------------------------ the controller

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        try:
            while (frame := _frame(connection)) is not None:
                self._answer(connection, frame, time.monotonic())
        except OSError:
            return

    def _answer(self, connection: socket.socket, frame: bytes, at: float) -> None:
        """Respond without errors, as a broker that succeeds for every partition, and record the arrival."""
        key, version, correlation_id, client = _HEAD.unpack_from(frame)
        shape = _SHAPES.get(key)
        if shape is None or shape.version != version:
            raise TypeError(f"a stub knows no request {key} of version {version}")
        head = correlation_id.to_bytes(4, "big") + _WELL  # no tags of the header, error code 0
        begin = _HEAD.size + max(client, 0) + 1
        _, epoch = _CONTROLLER.unpack_from(frame, begin)
        count, names, adding = _walk(frame, begin + _EPOCHS, shape)
        body = length(count, compact=True) + names if shape.named else b""
        connection.sendall(_SIZE.pack(len(head) + len(body) + 1) + head + body + b"\0")
        self._arrivals.append(Arrival(at, shape.kind, count, epoch))
        if adding:
            _, request = decode_request(frame)
            assert isinstance(request, LeaderAndIsrRequest)
            for state in request.partition_states:
                if state.leader == self._id and state.adding_replicas and not set(state.replicas) <= set(state.isr):
                    self._take_in(state)

    def _take_in(self, state: LeaderAndIsrPartitionState) -> None:
        """Expand the ISR to all replicas, as the leader of the partition."""
        topic, number = state.partition
        grown = {
            "controller_epoch": state.controller_epoch,
            "leader": self._id,
            "version": 1,
            "leader_epoch": state.leader_epoch,
            "isr": state.replicas,
        }
        path = f"/brokers/topics/{topic}/partitions/{number}/state"
        self._zk.set_async(path, json.dumps(grown).encode(), state.zk_version)


def _frame(connection: socket.socket) -> bytes | None:
    """Return the next frame; None if the peer has closed the connection."""
    head = _read(connection, _SIZE.size)
    return None if head is None else _read(connection, *_SIZE.unpack(head))


def _read(connection: socket.socket, size: int) -> bytes | None:
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _walk(frame: bytes, at: int, shape: _Shape) -> tuple[int, bytes, bool]:
    """Skip over a request's topics.

    Returns:
        The number of partitions, their bytes in the response, and whether one has adding replicas.
    """
    count, said, adding = 0, bytearray(), False
    topics, at = read_length(frame, at, compact=True)
    for _ in range(topics):
        begin = at
        size, at = read_length(frame, at, compact=True)
        at += size
        name = frame[begin:at]
        partitions, at = read_length(frame, at, compact=True)
        found = list(islice(shape.partition.finditer(frame, at), partitions))
        assert len(found) == partitions, f"a stub cannot read a {shape.kind} of {name!r}"
        count += partitions
        at = (found[-1].end() if found else at) + 1
        if shape.named:
            said += name + (_WELL + name).join([each[1] for each in found]) + _WELL
            adding = adding or not _NONE_ADDING.issuperset([each[2] for each in found])
    return count, bytes(said), adding
