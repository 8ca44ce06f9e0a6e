"""The ZooKeeper gateway connects ZkBridgeActor and a ZooKeeper client.

It passes the actor's requests to the client, and the client's events to the actor.
"""

from __future__ import annotations

import asyncio
import threading

from thespian.actors import ActorAddress

from actors.runtime import LocalBase
from messages.node import NodeFailed, OpenStore
from messages.store import StoreFailed
from messages.vocabulary import AnyMessage
from zk_bridge.store import Store, StoreNews, ZooKeeperUnavailable


class StoreGateway:
    """The external endpoint that receives ZooKeeper requests from ZkBridgeActor and sends ZooKeeper events to it."""

    def __init__(self, base: LocalBase, store: Store, failed: ActorAddress) -> None:
        self._base = base
        self._store = store
        self._failed = failed
        self.address: ActorAddress = base.external_endpoint("store", self.receive)

    def receive(self, message: AnyMessage, sender: ActorAddress) -> None:
        """Handle a message of an actor: first OpenStore, which opens the session, then ZkBridgeActor's requests."""
        if not isinstance(message, OpenStore):
            self._store.submit(message)
        elif self._store.waits:
            threading.Thread(target=self._open, args=(message.bridge,), name="zookeeper-open", daemon=True).start()
        else:
            self._open(message.bridge)

    async def stop(self) -> None:
        """End the ZooKeeper session."""
        if self._store.waits:
            await asyncio.to_thread(self._store.stop)
        else:
            self._store.stop()

    def _open(self, bridge: ActorAddress) -> None:
        def news(item: StoreNews) -> None:
            if isinstance(item, StoreFailed):
                self._base.inject(self._failed, NodeFailed(item.reason), self.address)
            else:
                self._base.inject(bridge, item, self.address)

        try:
            self._store.start(news)
        except ZooKeeperUnavailable as error:
            self._base.inject(self._failed, NodeFailed(str(error)), self.address)
