"""What every network between nodes must do: one test class, run on sockets and on the network in memory."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from thespian.actors import ActorAddress

from actors.gateway.listener import ListenerGateway
from actors.gateway.memory_network import MemoryNetwork
from actors.gateway.network import NetworkGateway
from actors.node.assembly import Listener, Network
from actors.runtime import LocalBase, RealClock, VirtualScheduler
from messages.cluster import Endpoint
from messages.conversation import Answer, Ask
from messages.network import (
    ClientRequest,
    ClientResponse,
    CloseClient,
    CloseConnection,
    Received,
    Transmit,
    TransmitFailed,
)
from messages.node import NodeSettings, ServeClients
from messages.requests import UpdateMetadataRequest, UpdateMetadataResponse
from tests.cluster.processes import free_ports

REQUEST = UpdateMetadataRequest(6, 1, 1, 1, (), ())
RESPONSE = UpdateMetadataResponse(0)


class World(abc.ABC):
    """A caller and a listener, each on its own base; what came of the calls, and the requests that arrived."""

    def __init__(self, bases: tuple[LocalBase, LocalBase], network: Network, listener: Listener, port: int) -> None:
        self.endpoint = Endpoint("PLAINTEXT", "127.0.0.1", port)
        self.caller, self.called = bases
        self.network, self.listener = network, listener
        self.outcomes: list[Any] = []
        self.requests: list[ClientRequest] = []
        self.stopped = False
        self.me = self.caller.outsider("me", lambda message, sender: self.outcomes.append(message))
        self.handler = self.called.outsider("handler", lambda message, sender: self.requests.append(message))

    @abc.abstractmethod
    def finish(self, coroutine: Any) -> None:
        """Run a coroutine to its end."""

    @abc.abstractmethod
    def until(self, good: Callable[[], object]) -> None:
        """Let things happen until `good()`."""

    @abc.abstractmethod
    def close(self) -> None:
        """Stop everything."""

    def stop_listener(self) -> None:
        """Stop it, once."""
        if not self.stopped:
            self.stopped = True
            self.finish(self.listener.stop())

    def barrier(self) -> None:
        """Everything before a whole round trip on a channel of its own has happened when that is over."""
        self.call(99, channel="barrier")
        arrived = self.request()
        self.answer(ClientResponse(arrived.connection, 99, RESPONSE))
        assert self.outcome() == Received("barrier", 99, RESPONSE), "the only outcome"

    def call(self, correlation_id: int = 1, timeout: float = 10.0, channel: str = "c") -> Transmit:
        """Send a request."""
        transmit = Transmit(channel, self.endpoint, correlation_id, "client", REQUEST, timeout)
        self.tell(self.caller, self.network.address, transmit, self.me)
        return transmit

    def tell(self, base: LocalBase, to: ActorAddress, message: Any, sender: ActorAddress) -> None:
        """Send mail as an actor would."""
        base.inject(to, message, sender)

    def serve(self) -> None:
        """Open the doors."""
        self.tell(self.called, self.listener.address, ServeClients(self.handler), self.handler)

    def answer(self, message: Any) -> None:
        """Answer as the handler."""
        self.tell(self.called, self.listener.address, message, self.handler)

    def outcome(self) -> Any:
        """The next outcome of a call."""
        self.until(lambda: self.outcomes)
        return self.outcomes.pop(0)

    def request(self) -> ClientRequest:
        """The next request that arrives."""
        self.until(lambda: self.requests)
        return self.requests.pop(0)


def settings(port: int) -> NodeSettings:
    where = (Endpoint("PLAINTEXT", "127.0.0.1", port),)
    return NodeSettings(0, where, where, (), "none")


class Sockets(World):
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        (port,) = free_ports(1)
        bases = LocalBase(clock=RealClock()), LocalBase(clock=RealClock())
        super().__init__(bases, NetworkGateway(bases[0]), ListenerGateway(bases[1], settings(port)), port)
        for base in bases:
            base.attach(self.loop)

    def finish(self, coroutine: Any) -> None:
        self.loop.run_until_complete(coroutine)

    def until(self, good: Callable[[], object]) -> None:
        async def wait() -> None:
            async with asyncio.timeout(20):
                while not good():
                    await asyncio.sleep(0.001)

        self.loop.run_until_complete(wait())

    def close(self) -> None:
        self.stop_listener()
        self.finish(self.network.stop())
        for base in (self.caller, self.called):
            base.detach()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()


class Memory(World):
    def __init__(self) -> None:
        self.time = VirtualScheduler()
        hub = MemoryNetwork(self.time)
        bases = LocalBase(clock=self.time.clock), LocalBase(clock=self.time.clock)
        super().__init__(bases, hub.network(bases[0]), hub.listener(bases[1], settings(9092)), 9092)
        for base in bases:
            self.time.add(base)

    def finish(self, coroutine: Any) -> None:
        self.time.finish(coroutine)

    def until(self, good: Callable[[], object]) -> None:
        self.time.run_until(good, 20)

    def close(self) -> None:
        self.stop_listener()
        self.finish(self.network.stop())


@pytest.fixture(params=[Sockets, Memory])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = request.param()
    yield made
    made.close()


@pytest.fixture
def open_world(world: World) -> World:
    """With the doors open."""
    world.finish(world.listener.bind())
    world.serve()
    return world


def test_a_request_is_answered(open_world: World) -> None:
    for number in (7, 8):
        open_world.call(number)
        arrived = open_world.request()
        assert (arrived.correlation_id, arrived.client_id, arrived.listener) == (number, "client", "PLAINTEXT")
        assert arrived.request == REQUEST
        open_world.answer(ClientResponse(arrived.connection, number, RESPONSE))
        assert open_world.outcome() == Received("c", number, RESPONSE)


def test_a_question_is_answered_with_an_answer(open_world: World) -> None:
    transmit = Transmit("c", open_world.endpoint, 3, "client", REQUEST, 10.0)
    open_world.tell(open_world.caller, open_world.network.address, Ask(5, transmit), open_world.me)
    arrived = open_world.request()
    open_world.answer(ClientResponse(arrived.connection, 3, RESPONSE))
    assert open_world.outcome() == Answer(5, Received("c", 3, RESPONSE))


def test_connections_wait_until_clients_are_served(world: World) -> None:
    world.finish(world.listener.bind())
    world.call()
    world.serve()
    assert world.request().correlation_id == 1


def test_nobody_there(world: World) -> None:
    world.call()
    assert isinstance(world.outcome(), TransmitFailed)


def test_a_refusal_is_a_failure(open_world: World) -> None:
    open_world.call()
    open_world.answer(CloseClient(open_world.request().connection, "no"))
    failed = open_world.outcome()
    assert (type(failed), failed.channel, failed.correlation_id) == (TransmitFailed, "c", 1)


def test_no_answer_in_time_is_a_failure_and_the_answer_is_nobodys(open_world: World) -> None:
    open_world.call(timeout=0.2)
    arrived = open_world.request()
    assert isinstance(open_world.outcome(), TransmitFailed)
    open_world.answer(ClientResponse(arrived.connection, 1, RESPONSE))
    open_world.barrier()


def test_a_listener_that_stops_fails_what_is_under_way(open_world: World) -> None:
    open_world.call()
    open_world.request()
    open_world.stop_listener()
    assert isinstance(open_world.outcome(), TransmitFailed)
    open_world.call(2)
    assert isinstance(open_world.outcome(), TransmitFailed)


def test_a_closed_connection_gets_no_answer(open_world: World) -> None:
    open_world.call()
    arrived = open_world.request()
    open_world.tell(open_world.caller, open_world.network.address, CloseConnection("c"), open_world.me)
    open_world.barrier()
    open_world.answer(ClientResponse(arrived.connection, 1, RESPONSE))
    open_world.barrier()
    open_world.call(2)
    arrived = open_world.request()
    open_world.answer(ClientResponse(arrived.connection, 2, RESPONSE))
    assert open_world.outcome() == Received("c", 2, RESPONSE)


def test_channels_do_not_wait_for_one_another(open_world: World) -> None:
    open_world.call(1, channel="one")
    first = open_world.request()
    open_world.call(2, channel="two")
    second = open_world.request()
    assert first.connection != second.connection
    for arrived in (second, first):
        open_world.answer(ClientResponse(arrived.connection, arrived.correlation_id, RESPONSE))
        assert open_world.outcome().correlation_id == arrived.correlation_id
