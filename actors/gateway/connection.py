"""One client's connection: frames in, one request at a time, answers out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from actors.gateway.limits import Allowance, MemoryPool, PeerLog
from actors.gateway.workbench import Workbench, letting_go
from messages.apis import API_BY_KEY, API_BY_REQUEST
from messages.errors import CLUSTER_AUTHORIZATION_FAILED
from messages.network import ClientPart, ClientRequest, ClientResponse
from messages.node import NodeSettings
from messages.parts import Part, joined
from messages.vocabulary import Message
from messages.wire import FrameReader, RequestHeader, Steps, WireError, decoding_request, encoding_response

T = TypeVar("T")

READ_AHEAD = 64 * 1024
"""Bytes taken from a connection beyond the request that is under way."""


class Gateway(Protocol):
    """What a connection knows of the listeners' gateway."""

    settings: NodeSettings
    bench: Workbench
    memory: MemoryPool
    log: PeerLog

    def opened(self, connection: Connection) -> None:
        """A connection begins."""

    def active(self, connection: Connection) -> None:
        """Something was said on it, by either side."""

    def closed(self, connection: Connection) -> None:
        """It ended."""

    def submit(self, request: ClientRequest | ClientPart) -> None:
        """Pass a request on to the actors, or a part that goes ahead of one."""


class Connection(asyncio.Protocol):
    """A connection; the rules are those of `listener` and `limits`."""

    def __init__(self, gateway: Gateway, id: int, listener: str, address: str) -> None:
        self.id = id
        self.listener = listener
        self.address = address
        self.active_at = 0.0
        """The loop's time when something was last said."""
        settings = gateway.settings
        names = {endpoint.listener for endpoint in settings.listeners}
        orders = (settings.inter_broker_listener_name, settings.control_plane_listener_name)
        self._trusted = len(names) == 1 or listener in orders
        """Whether controllers and brokers may come in here."""
        self._gateway = gateway
        self._reader = FrameReader(settings.socket_request_max_bytes)
        self._allowance = Allowance(settings.trace_client_bytes_per_second)
        self._transport: asyncio.Transport
        self._peer = self._host = "?"
        self._busy = False
        """Whether a request is being read, waits for its answer, or its answer is being written."""
        self._under_way: RequestHeader | None = None
        """The header of the request that has no answer yet."""
        self._steps: Steps[Any] | None = None
        """What the workbench does for this connection."""
        self._parts: list[Part] = []
        """What went ahead of the answer."""
        self._taken = 0
        """Bytes of the memory pool that are ours."""
        self._waits_for_memory = False
        self._throttle: asyncio.TimerHandle | None = None
        self._ahead = 0
        self._reading = True
        self._draining = False

    # ------------------------------------------------------------------------------------------------ asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        host, port = (transport.get_extra_info("peername") or ("?", "?"))[:2]
        self._peer, self._host = f"{host}:{port}", f"/{host}"
        self._gateway.opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone, whoever closed it."""
        if self._steps is not None:
            self._steps.close()
        if self._throttle is not None:
            self._throttle.cancel()
        self._gateway.closed(self)
        self._give_memory_back()

    def data_received(self, data: bytes) -> None:
        """Bytes of the client."""
        self._gateway.active(self)
        self._ahead += len(data)
        self._reader.feed(data)
        self._go_on()

    def pause_writing(self) -> None:
        """The client does not read what we send: take no further request of it."""
        self._draining = True
        self._regulate()

    def resume_writing(self) -> None:
        """It reads again."""
        self._draining = False
        self._go_on()

    # ------------------------------------------------------------------------------------------------ requests

    def _go_on(self) -> None:
        """Begin the next request if none is under way."""
        if not (self._busy or self._draining or self._throttled() or self._transport.is_closing()):
            try:
                frame = next(self._reader.feed(b""), None)
                if frame is None:
                    self._ahead = 0
                    self._receive_more()
                else:
                    self._ahead -= len(frame)
                    self._begin(frame)
            except WireError as error:
                self.refuse(str(error))
        self._regulate()

    def _receive_more(self) -> None:
        """The next request is not there whole: see whether it may go on (rules 3 and 4 of `limits`)."""
        begun = self._reader.begun()
        if begun is None or self._taken or self._waits_for_memory:
            return
        size, head = begun
        if len(head) >= 2 and not self._is_too_large(size, head):
            self._waits_for_memory = not self._gateway.memory.take(size, self._memory_is_there)
            self._taken = 0 if self._waits_for_memory else size

    def _memory_is_there(self) -> None:
        self._waits_for_memory = False
        self._go_on()

    def _give_memory_back(self) -> None:
        taken, self._taken = self._taken, 0
        self._gateway.memory.give_back(taken)

    def _is_too_large(self, size: int, head: bytes) -> bool:
        """Refuse a client's request of more bytes than may go to the record."""
        most = self._gateway.settings.trace_client_request_max_bytes
        if size <= most or self._is_exempt(int.from_bytes(head[:2], "big")):
            return False
        self.refuse(f"a request of {size} bytes, {most} are allowed (trace.client.request.max.bytes)")
        return True

    def _is_exempt(self, key: int) -> bool:
        """Whether a request may be of any size: it is the cluster's own, or of its records only headers are kept."""
        api = API_BY_KEY.get(key)
        return api is not None and (api.carries_records or (api.control and self._trusted))

    def _throttled(self) -> bool:
        """Whether the connection has used up its allowance; it goes on when that has grown."""
        if self._throttle is None:
            loop = asyncio.get_running_loop()
            delay = self._allowance.delay(loop.time())
            if delay:
                self._throttle = loop.call_later(delay, self._unthrottle)
        return self._throttle is not None

    def _unthrottle(self) -> None:
        self._throttle = None
        self._go_on()

    def _begin(self, frame: bytes) -> None:
        if self._is_too_large(len(frame), frame):
            return
        self._busy = True
        self._charge(len(frame), int.from_bytes(frame[:2], "big"))
        self._work(decoding_request(frame), self._submit)

    def _charge(self, size: int, key: int) -> None:
        if not self._is_exempt(key):
            self._allowance.use(size, asyncio.get_running_loop().time())

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

    def _submit(self, read: tuple[RequestHeader, tuple[Part, ...], Message]) -> None:
        """Pass a request on that was read."""
        self._give_memory_back()
        header, parts, request = self._under_way, _, _ = read
        if API_BY_REQUEST[type(request)].control and not self._trusted:
            self._gateway.log.warning(
                "%s on %s may not send a %s: refused", self._peer, self.listener, type(request).__name__
            )
            refusal = API_BY_REQUEST[type(request)].refusal(joined(parts, request), CLUSTER_AUTHORIZATION_FAILED)
            self.respond(ClientResponse(self.id, header.correlation_id, refusal))
            return
        for part in parts:
            self._gateway.submit(ClientPart(self.id, part))
        self._gateway.submit(
            ClientRequest(self.id, header.correlation_id, header.client_id, self.listener, request, self._host)
        )

    # ------------------------------------------------------------------------------------------------ answers

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
        if response.response is None:
            self._done()
            return

        def answer(frame: bytes) -> None:
            self._answer(header, frame)
            self._gateway.bench.begin(letting_go(parts), lambda _: None)

        self._work(encoding_response(header, response.response, parts), answer)

    def _answer(self, header: RequestHeader, frame: bytes) -> None:
        """Send an answer that was written, and go on with the next request."""
        self._gateway.active(self)
        self._charge(len(frame), header.api_key)
        self._transport.write(frame)
        self._done()

    def _done(self) -> None:
        self._busy = False
        self._go_on()

    def refuse(self, reason: str) -> None:
        """Close, and say why."""
        if not self._transport.is_closing():
            self._gateway.log.warning("closing the connection of %s on %s: %s", self._peer, self.listener, reason)
            self.close()

    def close(self) -> None:
        """Close after what was written."""
        self._transport.close()

    def abort(self) -> None:
        """Close at once: the peer has been silent too long to wait for it."""
        self._transport.abort()

    def _regulate(self) -> None:
        """Read the socket only while that is of use (rule 4 of `listener`)."""
        wanted = not (self._draining or self._waits_for_memory or self._throttle is not None)
        wanted = wanted and (not self._busy or self._ahead < READ_AHEAD)
        if wanted != self._reading and not self._transport.is_closing():
            self._reading = wanted
            (self._transport.resume_reading if wanted else self._transport.pause_reading)()
