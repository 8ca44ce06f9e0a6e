"""A TCP proxy that can cut connections, and drop or alter responses."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator


class Proxy:
    """Forwards connections from its own port to the local port `target`."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._links: list[tuple[socket.socket, socket.socket]] = []
        self._cut = False
        self._swallowing = False
        self.mute = 0
        """Number of next connections that are accepted and then pass no data in either direction."""
        self.alter: Callable[[bytes], bytes] | None = None
        """Function that changes each response (a whole frame, with its length) on its way to the client."""
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def hosts(self) -> str:
        """Return the address to which clients connect."""
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Close all connections, and each new one at once, until `heal` is called."""
        with self._lock:
            self._cut = True
            self._swallowing = False
            links, self._links = self._links, []
        for pair in links:
            _close(*pair)

    def heal(self) -> None:
        """Accept new connections again."""
        with self._lock:
            self._cut = False

    def swallow_answers(self) -> None:
        """Forward requests but drop all responses, until the connections are cut."""
        with self._lock:
            self._swallowing = True

    def alter_next(self, change: Callable[[bytes], bytes], xids: Callable[[int], bool] = lambda xid: xid > 0) -> None:
        """Alter only the next response to a request, or the next frame whose xid `xids` accepts."""

        def alter(frame: bytes) -> bytes:
            if not xids(struct.unpack_from("!i", frame, 4)[0]):
                return frame
            self.alter = None
            return change(frame)

        self.alter = alter

    def close(self) -> None:
        """Close all connections and the listening socket."""
        self.cut()
        _close(self._door)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            with self._lock:
                if not self._cut:
                    self._links.append((client, server))
                    if self.mute:
                        self.mute -= 1
                        continue
                    for source, sink, answers in ((client, server, False), (server, client, True)):
                        threading.Thread(target=self._pump, args=(source, sink, answers), daemon=True).start()
                    continue
            _close(client, server)

    def _pump(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            for data in _frames(source) if answers else iter(lambda: source.recv(65536), b""):
                if not (answers and self._swallowing):
                    alter = self.alter if answers else None
                    sink.sendall(data if alter is None else alter(data))
        _close(source, sink)


def _frames(source: socket.socket) -> Iterator[bytes]:
    """Yield the received frames."""
    buffer = b""
    while data := source.recv(65536):
        buffer += data
        while len(buffer) >= 4 and len(buffer) >= (end := 4 + struct.unpack_from("!i", buffer)[0]):
            yield buffer[:end]
            buffer = buffer[end:]


def _close(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
