"""The contract of all stores: one test class, which runs on the in-memory ZooKeeper and on a real server."""

from __future__ import annotations

import abc
from collections.abc import Iterator

import pytest

from messages.store import (
    BAD_VERSION,
    CHECK,
    CHILDREN_CHANGED,
    CONNECTED,
    CONNECTION_LOSS,
    CREATE,
    CREATE_EPHEMERAL,
    CREATE_SEQUENTIAL,
    DELETE,
    EXPIRED,
    NO_NODE,
    NODE_CHANGED,
    NODE_CREATED,
    NODE_DELETED,
    NODE_EXISTS,
    NOT_EMPTY,
    OK,
    SESSION_EXPIRED,
    SET,
    SUSPENDED,
    TOO_LARGE,
    SessionState,
    StoreReply,
    WatchEvent,
    WriteOp,
    Written,
)
from tests.zk_bridge.listener import Listener
from zk_bridge.store import Store


class World(abc.ABC):
    """An empty ZooKeeper, with operations on the connections and sessions of its stores."""

    @abc.abstractmethod
    def store(self, session_timeout: float = 5.0) -> Store:
        """Return a new store of this ZooKeeper that is not started."""

    @abc.abstractmethod
    def let_pass(self, seconds: float) -> None:
        """Let time pass, unless real time passes by itself."""

    @abc.abstractmethod
    def cut(self, store: Store) -> None:
        """Cut the connection of a store."""

    @abc.abstractmethod
    def heal(self, store: Store) -> None:
        """Let the store connect again."""

    @abc.abstractmethod
    def expire(self, store: Store) -> None:
        """Expire the session of a store on the server."""

    @abc.abstractmethod
    def lose_answer(self, listener: Listener, *ops: WriteOp) -> int:
        """Submit a transaction, cut the connection after the server has applied it, and return the request's id.

        The store does not receive the answer.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Stop everything."""


def create(path: str, data: bytes | None = b"") -> WriteOp:
    """Return the operation that creates a persistent znode."""
    return WriteOp(CREATE, path, data)


class StoreContract:
    """The contract tests. Subclasses provide the fixture `world`."""

    @pytest.fixture
    def listener(self, world: World) -> Iterator[Listener]:
        """Return a listener with a started store."""
        listener = Listener(world.store())
        yield listener
        listener.store.stop()

    @pytest.fixture
    def other(self, world: World) -> Iterator[Listener]:
        """Return a listener with another session on the same ZooKeeper."""
        listener = Listener(world.store())
        yield listener
        listener.store.stop()

    # --------------------------------------------------------------------------------------- reading and writing

    def test_the_first_news_is_the_session(self, listener: Listener) -> None:
        first = listener.news[0]
        assert isinstance(first, SessionState)
        assert first.state == CONNECTED
        assert first.session_id != 0

    def test_null_and_empty_data_differ(self, listener: Listener) -> None:
        listener.write(create("/null", None), create("/empty", b""))
        null, empty = listener.read("/null", "/empty").nodes
        assert (null.data, empty.data) == (None, b"")

    def test_a_read_gives_versions_czxid_and_owner(self, listener: Listener) -> None:
        listener.write(create("/a", b"1"), WriteOp(CREATE_EPHEMERAL, "/e", b"2"))
        listener.write(WriteOp(SET, "/a", b"3"), WriteOp(SET, "/a", b"4"))
        listener.write(create("/later"))
        a, e, later = listener.read("/a", "/e", "/later").nodes
        assert (a.code, a.data, a.version, a.owner) == (OK, b"4", 2, 0)
        assert (e.data, e.version, e.owner) == (b"2", 0, listener.sessions()[-1])
        assert a.czxid == e.czxid
        assert later.czxid > a.czxid

    def test_what_is_absent_has_its_own_code(self, listener: Listener) -> None:
        listener.write(create("/a"), create("/a/b"), create("/a/c"))
        reply = listener.read("/a", "/none", "/a/b", children=("/none", "/a", "/a/b"))
        assert [node.code for node in reply.nodes] == [OK, NO_NODE, OK]
        assert [found.code for found in reply.children] == [NO_NODE, OK, OK]
        assert sorted(reply.children[1].names) == ["b", "c"]
        assert reply.children[2].names == ()

    def test_many_reads_come_back_in_order(self, listener: Listener) -> None:
        names = [f"/n{index:04d}" for index in range(2500)]
        for start in range(0, len(names), 500):
            listener.write(*[create(name, name.encode()) for name in names[start : start + 500]])
        wanted = tuple(each for name in reversed(names) for each in (name, f"{name}-absent"))
        reply = listener.read(*wanted, children=tuple(names))
        assert [node.data for node in reply.nodes[::2]] == [name.encode() for name in reversed(names)]
        assert {node.code for node in reply.nodes[1::2]} == {NO_NODE}
        assert [found.code for found in reply.children] == [OK] * len(names)

    def test_an_empty_read_is_answered(self, listener: Listener) -> None:
        reply = listener.read()
        assert (reply.code, reply.nodes, reply.children) == (OK, (), ())

    def test_a_transaction_returns_each_result(self, listener: Listener) -> None:
        reply = listener.write(
            create("/a", None),
            WriteOp(SET, "/a", b"x", 0),
            WriteOp(CHECK, "/a", None, 1),
            WriteOp(CREATE_SEQUENTIAL, "/a/s_", b""),
            WriteOp(CREATE_SEQUENTIAL, "/a/s_", b""),
            WriteOp(DELETE, "/a/s_0000000000"),
        )
        assert reply.code == OK
        made, changed, checked, first, second, deleted = reply.results
        assert (made.path, first.path, second.path) == ("/a", "/a/s_0000000000", "/a/s_0000000001")
        assert changed.version == 1
        assert changed.czxid == listener.read("/a").nodes[0].czxid
        assert (checked, deleted) == (Written(), Written())

    @pytest.mark.parametrize(
        ("op", "code"),
        [
            (create("/a"), NODE_EXISTS),
            (create("/none/b"), NO_NODE),
            (WriteOp(SET, "/none", b""), NO_NODE),
            (WriteOp(SET, "/a", b"", 7), BAD_VERSION),
            (WriteOp(CHECK, "/a", None, 7), BAD_VERSION),
            (WriteOp(CHECK, "/none", None, 0), NO_NODE),
            (WriteOp(DELETE, "/none"), NO_NODE),
            (WriteOp(DELETE, "/a/b", None, 7), BAD_VERSION),
            (WriteOp(DELETE, "/a"), NOT_EMPTY),
        ],
    )
    def test_a_refused_transaction_changes_nothing(self, listener: Listener, op: WriteOp, code: int) -> None:
        listener.write(create("/a", b"old"), create("/a/b"))
        before = listener.read("/a", children=("/a", "/"))
        others = (create("/new"), WriteOp(SET, "/a", b"new"), WriteOp(CREATE_SEQUENTIAL, "/a/s_"))
        reply = listener.write(*others, op, create("/never"))
        assert (reply.code, reply.culprit, reply.results) == (code, 3, ())
        after = listener.read("/a", children=("/a", "/"))
        assert (after.nodes, after.children) == (before.nodes, before.children)
        assert listener.write(WriteOp(CREATE_SEQUENTIAL, "/a/s_")).results[0].path == "/a/s_0000000001"

    def test_the_first_of_two_culprits_is_named(self, listener: Listener) -> None:
        reply = listener.write(create("/a"), WriteOp(DELETE, "/none"), create("/a"))
        assert (reply.code, reply.culprit) == (NO_NODE, 1)

    def test_what_jute_maxbuffer_forbids_is_not_sent(self, listener: Listener) -> None:
        reply = listener.write(create("/big", b"x" * 1_000_100))
        assert reply.code == TOO_LARGE
        assert listener.read("/big").nodes[0].code == NO_NODE
        assert listener.states() == [CONNECTED]

    # -------------------------------------------------------------------------------------------------- watches

    def test_each_watch_of_a_store_fires_once(self, listener: Listener) -> None:
        listener.write(create("/d"), create("/c"))
        assert listener.arm(("/d",), ("/maybe",), ("/c",)).present == (False,)
        for _ in range(2):
            listener.write(WriteOp(SET, "/d", b""), create("/c/x"), create("/maybe"))
            listener.write(WriteOp(DELETE, "/c/x"), WriteOp(DELETE, "/maybe"))
        assert listener.events() == [("/d", NODE_CHANGED), ("/c", CHILDREN_CHANGED), ("/maybe", NODE_CREATED)]

    def test_an_exists_watch_fires_for_every_change(self, listener: Listener) -> None:
        for op in (create("/maybe"), WriteOp(SET, "/maybe", b"x"), WriteOp(DELETE, "/maybe")):
            listener.arm(exists=("/maybe",))
            listener.write(op)
        kinds = (NODE_CREATED, NODE_CHANGED, NODE_DELETED)
        assert listener.events() == [("/maybe", kind) for kind in kinds]

    def test_present_returns_the_existing_znodes(self, listener: Listener) -> None:
        listener.write(create("/a"))
        assert listener.arm(exists=("/none", "/a")).present == (False, True)

    def test_arming_what_is_gone_fires_deleted(self, listener: Listener) -> None:
        listener.arm(("/gone",), (), ("/gone-too",))
        assert listener.events() == [("/gone", NODE_DELETED), ("/gone-too", NODE_DELETED)]

    def test_arming_fires_nothing_for_what_changed_before(self, listener: Listener) -> None:
        listener.write(create("/a"))
        listener.write(create("/a/b"), WriteOp(SET, "/a", b"x"))
        listener.arm(("/a",), ("/a",), ("/a",))
        assert listener.events() == []

    def test_thousands_of_watches_are_armed_at_once(self, listener: Listener) -> None:
        names = tuple(f"/{'n' * 60}{index:04d}" for index in range(3000))
        for start in range(0, len(names), 500):
            listener.write(*[create(name) for name in names[start : start + 500]])
        listener.arm(names)
        for start in range(0, len(names), 500):
            listener.write(*[WriteOp(SET, name, b"x") for name in names[start : start + 500]])
        assert sorted(listener.events()) == [(name, NODE_CHANGED) for name in names]

    def test_everything_comes_in_one_order(self, listener: Listener, other: Listener) -> None:
        """A watch event arrives after the reply that confirms the watch, and before any reply that shows the change."""
        listener.write(create("/n"))
        rounds = []
        for _ in range(300):
            arming = listener.submit_arm(("/n",))
            other.submit_write(WriteOp(SET, "/n", b"x"))
            rounds.append((arming, [listener.submit_read(("/n",)) for _ in range(3)]))
        for number in rounds[-1][1]:
            listener.reply(number)
        news = list(listener.news)
        replies = {each.id: place for place, each in enumerate(news) if isinstance(each, StoreReply)}
        events = [place for place, each in enumerate(news) if isinstance(each, WatchEvent)]
        armings = [replies[arming] for arming, _ in rounds]
        heard_too_early = sum(
            not any(before < arming < event for arming in armings)
            for before, event in zip([-1, *events], events, strict=False)
        )
        heard_too_late = 0
        for arming, (first, *later) in rounds:
            version = news[replies[first]].nodes[0].version
            for read in later:
                shows_a_change = news[replies[read]].nodes[0].version > version
                heard = any(replies[arming] < event < replies[read] for event in events)
                heard_too_late += shows_a_change and not heard
        assert events
        assert (heard_too_early, heard_too_late) == (0, 0)

    # ------------------------------------------------------------------------------------------------- sessions

    def test_stopping_ends_ephemerals_at_once(self, listener: Listener, other: Listener) -> None:
        other.write(WriteOp(CREATE_EPHEMERAL, "/e", b""))
        listener.arm(exists=("/e",))
        other.store.stop()
        listener.event("/e", NODE_DELETED)
        assert CONNECTION_LOSS not in [each.code for each in other.news if isinstance(each, StoreReply)]

    def test_a_cut_link_keeps_session_and_ephemerals_but_no_watch(
        self, world: World, listener: Listener, other: Listener
    ) -> None:
        listener.write(create("/a"), WriteOp(CREATE_EPHEMERAL, "/e", b""))
        listener.arm(("/a",), ("/b",), ("/a",))
        world.cut(listener.store)
        listener.state(CONNECTED, SUSPENDED)
        world.heal(listener.store)
        listener.state(CONNECTED, SUSPENDED, CONNECTED)
        assert len(set(listener.sessions())) == 1
        other.write(WriteOp(SET, "/a", b"x"), create("/b"), create("/a/c"))
        assert [node.code for node in listener.read("/e", "/b").nodes] == [OK, OK]
        assert listener.events() == []
        listener.arm(("/a",), ("/b",), ("/a",))
        other.write(WriteOp(SET, "/a", b"x"), WriteOp(DELETE, "/b"), create("/a/d"))
        listener.until(lambda news: len(listener.events()) == 3)

    def test_rearmed_watches_fire_for_changes(self, world: World, listener: Listener, other: Listener) -> None:
        still, moved = ("/still", "/there", "/parent"), ("/moved", "/gone", "/went", "/came", "/mother")
        listener.write(*map(create, (*still, "/moved", "/gone", "/went", "/mother")))
        seen = listener.read("/still").zxid
        world.cut(listener.store)
        listener.state(CONNECTED, SUSPENDED)
        other.write(WriteOp(SET, "/moved", b"x"), WriteOp(DELETE, "/gone"), WriteOp(DELETE, "/went"))
        other.write(
            create("/came"), create("/mother/child"), WriteOp(SET, "/mother", b"x"), WriteOp(SET, "/parent", b"")
        )
        world.heal(listener.store)
        listener.state(CONNECTED, SUSPENDED, CONNECTED)
        data, exists, children = (
            ("/still", "/there", "/moved", "/gone"),
            ("/never", "/came"),
            ("/parent", "/mother", "/went"),
        )
        assert listener.arm(data, exists, children, seen).present == ()
        notified = [NODE_CHANGED, NODE_DELETED, NODE_DELETED, NODE_CREATED, CHILDREN_CHANGED]
        assert sorted(listener.events()) == sorted(zip(moved, notified, strict=True))
        before = len(listener.events())
        other.write(WriteOp(SET, "/still", b"x"), create("/never"), create("/parent/child"))
        listener.until(lambda news: len(listener.events()) == before + 3)
        assert listener.read("/still").zxid > seen

    def test_what_is_asked_while_cut_off_is_answered_later(self, world: World, listener: Listener) -> None:
        world.cut(listener.store)
        listener.state(CONNECTED, SUSPENDED)
        asked = [listener.submit_write(create("/a", b"x")), listener.submit_read(("/a",))]
        world.heal(listener.store)
        made, read = (listener.reply(number) for number in asked)
        assert made.code == OK
        assert read.nodes[0].data == b"x"

    def test_a_lost_answer_is_a_connection_loss_then_suspended(self, world: World, listener: Listener) -> None:
        number = world.lose_answer(listener, create("/a", b"x"))
        lost = listener.reply(number)
        assert lost.code == CONNECTION_LOSS
        listener.until(lambda news: SUSPENDED in listener.states())
        assert listener.news.index(lost) < listener.news.index(SessionState(SUSPENDED))
        world.heal(listener.store)
        assert listener.read("/a").nodes[0].data == b"x"

    def test_an_expired_session_is_replaced(self, world: World, listener: Listener, other: Listener) -> None:
        listener.write(create("/a"), WriteOp(CREATE_EPHEMERAL, "/e", b""))
        listener.arm(("/a",))
        other.arm(exists=("/e",))
        world.expire(listener.store)
        listener.until(lambda news: listener.states()[-2:] == [EXPIRED, CONNECTED])
        assert len(set(listener.sessions())) == 2
        other.event("/e", NODE_DELETED)
        other.write(WriteOp(SET, "/a", b"x"))
        assert [node.code for node in listener.read("/a", "/e").nodes] == [OK, NO_NODE]
        assert listener.events() == []
        assert listener.write(WriteOp(CREATE_EPHEMERAL, "/e", b"")).code == OK
        assert listener.read("/e").nodes[0].owner == listener.sessions()[-1]

    def test_a_session_that_stays_cut_off_expires_by_the_clock(self, world: World, other: Listener) -> None:
        """The server deletes its ephemerals at once. The store receives EXPIRED only when it is connected again."""
        cut_off = Listener(world.store(session_timeout=1.5))
        cut_off.write(WriteOp(CREATE_EPHEMERAL, "/e", b""))
        other.arm(exists=("/e",))
        world.cut(cut_off.store)
        cut_off.state(CONNECTED, SUSPENDED)
        waiting = cut_off.submit_write(create("/never"))
        world.let_pass(1.5)
        other.event("/e", NODE_DELETED)
        assert cut_off.states() == [CONNECTED, SUSPENDED]
        world.heal(cut_off.store)
        cut_off.until(lambda news: cut_off.states()[-2:] == [EXPIRED, CONNECTED])
        assert cut_off.reply(waiting).code in (SESSION_EXPIRED, CONNECTION_LOSS)
        assert len(set(cut_off.sessions())) == 2
        assert cut_off.read("/never").nodes[0].code == NO_NODE
        cut_off.store.stop()

    def test_pending_operations_fail_when_the_session_expires(self, world: World, listener: Listener) -> None:
        world.cut(listener.store)
        listener.state(CONNECTED, SUSPENDED)
        number = listener.submit_write(create("/never"))
        world.expire(listener.store)
        expired = listener.reply(number)
        assert expired.code == SESSION_EXPIRED
        listener.until(lambda news: listener.states()[-2:] == [EXPIRED, CONNECTED])
        states = [each for each in listener.news if isinstance(each, SessionState) and each.state == EXPIRED]
        assert listener.news.index(expired) < listener.news.index(states[0])
        assert listener.read("/never").nodes[0].code == NO_NODE

    def test_nothing_comes_after_stop(self, listener: Listener) -> None:
        listener.write(create("/a"))
        listener.arm(("/a",))
        before = len(listener.news)
        listener.store.stop()
        assert len(listener.news) == before
