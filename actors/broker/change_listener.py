"""ChangeListener: an actor that keeps the listener current about objects in ZooKeeper whose changes are notified.

Rule 1: each change creates a notification, which names an object. Notifications are read once, in order; the listener
        receives the object as it is at the time of reading. In a new session all objects are read.
Rule 2: a read also deletes the notifications that were first seen more than 15 minutes ago.

Kafka: `ZkNodeChangeNotificationListener`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar, Generic, TypeVar

from thespian.actors import ActorAddress, WakeupMessage

from actors.runtime import FlowActor
from messages.ask import Done, Question
from messages.events import SessionExpired
from messages.flow.conversation import Flow, ask
from messages.network import CloseClient, Forwarded
from messages.vocabulary import Message

T = TypeVar("T")
N = TypeVar("N")

KEPT_SECONDS = 15 * 60.0
AGAIN_SECONDS = 1.0


class ChangeListener(FlowActor, Generic[T, N]):
    """The base class of these actors, which handle the requests of clients about the objects as well.

    T is what notifications name, and N the number of the newest notification, one for each path of notifications.
    """

    answer_deadline: ClassVar[float] = 3600.0
    """Seconds. The bridge keeps questions while ZooKeeper is unavailable, and waiting for it loses nothing."""

    notifications: ClassVar[tuple[type[Message], ...]]
    """The messages that say that there are new notifications."""
    none_heard: ClassVar[Any] = -1
    """The number of the newest notification before any was read."""

    def __init__(self) -> None:
        super().__init__()
        self._listener: ActorAddress
        self._heard: N = self.none_heard
        """The number of the newest notification that was read."""
        self._seen: list[tuple[float, N]] = []
        """When notifications were first seen, and the newest of them (rule 2)."""
        self._is_new_session = False

    def start(self, bridge: ActorAddress, listener: ActorAddress) -> Flow[None]:
        """Begin to listen."""
        self._listener, self.peers = listener, {"bridge": bridge}
        return self._listen()

    def flow(self, message: Message) -> Flow[None] | None:
        """Read changes in a new session, and on each notification of the watch; handle requests."""
        match message:
            case SessionExpired():
                self._is_new_session = True
                return self._listen()
            case WakeupMessage():
                return self._listen()
            case Forwarded(_, request):
                return self.handle(message, request.request)
        return self._listen() if isinstance(message, self.notifications) else super().flow(message)

    def handle(self, forwarded: Forwarded, request: Message) -> Flow[None]:
        """Handle a client's request."""
        raise NotImplementedError

    def changes_after(self, heard: N) -> Flow[tuple[tuple[T, ...], N]]:
        """Return the changed objects, and the number of the newest notification."""
        raise NotImplementedError

    def publish(self, changed: tuple[T, ...] | None) -> Flow[None]:
        """Read these objects, or all if None, and send them to the listener."""
        raise NotImplementedError

    def deletion_of_notifications(self, until: N) -> Question[Done]:
        """Return the request that deletes notifications."""
        raise NotImplementedError

    def event_failed(self, event: Message, error: Exception) -> None:
        """Retry a failed read after a short delay; refuse a request that failed."""
        if isinstance(event, Forwarded):
            self.send(event.client, CloseClient(event.request.connection, f"ZooKeeper cannot be read: {error}"))
        else:
            self.wakeupAfter(timedelta(seconds=AGAIN_SECONDS))

    def preempts(self, message: Message) -> bool:
        """Return whether the message ends the current read; only a lost session does."""
        return isinstance(message, SessionExpired)

    def handle_dropped(self, dropped: list[tuple[Message, ActorAddress]]) -> None:
        """Refuse the requests that were dropped: their clients try again."""
        for message, _ in dropped:
            if isinstance(message, Forwarded):
                self.send(message.client, CloseClient(message.request.connection, "the ZooKeeper session is lost"))

    def _listen(self) -> Flow[None]:
        """Read the changed objects, and send them to the listener (rule 1)."""
        changed, newest = yield from self.changes_after(self._heard)
        if self._is_new_session or changed:
            yield from self.publish(None if self._is_new_session else changed)
        self._is_new_session = False
        if newest != self._heard:
            self._heard = newest
            self._seen.append((self.now, newest))
        if self._seen and self.now - self._seen[0][0] > KEPT_SECONDS:
            yield from ask(self.deletion_of_notifications(self._seen.pop(0)[1]))
