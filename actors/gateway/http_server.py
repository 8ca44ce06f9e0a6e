"""An HTTP server with a bounded number of threads, for /metrics and for the page of a cluster."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import socket
import threading
from socketserver import BaseRequestHandler, TCPServer, ThreadingMixIn
from typing import Any

_log = logging.getLogger("kafka_actors.http")

IDLE_SECONDS = 5.0
"""Default of the maximum number of seconds to wait for a client's next bytes."""


class HttpServer(ThreadingMixIn, TCPServer):
    """An HTTP server that serves a WSGI application until `stop`. Port 0 selects a free port.

    If `connections` are open, a new connection replaces the oldest one. The name is that of the server's thread.

    Raises:
        OSError: The port is in use.
    """

    allow_reuse_address = daemon_threads = True

    def __init__(
        self, host: str, port: int, app: Any, name: str, connections: int, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._app, self._idle_seconds = app, idle_seconds
        self._slots = threading.BoundedSemaphore(connections)
        self._open: dict[socket.socket, None] = {}
        self._gate = threading.Lock()
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), BaseRequestHandler)
        self.server_port = self.server_address[1]
        self.base_environ = {"SERVER_NAME": host, "SERVER_PORT": str(self.server_port), "SCRIPT_NAME": ""}
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

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection."""
        request.settimeout(self._idle_seconds)
        _handler()(request, client_address, self)

    def get_app(self) -> Any:
        """Return the application, for wsgiref."""
        return self._app

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that disconnects."""
        _log.debug("Failed to serve %s", client_address, exc_info=True)


@functools.cache
def _handler() -> Any:
    """Return the class that handles a connection. A node imports wsgiref at the first connection: it starts faster."""
    from wsgiref.simple_server import WSGIRequestHandler

    class Handler(WSGIRequestHandler):
        def get_stderr(self) -> Any:
            """Return where wsgiref writes the traceback of a client that disconnects or reads too slowly."""
            return io.StringIO()

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing, because requests come every few seconds."""

    return Handler


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
