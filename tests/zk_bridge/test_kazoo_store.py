"""Run the store contract with the kazoo store on a real server, with and without MultiRead."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient

from messages.store import (
    CONNECTED,
    CONNECTION_LOSS,
    CREATE,
    CREATE_EPHEMERAL,
    NO_NODE,
    OK,
    SET,
    SUSPENDED,
    StoreFailed,
    StoreReply,
    WriteOp,
)
from tests.waiting import until
from tests.zk_bridge.contract import StoreContract, World, create
from tests.zk_bridge.listener import Listener
from tests.zk_bridge.proxy import Proxy
from zk_bridge import jute, kazoo_client
from zk_bridge.embedded import EmbeddedZooKeeper
from zk_bridge.kazoo_store import KazooStore
from zk_bridge.store import Store, ZooKeeperUnavailable

pytestmark = pytest.mark.java


class KazooWorld(World):
    """A chroot of a real server. Each store has its own proxy."""

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
        """Do nothing: the server uses real time."""

    def cut(self, store: Store) -> None:
        self.link(store).cut()

    def heal(self, store: Store) -> None:
        self.link(store).heal()

    def expire(self, store: Store) -> None:
        """End the session: connect with its id and password, and close it. The effect is that of its timeout."""
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
    def world(self, server_of_each_source: EmbeddedZooKeeper, chroot: str) -> Iterator[KazooWorld]:
        world = KazooWorld(server_of_each_source, chroot)
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
    """The server answers UNIMPLEMENTED and closes the connection.

    The read fails as lost, and the next one is sent as single reads.
    """
    listener = Listener(world.store())
    listener.write(create("/a", b"x"))
    monkeypatch.setattr(jute.MultiRead, "type", 9999)
    monkeypatch.setattr(jute, "MULTI_READ", 9999)
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


def test_a_store_raises_for_a_port_that_does_not_answer() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        hosts = f"127.0.0.1:{taken.getsockname()[1]}"
        store = KazooStore(hosts, 5, 0.3)
        with pytest.raises(ZooKeeperUnavailable, match=f"{hosts} cannot be reached: no answer within 0.3 s"):
            store.start(print)
        store.stop()  # the failed start has already begun to stop the store


def test_a_server_that_stays_away_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO", "kazoo")
    attempts: list[object] = []
    connect = kazoo_client._Connection._connect

    def counted(connection: kazoo_client._Connection, *place: object) -> object:
        attempts.append(place)
        return connect(connection, *place)  # type: ignore[arg-type]

    monkeypatch.setattr(kazoo_client._Connection, "_connect", counted)

    def dropped() -> list[str]:
        return [line for line in caplog.messages if line.startswith("Connection dropped")]

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        store = KazooStore(f"127.0.0.1:{closed.getsockname()[1]}", 5, 1)
        with pytest.raises(ZooKeeperUnavailable):
            store.start(print)
        assert len(attempts) > 3 and len(dropped()) == 1
        monkeypatch.setattr(store._client.logger, "_seconds", 0.0)
        store._client.logger.warning("Connection dropped: %s", "once more")
        assert dropped()[1].startswith("Connection dropped: once more (")
        store.stop()


def test_another_server_at_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(ZooKeeperUnavailable):
        KazooStore(f"127.0.0.1:{silent.getsockname()[1]}", 5, 0.3).start(print)


@pytest.mark.parametrize("hosts", ["127.0.0.1:port", "127.0.0.1:99999999", ""])
def test_a_store_raises_for_hosts_without_an_address(hosts: str) -> None:
    with pytest.raises(ZooKeeperUnavailable):
        KazooStore(hosts, 5, 0.5).start(print)


def framed(body: bytes) -> bytes:
    return struct.pack("!i", len(body)) + body


NONSENSE: dict[str, Callable[[bytes], bytes]] = {
    "another request's id": lambda frame: frame[:4] + struct.pack("!i", 1 << 20) + frame[8:],
    "too short for a header": lambda frame: framed(frame[4:10]),
    "too short for its body": lambda frame: framed(frame[4 : len(frame) // 2]),
    "a header alone": lambda frame: framed(frame[4:20]),
    "an empty frame": lambda frame: framed(b""),
    "a negative length": lambda frame: struct.pack("!i", -1) + frame[4:],
    "a monstrous length": lambda frame: struct.pack("!i", 2**31 - 1) + frame[4:],
    "a body of noise": lambda frame: frame[:20] + b"\x7f" * (len(frame) - 20),
    "an answer to nothing": lambda frame: frame + frame,
}


@pytest.mark.parametrize("change", NONSENSE.values(), ids=NONSENSE.keys())
def test_an_invalid_response_ends_only_the_connection(world: KazooWorld, change: Callable[[bytes], bytes]) -> None:
    """kazoo's own connection would end its thread there, and ZooKeeper's events would be lost."""
    listener = Listener(world.store())
    listener.write(create("/a", b"x"), WriteOp(CREATE_EPHEMERAL, "/e"))
    world.link(listener.store).alter_next(change)
    number = listener.submit_read(("/a",), ("/",))
    listener.state(CONNECTED, SUSPENDED, CONNECTED)
    assert listener.reply(number).code == CONNECTION_LOSS
    assert [node.code for node in listener.read("/a", "/e").nodes] == [OK, OK]
    assert len(set(listener.sessions())) == 1
    listener.store.stop()


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: framed(frame[4:-4]),
        lambda frame: frame[:20] + struct.pack("!i", 77) + frame[24:],
        lambda frame: frame[:-1] + b"\xff",
    ],
    ids=["torn", "of no known kind", "no UTF-8"],
)
def test_an_invalid_watch_event_ends_only_the_connection(world: KazooWorld, change: Callable[[bytes], bytes]) -> None:
    """The bridge sets all watches again after a lost connection, so the change itself is not lost."""
    listener = Listener(world.store())
    listener.write(create("/a", b"x"))
    listener.arm(("/a",))
    world.link(listener.store).alter_next(change, lambda xid: xid == -1)
    listener.submit_write(WriteOp(SET, "/a", b"y"))
    listener.state(CONNECTED, SUSPENDED, CONNECTED)
    assert listener.read("/a").nodes[0].data == b"y"
    assert listener.events() == []
    listener.store.stop()


def test_a_connect_response_without_password_ends_only_that_attempt(world: KazooWorld) -> None:
    listener = Listener(world.store())
    link = world.link(listener.store)
    link.alter_next(lambda frame: frame[:20] + struct.pack("!i", -1) + frame[24:], lambda xid: xid == 0)
    world.cut(listener.store)
    world.heal(listener.store)
    listener.state(CONNECTED, SUSPENDED, CONNECTED)
    assert link.alter is None
    assert len(set(listener.sessions())) == 1
    listener.store.stop()


def test_an_unknown_code_is_passed_on(world: KazooWorld) -> None:
    listener = Listener(world.store())
    world.link(listener.store).alter_next(lambda frame: framed(frame[4:16] + struct.pack("!i", -4711)))
    assert listener.read("/a").code == -4711
    assert listener.read("/a").nodes[0].code == NO_NODE
    assert listener.states() == [CONNECTED]
    listener.store.stop()


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=[pytest.mark.soak, pytest.mark.long]) for n in range(1, 8))]
)
def test_whatever_zookeeper_answers_each_request_is_answered_once(world: KazooWorld, seed: int) -> None:
    chance = random.Random(seed)

    def noise(frame: bytes) -> bytes:
        altered = bytearray(frame)
        if chance.random() < 0.15:
            for _ in range(chance.randint(1, 3)):
                altered[chance.randrange(len(altered))] = chance.randrange(256)
        return bytes(altered[: chance.randint(0, len(altered))] if chance.random() < 0.05 else altered)

    listener = Listener(world.store(session_timeout=1.5))
    listener.write(*[create(f"/n{n}", b"x") for n in range(5)])
    link = world.link(listener.store)
    link.alter = noise
    asked = []
    for n in range(20):
        asked.append(listener.submit_read((f"/n{n % 5}",), ("/",)))
        asked.append(listener.submit_arm((f"/n{n % 5}",), ("/none",), ("/",)))
        asked.append(listener.submit_write(WriteOp(SET, f"/n{n % 5}", b"y")))
        listener.until(lambda news: len([each for each in news if isinstance(each, StoreReply)]) > len(asked) - 6)
    link.alter = None
    for number in asked:
        listener.reply(number)
    sound = until(lambda: listener.read("/n0"), lambda reply: reply.code == OK, "an answer")
    assert sound.nodes[0].data in (b"x", b"y")
    answered = [each.id for each in listener.news if isinstance(each, StoreReply)]
    assert len(answered) == len(set(answered))
    assert not [each for each in listener.news if isinstance(each, StoreFailed)]
    listener.store.stop()


def test_a_server_that_accepts_and_never_responds_does_not_cost_the_session(world: KazooWorld) -> None:
    """ZooKeeper forgets a client that connects while the server starts: the connection stays open without service."""
    listener = Listener(world.store(session_timeout=3.0))
    link = world.link(listener.store)
    link.mute = 1
    world.cut(listener.store)
    world.heal(listener.store)
    listener.state(CONNECTED, SUSPENDED, CONNECTED)
    assert link.mute == 0
    assert len(set(listener.sessions())) == 1
    listener.store.stop()


def test_a_machine_that_is_gone_does_not_cost_the_session(caplog: pytest.LogCaptureFixture) -> None:
    """A listener with a full queue answers like a machine without power: the first attempt ends within the session."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as gone, socket.create_connection(gone.getsockname()):
        store = KazooStore(f"127.0.0.1:{gone.getsockname()[1]}", session_timeout=3.0, connection_timeout=2.0)
        with pytest.raises(ZooKeeperUnavailable):
            store.start(print)
        assert caplog.messages == ["Connection dropped: socket connection error: None"], (
            "once, as such lines are seldom"
        )
        store.stop()


def test_the_end_of_kazoos_thread_is_news(world: KazooWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener(world.store())
    connection = listener.store._client._connection  # type: ignore[attr-defined]
    monkeypatch.setattr(connection, "_expand_client_hosts", lambda: 1 / 0)
    world.cut(listener.store)
    (failed,) = listener.until(lambda news: [each for each in news if isinstance(each, StoreFailed)])
    assert failed.reason.endswith("has ended: ZeroDivisionError: division by zero")
    listener.store.stop()
