"""A follower's next request after each response, by the table of broker.md 4.4, without actors."""

from __future__ import annotations

import pytest

from actors.core.broker.fetcher import Fetcher, FetchSettings, PartitionCommand
from messages import errors
from messages.apis.fetch import DivergingEpoch, FetchedPartition, FetchPartition, FetchRequest, FetchResponse
from messages.apis.list_offsets import ListedOffset, ListOffsetsRequest, OffsetQuery
from messages.apis.offset_for_leader_epoch import EpochEnd, EpochQuery, OffsetForLeaderEpochRequest
from messages.cluster import TopicPartition
from messages.partition import Replicate, Replicated, TruncateFullyAndStartAt, TruncateToEpochEnd
from messages.records import EARLIEST, LATEST
from messages.wire.record_batch import body_of
from tests.storage.batches import batch

A, B, C = (TopicPartition("t", number) for number in range(3))
BACKOFF = 1.0
EPOCH = 5


@pytest.fixture
def fetcher() -> Fetcher:
    return Fetcher(FetchSettings(broker_id=1, backoff=BACKOFF))


def fetching(fetcher: Fetcher, *partitions: TopicPartition, end: int = 10) -> None:
    """Follow these partitions, whose logs end at `end`, and finish their truncation without removing records."""
    for partition in partitions:
        fetcher.follow(partition, EPOCH, end, end, -1)
    for partition, _ in fetcher.without_epochs(0.0):
        fetcher.handle_replicated(Replicated(partition, EPOCH, errors.NONE, end), 0.0)


def asked(fetcher: Fetcher, now: float = 0.0) -> list[tuple[TopicPartition, int]]:
    """Return (partition, offset) of each partition in the next fetch."""
    request = fetcher.next_request(now)
    assert isinstance(request, FetchRequest)
    return [(part.partition, part.fetch_offset) for part in request.partitions]


def got(
    partition: TopicPartition, error_code: int = errors.NONE, *values: bytes, high_watermark: int = 0
) -> FetchedPartition:
    body = body_of(batch(*values, base_offset=10)) if values else body_of(b"")
    return FetchedPartition(partition, error_code, high_watermark, high_watermark, 0, body=body)


def answer(*results: FetchedPartition, session: int = 0, error_code: int = errors.NONE) -> FetchResponse:
    return FetchResponse(results, error_code, session)


def test_a_log_with_epochs_asks_where_its_newest_ends_before_it_fetches(fetcher: Fetcher) -> None:
    fetcher.follow(A, EPOCH, 10, 7, 4)
    assert fetcher.without_epochs(0.0) == []
    assert fetcher.next_request(0.0) == OffsetForLeaderEpochRequest(3, 1, (EpochQuery(A, 4, EPOCH),))
    assert fetcher.epochs_ended([EpochEnd(A, errors.NONE, 3, 8)], 0.0) == [
        PartitionCommand(A, TruncateToEpochEnd(EPOCH, 3, 8, 7))
    ]
    assert not fetcher.settled and fetcher.next_request(0.0) is None, "the log is being cut"
    fetcher.handle_replicated(Replicated(A, EPOCH, errors.NONE, 9, ask_epoch=2), 0.0)
    assert fetcher.next_request(0.0) == OffsetForLeaderEpochRequest(3, 1, (EpochQuery(A, 2, EPOCH),)), "asked again"
    fetcher.epochs_ended([EpochEnd(A, errors.NONE, 2, 6)], 0.0)
    fetcher.handle_replicated(Replicated(A, EPOCH, errors.NONE, 6), 0.0)
    assert asked(fetcher) == [(A, 6)]


def test_a_log_without_epochs_is_cut_at_its_high_watermark(fetcher: Fetcher) -> None:
    fetcher.follow(A, EPOCH, 10, 7, -1)
    assert fetcher.without_epochs(0.0) == [PartitionCommand(A, TruncateToEpochEnd(EPOCH, -1, -1, 7))]


def test_only_responses_with_news_are_sent_to_the_partition(fetcher: Fetcher) -> None:
    fetching(fetcher, A, B)
    asked(fetcher)
    first = fetcher.handle_response(answer(got(A, errors.NONE, b"x", high_watermark=10), got(B, high_watermark=4)), 0.0)
    assert [order.partition for order in first] == [A, B], "records, and news of the high watermark"
    message = first[0].message
    assert isinstance(message, Replicate)
    assert (message.leader_epoch, message.fetch_offset, message.high_watermark) == (EPOCH, 10, 10)
    fetcher.handle_replicated(Replicated(A, EPOCH, errors.NONE, 11), 0.0)
    fetcher.handle_replicated(Replicated(B, EPOCH, errors.NONE, 10), 0.0)
    asked(fetcher)
    assert fetcher.handle_response(answer(got(A, high_watermark=10), got(B, high_watermark=4)), 0.0) == []


def test_a_partition_that_got_records_is_last_in_the_next_request(fetcher: Fetcher) -> None:
    """A response has a maximum size, which must not always go to the first partition."""
    fetching(fetcher, A, B, C)
    assert asked(fetcher) == [(A, 10), (B, 10), (C, 10)]
    fetcher.handle_response(answer(got(A, errors.NONE, b"x"), got(B), got(C)), 0.0)
    for partition, end in ((A, 11), (B, 10), (C, 10)):
        fetcher.handle_replicated(Replicated(partition, EPOCH, errors.NONE, end), 0.0)
    assert asked(fetcher) == [(B, 10), (C, 10), (A, 11)]


@pytest.mark.parametrize(("latest", "order"), [(8, TruncateToEpochEnd(EPOCH, -1, 8, 8)), (10, None), (12, None)])
def test_an_offset_beyond_the_leaders_end_is_cut_back(
    fetcher: Fetcher, latest: int, order: TruncateToEpochEnd | None
) -> None:
    fetching(fetcher, A)
    asked(fetcher)
    assert fetcher.handle_response(answer(got(A, errors.OFFSET_OUT_OF_RANGE)), 0.0) == []
    assert fetcher.next_request(0.0) == ListOffsetsRequest(5, 1, (OffsetQuery(A, LATEST, EPOCH),))
    found = fetcher.offsets_listed([ListedOffset(A, errors.NONE, -1, latest, EPOCH)], 0.0)
    assert found == ([] if order is None else [PartitionCommand(A, order)])
    if order is None:
        assert fetcher.next_request(0.0) == ListOffsetsRequest(5, 1, (OffsetQuery(A, EARLIEST, EPOCH),))


@pytest.mark.parametrize(("earliest", "order"), [(50, TruncateFullyAndStartAt(EPOCH, 50)), (10, None), (3, None)])
def test_an_offset_before_the_leaders_start_restarts_the_log(
    fetcher: Fetcher, earliest: int, order: TruncateFullyAndStartAt | None
) -> None:
    fetching(fetcher, A)
    asked(fetcher)
    fetcher.handle_response(answer(got(A, errors.OFFSET_OUT_OF_RANGE)), 0.0)
    fetcher.next_request(0.0)
    fetcher.offsets_listed([ListedOffset(A, errors.NONE, -1, 99, EPOCH)], 0.0)
    fetcher.next_request(0.0)
    found = fetcher.offsets_listed([ListedOffset(A, errors.NONE, -1, earliest, EPOCH)], 0.0)
    assert found == ([] if order is None else [PartitionCommand(A, order)])
    if order is not None:
        fetcher.handle_replicated(Replicated(A, EPOCH, errors.NONE, 50), 0.0)
    assert asked(fetcher) == [(A, 10 if order is None else 50)]


@pytest.mark.parametrize("error_code", [errors.NOT_LEADER_OR_FOLLOWER, errors.UNKNOWN_LEADER_EPOCH, 99])
def test_a_refused_partition_backs_off_alone(fetcher: Fetcher, error_code: int) -> None:
    fetching(fetcher, A, B)
    asked(fetcher)
    fetcher.handle_response(answer(got(A, error_code), got(B)), 3.0)
    fetcher.handle_replicated(Replicated(B, EPOCH, errors.NONE, 10), 3.0)
    assert asked(fetcher, 3.0) == [(B, 10)]
    assert asked(fetcher, 3.0 + BACKOFF) == [(A, 10), (B, 10)]


def test_without_an_answer_everything_waits(fetcher: Fetcher) -> None:
    fetching(fetcher, A, B)
    asked(fetcher)
    fetcher.handle_failure(3.0)
    assert fetcher.next_request(3.0) is None
    assert fetcher.next_time() == 3.0 + BACKOFF


def test_a_fenced_partition_is_not_fetched_until_the_next_leader_and_isr(fetcher: Fetcher) -> None:
    fetching(fetcher, A)
    asked(fetcher)
    fetcher.handle_response(answer(got(A, errors.FENCED_LEADER_EPOCH)), 0.0)
    assert fetcher.next_request(99.0) is None and fetcher.failed == {A: errors.FENCED_LEADER_EPOCH}
    fetcher.follow(A, EPOCH + 1, 10, 10, 4)
    assert isinstance(fetcher.next_request(99.0), OffsetForLeaderEpochRequest) and not fetcher.failed


def test_a_disk_that_failed_is_left_alone_and_damaged_records_are_asked_for_again(fetcher: Fetcher) -> None:
    fetching(fetcher, A, B)
    asked(fetcher)
    fetcher.handle_response(answer(got(A, errors.NONE, b"x"), got(B, errors.NONE, b"x")), 0.0)
    fetcher.handle_replicated(Replicated(A, EPOCH, errors.KAFKA_STORAGE_ERROR, 10), 0.0)
    fetcher.handle_replicated(Replicated(B, EPOCH, errors.CORRUPT_MESSAGE, 10), 0.0)
    assert fetcher.failed == {A: errors.KAFKA_STORAGE_ERROR}
    assert fetcher.next_request(0.0) is None
    assert asked(fetcher, BACKOFF) == [(B, 10)]


def test_row_14_the_same_leader_in_another_epoch_is_checked_again(fetcher: Fetcher) -> None:
    fetching(fetcher, A)
    fetcher.follow(A, EPOCH, 10, 10, 4)
    assert asked(fetcher) == [(A, 10)], "the same epoch again changes nothing"
    fetcher.follow(A, EPOCH + 2, 10, 10, 4)
    assert fetcher.handle_response(answer(got(A, errors.NONE, b"late")), 0.0) == [], "an answer of the epoch before"
    assert fetcher.next_request(0.0) == OffsetForLeaderEpochRequest(3, 1, (EpochQuery(A, 4, EPOCH + 2),))


def test_an_unfollowed_partition_gets_no_message(fetcher: Fetcher) -> None:
    fetching(fetcher, A, B)
    request = fetcher.next_request(0.0)
    assert isinstance(request, FetchRequest)
    assert request.partitions[0] == FetchPartition(A, 10, 1 << 20, EPOCH, 0)
    fetcher.unfollow((A,))
    orders = fetcher.handle_response(answer(got(A, errors.NONE, b"x"), got(B, errors.NONE, b"x")), 0.0)
    assert [order.partition for order in orders] == [B]


# ------------------------------------------------------------------------------------------------ sessions


def within(fetcher: Fetcher, now: float = 0.0) -> tuple[int, int, list[TopicPartition], list[TopicPartition]]:
    """Return session id, session epoch, partitions and forgotten partitions of the next fetch."""
    request = fetcher.next_request(now)
    assert isinstance(request, FetchRequest)
    named = [part.partition for part in request.partitions]
    return request.session_id, request.session_epoch, named, list(request.forgotten)


def test_within_a_session_only_what_has_changed_is_named(fetcher: Fetcher) -> None:
    fetching(fetcher, A, B, C)
    assert within(fetcher) == (0, 0, [A, B, C], []), "a session is asked for"
    fetcher.handle_response(answer(got(A, high_watermark=3), got(B), got(C), session=7), 0.0)
    for partition in (A, B, C):
        fetcher.handle_replicated(Replicated(partition, EPOCH, errors.NONE, 10), 0.0)
    assert within(fetcher) == (7, 1, [], [])
    fetcher.handle_response(answer(got(B, errors.NONE, b"x"), session=7), 0.0)
    fetcher.handle_replicated(Replicated(B, EPOCH, errors.NONE, 11), 0.0)
    fetcher.unfollow((C,))
    assert within(fetcher) == (7, 2, [B], [C])
    fetcher.handle_response(answer(session=7), 0.0)
    fetcher.handle_response(answer(got(A, errors.KAFKA_STORAGE_ERROR), session=7), 0.0)
    assert within(fetcher) == (7, 4, [], [A]), "who waits for the backoff is not fetched"
    fetcher.handle_response(answer(session=7), 0.0)
    assert within(fetcher, BACKOFF) == (7, 5, [A], [])


@pytest.mark.parametrize(
    ("error_code", "session"), [(errors.FETCH_SESSION_ID_NOT_FOUND, 0), (errors.INVALID_FETCH_SESSION_EPOCH, 7)]
)
def test_a_refused_session_is_begun_again_at_once(fetcher: Fetcher, error_code: int, session: int) -> None:
    fetching(fetcher, A, B)
    asked(fetcher)
    fetcher.handle_response(answer(session=7), 0.0)
    assert within(fetcher) == (7, 1, [], [])
    assert fetcher.handle_response(answer(error_code=error_code), 0.0) == []
    assert within(fetcher) == (session, 0, [A, B], [])


def test_a_session_without_a_response_is_ended_by_the_next_request(fetcher: Fetcher) -> None:
    fetching(fetcher, A)
    asked(fetcher)
    fetcher.handle_response(answer(session=7), 0.0)
    asked(fetcher)
    fetcher.handle_failure(0.0)
    assert fetcher.next_request(0.0) is None
    assert within(fetcher, BACKOFF) == (7, 0, [A], [])


def test_a_leader_without_session_slots_receives_full_fetches(fetcher: Fetcher) -> None:
    fetching(fetcher, A)
    for _ in range(2):
        assert within(fetcher) == (0, 0, [A], [])
        fetcher.handle_response(answer(), 0.0)


def test_from_protocol_2_7_on_a_fetch_names_the_last_epoch_and_its_response_may_truncate() -> None:
    fetcher = Fetcher(FetchSettings(broker_id=1, backoff=BACKOFF, protocol="2.7"))
    fetcher.follow(A, EPOCH, 10, 7, 4)
    assert fetcher.without_epochs(0.0) == []
    request = fetcher.next_request(0.0)
    assert isinstance(request, FetchRequest)
    assert (request.version, request.partitions[0].last_fetched_epoch) == (12, 4)
    diverging = FetchedPartition(A, errors.NONE, 9, 9, 0, diverging_epoch=DivergingEpoch(3, 8))
    [order] = fetcher.handle_response(answer(diverging), 0.0)
    assert order == PartitionCommand(A, TruncateToEpochEnd(EPOCH, 3, 8, 7, with_epoch=True))
    fetcher.handle_replicated(Replicated(A, EPOCH, errors.NONE, 6, ask_epoch=2, last_epoch=2), 0.0)
    request = fetcher.next_request(0.0)
    assert isinstance(request, FetchRequest), "the next fetch compares the older epoch"
    assert (request.partitions[0].fetch_offset, request.partitions[0].last_fetched_epoch) == (6, 2)
    [order] = fetcher.handle_response(answer(got(A, errors.NONE, b"x", high_watermark=6)), 0.0)
    assert isinstance(order.message, Replicate) and order.message.with_epoch
    fetcher.handle_replicated(Replicated(A, EPOCH, errors.NONE, 7, last_epoch=EPOCH), 0.0)
    request = fetcher.next_request(0.0)
    assert isinstance(request, FetchRequest)
    assert request.partitions[0].last_fetched_epoch == EPOCH
