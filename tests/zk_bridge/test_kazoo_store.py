"""The kazoo store on a real server keeps the contract, with MultiRead and without."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from messages.store import CONNECTED, CREATE, NO_NODE, OK, SUSPENDED, WriteOp
from tests.zk_bridge.contract import StoreContract, World, create
from tests.zk_bridge.listener import Listener
from tests.zk_bridge.proxy import Proxy
from zk_bridge import kazoo_store
from zk_bridge.embedded import EmbeddedZooKeeper
from zk_bridge.kazoo_store import KazooStore
from zk_bridge.store import Store, ZooKeeperUnavailable

pytestmark = pytest.mark.java


class KazooWorld(World):
    """A corner of a real server; each store has a link of its own."""

    def __init__(self, server: EmbeddedZooKeeper, chroot: str, multi_read: bool = True) -> None:
        self.server = server
        self.chroot = chroot
        self.multi_read = multi_read
        self.links: list[tuple[Store, Proxy]] = []

    def store(self, session_timeout: float = 5.0) -> KazooStore:
        link = Proxy(self.server.port)
        store = KazooStore(
            link.hosts + self.chroot,
            session_timeout=session_timeout,
            connection_timeout=10,
            create_chroot=True,
            multi_read=self.multi_read,
        )
        self.links.append((store, link))
        return store

    def link(self, store: Store) -> Proxy:
        return next(link for each, link in self.links if each is store)

    def let_pass(self, seconds: float) -> None:
        """It does."""

    def cut(self, store: Store) -> None:
        self.link(store).cut()

    def heal(self, store: Store) -> None:
        self.link(store).heal()

    def expire(self, store: Store) -> None:
        """Take the session over with its id and password, and close it: as good as waiting for its timeout."""
        assert isinstance(store, KazooStore)
        session = (store._client._session_id, store._client._session_passwd)
        thief = KazooClient(self.server.connect_string, client_id=session)
        thief.start()
        thief.stop()
        thief.close()
        self.heal(store)

    def lose_answer(self, listener: Listener, *ops: WriteOp) -> int:
        witness = Listener(self.store())
        path = ops[0].path
        witness.arm(exists=(path,))
        link = self.link(listener.store)
        link.swallow_answers()
        number = listener.submit_write(*ops)
        witness.until(lambda news: witness.events())
        link.cut()
        witness.store.stop()
        return number

    def close(self) -> None:
        for _, link in self.links:
            link.close()


class TestKazooStore(StoreContract):
    @pytest.fixture
    def world(self, server: EmbeddedZooKeeper, chroot: str) -> Iterator[KazooWorld]:
        world = KazooWorld(server, chroot)
        yield world
        world.close()


class TestKazooStoreWithoutMultiRead(StoreContract):
    @pytest.fixture
    def world(self, server: EmbeddedZooKeeper, chroot: str) -> Iterator[KazooWorld]:
        world = KazooWorld(server, chroot, multi_read=False)
        yield world
        world.close()


@pytest.fixture
def world(server: EmbeddedZooKeeper, chroot: str) -> Iterator[KazooWorld]:
    world = KazooWorld(server, chroot)
    yield world
    world.close()


def test_a_server_that_does_not_know_multi_read(world: KazooWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers UNIMPLEMENTED and hangs up: the read counts as lost, and the next one is made of single reads."""
    listener = Listener(world.store())
    listener.write(create("/a", b"x"))
    monkeypatch.setattr(kazoo_store._MultiRead, "type", 9999)
    monkeypatch.setattr(kazoo_store, "_MULTI_READ", 9999)
    assert listener.read("/a").code != OK
    listener.until(lambda news: listener.states() == [CONNECTED, SUSPENDED, CONNECTED])
    reply = listener.read("/a", "/b", children=("/", "/b"))
    assert [node.code for node in reply.nodes] == [OK, NO_NODE]
    assert [found.names for found in reply.children] == [("a",), ()]
    assert listener.states() == [CONNECTED, SUSPENDED, CONNECTED]
    listener.store.stop()


def test_the_chroot_is_made_once_and_hidden(server: EmbeddedZooKeeper, chroot: str) -> None:
    for _ in range(2):
        listener = Listener(KazooStore(server.connect_string + chroot, 5, 10, create_chroot=True))
        assert listener.write(WriteOp(CREATE, "/kafka" if _ == 0 else "/again")).results[0].path in ("/kafka", "/again")
        listener.store.stop()
    outside = Listener(KazooStore(server.connect_string, 5, 10))
    assert sorted(outside.read(children=(chroot,)).children[0].names) == ["again", "kafka"]
    outside.store.stop()


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        hosts = f"127.0.0.1:{taken.getsockname()[1]}"
        store = KazooStore(hosts, 5, 0.3)
        with pytest.raises(ZooKeeperUnavailable, match=f"{hosts} cannot be reached: no answer within 0.3 s"):
            store.start(print)
        store.stop()  # which start itself has begun


def test_somebody_else_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(ZooKeeperUnavailable):
        KazooStore(f"127.0.0.1:{silent.getsockname()[1]}", 5, 0.3).start(print)


@pytest.mark.parametrize("hosts", ["127.0.0.1:port", "127.0.0.1:99999999", ""])
def test_no_address(hosts: str) -> None:
    with pytest.raises(ZooKeeperUnavailable):
        KazooStore(hosts, 5, 0.5).start(print)
