"""Give other actors access to ZooKeeper by messages. `zk_bridge.core` decides how each message is handled.

Messages of each peer:

- Requesters send Ask and receive Answer.
- Watchers receive controller events.
- The subscriber receives session events.
- The store, an external endpoint, receives StoreRead, StoreWrite and StoreArm. It sends StoreReply, WatchEvent and
  SessionState.

Kafka: `KafkaZkClient`.
"""

from __future__ import annotations

from thespian.actors import ActorAddress

from actors.runtime import Dispatcher
from messages.ask import Ask, Continue
from messages.node import StartBridge
from messages.store import SessionState, StoreReply, WatchEvent
from zk_bridge.core import BridgeCore


class ZkBridgeActor(Dispatcher):
    """This actor gives the other actors of its node access to ZooKeeper; each node has one ZkBridgeActor.

    Its first message is StartBridge.
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
