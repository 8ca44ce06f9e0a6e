"""A TCP link that can be cut, healed, and made to swallow answers."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    """Forwards connections on a port of its own to `target` (a port of this machine)."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._links: list[tuple[socket.socket, socket.socket]] = []
        self._cut = False
        self._swallowing = False
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def hosts(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Break all links, and every new one at once, until `heal`."""
        with self._lock:
            self._cut = True
            self._swallowing = False
            links, self._links = self._links, []
        for pair in links:
            _close(*pair)

    def heal(self) -> None:
        """Let new links through."""
        with self._lock:
            self._cut = False

    def swallow_answers(self) -> None:
        """Pass on what clients say, but nothing that they are told, until the link is cut."""
        with self._lock:
            self._swallowing = True

    def close(self) -> None:
        """Stop for good."""
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
                    for source, sink, answers in ((client, server, False), (server, client, True)):
                        threading.Thread(target=self._pump, args=(source, sink, answers), daemon=True).start()
                    continue
            _close(client, server)

    def _pump(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not (answers and self._swallowing):
                    sink.sendall(data)
        _close(source, sink)


def _close(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
