"""The ZooKeeper gateway connects ZkBridgeActor and a ZooKeeper client.

It passes the actor's requests to the client, and the client's events to the actor. Credentials of users and passwords
of brokers are replaced by seals on their way to the actor, and put back on their way to the client (`vault`).
"""

from __future__ import annotations

import asyncio
import threading

from thespian.actors import ActorAddress

from actors.gateway.vault import BROKERS, USERS, Vault
from actors.runtime import LocalBase
from messages.node import NodeFailed, OpenStore
from messages.store import NO_NODE, OK, StoreFailed, StoreRead, StoreReply, StoreWrite
from messages.vocabulary import AnyMessage, Message, evolve
from zk_bridge.store import Store, StoreNews, ZooKeeperUnavailable

_SEALED = f"{USERS}/", f"{BROKERS}/"


class StoreGateway:
    """The external endpoint that receives ZooKeeper requests from ZkBridgeActor and sends ZooKeeper events to it."""

    def __init__(self, base: LocalBase, store: Store, failed: ActorAddress, vault: Vault | None = None) -> None:
        self._base = base
        self._store = store
        self._vault = vault or Vault()
        self._reading: dict[int, tuple[str, ...]] = {}
        """Request id -> paths, of the reads that concern users or the configs of brokers."""
        self._failed = failed
        self.address: ActorAddress = base.external_endpoint("store", self.receive)

    def receive(self, message: Message, sender: ActorAddress) -> None:
        """Handle a message of an actor: first OpenStore, which opens the session, then ZkBridgeActor's requests."""
        if not isinstance(message, OpenStore):
            self._store.submit(self._open_seals(message))
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
                self._base.inject(bridge, self._seal(item), self.address)

        try:
            self._store.start(news)
        except ZooKeeperUnavailable as error:
            self._base.inject(self._failed, NodeFailed(str(error)), self.address)

    def _open_seals(self, message: Message) -> AnyMessage:
        """Return a request with credentials in place of seals."""
        if isinstance(message, StoreRead) and any(path.startswith(_SEALED) for path in message.data):
            self._reading[message.id] = message.data
        elif isinstance(message, StoreWrite) and any(op.path.startswith(_SEALED) for op in message.ops):
            opened = self._vault.unseal_znode
            ops = (
                op._replace(data=opened(op.path, op.data)) if op.path.startswith(_SEALED) else op for op in message.ops
            )
            return evolve(message, ops=tuple(ops))
        return message

    def _seal(self, item: StoreNews) -> StoreNews:
        """Return an event with seals in place of credentials."""
        if not isinstance(item, StoreReply) or not self._reading:
            return item
        paths = self._reading.pop(item.id, None)
        if paths is None or item.code != OK:
            return item
        seal = self._vault.seal_znode
        nodes = (
            node._replace(data=seal(path, node.data))
            if path.startswith(_SEALED) and node.code in (OK, NO_NODE)
            else node
            for path, node in zip(paths, item.nodes, strict=True)
        )
        return evolve(item, nodes=tuple(nodes))
