"""An HTTP server with a bounded number of threads, for /metrics and for the page of a cluster."""

from __future__ import annotations

import contextlib
import io
import logging
import socket
import threading
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

_log = logging.getLogger("kafka_actors.http")

IDLE_SECONDS = 5.0
"""Default of the maximum number of seconds to wait for a client's next bytes."""


class HttpServer(ThreadingMixIn, WSGIServer):
    """An HTTP server that serves a WSGI application until `stop`. Port 0 selects a free port.

    If `connections` are open, a new connection replaces the oldest one. The name is that of the server's thread.

    Raises:
        OSError: The port is in use.
    """

    daemon_threads = True

    def __init__(
        self, host: str, port: int, app: Any, name: str, connections: int, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self.idle_seconds = idle_seconds
        self._slots = threading.BoundedSemaphore(connections)
        self._open: dict[socket.socket, None] = {}
        self._gate = threading.Lock()
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)
        self.set_app(app)
        self._thread = threading.Thread(target=self.serve_forever, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close the port and every connection."""
        self.shutdown()
        self.server_close()
        self._thread.join()
        with self._gate:
            for connection in self._open:
                _hang_up(connection)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for the connection. If the limit is reached, close the oldest connection first."""
        if not self._slots.acquire(blocking=False):
            with self._gate:
                oldest = next(iter(self._open), None)
            if oldest is not None:
                _hang_up(oldest)
            if not self._slots.acquire(timeout=1.0):
                self.shutdown_request(request)
                return
        with self._gate:
            self._open[request] = None
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve the connection on its thread, then release its slot."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._gate:
                self._open.pop(request, None)
            self._slots.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that disconnects."""
        _log.debug("Failed to serve %s", client_address, exc_info=True)


class _Handler(WSGIRequestHandler):
    """A handler of HTTP requests that does not log them."""

    server: HttpServer

    def setup(self) -> None:
        """Set the maximum number of seconds to wait for the client."""
        super().setup()
        self.connection.settimeout(self.server.idle_seconds)

    def get_stderr(self) -> Any:
        """Return where wsgiref writes the traceback of a client that disconnects or reads too slowly."""
        return io.StringIO()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing, because requests come every few seconds."""


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
