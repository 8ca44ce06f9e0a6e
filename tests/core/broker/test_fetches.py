"""The limits of fetches; idle fetch sessions: when the listener may answer for them, and what wakes them (rule 7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.broker.fetch_sessions import SAFE_SECONDS, FetchSessions
from actors.core.broker.fetches import Fetches, ReadPartition, Respond, WakeSession, with_ids
from messages import errors
from messages.apis.fetch import READ_COMMITTED, FetchedPartition, FetchPartition, FetchRequest, FetchResponse
from messages.cluster import TopicId, TopicPartition
from messages.errors import FETCH_SESSION_ID_NOT_FOUND
from messages.partition import LogState
from messages.records import Body

T = [TopicPartition("t", number) for number in range(2)]
FOLLOWER = 1


def state(end: int, high_watermark: int) -> LogState:
    """Return the state of a log that this broker leads."""
    return LogState(start=0, end=end, high_watermark=high_watermark, stable=high_watermark, leader_epoch=0, leads=True)


class World:
    """The fetches of a broker, and the logs that they read."""

    def __init__(self, slots: int = 10) -> None:
        self.fetches = Fetches(FetchSessions(slots), 1 << 20)
        self.fetches.brokers_alive((FOLLOWER,))
        self.logs = {partition: state(5, 5) for partition in T}
        self.requests = 0

    def poll(self, id: int, epoch: int, *offsets: int, now: float = 0.0, in_sync: bool = True) -> list[Respond]:
        """Send a follower's fetch, do all its reads, let it expire, and return the responses."""
        self.requests += 1
        parts = tuple(FetchPartition(partition, offset, 1 << 20) for partition, offset in zip(T, offsets, strict=False))
        request = FetchRequest(11, FOLLOWER, 500, 1, parts, session_id=id, session_epoch=epoch)
        self.fetches.begin(self.requests, request, now)
        done = self.take(now, in_sync)
        self.fetches.expire(now + 0.5)
        return [step for step in (*done, *self.fetches.take()) if isinstance(step, Respond)]

    def take(self, now: float, in_sync: bool = True) -> list[Respond | WakeSession]:
        """Do all pending reads, which find no records, and return the other steps."""
        done: list[Respond | WakeSession] = []
        while steps := self.fetches.take():
            for step in steps:
                if isinstance(step, ReadPartition):
                    log = self.logs[step.partition]
                    result = FetchedPartition(step.partition, 0, log.high_watermark, log.high_watermark, 0)
                    self.fetches.read(step.question.request, result, log, now, in_sync)
                else:
                    done.append(step)
        return done

    def resting(self, *offsets: int) -> int:
        """Return the id of an idle session, of both partitions unless fewer offsets are given."""
        [first] = self.poll(0, 0, *offsets or (5, 5))
        [second] = self.poll(first.response.session_id, 1)
        assert (first.rest, second.rest) == (0, 2) and not second.response.partitions
        return second.response.session_id

    def move(self, partition: TopicPartition, end: int, high_watermark: int, now: float) -> list[Respond | WakeSession]:
        """Move a log's offsets, notify the fetches, and return their steps."""
        self.logs[partition] = state(end, high_watermark)
        self.fetches.store_state(partition, self.logs[partition], now)
        return self.take(now)


def test_it_is_idle_when_nothing_was_sent_and_nothing_is_pending() -> None:
    World().resting()


def test_a_follower_that_may_come_into_the_isr_does_not_rest() -> None:
    world = World()
    [first] = world.poll(0, 0, 5, 5, in_sync=False)
    [second] = world.poll(first.response.session_id, 1, in_sync=False)
    assert second.rest == 0, "each of its polls is news"
    [third] = world.poll(first.response.session_id, 2)
    assert third.rest == 3


IDS = ["AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"]


class Reader:
    """A consumer whose fetches have the topic ids in IDS; hosted topics have records, others are unknown."""

    def __init__(self) -> None:
        self.world, self.number = World(), 100

    def fetch(self, id: int, epoch: int, *ids: str, version: int = 13) -> tuple[int, int, list[tuple[str, int]]]:
        """Return the error code, the session id, and the topic and code of each partition in the response."""
        self.number += 1
        parts = tuple([FetchPartition(TopicPartition(each, 0), 0, 1 << 20) for each in ids])
        self.world.fetches.begin(self.number, FetchRequest(version, -1, 0, 0, parts, 1 << 20, 0, id, epoch), 0.0)
        found: list[Respond] = []
        while steps := self.world.fetches.take():
            for step in steps:
                match step:
                    case ReadPartition(partition, question) if partition.topic in ("t", "u"):
                        result = FetchedPartition(partition, 0, 5, 5, 0)
                        self.world.fetches.read(question.request, result, state(5, 5), 0.0)
                    case ReadPartition(partition, question):
                        unknown = FetchedPartition(partition, errors.UNKNOWN_TOPIC_OR_PARTITION)
                        self.world.fetches.read(question.request, unknown, None, 0.0)
                    case Respond():
                        found.append(step)
        [done] = found
        response = done.response if done.ids is None else with_ids(done.response, done.ids)
        codes = [(each.partition.topic, each.error_code) for each in response.partitions]
        return response.error_code, response.session_id, codes


def test_partitions_with_unknown_ids_stay_in_the_session_until_they_are_known() -> None:
    reader, unknown = Reader(), errors.UNKNOWN_TOPIC_ID
    reader.world.fetches.topic_ids_changed((TopicId("t", IDS[0]),), 0.0)
    code, id, codes = reader.fetch(0, 0, *IDS, "")
    assert (code, codes) == (0, [(IDS[0], 0), (IDS[1], unknown), ("", unknown)])
    assert reader.fetch(id, 1) == (0, id, [(IDS[1], unknown), ("", unknown)])
    reader.world.fetches.topic_ids_changed((TopicId("t", IDS[0]), TopicId("u", IDS[1])), 0.0)
    assert reader.fetch(id, 2) == (0, id, [(IDS[1], 0), ("", unknown)])
    reader.world.fetches.topic_ids_changed((TopicId("u", IDS[0]),), 0.0)
    code, _, codes = reader.fetch(id, 3)
    assert dict(codes) == {IDS[0]: 0, IDS[1]: unknown, "": unknown}, "ids may move to other topics"


def test_a_session_keeps_to_names_or_to_ids() -> None:
    reader, mixed = Reader(), errors.FETCH_SESSION_TOPIC_ID_ERROR
    for first, other, topic in ((13, 12, IDS[0]), (12, 13, "t")):
        _, id, _ = reader.fetch(0, 0, topic, version=first)
        assert reader.fetch(id, 1, version=other) == (mixed, 0, [])
        assert reader.fetch(id, 7, version=other)[0] == errors.INVALID_FETCH_SESSION_EPOCH
        assert reader.fetch(id, 1, version=first)[:2] == (0, id), "the session has not changed"


@pytest.mark.parametrize(("end", "high_watermark"), [(6, 5), (5, 4)])
def test_a_log_that_moves_wakes_it_once(end: int, high_watermark: int) -> None:
    world = World()
    id = world.resting()
    assert world.move(T[1], end, high_watermark, 60.0) == [WakeSession(id)]
    assert world.move(T[0], end, high_watermark, 60.0) == []
    world.fetches.woken(id, 77, 59.8)
    [answer] = world.poll(id, 77, now=60.0)
    assert {part.partition for part in answer.response.partitions} == (set(T) if high_watermark == 4 else set())
    assert answer.rest == 0 or end == 6


def test_a_high_watermark_that_moves_twice_without_a_read_is_sent() -> None:
    """The partition notifies only the first move, so the reader's next poll reads the current offsets."""
    world = World()
    world.logs = {partition: state(5, 3) for partition in T}
    id = world.resting()
    assert world.move(T[0], 5, 4, 1.0) == [WakeSession(id)]
    world.fetches.woken(id, 3, 0.9)
    world.logs[T[0]] = state(5, 5)  # the partition does not notify this move
    reported = [answer for epoch in (3, 4, 5) for answer in world.poll(id, epoch, now=1.0)]
    assert [[(part.partition, part.high_watermark) for part in answer.response.partitions] for answer in reported] == [
        [(T[0], 4)],
        [(T[0], 5)],
        [],
    ]
    assert [answer.rest for answer in reported] == [0, 0, 6]


def test_a_response_that_did_not_reach_its_reader_is_repeated() -> None:
    world = World()
    id = world.resting()
    world.move(T[0], 5, 4, 1.0)
    world.fetches.woken(id, 3, 0.9)
    for epoch in (3, 4):
        [answer] = world.poll(id, epoch, now=1.0)
        assert [part.partition for part in answer.response.partitions] == [T[0]]
        world.fetches.undo_response(id, False, (T[0],), 1.0)
    world.fetches.undo_response(id, True, (), 1.0)
    assert [answer.response.error_code for answer in world.poll(id, 5, now=1.0)] == [FETCH_SESSION_ID_NOT_FOUND]
    assert not world.fetches.idle_until(T[0], 1.0), "nothing is kept of an ended session"
    world.fetches.undo_response(id, True, (), 1.0)


def test_a_follower_that_rests_is_caught_up_now_and_then_when_it_polled_last() -> None:
    world = World()
    id = world.resting()
    assert world.fetches.idle_until(T[0], 40.0) == ((FOLLOWER, 40.0),)
    world.move(T[0], 6, 5, 50.0)
    assert world.fetches.idle_until(T[0], 50.0) == ((FOLLOWER, 50.0),), "until the listener has said"
    world.fetches.woken(id, 9, 49.7)
    assert world.fetches.idle_until(T[0], 50.0) == world.fetches.idle_until(T[1], 51.0) == ((FOLLOWER, 49.7),)


def test_a_lost_partition_wakes_it() -> None:
    world = World()
    id = world.resting()
    world.fetches.discard_state(T[0], 3.0)
    assert world.take(3.0) == [WakeSession(id)]


def test_a_read_of_a_lost_partition_is_repeated() -> None:
    fetches = World().fetches
    fetches.begin(1, FetchRequest(11, FOLLOWER, 500, 1, (FetchPartition(T[0], 5, 1 << 20),)), 0.0)
    for _ in range(2):
        assert [step.partition for step in fetches.take() if isinstance(step, ReadPartition)] == [T[0]]
        fetches.discard_state(T[0], 0.1)


def test_an_idle_session_keeps_its_slot_and_an_evicted_one_is_woken() -> None:
    world = World(slots=1)
    id = world.resting(5)
    late = SAFE_SECONDS + 1
    world.requests += 1
    consumer = FetchRequest(11, -1, 0, 1, (FetchPartition(T[0], 5, 1),), session_id=0, session_epoch=0)
    world.fetches.begin(world.requests, consumer, late)
    assert world.fetches.sessions.get(id) is not None, "it is used"
    world.take(late)
    [answer] = world.poll(0, 0, 5, 5, now=late)
    assert answer.response.session_id not in (0, id), "a larger one is worth more"
    assert world.fetches.sessions.get(id) is None


def test_a_reader_of_committed_data_waits_for_the_last_stable_offset() -> None:
    world = World()
    log = world.logs[T[0]] = state(5, 5)._replace(stable=3)
    part = FetchPartition(T[0], 3, 1 << 20)
    request = FetchRequest(11, -1, 500, 1, (part,), isolation_level=READ_COMMITTED, session_id=0, session_epoch=0)
    world.fetches.begin(1, request, 0.0)
    assert world.take(0.0) == []
    world.fetches.store_state(T[0], log._replace(end=6, high_watermark=6), 0.1)
    assert world.fetches.take() == [], "the open transaction still begins at offset 3"
    world.fetches.store_state(T[0], log._replace(end=6, high_watermark=6, stable=6), 0.2)
    assert [type(step) for step in world.fetches.take()] == [ReadPartition]


SIZES = {TopicPartition("t", number): sizes for number, sizes in enumerate([(50, 30, 70), (200, 9), (), (10,) * 9])}
"""The sizes of the batches in each partition; each batch has one record."""
LIMITS = st.sampled_from([0, 1, 9, 10, 35, 60, 90, 160, 1000])


def read(part: FetchPartition, most: int, at_least_one: bool) -> int:
    """Return the number of bytes that a log returns: as many as `most`, the last batch may be cut, the first not."""
    sizes = SIZES[part.partition][part.fetch_offset :]
    most = min(most, part.partition_max_bytes)
    if sizes and at_least_one:
        most = max(most, sizes[0])
    return min(most, sum(sizes)) if sizes and sizes[0] <= most else 0


def fetched(fetches: Fetches, number: int, request: FetchRequest) -> FetchResponse:
    """Return the response to a request whose partitions' logs are read."""
    fetches.begin(number, request, 0.0)
    while steps := fetches.take():
        for step in steps:
            if isinstance(step, Respond):
                return step.response
            assert isinstance(step, ReadPartition)
            part, question, end = step.question.part, step.question, len(SIZES[step.partition])
            body = Body(read(part, question.max_bytes, question.at_least_one), 0)
            result = FetchedPartition(part.partition, 0, end, end, 0, body=body)
            fetches.read(number, result, state(end, end), 0.0)
    raise AssertionError("the request waits")


@given(
    st.permutations([*SIZES]),
    st.lists(LIMITS, min_size=4, max_size=4),
    st.lists(st.integers(0, 2), min_size=4, max_size=4),
    st.lists(LIMITS, min_size=1, max_size=6),
)
def test_limits_of_bytes_are_kept_as_kafka_keeps_them(
    order: list[TopicPartition], most: list[int], offsets: list[int], totals: list[int]
) -> None:
    """Only the first partition with data may exceed a limit; in a session, partitions take turns.

    The model is the loop of Kafka's `ReplicaManager.readFromLog` over the partitions of `FetchSession`.
    """
    fetches = Fetches(FetchSessions(10), 150)
    parts = tuple(FetchPartition(*each) for each in zip(order, offsets, most, strict=True))
    session_id = 0
    for epoch, total in enumerate(totals):
        named = () if epoch else parts
        request = FetchRequest(11, -1, 0, 1, named, total, session_id=session_id, session_epoch=epoch)
        response = fetched(fetches, epoch, request)
        session_id = response.session_id
        left, expected = min(total, 150), {}
        for part in sorted(parts, key=lambda part: order.index(part.partition)):
            size = read(part, left, at_least_one=not expected)
            if size:
                expected[part.partition] = size
                left = max(left - size, 0)
        assert {part.partition: part.body.size for part in response.partitions if part.body.size} == expected
        if epoch:
            order = [*(each for each in order if each not in expected), *expected]


def test_a_fetch_waits_for_no_more_bytes_than_it_may_return() -> None:
    fetches = Fetches(FetchSessions(10), 40)
    part = FetchPartition(TopicPartition("t", 3), 0, 1000)
    for limits in ((1000, 30), (1000, 1000)):
        assert fetched(fetches, 1, FetchRequest(11, -1, 500, limits[0], (part,), limits[1])).partitions[0].body.size
