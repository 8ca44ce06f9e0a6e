"""The web server of the page: its modules, JSON by routes, server-sent events, and actions.

Rule 1: the Host header must name an address, localhost, or the host on which the page is served. A foreign name that is
        resolved to this machine (DNS rebinding) is refused.
Rule 2: an action is a POST with the token of the page in the header X-Token. Only a page of this server can read it.
Rule 3: the browser may load nothing from elsewhere, and run no inline script or style (HEADERS).
"""

from __future__ import annotations

import ipaddress
import json
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from actors.gateway.http_server import HttpServer
from actors.node.free_ports import HOST
from actors.page.event_stream import EventStream
from messages.cluster import in_url
from messages.trace.errors import TraceError

CONNECTIONS = 64
IDLE_SECONDS = 60.0
"""How long a connection may be open without a request: a browser opens connections before it needs them."""
LONGEST_BODY = 1 << 16

Route = Callable[[Mapping[str, str]], Any]
"""Returns a value that JSON can contain for a query. Raises ValueError if the query is wrong."""

STATIC = Path(__file__).with_name("static")
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = (
    (
        "Content-Security-Policy",
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)

_log = logging.getLogger("kafka_actors.page")


class _BadRequest(Exception):
    """A request that is answered with an error status."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class PageServer:
    """Serves the page until `stop`.

    Args:
        about: What the page is about: `mode` is the module that it begins with, such as "live".
        routes: A function for each address of JSON, such as "/api/picture".
        events: The events at "/api/events"; None if there are none.
        actions: A function for each address that takes a POST, which gets the decoded body.
        host: The address to listen on.
        port: The port; 0 selects a free one.

    Raises:
        OSError: The port is in use.
    """

    def __init__(
        self,
        about: Mapping[str, Any],
        routes: Mapping[str, Route],
        events: EventStream | None = None,
        actions: Mapping[str, Callable[[Any], Any]] | None = None,
        host: str = HOST,
        port: int = 0,
    ) -> None:
        self.token = secrets.token_urlsafe(24)
        self._about = {**about, "token": self.token}
        self._routes = {"/api/about": lambda query: self._about, **routes}
        self._events = events
        self._actions = actions or {}
        self._host = host
        self._files = {f"/{file.name}": file for file in STATIC.iterdir() if file.suffix in TYPES}
        self._files["/"] = STATIC / "index.html"
        self._server = HttpServer(host, port, self._respond, "page", CONNECTIONS, IDLE_SECONDS)
        self.url = f"http://{in_url(host)}:{self._server.server_port}/"

    def stop(self) -> None:
        """Close the port and every connection."""
        self._server.stop()

    def _respond(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request (WSGI)."""
        status = HTTPStatus.OK
        try:
            kind, body = self._answer(environ)
        except _BadRequest as refused:
            status = refused.status
            kind, body = _json({"error": str(refused)})
        except (ValueError, LookupError, TraceError) as error:
            status = HTTPStatus.BAD_REQUEST
            kind, body = _json({"error": str(error)})
        except Exception as error:
            _log.exception("The page's request %s failed", environ["PATH_INFO"])
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            kind, body = _json({"error": f"{type(error).__name__}: {error}"})
        start_response(f"{status.value} {status.phrase}", [("Content-Type", kind), *HEADERS])
        return body

    def _answer(self, environ: dict[str, Any]) -> tuple[str, Iterable[bytes]]:
        if not self._is_ours(environ.get("HTTP_HOST", "")):
            raise _BadRequest(HTTPStatus.FORBIDDEN, "the Host header names another host")
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if method == "POST" and path in self._actions:
            return _json(self._actions[path](self._body(environ)))
        if method != "GET":
            raise _BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, f"{method} {path} is not served")
        if path == "/api/events" and self._events is not None:
            query = dict(parse_qsl(environ["QUERY_STRING"]))
            after = environ.get("HTTP_LAST_EVENT_ID") or query.get("after", "")
            return "text/event-stream", self._events.subscribe(after)
        if path in self._routes:
            return _json(self._routes[path](dict(parse_qsl(environ["QUERY_STRING"], keep_blank_values=True))))
        if path in self._files:
            file = self._files[path]
            return f"{TYPES[file.suffix]}; charset=utf-8", [file.read_bytes()]
        raise _BadRequest(HTTPStatus.NOT_FOUND, f"{path} does not exist")

    def _is_ours(self, host: str) -> bool:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return name in ("localhost", self._host)
        return True

    def _body(self, environ: dict[str, Any]) -> Any:
        if not secrets.compare_digest(environ.get("HTTP_X_TOKEN", "").encode(), self.token.encode()):
            raise _BadRequest(HTTPStatus.FORBIDDEN, "the header X-Token lacks the token of this page")
        length = int(environ.get("CONTENT_LENGTH") or 0)
        if length > LONGEST_BODY:
            raise _BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is longer than {LONGEST_BODY} bytes")
        return json.loads(environ["wsgi.input"].read(length))


def _json(value: object) -> tuple[str, list[bytes]]:
    return "application/json", [json.dumps(value, separators=(",", ":")).encode()]
