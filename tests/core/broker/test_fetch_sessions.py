"""Fetch sessions: their creation, their eviction, and the responses within one (broker.md 4.2)."""

from __future__ import annotations

import pytest

from actors.core.broker.fetch_sessions import SAFE_SECONDS, CachedPartition, FetchSessions, Session
from messages.apis.fetch import CONSUMER, FetchedPartition, FetchPartition, FetchRequest, next_epoch
from messages.cluster import TopicPartition
from messages.errors import FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, NONE

FOLLOWER = 1
LATE = SAFE_SECONDS + 1


def partitions(count: int) -> tuple[FetchPartition, ...]:
    return tuple(FetchPartition(TopicPartition("t", number), 0, 1000) for number in range(count))


def request(
    *parts: FetchPartition, id: int = 0, epoch: int = 0, replica: int = CONSUMER, forgotten: int = 0
) -> FetchRequest:
    gone = tuple(TopicPartition("t", number) for number in range(forgotten))
    return FetchRequest(11, replica, 0, 1, parts, session_id=id, session_epoch=epoch, forgotten=gone)


def begin(sessions: FetchSessions, now: float = 0.0, count: int = 1, replica: int = CONSUMER) -> int:
    """Begin a session with this number of partitions and return its id, 0 without a free slot."""
    found = sessions.find(request(*partitions(count), replica=replica), 1, now)
    assert isinstance(found, Session)
    return found.id


def goes_on(sessions: FetchSessions, id: int, epoch: int, now: float = 0.0) -> bool:
    """Return whether the session accepts a request of that epoch."""
    return isinstance(sessions.find(request(id=id, epoch=epoch), 2, now), Session)


def test_a_session_expects_one_epoch_after_the_other() -> None:
    sessions = FetchSessions(10)
    id = begin(sessions)
    assert [goes_on(sessions, id, epoch) for epoch in (1, 2, 3)] == [True] * 3
    assert sessions.find(request(id=id, epoch=3), 2, 0.0) == INVALID_FETCH_SESSION_EPOCH
    assert sessions.find(request(id=id + 1, epoch=1), 2, 0.0) == FETCH_SESSION_ID_NOT_FOUND
    assert (next_epoch(3), next_epoch(2**31 - 1)) == (4, 1)


def test_the_largest_epoch_is_followed_by_the_first() -> None:
    sessions = FetchSessions(10)
    id = begin(sessions)
    session = sessions.get(id)
    assert session is not None
    session.epoch = 2**31 - 1
    assert [goes_on(sessions, id, epoch) for epoch in (2**31 - 1, 1, 2)] == [True] * 3


def test_a_session_has_the_partitions_that_its_requests_name() -> None:
    sessions, (first, second) = FetchSessions(10), partitions(2)
    id = begin(sessions, count=2)
    session = sessions.get(id)
    assert session is not None
    session.unread.clear()
    sessions.find(request(first, id=id, epoch=1), 2, 0.0)
    assert list(session.unread) == [first.partition]
    sessions.find(request(id=id, epoch=2, forgotten=1), 3, 0.0)
    assert list(session.partitions) == [second.partition] and not session.unread


def test_each_offset_that_moves_is_sent_once() -> None:
    place, sent = CachedPartition(partitions(1)[0], 0), []
    for high_watermark, start in ((5, 0), (5, 0), (6, 0), (6, 2), (6, 2)):
        offsets = FetchedPartition(place.part.partition, NONE, high_watermark, high_watermark, start)
        sent.append(place.must_include(offsets))
    assert sent == [True, False, True, True, False]


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_request_ends_the_session_that_it_names(epoch: int) -> None:
    sessions = FetchSessions(10)
    id = begin(sessions)
    found = sessions.find(request(*partitions(1), id=id, epoch=epoch), 2, 0.0)
    assert isinstance(found, Session)
    assert (found.id != 0, found.id != id, goes_on(sessions, id, 1)) == (epoch == 0, True, False)
    assert [ended.id for ended in sessions.take_ended()] == [id]


def test_a_session_without_partitions_ends() -> None:
    sessions = FetchSessions(10)
    id = begin(sessions)
    found = sessions.find(request(id=id, epoch=1, forgotten=1), 2, 0.0)
    assert isinstance(found, Session)
    assert (found.id, len(sessions)) == (0, 0)


def test_new_and_used_sessions_are_not_evicted() -> None:
    sessions = FetchSessions(1)
    id = begin(sessions)
    assert begin(sessions, SAFE_SECONDS, count=9) == 0
    assert goes_on(sessions, id, 1)


def test_a_long_unused_session_is_evicted_for_any_other() -> None:
    sessions = FetchSessions(2)
    first, second = begin(sessions, count=9, replica=FOLLOWER), begin(sessions, 1.0, count=9, replica=FOLLOWER)
    assert begin(sessions, LATE) != 0
    assert (goes_on(sessions, first, 1), goes_on(sessions, second, 1)) == (False, True)


@pytest.mark.parametrize(
    ("old", "new", "age", "gives_way"),
    [
        ((CONSUMER, 1), (CONSUMER, 2), LATE, True),
        ((CONSUMER, 2), (CONSUMER, 2), LATE, False),
        ((CONSUMER, 1), (CONSUMER, 2), 10.0, False),
        ((CONSUMER, 9), (FOLLOWER, 1), 10.0, True),
        ((FOLLOWER, 1), (CONSUMER, 9), LATE, False),
        ((FOLLOWER, 1), (FOLLOWER, 2), LATE, True),
        ((FOLLOWER, 1), (FOLLOWER, 2), 10.0, False),
    ],
)
def test_the_less_important_session_is_evicted(
    old: tuple[int, int], new: tuple[int, int], age: float, gives_way: bool
) -> None:
    """`old`, `new`: (replica id, number of partitions) of the existing session, which is used, and of the new one."""
    sessions = FetchSessions(1)
    id = begin(sessions, count=old[1], replica=old[0])
    goes_on(sessions, id, 1, now=age - 1)
    assert (begin(sessions, age, count=new[1], replica=new[0]) != 0) == gives_way
