"""Idle fetch sessions, without sockets and actors; tests/node/test_network_contract.py tests them with both."""

from __future__ import annotations

from actors.gateway.idle_polls import SILENCE, TRUSTED, IdleFetchSessions
from actors.runtime import VirtualScheduler
from messages.apis.fetch import FetchRequest, FetchResponse
from messages.network import ClientRequest, ClientRequests, ClientResponse, WokenFetchSession
from messages.vocabulary import Message

SESSION, CONNECTION = 5, 3


def poll(epoch: int, wait_ms: int = 500, min_bytes: int = 1) -> ClientRequest:
    request = FetchRequest(11, 1, wait_ms, min_bytes, (), session_id=SESSION, session_epoch=epoch)
    return ClientRequest(CONNECTION, epoch, "reader", "PLAINTEXT", request)


def woken(epoch: int, used_at: float, *polls: ClientRequest) -> ClientRequests:
    return ClientRequests(polls, (WokenFetchSession(SESSION, epoch, used_at),))


class World:
    """A listener's idle fetch sessions in virtual time; one session is idle."""

    def __init__(self) -> None:
        self.time = VirtualScheduler()
        self.answers: list[ClientResponse] = []
        self.reported: list[Message] = []
        clock = self.time.clock
        self.polls = IdleFetchSessions(self.time.call_later, clock.now, self.answers.append, self.reported.append)
        self.polls.rest(ClientResponse(CONNECTION, 1, FetchResponse((), 0, SESSION), rest=2))


def test_a_poll_of_a_closed_connection_is_dropped() -> None:
    world = World()
    assert world.polls.hold_if_idle(poll(2))
    world.time.run(0.2)
    world.polls.gone(CONNECTION + 1)
    assert world.reported == []
    world.polls.gone(CONNECTION)
    assert world.reported == [woken(3, 0.0)], "its epoch has been used"
    world.time.run(60.0)
    assert world.answers == [] and len(world.reported) == 1


def test_a_poll_that_would_not_wait_is_answered_at_once() -> None:
    world = World()
    for epoch, request in ((2, poll(2, min_bytes=0)), (3, poll(3, wait_ms=0))):
        assert world.polls.hold_if_idle(request)
        world.time.run(0.0)
        assert world.answers.pop().correlation_id == epoch


def test_a_second_poll_of_an_idle_session_ends_the_idle_state() -> None:
    world = World()
    assert world.polls.hold_if_idle(poll(2))
    world.time.run(0.1)
    assert not world.polls.hold_if_idle(poll(3))
    assert world.reported == [woken(2, 0.0, poll(2, wait_ms=400))]


def test_a_poll_counts_for_others_until_an_event() -> None:
    world = World()
    ended: list[float] = []
    for epoch in range(2, 2 + TRUSTED):
        assert world.polls.hold_if_idle(poll(epoch))
        represents = world.polls.represent(SESSION, lambda: ended.append(world.time.clock.now()))
        assert represents == (epoch == 1 + TRUSTED), "what happens early may meet a poll on its way"
        if not represents:
            world.time.run(0.5)
    answers, now = len(world.answers), world.time.clock.now()
    world.time.run(100.2)
    assert len(world.answers) == answers and world.reported == [] and ended == []
    world.polls.wake((SESSION,))
    assert ended == [now + 100.2]
    last = woken(1 + TRUSTED, now + 100.0, poll(1 + TRUSTED, wait_ms=300))
    assert world.reported == [last], "its reader was there a moment ago"


def test_a_poll_that_stops_representing_others_ends_at_its_maximum_wait() -> None:
    world = World()
    for epoch in range(2, 2 + TRUSTED):
        world.time.run(0.5)
        assert world.polls.hold_if_idle(poll(epoch))
    assert world.polls.represent(SESSION, lambda: None)
    answers = len(world.answers)
    world.time.run(7.3)
    world.polls.stop_representing(SESSION)
    world.time.run(0.19)
    assert len(world.answers) == answers
    world.time.run(0.02)
    assert len(world.answers) == answers + 1, "as the poll that would have been made last"
    world.time.run(SILENCE)
    (reported,) = world.reported
    assert isinstance(reported, ClientRequests) and len(reported.woken) == 1 and not reported.requests


def test_sessions_that_are_woken_together_are_one_message() -> None:
    world = World()
    world.polls.rest(ClientResponse(CONNECTION + 1, 1, FetchResponse((), 0, SESSION + 1), rest=7))
    assert world.polls.hold_if_idle(poll(2))
    world.polls.wake((SESSION, SESSION + 1, SESSION + 2))
    other = WokenFetchSession(SESSION + 1, 7, 0.0)
    assert world.reported == [ClientRequests((poll(2),), (WokenFetchSession(SESSION, 2, 0.0), other))]
