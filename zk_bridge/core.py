"""The ZooKeeper bridge, as logic and as an actor: handle requests, ZooKeeper's replies and session states.

Rule 1: several requests are in progress at once, each with at most one store request in flight.
Rule 2: nothing is sent to the store while it is disconnected. Requests that had no answer when the connection was lost
        are kept, in order. After the reconnect every watch is set again first. Then the kept requests continue: a lost
        Read or Arm is sent again, and a lost Write gets code CONNECTION_LOSS (`conversations`, rule 2). Watches are set
        again with the zxid of the newest transaction whose changes have all been reported. This zxid is taken from
        replies, but not from replies that arrive before all watches are set again.
Rule 3: an expired session ends all its requests. SessionExpired is sent to the subscriber and to every watcher. Then
        each request is answered with Failure("SessionLost"), and all watches are dropped. Later requests wait for the
        new session, which has the next generation number and is announced by SessionEstablished.
Rule 4: each request is answered exactly once.
Rule 5: a long request pauses. It resumes when the bridge receives its own Continue, which is queued behind other
        messages.

ZkBridgeActor and the blocking client of the command-line tools (`client`) both use BridgeCore. The addresses of
requesters, store and subscriber are opaque: they are only compared and passed to `send`.

Kafka: `ZooKeeperClient`, `KafkaZkClient`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from thespian.actors import ActorAddress

from actors.runtime import Dispatcher
from actors.runtime.flow.flow import WAITING, Raised, Returned, advance
from messages.ask import Answer, Ask, AskFailed, Continue, Failure, SessionLost
from messages.events import SessionEstablished, SessionExpired
from messages.flow.conversation import Pause
from messages.node import StartBridge
from messages.probes import probe
from messages.store import (
    CONNECTED,
    CONNECTION_LOSS,
    EXPIRED,
    OK,
    SESSION_EXPIRED,
    SessionState,
    StoreRead,
    StoreReply,
    StoreWrite,
    Watches,
    WatchEvent,
)
from messages.vocabulary import Message
from zk_bridge import (
    acls,
    brokers,
    cluster,
    configs,
    controller,
    conversations,
    delegation_tokens,
    leader_elections,
    notifications,
    partition_states,
    reassignments,
    topic_deletion,
    topics,
    watches,
)
from zk_bridge.conversations import Starter
from zk_bridge.watches import Notification, WatchTable

CONVERSATIONS: dict[type, Starter] = {
    **cluster.ANSWERS,
    **controller.ANSWERS,
    **watches.ANSWERS,
    **brokers.ANSWERS,
    **topics.ANSWERS,
    **configs.ANSWERS,
    **partition_states.ANSWERS,
    **topic_deletion.ANSWERS,
    **leader_elections.ANSWERS,
    **reassignments.ANSWERS,
    **notifications.ANSWERS,
    **delegation_tokens.ANSWERS,
    **acls.ANSWERS,
}
"""Class of a request -> the generator function that handles it."""


logger = logging.getLogger(__name__)

ARMS_PER_REQUEST = 10_000
"""Maximum number of watches in a request that sets them again. The store divides it further by size."""


class _RequestInProgress:
    """A request that the bridge is handling: its generator, its sender, and the ZooKeeper request that it waits for."""

    __slots__ = ("ask_id", "asker", "conversation", "event_id", "lost", "request", "requests")

    def __init__(
        self, asker: ActorAddress, ask_id: int, event_id: int, conversation: conversations.Conversation
    ) -> None:
        self.asker = asker
        self.ask_id = ask_id
        self.event_id = event_id
        self.conversation = conversation
        self.request: conversations.Read | conversations.Write
        self.lost = False
        self.requests = 0


class BridgeCore:
    """The state of the ZooKeeper bridge, and methods that handle its messages.

    Args:
        me: The bridge's own address.
        store: The store's address.
        subscriber: The address that receives the session events.
        send: Called with (receiver, message) for each outgoing message.
        serve: Called with an event id before messages that belong to this event are sent.
    """

    def __init__(
        self,
        me: ActorAddress,
        store: ActorAddress,
        subscriber: ActorAddress,
        send: Callable[[ActorAddress, Message], None],
        serve: Callable[[int], None],
    ) -> None:
        self.generation = 0
        self.connected = False
        self.session = conversations.SessionIds(0, ())
        self._me = me
        self._store = store
        self._subscriber = subscriber
        self._send = send
        self._serve = serve
        self._established = False
        self._next_id = 0
        self._talks: dict[int, _RequestInProgress] = {}  # by the id of the store request in flight
        self._held: list[_RequestInProgress] = []  # to be resumed once connected
        self._paused: dict[int, _RequestInProgress] = {}  # by the id of its Continue
        self._rearming: dict[int, Watches] = {}
        self._seen = 0
        self._watches = WatchTable()

    @property
    def busy(self) -> bool:
        """Whether a request is in progress."""
        return bool(self._talks or self._held or self._paused)

    # ------------------------------------------------------------------------------------------- what comes in

    def start(self, asker: ActorAddress, ask_id: int, question: Message, event_id: int = 0) -> None:
        """Start a request that belongs to event `event_id`. An unknown request is answered with a Failure."""
        begin = CONVERSATIONS.get(type(question))
        if begin is None:
            failure = Failure("AskFailed", f"ZkBridgeActor has no handler for {type(question).__name__}")
            self._send(asker, Answer(ask_id, failure, self.generation))
            return
        self._advance(_RequestInProgress(asker, ask_id, event_id, begin(question)), None)

    def take(self, news: StoreReply | WatchEvent | SessionState | Continue) -> None:
        """Handle a message of the store, or the bridge's own Continue."""
        if isinstance(news, StoreReply):
            self.handle_reply(news)
        elif isinstance(news, WatchEvent):
            self.handle_watch_event(news)
        elif isinstance(news, SessionState):
            self.handle_session_state(news)
        else:
            talk = self._paused.pop(news.id, None)
            if talk is not None:
                self._advance(talk, None)

    def handle_reply(self, reply: StoreReply) -> None:
        """Handle the store's reply to a request. Replies with ids of an earlier session are ignored."""
        rearmed = self._rearming.get(reply.id)
        if rearmed is not None and reply.code == OK:  # after an error, the next connection arms all watches again
            del self._rearming[reply.id]
            if reply.present:
                self._notify(self._watches.handle_interruption(rearmed, reply.present, self.generation))
        if self.connected and not self._rearming:
            self._seen = max(self._seen, reply.zxid)
        talk = self._talks.pop(reply.id, None)
        if talk is None:
            return
        if reply.code in (CONNECTION_LOSS, SESSION_EXPIRED):
            talk.lost = True
            self._held.append(talk)  # resumed at the next SessionState
            return
        if isinstance(talk.request, conversations.Read):
            self._watches.store_existence(talk.request.watches, reply.present)
        self._advance(talk, reply)

    def handle_watch_event(self, event: WatchEvent) -> None:
        """Handle a watch that fired on the server."""
        self._notify(self._watches.handle_change(event.path, event.kind, self.generation, bool(self._rearming)))

    def handle_session_state(self, state: SessionState) -> None:
        """Handle a change of the session's state."""
        if state.state == EXPIRED:
            self._end_session()
        elif state.state != CONNECTED:
            self.connected = False
        else:
            self._start_session(state.session_id)

    # ------------------------------------------------------------------------------------------------- sessions

    def _start_session(self, session_id: int) -> None:
        if self.session.current not in (0, session_id):
            self.session = conversations.SessionIds(session_id, (*self.session.earlier, self.session.current))
        else:
            self.session = self.session._replace(current=session_id)
        self.connected = True
        if not self._established:
            self._established = True
            self.generation += 1
            self._send(self._subscriber, SessionEstablished(self.generation))
        self._rearm()
        held, self._held = self._held, []
        for talk in held:
            if talk.lost and isinstance(talk.request, conversations.Write):
                self._advance(talk, StoreReply(0, CONNECTION_LOSS))
            else:
                self._request(talk)

    def _rearm(self) -> None:
        self._rearming.clear()
        for armed, since in ((self._watches.looked_for(), None), (self._watches.watches_to_set(), self._seen)):
            for field, node_paths in armed._asdict().items():
                for start in range(0, len(node_paths), ARMS_PER_REQUEST):
                    part = Watches(**{field: node_paths[start : start + ARMS_PER_REQUEST]})
                    self._next_id += 1
                    probe("T16 watches are set again after a lost connection")
                    self._rearming[self._next_id] = part
                    self._send(self._store, StoreRead(self._next_id, watches=part, since=since))

    def _end_session(self) -> None:
        self.connected = False
        if not self._established:
            return
        self._established = False
        for party in self._everyone_concerned():
            self._send(party, SessionExpired(self.generation))
        self._watches.clear()
        self._rearming.clear()
        self._seen = 0
        talks = [*self._talks.values(), *self._held, *self._paused.values()]
        self._talks.clear()
        self._paused.clear()
        self._held.clear()
        for talk in talks:
            talk.conversation.close()
            self._fail(talk, SessionLost(f"session {self.session.current:#x} expired"))

    def _everyone_concerned(self) -> list[ActorAddress]:
        parties = [self._subscriber]
        parties += [each for each in self._watches.watchers() if each != self._subscriber]
        return parties

    # -------------------------------------------------------------------------------------------- conversations

    def _advance(self, talk: _RequestInProgress, reply: object) -> None:
        """Resume a request with `reply`. Send the answer if the request has ended."""
        self._serve(talk.event_id)
        outcome = advance(talk.conversation, partial(self._step, talk), reply)
        if isinstance(outcome, Returned):
            self._send(talk.asker, Answer(talk.ask_id, outcome.result, self.generation, talk.requests))
        elif isinstance(outcome, Raised):
            self._fail(talk, outcome.error)

    def _step(self, talk: _RequestInProgress, step: conversations.Step) -> object:
        """Execute a step that a generator yielded.

        The bridge answers some steps itself; the others are sent to the store.
        """
        if isinstance(step, conversations.GetSessionIds):
            return self.session._replace(connected=self.connected)
        if isinstance(step, conversations.DropWatches):
            self._watches.forget(talk.asker, step.events, step.keys)
            return None
        if isinstance(step, Pause):
            self._next_id += 1
            self._paused[self._next_id] = talk
            self._send(self._me, Continue(self._next_id))
        else:
            talk.request = step
            self._request(talk)
        return WAITING

    def _request(self, talk: _RequestInProgress) -> None:
        """Send the current operation of this request to the store, or hold it until the store is connected."""
        talk.lost = False
        self._serve(talk.event_id)
        if not self.connected:
            self._held.append(talk)
            return
        request = talk.request
        if isinstance(request, conversations.Read):
            self._watches.arm(talk.asker, request.watches)
        self._next_id += 1
        talk.requests += 1
        self._talks[self._next_id] = talk
        kind = StoreRead if isinstance(request, conversations.Read) else StoreWrite
        self._send(self._store, kind(self._next_id, *request))

    def _fail(self, talk: _RequestInProgress, error: Exception) -> None:
        """Respond with a failure, so that the sender of the request does not wait forever."""
        if isinstance(error, AskFailed):
            logger.debug("A ZooKeeper request failed with %s: %s", type(error).__name__, error)
            failure = Failure(type(error).__name__, str(error))
        else:
            logger.error(
                "A ZooKeeper request failed with an unexpected %s: %s", type(error).__name__, error, exc_info=error
            )
            failure = Failure("AskFailed", f"{type(error).__name__}: {error}")
        self._serve(talk.event_id)
        self._send(talk.asker, Answer(talk.ask_id, failure, self.generation, talk.requests))

    def _notify(self, events: Iterable[Notification]) -> None:
        for watcher, event in events:
            self._send(watcher, event)


class ZkBridgeActor(Dispatcher):
    """This actor gives the other actors of its node access to ZooKeeper; each node has one ZkBridgeActor.

    Its first message is StartBridge. Requesters send Ask and receive Answer. Watchers receive controller events, and
    the subscriber receives session events. The store, an external endpoint, receives StoreRead and
    StoreWrite. It sends StoreReply, WatchEvent and SessionState.
    """

    def __init__(self) -> None:
        super().__init__()
        self._core: BridgeCore

    @property
    def busy(self) -> bool:
        """Whether a request is in progress."""
        return hasattr(self, "_core") and self._core.busy

    def receiveMsg_StartBridge(self, message: StartBridge, sender: ActorAddress) -> None:
        """Create the core with the addresses of the store and of the subscriber."""
        self._core = BridgeCore(self.myAddress, message.store, message.subscriber, self.send, self.serve)

    def receiveMsg_Ask(self, message: Ask, sender: ActorAddress) -> None:
        """Start the sender's request to ZooKeeper."""
        self._core.start(sender, message.id, message.question, self.event_id)

    def receiveMsg_StoreReply(self, message: StoreReply, sender: ActorAddress) -> None:
        """Handle the store's reply to a request."""
        self._core.take(message)

    def receiveMsg_WatchEvent(self, message: WatchEvent, sender: ActorAddress) -> None:
        """Handle a fired watch."""
        self._core.take(message)

    def receiveMsg_SessionState(self, message: SessionState, sender: ActorAddress) -> None:
        """Handle a change of the session's state."""
        self._core.take(message)

    def receiveMsg_Continue(self, message: Continue, sender: ActorAddress) -> None:
        """Resume a request that paused."""
        self._core.take(message)
