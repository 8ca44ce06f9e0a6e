"""The listener itself answers repeated fetches without new data, so that they send no messages to the actors.

A reader that has all there is goes on asking: "is there anything?", and half a second later hears "no". No actor has
anything to decide about that. So who asks has the network ask again, and who is asked lets the listener say no.

Rule 1 (asking): a poll that says nothing, and brings nothing, is followed by the session's next, until an answer says
        something or the caller interrupts (`messages.network.Transmit`).
Rule 2 (being asked): a session is idle when its reader received an empty response, and nothing is left to send.
        Its idle polls, in the order of their epochs, are held for as long as they would wait and then answered: with
        nothing. Any other request of the session wakes it, and so does its handler.
Rule 3: an idle session expires SILENCE seconds after its last poll.
Rule 4: with a rest's end comes what was held back: the session's epoch, when the last poll came, and a poll that waits.
Rule 5: in a simulation, whose wires say when they change, a held poll may represent all that would follow (`stand`):
        it is held until something happens, and counts as if it had been made again each time that its wait was over.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from messages.data_requests import FetchRequest, FetchResponse, is_idle_poll, next_epoch
from messages.error_codes import NONE
from messages.network import ClientRequest, ClientResponse, FetchSessionWoken, Transmit
from messages.vocabulary import Message, changed

SILENCE = 10.0
"""Seconds after an answer in which a reader that is there polls again."""

TRUSTED = 4
"""Empty polls after which one may represent the rest: before that a poll may still be in flight."""


def poll_again(transmit: Transmit, response: Message) -> Transmit | None:
    """What is asked next of an idle session; None if the caller sends the answer (rule 1)."""
    request = transmit.request
    if not (transmit.again and isinstance(request, FetchRequest) and is_idle_poll(request)):
        return None
    if response != FetchResponse((), NONE, request.session_id):
        return None
    following = changed(request, session_epoch=next_epoch(request.session_epoch))
    return changed(transmit, request=following, correlation_id=transmit.correlation_id + 1)


class _IdleFetchSession:
    """A fetch session without new data, whose fetches the listener answers."""

    __slots__ = "epoch", "held", "polls", "stood", "timer", "used_at", "wait"

    def __init__(self, epoch: int, used_at: float) -> None:
        self.epoch = epoch
        """Of the poll that is held, or of the next."""
        self.used_at = used_at
        """When the last poll came."""
        self.held: ClientRequest | None = None
        self.wait = 0.0
        """For how many seconds it is held."""
        self.polls = 0
        """How many there were."""
        self.stood: Callable[[], None] | None = None
        """Called when the held poll stops representing others (rule 5)."""
        self.timer: Any = None


class IdleFetchSessions:
    """The fetch sessions without new data of a node; the listener answers their fetches.

    `call_later` calls after a number of seconds, unless its result is cancelled. `now` reads the node's clock.
    `answer` takes an answer to a client, `tell` what goes to the actor that serves fetches.
    """

    def __init__(
        self,
        call_later: Callable[[float, Callable[[], None]], Any],
        now: Callable[[], float],
        answer: Callable[[ClientResponse], None],
        tell: Callable[[Message], None],
    ) -> None:
        self._call_later = call_later
        self._now = now
        self._answer = answer
        self._tell = tell
        self._resting: dict[int, _IdleFetchSession] = {}

    def rest(self, answer: ClientResponse) -> None:
        """The session that this answers rests."""
        session_id: int = answer.response.session_id
        self._resting[session_id] = rest = _IdleFetchSession(answer.rest, self._now())
        self._await(session_id, rest)

    def takes(self, request: ClientRequest) -> bool:
        """Whether a request is a resting session's idle poll, and held here (rule 2)."""
        fetch = request.request
        rest = self._resting.get(fetch.session_id) if isinstance(fetch, FetchRequest) else None
        if rest is None:
            return False
        if rest.held is not None or fetch.session_epoch != rest.epoch or not is_idle_poll(fetch):
            self.wake(fetch.session_id)
            return False
        rest.timer.cancel()
        rest.polls += 1
        rest.used_at = self._now()
        rest.held, rest.wait = request, fetch.max_wait_ms / 1000 if fetch.min_bytes > 0 else 0.0
        rest.timer = self._call_later(rest.wait, partial(self._time_is_up, fetch.session_id, rest))
        return True

    def stand(self, session_id: int, stood: Callable[[], None]) -> bool:
        """Let the held poll represent all that would follow (rule 5); False if not allowed yet.

        `stood` is called when that is over: by `part`, or because the rest is.
        """
        rest = self._resting[session_id]
        if rest.polls < TRUSTED or not rest.wait:
            return False
        rest.timer.cancel()
        rest.stood = stood
        return True

    def part(self, session_id: int) -> None:
        """Hold the representing poll until its own timeout."""
        rest = self._resting[session_id]
        self._come_to_date(rest)
        left = rest.used_at + rest.wait - self._now()
        rest.timer = self._call_later(left, partial(self._time_is_up, session_id, rest))

    def wake(self, session_id: int) -> None:
        """End a session's rest, if it rests (rule 4)."""
        rest = self._resting.pop(session_id, None)
        if rest is None:
            return
        rest.timer.cancel()
        self._come_to_date(rest)
        self._tell(FetchSessionWoken(session_id, rest.epoch, rest.used_at))
        if rest.held is not None:
            left = round(1000 * max(rest.used_at + rest.wait - self._now(), 0.0))
            self._tell(changed(rest.held, request=changed(rest.held.request, max_wait_ms=left)))

    def wake_all(self) -> None:
        """End the rest of every session."""
        for session_id in list(self._resting):
            self.wake(session_id)

    def gone(self, connection: int) -> None:
        """That connection is closed."""
        for session_id, rest in list(self._resting.items()):
            if rest.held is not None and rest.held.connection == connection:
                rest.held, rest.epoch = None, next_epoch(rest.epoch)
                self.wake(session_id)

    def stop(self) -> None:
        """Stop answering."""
        for rest in self._resting.values():
            rest.timer.cancel()
            self._come_to_date(rest)
        self._resting.clear()

    def _come_to_date(self, rest: _IdleFetchSession) -> None:
        """The held poll is an ordinary poll again: as if it had been made when the last one would have been."""
        stood, rest.stood = rest.stood, None
        if stood is not None:
            rest.used_at += (self._now() - rest.used_at) // rest.wait * rest.wait
            stood()

    def _time_is_up(self, session_id: int, rest: _IdleFetchSession) -> None:
        held, rest.held = rest.held, None
        assert held is not None
        rest.epoch = next_epoch(rest.epoch)
        self._await(session_id, rest)
        self._answer(ClientResponse(held.connection, held.correlation_id, FetchResponse((), NONE, session_id)))

    def _await(self, session_id: int, rest: _IdleFetchSession) -> None:
        """Rule 3."""
        rest.timer = self._call_later(SILENCE, partial(self.wake, session_id))
