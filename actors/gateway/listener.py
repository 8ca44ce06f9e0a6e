"""ListenerGateway: the sockets that clients, controllers and other brokers connect to.

Rule 1: it stands outside the actor system. A decoded request is injected as `ClientRequest`; the `ClientResponse` comes
        back as mail, and so does `ServeClients`, before which connections wait in the socket (broker.md 7.1).
Rule 2: of each connection one request is under way at a time, so answers keep the order of requests (broker.md 3.7).
Rule 3: what is no request closes its connection, with one line in the log that names peer, API and version; nobody else
        notices (broker.md 6.3).
Rule 4: memory is bounded: while a request waits for its turn, or a peer does not read its answers, nothing more is read
        of its socket.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import logging
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from thespian.actors import ActorAddress

from actors.gateway.workbench import Workbench
from actors.runtime import LocalBase
from messages.cluster import Endpoint
from messages.conversation import SLICE
from messages.network import ClientPart, ClientRequest, ClientResponse, CloseClient
from messages.node import NodeSettings, ServeClients
from messages.parts import MAX_ENTRIES, Part, cut, joined
from messages.vocabulary import Message
from messages.wire import FrameReader, RequestHeader, Steps, WireError, decoding_request, encoding_response

_log = logging.getLogger("kafka_actors.listener")

T = TypeVar("T")

BACKLOG = 128
READ_AHEAD = 64 * 1024
"""Bytes taken from a connection beyond the request that is under way."""


class ListenerGateway:
    """Incoming connections of a node, on all its listeners. Lives on the node's asyncio loop."""

    def __init__(self, base: LocalBase, settings: NodeSettings) -> None:
        self._base = base
        self._settings = settings
        self._sockets: list[tuple[Endpoint, socket.socket]] = []
        self._servers: list[asyncio.Server] = []
        self._connections: dict[int, Connection] = {}
        self._accepted = 0
        self.bench = Workbench()
        self._handler: ActorAddress | None = None
        self._opening: asyncio.Task[None] | None = None
        self.address: ActorAddress = base.outsider("listener", self.receive)

    @property
    def ports(self) -> dict[str, int]:
        """The bound port of each listener by name; what port 0 became."""
        return {endpoint.listener: bound.getsockname()[1] for endpoint, bound in self._sockets}

    async def bind(self) -> None:
        """Bind every listener and let connections queue up. OSError names listener, host and port."""
        try:
            for endpoint in self._settings.listeners:
                self._sockets.append((endpoint, _bound(endpoint)))
        except OSError:
            self._close_sockets()
            raise

    async def stop(self) -> None:
        """Close the listeners and every connection; requests under way get no answer."""
        if self._opening is not None:
            self._opening.cancel()
        for server in self._servers:
            server.close()
        self._close_sockets()
        for connection in list(self._connections.values()):
            connection.close()
        await asyncio.sleep(0)

    def _close_sockets(self) -> None:
        for _, bound in self._sockets:
            bound.close()

    # ------------------------------------------------------------------------------------------------ mail

    def receive(self, message: Message, sender: ActorAddress) -> None:
        """Take mail from an actor (on the loop's thread)."""
        match message:
            case ClientResponse(id):
                if id in self._connections:
                    self._connections[id].respond(message)
            case ClientPart(id, part):
                if id in self._connections:
                    self._connections[id].take(part)
            case CloseClient(id, reason):
                if id in self._connections:
                    self._connections[id].refuse(reason)
            case ServeClients(handler):
                self._handler = handler
                self._opening = asyncio.get_running_loop().create_task(self._serve())
            case _:
                _log.error("the listeners know no %s (from %s)", type(message).__name__, sender)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        for endpoint, bound in self._sockets:
            protocol = functools.partial(self._connection, endpoint.listener)
            self._servers.append(await loop.create_server(protocol, sock=bound))

    def _connection(self, listener: str) -> Connection:
        self._accepted += 1
        return Connection(self, self._accepted, listener, self._settings.socket_request_max_bytes)

    # ------------------------------------------------------------------------------------------------ connections

    def opened(self, connection: Connection) -> None:
        """A connection begins."""
        self._connections[connection.id] = connection

    def closed(self, connection: Connection) -> None:
        """A connection ended; answers that still come for it are dropped."""
        self._connections.pop(connection.id, None)

    def submit(self, request: ClientRequest | ClientPart) -> None:
        """Pass a request on to the actors, or a part that goes ahead of one."""
        if self._handler is not None:
            self._base.inject(self._handler, request, self.address)


class Connection(asyncio.Protocol):
    """One client's connection: frames in, one request at a time, responses out."""

    def __init__(self, gateway: ListenerGateway, id: int, listener: str, max_bytes: int) -> None:
        self.id = id
        self._gateway = gateway
        self._listener = listener
        self._reader = FrameReader(max_bytes)
        self._transport: asyncio.Transport
        self._peer = "?"
        self._busy = False
        """Whether a request is being read, waits for its answer, or its answer is being written."""
        self._under_way: RequestHeader | None = None
        """The header of the request that has no answer yet."""
        self._steps: Steps[Any] | None = None
        """What the workbench does for this connection."""
        self._parts: list[Part] = []
        """What went ahead of its answer."""
        self._ahead = 0
        self._reading = True
        self._draining = False

    # ------------------------------------------------------------------------------------------------ asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        host, port = (transport.get_extra_info("peername") or ("?", "?"))[:2]
        self._peer = f"{host}:{port}"
        self._gateway.opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone, whoever closed it."""
        if self._steps is not None:
            self._steps.close()
        self._gateway.closed(self)

    def data_received(self, data: bytes) -> None:
        """Bytes of the client."""
        self._ahead += len(data)
        self._go_on(self._reader.feed(data))

    def pause_writing(self) -> None:
        """The client does not read what we send: take no further request of it."""
        self._draining = True
        self._regulate()

    def resume_writing(self) -> None:
        """It reads again."""
        self._draining = False
        self._go_on(self._reader.feed(b""))

    # ------------------------------------------------------------------------------------------------ requests

    def _go_on(self, frames: Iterator[bytes]) -> None:
        """Begin the next request if none is under way."""
        if not self._busy and not self._draining and not self._transport.is_closing():
            try:
                frame = next(frames, None)
                if frame is not None:
                    self._ahead -= len(frame)
                    self._busy = True
                    self._work(decoding_request(frame), self._begin)
                else:
                    self._ahead = 0
            except WireError as error:
                self.refuse(str(error))
        self._regulate()

    def _work(self, steps: Steps[T], then: Callable[[T], None]) -> None:
        """Take the steps, and go on with their result; close where they fail."""

        def finished(result: T | WireError) -> None:
            if self._steps is steps:
                self._steps = None
            if isinstance(result, WireError):
                self.refuse(str(result))
            elif not self._transport.is_closing():
                then(result)

        self._steps = steps
        self._gateway.bench.begin(steps, finished)

    def _begin(self, read: tuple[RequestHeader, Message]) -> None:
        """Pass a request on that was read."""
        header, request = read
        self._under_way = header
        parts, request = cut(request)
        if len(parts) * SLICE >= MAX_ENTRIES:
            self.refuse(f"a {type(request).__name__} of more than {MAX_ENTRIES} entries")
            return
        for part in parts:
            self._gateway.submit(ClientPart(self.id, part))
        self._gateway.submit(ClientRequest(self.id, header.correlation_id, header.client_id, self._listener, request))

    def take(self, part: Part) -> None:
        """Keep a part of the answer to the request under way."""
        self._parts.append(part)

    def respond(self, response: ClientResponse) -> None:
        """Send the answer to the request under way, and go on with the next."""
        header = self._under_way
        parts, self._parts = self._parts, []
        if header is None or header.correlation_id != response.correlation_id or self._transport.is_closing():
            return
        self._under_way = None
        self._work(encoding_response(header, joined(parts, response.response)), self._answer)

    def _answer(self, frame: bytes) -> None:
        """Send an answer that was written, and go on with the next request."""
        self._transport.write(frame)
        self._busy = False
        self._go_on(self._reader.feed(b""))

    def refuse(self, reason: str) -> None:
        """Close, and say why."""
        if not self._transport.is_closing():
            _log.warning("closing the connection of %s on %s: %s", self._peer, self._listener, reason)
            self.close()

    def close(self) -> None:
        """Close after what was written."""
        self._transport.close()

    def _regulate(self) -> None:
        """Read the socket only while that is of use (rule 4)."""
        wanted = not self._draining and (not self._busy or self._ahead < READ_AHEAD)
        if wanted != self._reading and not self._transport.is_closing():
            self._reading = wanted
            (self._transport.resume_reading if wanted else self._transport.pause_reading)()


def _bound(endpoint: Endpoint) -> socket.socket:
    """A listening socket at the endpoint; all interfaces, by IPv6 and IPv4, where it names no host, as Java does."""
    place = f"listener {endpoint.listener}://{endpoint.host}:{endpoint.port}"
    everywhere = endpoint.host in ("", "::") and socket.has_dualstack_ipv6()
    try:
        if everywhere:
            family, address = socket.AF_INET6, ("::", endpoint.port)
        else:
            family, address = _resolved(endpoint)
        bound = socket.create_server(address, family=family, backlog=BACKLOG, dualstack_ipv6=everywhere)
    except socket.gaierror as error:
        raise OSError(error.errno, f"{place} cannot be bound: {error.strerror}") from error
    except OSError as error:
        busy = error.errno == errno.EADDRINUSE
        why = f"port {endpoint.port} is in use" if busy else os.strerror(error.errno or 0)
        raise OSError(error.errno, f"{place} cannot be bound: {why}") from error
    bound.setblocking(False)
    return bound


def _resolved(endpoint: Endpoint) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """The address family and address to bind; IPv4 where the host has both."""
    found = socket.getaddrinfo(endpoint.host or None, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return family, (str(address[0]), int(address[1]))
