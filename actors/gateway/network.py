"""The network gateway sends the requests of a node's actors to other nodes.

Rule 1: the gateway is outside the actor system. Actors send `Transmit` and `CloseConnection`, and the gateway injects
        the outcomes.
Rule 2: every Transmit is answered once, with `Received` or `TransmitFailed`, unless its channel is closed meanwhile.
Rule 3: a connection that failed in any way is closed. It never carries another request (controller.md 5).
Rule 4: the code that created the node may exclude hosts (`reachable`): no request is sent to them, and requests in
        flight fail at `sever`. This simulates a network partition.
Rule 5: the code that created the node may delay messages to or from a host: each message arrives when `passage`
        returns.
Rule 6: if the sender requests it, the gateway repeats idle polls: fetches that find no new data (`idle_polls`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any

from thespian.actors import ActorAddress

from actors.core.security.listener_security import UNPROTECTED, Security
from actors.core.security.sasl_exchange import AuthenticationFailed
from actors.gateway.idle_polls import poll_again
from actors.gateway.sliced_tasks import SlicedTaskQueue
from actors.runtime import LocalBase
from messages import network
from messages.apis.sasl_authenticate import SaslAuthenticateRequest
from messages.apis.sasl_handshake import SaslHandshakeRequest
from messages.ask import Answer, Ask
from messages.cluster import Endpoint
from messages.parts import Part
from messages.security import Secret
from messages.vocabulary import AnyMessage, Message
from messages.wire import WireError, chunks, decode_response, decoding_response, encode_request, encoding_request

_log = logging.getLogger("kafka_actors.network")

MAX_RESPONSE_BYTES = 100 * 1024 * 1024
TURN_SECONDS = 0.005
"""CPU seconds for requests and responses in a turn of the loop. Other nodes process earlier parts meanwhile."""
MOST_UNSENT = 4 << 20
"""Bytes from which on the rest of a request waits. The loop sends them meanwhile, so a request of 5 MB waits once."""
FIRST_OF_SASL = 2**31 - 8
"""The correlation ids from here on are those of the requests that authenticate a channel."""
REAUTHENTICATION = 0.9
"""Fraction of a session's lifetime after which a channel authenticates again."""
_SIZE = struct.Struct(">i")


@contextlib.asynccontextmanager
async def _within(seconds: float, what: str) -> AsyncIterator[None]:
    """Raise TimeoutError if the `async with` block takes longer than `seconds`; `what` describes the failure."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise TimeoutError(str(error) or f"{what} within {seconds:g} s") from None


class Channel:
    """A connection to another node, with its name, its endpoint and the request in flight."""

    def __init__(self, bench: SlicedTaskQueue, security: Security = UNPROTECTED) -> None:
        self._bench = bench
        self._security = security
        self._authenticate_at: float | None = None
        """The loop's time at which this node must authenticate again; None if the session does not end."""
        self.endpoint: Endpoint | None = None
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.exchange: asyncio.Task[None] | None = None
        self.parts: list[Part] = []
        """Parts that precede the next request."""
        self.interrupted = False
        """Whether repeated polls must end."""

    async def connect(self, endpoint: Endpoint) -> None:
        """Connect to `endpoint`, unless already connected to it. The caller closes the channel after a failure."""
        if self.writer is None or self.endpoint != endpoint:
            self.close()
            self.endpoint = endpoint
            tls: dict[str, Any] = {}
            if endpoint.security_protocol.endswith("SSL"):
                security = self._security.get(endpoint.listener)
                if security is None or security.tls is None:
                    raise ConnectionError(f"no TLS is configured for listener {endpoint.listener}")
                tls = {"ssl": security.tls.client, "server_hostname": endpoint.host}
            self.reader, self.writer = await asyncio.open_connection(endpoint.host, endpoint.port, **tls)
            self.writer.transport.set_write_buffer_limits(MOST_UNSENT)
            if endpoint.security_protocol.startswith("SASL"):
                await self._authenticate(endpoint.listener)

    async def _authenticate(self, listener: str) -> None:
        """Authenticate to the listener of another node. Raises ConnectionError."""
        security = self._security.get(listener)
        if security is None or security.client is None:
            raise ConnectionError(f"authentication failed: no credential is configured for listener {listener}")
        began, lifetime_ms = asyncio.get_running_loop().time(), 0
        messages = security.client.messages()
        try:
            token = await asyncio.to_thread(_advance, messages, None)
            await self._sasl(SaslHandshakeRequest(1, security.client.mechanism), 0)
            while token is not None:
                response = await self._sasl(SaslAuthenticateRequest(1, Secret(token)), 1)
                token, lifetime_ms = (
                    await asyncio.to_thread(_advance, messages, response.auth_bytes),
                    response.session_lifetime_ms,
                )
        except AuthenticationFailed as failure:
            raise ConnectionError(f"authentication failed: {failure}") from None
        self._authenticate_at = began + REAUTHENTICATION * lifetime_ms / 1000 if lifetime_ms else None

    async def _sasl(self, request: AnyMessage, number: int) -> AnyMessage:
        """Send a request of the authentication, and return its response. Raises AuthenticationFailed."""
        assert self.writer is not None
        self.writer.write(encode_request(request, FIRST_OF_SASL + number, ""))
        _, response = decode_response(type(request), request.version, await self._frame())
        if response.error_code:
            reason = getattr(response, "error_message", None) or f"error code {response.error_code}"
            raise AuthenticationFailed(reason)
        return response

    async def _frame(self) -> bytes:
        """Return the next frame."""
        assert self.reader is not None
        (size,) = _SIZE.unpack(await self.reader.readexactly(_SIZE.size))
        if not 0 <= size <= MAX_RESPONSE_BYTES:
            raise ConnectionError(f"the response has {size} bytes; the maximum is {MAX_RESPONSE_BYTES}")
        return await self.reader.readexactly(size)

    async def request(self, transmit: network.Transmit, parts: list[Part]) -> tuple[tuple[Part, ...], Message]:
        """Send a request on the open connection, and return the response with its parts.

        The caller closes the channel after a failure.
        """
        assert self.endpoint is not None
        assert self.writer is not None
        due = self._authenticate_at
        if due is not None and asyncio.get_running_loop().time() >= due:
            await self._authenticate(self.endpoint.listener)
        steps = encoding_request(transmit.request, transmit.correlation_id, transmit.client_id, parts)
        for chunk in chunks(await self._bench.result(steps)):
            self.writer.write(chunk)
            await self.writer.drain()
        frame = await self._frame()
        correlation_id, ahead, response = await self._bench.result(
            decoding_response(type(transmit.request), transmit.request.version, frame, terse=True)
        )
        if correlation_id != transmit.correlation_id:
            raise ConnectionError(
                f"the response has correlation id {correlation_id}, expected {transmit.correlation_id}"
            )
        return ahead, response

    def sever(self) -> None:
        """Abort the connection, so that the request in flight fails."""
        if self.writer is not None:
            self.writer.transport.abort()

    def close(self) -> None:
        """Close the connection. A later request opens a new one."""
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = self._authenticate_at = None


def _advance(messages: Generator[bytes, bytes, None], response: bytes | None) -> bytes | None:
    """Return the next message of the mechanism; None if there is none. A password is hashed here: use a thread."""
    try:
        return next(messages) if response is None else messages.send(response)
    except StopIteration:
        return None


def _everywhere(endpoint: Endpoint) -> bool:
    """Return True: all hosts are reachable."""
    return True


class NetworkGateway:
    """A node's outgoing connections, which actors refer to by name. The gateway runs on the node's asyncio loop."""

    def __init__(
        self,
        base: LocalBase,
        reachable: Callable[[Endpoint], bool] = _everywhere,
        passage: Callable[[Endpoint, bool], Awaitable[None]] | None = None,
        security: Security = UNPROTECTED,
    ) -> None:
        """Create the gateway without connections.

        Args:
            base: The actor system.
            reachable: Returns whether an endpoint can be reached.
            passage: `passage(endpoint, outgoing)` waits while messages to the endpoint (`outgoing` is true) or from
                the endpoint (false) are delayed. None: no message is delayed.
            security: How to connect to the listeners of other nodes.
        """
        self._base = base
        self._reachable = reachable
        self._passage = passage
        self._security = security
        self._channels: dict[str, Channel] = {}
        self._bench = SlicedTaskQueue(TURN_SECONDS)
        self.address: ActorAddress = base.external_endpoint("network", self.receive)

    def receive(self, message: Message, sender: ActorAddress) -> None:
        """Handle a message of an actor (on the loop's thread)."""
        match message:
            case Ask(id, network.Transmit() as transmit):
                self._begin(transmit, sender, lambda outcome: Answer(id, outcome))
            case network.Transmit():
                self._begin(message, sender, lambda outcome: outcome)
            case network.ChannelPart(channel, part):
                self._channel(channel).parts.append(part)
            case network.Interrupt(channel):
                self._channel(channel).interrupted = True
            case network.CloseConnection(channel):
                self._forget(channel)
            case _:
                _log.error(
                    "The network gateway ignores an unexpected %s message from actor %s", type(message).__name__, sender
                )

    def _channel(self, name: str) -> Channel:
        return self._channels.setdefault(name, Channel(self._bench, self._security))

    def _begin(self, transmit: network.Transmit, sender: ActorAddress, wrap: Callable[[Message], Message]) -> None:
        channel = self._channel(transmit.channel)
        parts, channel.parts = channel.parts, []
        channel.interrupted = False
        exchange = asyncio.get_running_loop().create_task(self._exchange(channel, transmit, parts, sender, wrap))
        channel.exchange = exchange

    async def _exchange(
        self,
        channel: Channel,
        transmit: network.Transmit,
        parts: list[Part],
        sender: ActorAddress,
        wrap: Callable[[Message], Message],
    ) -> None:
        outcome: Message
        try:
            if not self._reachable(transmit.endpoint):
                raise ConnectionError(f"{transmit.endpoint.host}:{transmit.endpoint.port} cannot be reached")
            async with _within(transmit.connect_timeout or transmit.timeout, "no connection"):
                await channel.connect(transmit.endpoint)
            while True:
                async with _within(transmit.timeout, "no answer"):
                    if self._passage is not None:
                        await self._passage(transmit.endpoint, True)
                    ahead, response = await channel.request(transmit, parts)
                    if self._passage is not None:
                        await self._passage(transmit.endpoint, False)
                following = None if channel.interrupted else poll_again(transmit, response)
                if following is None:
                    break
                transmit = following
            for part in ahead:
                self._base.inject(sender, network.ChannelPart(transmit.channel, part), self.address)
            outcome = network.Received(transmit.channel, transmit.correlation_id, response)
        except (OSError, EOFError, TimeoutError, WireError) as error:
            channel.close()
            reason = str(error) or type(error).__name__
            outcome = network.TransmitFailed(transmit.channel, transmit.correlation_id, reason)
        except BaseException:
            channel.close()
            raise
        self._base.inject(sender, wrap(outcome), self.address)

    def _forget(self, name: str) -> None:
        channel = self._channels.pop(name, None)
        if channel is not None:
            if channel.exchange is not None:
                channel.exchange.cancel()
            channel.close()

    def pause(self) -> None:
        """Pause the node: idle polls are not repeated. A request in flight may still be answered."""
        for channel in self._channels.values():
            channel.interrupted = True

    def sever(self) -> None:
        """Close the connections to unreachable hosts."""
        for channel in self._channels.values():
            if channel.endpoint is not None and not self._reachable(channel.endpoint):
                channel.sever()

    async def stop(self) -> None:
        """Close every connection. Requests in flight are not answered."""
        exchanges = [c.exchange for c in self._channels.values() if c.exchange is not None]
        for name in list(self._channels):
            self._forget(name)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*exchanges, return_exceptions=True)
