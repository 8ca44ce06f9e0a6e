"""Repeated fetches that find no new data: the listener answers them itself, so they cause no messages to actors.

A reader (a consumer or follower) that is up to date polls about twice a second, and the broker's listener answers these
polls. A follower's polls are repeated by its network gateway. The trace of an idle node grows by 0.2 to 0.3 MB an hour
instead of 10 MB.

Rule 1 (client side): if a poll changes nothing in the fetch session and its response is empty, the network gateway
        sends the session's next poll. This ends when a response has content, or when the sender interrupts the polls
        (`messages.network.Transmit`).
Rule 2 (broker side): a session is idle after its reader received an empty response and no data is left to send. Each
        idle poll that has the next epoch of the session is held for its maximum wait, and then answered with an empty
        response. Any other request of the session ends the idle state, and so does the actor that handles the session.
Rule 3: a session's idle state ends SILENCE seconds after its last poll.
Rule 4: at the end of the idle state, the actor that handles the session receives the session's epoch, the time of the
        last poll, and the held poll, in one message for all sessions that it wakes together.
Rule 5: in a simulation, a held poll may represent all polls that would follow it (`represent`). The poll is then held
        until the idle state ends, or until the simulated network reports a change between the two hosts. The poll
        counts as if it had been repeated at the end of each wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from actors.runtime import CallLater, ScheduledCall
from messages import errors
from messages.apis.fetch import FetchRequest, FetchResponse, is_idle_poll, next_epoch
from messages.network import ClientRequest, ClientRequests, ClientResponse, Transmit, WokenFetchSession
from messages.vocabulary import Message, evolve

SILENCE = 10.0
"""Seconds after a response within which an active reader polls again."""

TRUSTED = 4
"""Number of empty polls after which one may represent the following ones: an earlier poll may still be in flight."""


def poll_again(transmit: Transmit, response: Message) -> Transmit | None:
    """Return the next poll of an idle session; None if the response must be passed to the sender (rule 1)."""
    request = transmit.request
    if not (transmit.again and isinstance(request, FetchRequest) and is_idle_poll(request)):
        return None
    if response != FetchResponse((), errors.NONE, request.session_id):
        return None
    following = evolve(request, session_epoch=next_epoch(request.session_epoch))
    return evolve(transmit, request=following, correlation_id=transmit.correlation_id + 1)


class _IdleFetchSession:
    """A fetch session without new data, whose fetches the listener answers."""

    __slots__ = "epoch", "held", "polls", "ended", "timer", "used_at", "wait"

    def __init__(self, epoch: int, used_at: float) -> None:
        self.epoch = epoch
        """Epoch of the held poll, or of the next poll."""
        self.used_at = used_at
        """Time of the last poll."""
        self.held: ClientRequest | None = None
        self.wait = 0.0
        """Seconds for which the poll is held."""
        self.polls = 0
        """Number of polls."""
        self.ended: Callable[[], None] | None = None
        """Called when the held poll stops representing others (rule 5)."""
        self.timer: ScheduledCall


class IdleFetchSessions:
    """A node's fetch sessions without new data; the listener itself answers their fetches.

    Args:
        call_later: Calls a function after a number of seconds; its result can be cancelled.
        now: Returns the time of the node's clock in seconds.
        answer: Called with each response to a client.
        send: Called with each message to the actor that handles fetches.
    """

    def __init__(
        self,
        call_later: CallLater,
        now: Callable[[], float],
        answer: Callable[[ClientResponse], None],
        send: Callable[[Message], None],
    ) -> None:
        self._call_later = call_later
        self._now = now
        self._answer = answer
        self._send = send
        self._resting: dict[int, _IdleFetchSession] = {}

    def rest(self, answer: ClientResponse) -> None:
        """Make the session of this response idle."""
        session_id: int = answer.response.session_id
        self._resting[session_id] = rest = _IdleFetchSession(answer.rest, self._now())
        self._await(session_id, rest)

    def hold_if_idle(self, request: ClientRequest) -> bool:
        """Hold the request if it is an idle poll of an idle session (rule 2); return whether it is held.

        Any other request of an idle session ends the session's idle state.
        """
        fetch = request.request
        rest = self._resting.get(fetch.session_id) if isinstance(fetch, FetchRequest) else None
        if rest is None:
            return False
        if rest.held is not None or fetch.session_epoch != rest.epoch or not is_idle_poll(fetch):
            self.wake((fetch.session_id,))
            return False
        rest.timer.cancel()
        rest.polls += 1
        rest.used_at = self._now()
        rest.held, rest.wait = request, fetch.max_wait_ms / 1000 if min(fetch.min_bytes, fetch.max_bytes) > 0 else 0.0
        rest.timer = self._call_later(rest.wait, partial(self._time_is_up, fetch.session_id, rest))
        return True

    def represent(self, session_id: int, ended: Callable[[], None]) -> bool:
        """Let the held poll represent all polls that would follow (rule 5).

        Args:
            session_id: An idle session with a held poll.
            ended: Called when the poll no longer represents others: after `stop_representing`, or when the idle state
                ends.

        Returns:
            False if the poll cannot represent others yet.
        """
        rest = self._resting[session_id]
        if rest.polls < TRUSTED or not rest.wait:
            return False
        rest.timer.cancel()
        rest.ended = ended
        return True

    def stop_representing(self, session_id: int) -> None:
        """Let the held poll no longer represent later polls (rule 5); it is answered after its current wait."""
        rest = self._resting[session_id]
        self._end_representation(rest)
        left = rest.used_at + rest.wait - self._now()
        rest.timer = self._call_later(left, partial(self._time_is_up, session_id, rest))

    def wake(self, session_ids: Iterable[int]) -> None:
        """End the idle state of those of these sessions that are idle (rule 4)."""
        woken: list[WokenFetchSession] = []
        polls: list[ClientRequest] = []
        for session_id in session_ids:
            rest = self._resting.pop(session_id, None)
            if rest is None:
                continue
            rest.timer.cancel()
            self._end_representation(rest)
            woken.append(WokenFetchSession(session_id, rest.epoch, rest.used_at))
            if rest.held is not None:
                left = round(1000 * max(rest.used_at + rest.wait - self._now(), 0.0))
                polls.append(evolve(rest.held, request=evolve(rest.held.request, max_wait_ms=left)))
        if woken:
            self._send(ClientRequests(tuple(polls), tuple(woken)))

    def wake_all(self) -> None:
        """End the idle state of every session."""
        self.wake(list(self._resting))

    def gone(self, connection: int) -> None:
        """Drop the held poll of a closed connection, and end the idle state of the poll's session."""
        for session_id, rest in list(self._resting.items()):
            if rest.held is not None and rest.held.connection == connection:
                rest.held, rest.epoch = None, next_epoch(rest.epoch)
                self.wake((session_id,))

    def stop(self) -> None:
        """Stop answering polls."""
        for rest in self._resting.values():
            rest.timer.cancel()
            self._end_representation(rest)
        self._resting.clear()

    def _end_representation(self, rest: _IdleFetchSession) -> None:
        """If the held poll represents later polls (rule 5), store the time of the last one, and call `ended`."""
        ended, rest.ended = rest.ended, None
        if ended is not None:
            rest.used_at += (self._now() - rest.used_at) // rest.wait * rest.wait
            ended()

    def _time_is_up(self, session_id: int, rest: _IdleFetchSession) -> None:
        held, rest.held = rest.held, None
        assert held is not None
        rest.epoch = next_epoch(rest.epoch)
        self._await(session_id, rest)
        self._answer(ClientResponse(held.connection, held.correlation_id, FetchResponse((), errors.NONE, session_id)))

    def _await(self, session_id: int, rest: _IdleFetchSession) -> None:
        """Start the timer that ends the idle state if no further poll arrives (rule 3)."""
        rest.timer = self._call_later(SILENCE, partial(self.wake, (session_id,)))
