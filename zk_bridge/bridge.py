"""ZkBridgeActor gives other actors access to ZooKeeper by messages; `BridgeCore` has the rules.

Its peers: askers (`Ask` in, `Answer` out), watchers (events out), the subscriber (session events out) and the store, an
external endpoint (StoreRead, StoreWrite, StoreArm out; StoreReply, WatchEvent, SessionState in).

Kafka: `KafkaZkClient`.
"""

from __future__ import annotations

from thespian.actors import ActorAddress

from actors.runtime import Dispatcher
from messages.conversation import Ask, Continue
from messages.node import StartBridge
from messages.store import SessionState, StoreReply, WatchEvent
from zk_bridge.core import BridgeCore


class ZkBridgeActor(Dispatcher):
    """This actor gives the other actors of a node access to ZooKeeper; each node has one.

    Its first message is StartBridge.
    """

    def __init__(self) -> None:
        super().__init__()
        self._core: BridgeCore

    @property
    def busy(self) -> bool:
        """Whether any conversation is under way."""
        return hasattr(self, "_core") and self._core.busy

    def receiveMsg_StartBridge(self, message: StartBridge, sender: ActorAddress) -> None:
        """Learn who the store and the subscriber are."""
        self._core = BridgeCore(self.myAddress, message.store, message.subscriber, self.send, self.serve)

    def receiveMsg_Ask(self, message: Ask, sender: ActorAddress) -> None:
        """A question from anybody."""
        self._core.asked(sender, message.id, message.question, self.event_id)

    def receiveMsg_StoreReply(self, message: StoreReply, sender: ActorAddress) -> None:
        """The store answers a request."""
        self._core.take(message)

    def receiveMsg_WatchEvent(self, message: WatchEvent, sender: ActorAddress) -> None:
        """A watch fired."""
        self._core.take(message)

    def receiveMsg_SessionState(self, message: SessionState, sender: ActorAddress) -> None:
        """The session's state changed."""
        self._core.take(message)

    def receiveMsg_Continue(self, message: Continue, sender: ActorAddress) -> None:
        """Go on with a conversation that paused."""
        self._core.take(message)
