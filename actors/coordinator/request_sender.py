"""RequestSender is the base of actors that send a coordinator's requests to one broker, request by request.

Rule 1: one request is in flight. The next request contains the entries that were queued meanwhile.
Rule 2: a request without a response fails together with the queued entries. If the broker's endpoint has changed, the
        sender must exit. Then the entries in flight and in the queue fail too. Otherwise they would be lost with the
        actor.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import Generic, TypeVar

from thespian.actors import ActorAddress, ActorExitRequest

from actors.runtime import Dispatcher
from messages.network import CloseConnection, Received, Transmit, TransmitFailed
from messages.transactions import StartRequestSender
from messages.vocabulary import Message

_T = TypeVar("_T")


class RequestSender(Dispatcher, Generic[_T]):
    """The base class of actors that collect entries, such as markers, for one broker and send them in requests."""

    CLIENT: str
    """Suffix of the client id."""

    def __init__(self) -> None:
        super().__init__()
        self._start: StartRequestSender
        self._parent: ActorAddress
        self._queue: deque[_T] = deque()
        self._in_flight: list[_T] = []
        self._sent = False
        self._correlation_id = 0

    def receiveMsg_StartRequestSender(self, message: StartRequestSender, sender: ActorAddress) -> None:
        """Store the connection to the broker that receives the requests, and the parent actor."""
        self._start, self._parent = message, sender

    def receiveMsg_Received(self, message: Received, sender: ActorAddress) -> None:
        """Handle the broker's response."""
        if self._is_awaited(message.correlation_id):
            entries, self._in_flight, self._sent = self._in_flight, [], False
            self.handle_response(entries, message.response)
            self.send_next()

    def receiveMsg_TransmitFailed(self, message: TransmitFailed, sender: ActorAddress) -> None:
        """Fail the entries, because the request got no response (rule 2)."""
        if self._is_awaited(message.correlation_id):
            self._fail_all(message.reason)

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, sender: ActorAddress) -> None:
        """Fail the entries and exit, because the broker has another endpoint (rule 2)."""
        self.send(self._start.network, CloseConnection(self._start.channel))
        if self._in_flight or self._queue:
            self._fail_all("the broker has another endpoint")

    def _fail_all(self, reason: str) -> None:
        """Fail the entries in flight and in the queue (rule 2)."""
        sent = len(self._in_flight)
        entries, self._in_flight, self._sent = [*self._in_flight, *self._queue], [], False
        self._queue.clear()
        self.handle_failure(entries, sent, reason)

    def _is_awaited(self, correlation_id: int) -> bool:
        return self._sent and correlation_id == self._correlation_id

    def send_next(self) -> None:
        """Send the next request, if entries are queued and none is in flight (rule 1)."""
        if self._sent or not self._queue:
            return
        start = self._start
        request = self.next_request()
        self._sent = True
        self._correlation_id += 1
        client = f"broker-{start.node_id}-{self.CLIENT}"
        self.send(
            start.network,
            Transmit(start.channel, start.endpoint, self._correlation_id, client, request, start.timeout),
        )

    @abstractmethod
    def next_request(self) -> Message:
        """Remove the entries of the next request from the queue, and return the request."""

    @abstractmethod
    def handle_response(self, entries: list[_T], response: Message) -> None:
        """Evaluate the response to these entries."""

    @abstractmethod
    def handle_failure(self, entries: list[_T], sent: int, reason: str) -> None:
        """Fail these entries: the first `sent` of them were in flight, the others were queued (rule 2)."""
