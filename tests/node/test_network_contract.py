"""The contract of all networks between nodes. The tests run on sockets and on the in-memory network."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from thespian.actors import ActorAddress

from actors.gateway import idle_polls
from actors.gateway.listener import ListenerGateway
from actors.gateway.memory_network import MemoryNetwork
from actors.gateway.network import NetworkGateway
from actors.node.assembly import Listener, Network
from actors.runtime import LocalBase, RealClock, VirtualScheduler
from messages.apis.declaration import PartitionError
from messages.apis.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchResponse
from messages.apis.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from messages.apis.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from messages.ask import Answer, Ask
from messages.cluster import Endpoint, TopicPartition
from messages.errors import KAFKA_STORAGE_ERROR, NONE
from messages.flow.conversation import SLICE
from messages.network import (
    ChannelPart,
    ClientPart,
    ClientRequest,
    ClientRequests,
    ClientResponse,
    CloseClient,
    CloseConnection,
    Interrupt,
    Received,
    Transmit,
    TransmitFailed,
    WakeFetchSessions,
)
from messages.node import NodeSettings, ServeClients
from messages.parts import NoErrorsPart, cut
from messages.vocabulary import Message
from tests.cluster.processes import free_ports

REQUEST = UpdateMetadataRequest(6, 1, 1, 1, (), ())
RESPONSE = UpdateMetadataResponse(0)


class World(abc.ABC):
    """A caller and a listener, each on its own base, with the outcomes of calls and the requests that arrived."""

    def __init__(self, bases: tuple[LocalBase, LocalBase], network: Network, listener: Listener, port: int) -> None:
        self.endpoint = Endpoint("PLAINTEXT", "127.0.0.1", port)
        self.caller, self.called = bases
        self.network, self.listener = network, listener
        self.outcomes: list[Any] = []
        self.requests: list[ClientRequest] = []
        self.stopped = False
        self.me = self.caller.external_endpoint("me", lambda message, sender: self.outcomes.append(message))
        self.handler = self.called.external_endpoint("handler", lambda message, sender: self.requests.append(message))

    @abc.abstractmethod
    def finish(self, coroutine: Any) -> None:
        """Run a coroutine until it has ended."""

    @abc.abstractmethod
    def until(self, good: Callable[[], object]) -> None:
        """Run both bases until `good()` is true."""

    @abc.abstractmethod
    def close(self) -> None:
        """Stop the listener and the network, and release their resources."""

    def stop_listener(self) -> None:
        """Stop the listener, unless it has stopped."""
        if not self.stopped:
            self.stopped = True
            self.finish(self.listener.stop())

    def barrier(self) -> None:
        """Wait until all earlier messages are handled: make a round trip on a separate channel.

        Its outcome must be the only one.
        """
        self.call(99, channel="barrier")
        arrived = self.request()
        self.answer(ClientResponse(arrived.connection, 99, RESPONSE))
        assert self.outcome() == Received("barrier", 99, RESPONSE), "the only outcome"

    def call(self, correlation_id: int = 1, timeout: float = 10.0, channel: str = "c") -> Transmit:
        """Send a request, and return its Transmit."""
        transmit = Transmit(channel, self.endpoint, correlation_id, "client", REQUEST, timeout)
        self.tell(self.caller, self.network.address, transmit, self.me)
        return transmit

    def tell(self, base: LocalBase, to: ActorAddress, message: Any, sender: ActorAddress) -> None:
        """Inject a message, as an actor would send it."""
        base.inject(to, message, sender)

    def serve(self) -> None:
        """Let the listener serve clients."""
        self.tell(self.called, self.listener.address, ServeClients(self.handler), self.handler)

    def answer(self, message: Any) -> None:
        """Send a message to the listener as the request handler."""
        self.tell(self.called, self.listener.address, message, self.handler)

    def outcome(self) -> Any:
        """Wait for the next outcome of a call, and return it."""
        self.until(lambda: self.outcomes)
        return self.outcomes.pop(0)

    def request(self) -> ClientRequest:
        """Wait for the next request, and return it."""
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
    """Return a world whose listener serves clients."""
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


@pytest.mark.parametrize("code", [NONE, KAFKA_STORAGE_ERROR])
def test_a_large_response_without_errors_is_one_part(open_world: World, code: int) -> None:
    errors = tuple(PartitionError(TopicPartition("t", n), code if n == SLICE else NONE) for n in range(2 * SLICE))
    parts, last = cut(LeaderAndIsrResponse(0, errors))
    ask(open_world, LeaderAndIsrRequest(4, 1, 1, 1, (), ()), 7)
    arrived = open_world.request()
    for part in parts:
        open_world.answer(ClientPart(arrived.connection, part))
    open_world.answer(ClientResponse(arrived.connection, 7, last))
    reported = [open_world.outcome() for _ in range(2)]
    if code == NONE:
        assert reported == [ChannelPart("c", NoErrorsPart(2 * SLICE)), Received("c", 7, LeaderAndIsrResponse(0))]
    else:
        assert reported == [ChannelPart("c", parts[0]), Received("c", 7, last)]


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


def test_a_request_to_a_closed_port_fails(world: World) -> None:
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


# ------------------------------------------------------------------------------------------------ idle polls

SESSION, TP = 5, TopicPartition("t", 0)
NOTHING = FetchResponse((), 0, SESSION)
SOMETHING = FetchResponse((FetchedPartition(TP, 0, 7, 7, 0),), 0, SESSION)


def poll(epoch: int, *parts: FetchPartition, wait_ms: int = 20) -> FetchRequest:
    """Return a fetch request of the session. It is an idle poll unless it names partitions."""
    return FetchRequest(11, 1, wait_ms, 1, parts, session_id=SESSION, session_epoch=epoch)


def ask(world: World, request: Message, id: int, again: bool = False) -> None:
    transmit = Transmit("c", world.endpoint, id, "client", request, 10.0, again=again)
    world.tell(world.caller, world.network.address, transmit, world.me)


def answer(world: World, arrived: ClientRequest, response: FetchResponse, rest: int = 0) -> None:
    world.answer(ClientResponse(arrived.connection, arrived.correlation_id, response, rest))


def test_an_idle_poll_is_repeated_until_there_is_something(open_world: World) -> None:
    ask(open_world, poll(2**31 - 2), 4, again=True)
    for id, epoch, response in ((4, 2**31 - 2, NOTHING), (5, 2**31 - 1, NOTHING), (6, 1, SOMETHING)):
        arrived = open_world.request()
        assert (arrived.correlation_id, arrived.request) == (id, poll(epoch))
        answer(open_world, arrived, response)
    assert open_world.outcome() == Received("c", 6, SOMETHING)
    assert not open_world.outcomes and not open_world.requests


@pytest.mark.parametrize("what", ["it names a partition", "not wanted", "another session", "an error"])
def test_nothing_else_is_repeated(open_world: World, what: str) -> None:
    parts = (FetchPartition(TP, 0, 1),) if what == "it names a partition" else ()
    ask(open_world, poll(3, *parts), 1, again=what != "not wanted")
    response = {"another session": FetchResponse((), 0, 6), "an error": FetchResponse((), 70, SESSION)}
    answer(open_world, open_world.request(), response.get(what, NOTHING))
    assert open_world.outcome() == Received("c", 1, response.get(what, NOTHING))


def test_what_is_repeated_ends_when_it_is_interrupted(open_world: World) -> None:
    ask(open_world, poll(1), 1, again=True)
    answer(open_world, open_world.request(), NOTHING)
    arrived = open_world.request()
    open_world.tell(open_world.caller, open_world.network.address, Interrupt("c"), open_world.me)
    answer(open_world, arrived, NOTHING)
    assert open_world.outcome() == Received("c", 2, NOTHING)
    ask(open_world, poll(3), 3, again=True)
    for id in (3, 4):
        arrived = open_world.request()
        assert arrived.correlation_id == id, "an interrupt is for what was under way"
        answer(open_world, arrived, NOTHING)


def test_the_idle_polls_of_a_session_that_rests_are_answered_without_its_actor(open_world: World) -> None:
    ask(open_world, poll(1), 1)
    answer(open_world, open_world.request(), NOTHING, rest=2)
    assert open_world.outcome() == Received("c", 1, NOTHING)
    for epoch in range(2, 7):
        began = open_world.called.clock.now()
        ask(open_world, poll(epoch), epoch)
        assert open_world.outcome() == Received("c", epoch, NOTHING)
        assert open_world.called.clock.now() - began > 0.019, "no sooner than it would have been"
    assert not open_world.requests


def test_a_woken_session_returns_the_waiting_poll(open_world: World) -> None:
    ask(open_world, poll(1), 1)
    answer(open_world, open_world.request(), NOTHING, rest=2)
    open_world.outcome()
    ask(open_world, poll(2), 2)
    open_world.outcome()
    before = open_world.called.clock.now()
    ask(open_world, poll(3, wait_ms=20_000), 3)
    open_world.barrier()
    open_world.answer(WakeFetchSessions((SESSION,)))
    together: Any = open_world.request()
    (woken,), (arrived,) = together.woken, together.requests
    assert (woken.session_id, woken.epoch) == (SESSION, 3) and woken.used_at >= before
    assert arrived.request.session_epoch == 3 and 0 < arrived.request.max_wait_ms <= 20_000
    answer(open_world, arrived, SOMETHING)
    assert open_world.outcome() == Received("c", 3, SOMETHING)
    open_world.answer(WakeFetchSessions((SESSION,)))
    open_world.barrier()


@pytest.mark.parametrize("request_", [poll(3), poll(2, FetchPartition(TP, 0, 1)), poll(0), poll(-1)])
def test_what_is_no_idle_poll_of_a_session_ends_its_rest(open_world: World, request_: FetchRequest) -> None:
    ask(open_world, poll(1), 1)
    answer(open_world, open_world.request(), NOTHING, rest=2)
    open_world.outcome()
    ask(open_world, request_, 2)
    together: Any = open_world.request()
    assert [woken[:2] for woken in together.woken] == [(SESSION, 2)] and not together.requests
    assert open_world.request().request == request_


def test_a_reader_that_polls_no_more_does_not_rest(open_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_polls, "SILENCE", 0.05)
    ask(open_world, poll(1), 1)
    answer(open_world, open_world.request(), NOTHING, rest=2)
    open_world.outcome()
    answered = open_world.called.clock.now()
    together: Any = open_world.request()
    assert isinstance(together, ClientRequests) and not together.requests
    (woken,) = together.woken
    assert woken[:2] == (SESSION, 2) and woken.used_at <= answered
