"""The network gateway sends the requests of a node's actors to other nodes.

Rule 1: it stands outside the actor system. Actors send `Transmit` and `CloseConnection`; it injects what came of them.
Rule 2: every Transmit is answered once, `Received` or `TransmitFailed`, unless its channel is closed meanwhile.
Rule 3: a connection that failed in any way is closed; it never carries another request (controller.md 5).
Rule 4: the owner of the node may exclude hosts (`reachable`): nothing goes there, and what is under way
        breaks at `sever`. So a network between two nodes is parted that is none.
Rule 5: the owner may hold up messages to or from a host (`passage`): they arrive when it lets them.
Rule 6: idle polls are repeated here, where the caller wants that (`idle_polls`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

from thespian.actors import ActorAddress

from actors.gateway.idle_polls import poll_again
from actors.gateway.sliced_tasks import SlicedTaskQueue
from actors.runtime import LocalBase
from messages.cluster import Endpoint
from messages.conversation import Answer, Ask
from messages.network import ChannelPart, CloseConnection, Interrupt, Received, Transmit, TransmitFailed
from messages.parts import Part
from messages.vocabulary import Message
from messages.wire import WireError, decoding_response, encoding_request

_log = logging.getLogger("kafka_actors.network")

MAX_RESPONSE_BYTES = 100 * 1024 * 1024
TURN_SECONDS = 0.005
"""CPU in a turn of the loop for what is sent and what was answered: other nodes work on it while this one goes on."""
_SIZE = struct.Struct(">i")


@contextlib.asynccontextmanager
async def _within(seconds: float, what: str) -> AsyncIterator[None]:
    """Raises TimeoutError, with words, where it takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise TimeoutError(str(error) or f"{what} within {seconds:g} s") from None


class Channel:
    """A connection to another node, with its name, its endpoint and the request in flight."""

    def __init__(self, bench: SlicedTaskQueue) -> None:
        self._bench = bench
        self.endpoint: Endpoint | None = None
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.exchange: asyncio.Task[None] | None = None
        self.parts: list[Part] = []
        """What went ahead of the next request."""
        self.interrupted = False
        """Whether what is repeated is to end."""

    async def connect(self, endpoint: Endpoint) -> None:
        """Be connected to that endpoint. Any failure is the caller's to close on."""
        if self.writer is None or self.endpoint != endpoint:
            self.close()
            self.endpoint = endpoint
            self.reader, self.writer = await asyncio.open_connection(endpoint.host, endpoint.port)

    async def request(self, transmit: Transmit, parts: list[Part]) -> tuple[tuple[Part, ...], Message]:
        """Send on the open connection, and read the reply. Any failure is the caller's to close on."""
        assert self.reader is not None
        assert self.writer is not None
        steps = encoding_request(transmit.request, transmit.correlation_id, transmit.client_id, parts)
        self.writer.write(await self._bench.result(steps))
        await self.writer.drain()
        (size,) = _SIZE.unpack(await self.reader.readexactly(_SIZE.size))
        if not 0 <= size <= MAX_RESPONSE_BYTES:
            raise ConnectionError(f"the response has {size} bytes, more than a frame can have")
        frame = await self.reader.readexactly(size)
        correlation_id, ahead, response = await self._bench.result(
            decoding_response(type(transmit.request), transmit.request.version, frame, terse=True)
        )
        if correlation_id != transmit.correlation_id:
            raise ConnectionError(
                f"the response has correlation id {correlation_id}, expected {transmit.correlation_id}"
            )
        return ahead, response

    def sever(self) -> None:
        """Break the connection; the request under way fails."""
        if self.writer is not None:
            self.writer.transport.abort()

    def close(self) -> None:
        """Close the connection; a later request opens another."""
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


def _everywhere(endpoint: Endpoint) -> bool:
    """Nothing cannot be reached."""
    return True


class NetworkGateway:
    """The outgoing connections of a node; actors refer to each by a name. It runs on the node's asyncio loop."""

    def __init__(
        self,
        base: LocalBase,
        reachable: Callable[[Endpoint], bool] = _everywhere,
        passage: Callable[[Endpoint, bool], Awaitable[None]] | None = None,
    ) -> None:
        """Open no connection yet.

        `passage(endpoint, outgoing)` returns when a message to that endpoint, or one from it, may arrive.
        """
        self._base = base
        self._reachable = reachable
        self._passage = passage
        self._channels: dict[str, Channel] = {}
        self._bench = SlicedTaskQueue(TURN_SECONDS)
        self.address: ActorAddress = base.external_endpoint("network", self.receive)

    def receive(self, message: Message, sender: ActorAddress) -> None:
        """Take mail from an actor (on the loop's thread)."""
        match message:
            case Ask(id, Transmit() as transmit):
                self._begin(transmit, sender, lambda outcome: Answer(id, outcome))
            case Transmit():
                self._begin(message, sender, lambda outcome: outcome)
            case ChannelPart(channel, part):
                self._channel(channel).parts.append(part)
            case Interrupt(channel):
                self._channel(channel).interrupted = True
            case CloseConnection(channel):
                self._forget(channel)
            case _:
                _log.error("Network: ignoring unexpected message %s from %s", type(message).__name__, sender)

    def _channel(self, name: str) -> Channel:
        return self._channels.setdefault(name, Channel(self._bench))

    def _begin(self, transmit: Transmit, sender: ActorAddress, wrap: Callable[[Message], Message]) -> None:
        channel = self._channel(transmit.channel)
        parts, channel.parts = channel.parts, []
        channel.interrupted = False
        exchange = asyncio.get_running_loop().create_task(self._exchange(channel, transmit, parts, sender, wrap))
        channel.exchange = exchange

    async def _exchange(
        self,
        channel: Channel,
        transmit: Transmit,
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
                self._base.inject(sender, ChannelPart(transmit.channel, part), self.address)
            outcome = Received(transmit.channel, transmit.correlation_id, response)
        except (OSError, EOFError, TimeoutError, WireError) as error:
            channel.close()
            reason = str(error) or type(error).__name__
            outcome = TransmitFailed(transmit.channel, transmit.correlation_id, reason)
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
        """Suspend the node: idle polls are not repeated. A request that is in flight may still be answered."""
        for channel in self._channels.values():
            channel.interrupted = True

    def sever(self) -> None:
        """Close the connections to unreachable hosts."""
        for channel in self._channels.values():
            if channel.endpoint is not None and not self._reachable(channel.endpoint):
                channel.sever()

    async def stop(self) -> None:
        """Close every connection; what is in flight gets no answer."""
        exchanges = [c.exchange for c in self._channels.values() if c.exchange is not None]
        for name in list(self._channels):
            self._forget(name)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*exchanges, return_exceptions=True)
