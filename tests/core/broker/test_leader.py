"""The rules of a partition's leader: rows of broker.md 9.3 and 9.5, and invariants of random runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.broker.leader import NEVER, UNKNOWN, CompleteProduce, Leader, WriteIsr, batch_verdict
from actors.core.broker.replica_log import ReplicaLog
from messages import errors
from messages.apis.produce import ProducePartition
from messages.cluster import TopicPartition
from messages.partition import AppendBatch, LaggingFollower, LogSettings
from messages.wire.record_batch import read_records
from tests.storage.batches import batch, with_header

LAG = 30.0


def leader(
    *isr: int,
    replicas: tuple[int, ...] = (),
    end: int = 0,
    high_watermark: int = 0,
    min_isr: int = 1,
    now: float = 0.0,
    epoch: int = 5,
) -> Leader:
    return Leader(1, epoch, replicas or isr, isr, 7, ReplicaLog(0, end, high_watermark), LAG, min_isr, now)


def writes(of: Leader) -> list[tuple[int, ...]]:
    return [step.isr for step in of.take() if isinstance(step, WriteIsr)]


def releases(of: Leader) -> dict[object, int]:
    return {step.token: step.error_code for step in of.take() if isinstance(step, CompleteProduce)}


def number(of: Leader) -> int:
    [write] = [step for step in of.take() if isinstance(step, WriteIsr)]
    return write.number


# ------------------------------------------------------------------------------------------------ becoming leader


def test_row_8_to_10_where_the_high_watermark_begins() -> None:
    assert leader(1, 2, end=6, high_watermark=4).log.high_watermark == 4
    assert leader(1, 2, end=6, high_watermark=9).log.high_watermark == 6
    assert leader(1, end=6).log.high_watermark == 6


def test_row_11_what_is_known_of_followers_at_first() -> None:
    new = leader(1, 2, replicas=(1, 2, 3), end=6, now=10.0)
    assert (new.followers[2].log_end_offset, new.followers[2].log_start_offset, new.followers[2].caught_up_at) == (
        UNKNOWN,
        UNKNOWN,
        10.0,
    )
    assert new.followers[3].caught_up_at == NEVER


def test_row_12_a_leader_again_keeps_its_followers_ends() -> None:
    again = leader(1, 2, end=6)
    again.handle_fetch(2, 6, 0, 6, 1.0)
    again.handle_append(9, 2.0)
    again.renew(6, (1, 2), (1, 2), 8, 3.0)
    assert (again.followers[2].log_end_offset, again.epoch_start, again.log.high_watermark) == (6, 9, 6)


def test_a_leader_that_missed_an_epoch_knows_no_ends_until_its_followers_fetch() -> None:
    again = leader(1, 2, end=6)
    again.handle_fetch(2, 6, 0, 6, 1.0)
    again.renew(again.leader_epoch + 2, (1, 2), (1, 2), 8, 3.0)
    again.handle_append(9, 4.0)
    assert (again.followers[2].log_end_offset, again.log.high_watermark) == (UNKNOWN, 6)
    again.handle_fetch(2, 5, 0, 9, 5.0)
    assert again.log.high_watermark == 6
    again.handle_fetch(2, 9, 0, 9, 6.0)
    assert again.log.high_watermark == 9


def test_a_follower_whose_log_was_truncated_has_a_lower_end() -> None:
    both = leader(1, 2, 3, end=10)
    both.handle_fetch(2, 8, 0, 10, 1.0)
    both.handle_fetch(2, 5, 0, 10, 2.0)
    both.handle_fetch(3, 10, 0, 10, 3.0)
    assert (both.followers[2].log_end_offset, both.log.high_watermark) == (5, 5)


# ------------------------------------------------------------------------------------------------ shrink and expand


def test_row_57_a_follower_that_never_fetched_leaves_after_the_lag() -> None:
    slow = leader(1, 2, end=10)
    slow.tick(30.0)
    assert writes(slow) == []
    slow.tick(30.001)
    one = number(slow)
    assert slow.log.high_watermark == 0
    slow.isr_written(one, 8, 31.0)
    assert (slow.isr, slow.zk_version, slow.log.high_watermark) == ((1,), 8, 10)


def test_row_58_a_refused_write_changes_nothing() -> None:
    slow = leader(1, 2, end=10)
    slow.tick(31.0)
    slow.isr_written(number(slow), None, 32.0)
    assert (slow.isr, slow.zk_version, slow.log.high_watermark) == ((1, 2), 7, 0)


def test_the_high_watermark_counts_a_replica_that_a_write_would_add() -> None:
    """A replica in an unfinished ISR write may be in the ISR and lead next.

    Offsets that it does not have are not committed (rule 4).
    """
    moving = leader(1, 3, replicas=(1, 2, 3), end=10, high_watermark=10)
    moving.handle_append(20, 40.0)
    moving.handle_fetch(3, 12, 0, 20, 41.0)
    moving.handle_fetch(2, 12, 0, 20, 41.0)
    one = number(moving)
    assert moving.followers[2].caught_up_at < 41.0 - LAG, "it does not count as caught up"
    moving.handle_fetch(3, 20, 0, 20, 42.0)
    assert (moving.maximal_isr, moving.log.high_watermark) == ((1, 3, 2), 12)
    moving.isr_written(one, None, 43.0)
    assert moving.log.high_watermark == 20, "refused: it is not in the ISR"


def test_row_59_a_silent_follower_at_the_log_end_stays() -> None:
    idle = leader(1, 2, end=10)
    idle.handle_fetch(2, 10, 0, 10, 1.0)
    idle.tick(10_000.0)
    assert writes(idle) == []


def test_row_60_a_follower_at_the_previous_log_end_was_caught_up_then() -> None:
    busy = leader(1, 2, end=10)
    busy.handle_fetch(2, 0, 0, 10, 20.0)
    busy.handle_append(15, 21.0)
    busy.handle_fetch(2, 10, 0, 15, 40.0)
    assert busy.followers[2].caught_up_at == 20.0
    busy.tick(50.0)
    assert writes(busy) == []
    busy.tick(50.1)
    assert writes(busy) == [(1,)]


@pytest.mark.parametrize(("last", "out_at"), [(0.0, 45.0), (-0.001, 30.0), (0.001, 45.0)])
def test_the_looks_are_half_a_lag_apart(last: float, out_at: float) -> None:
    """The follower was last caught up at `last`, and the ISR is checked every 15 s."""
    slow = leader(1, 2, end=10, now=last)
    looks = [15.0 * look for look in range(1, 6)]
    found = []
    for look in looks:
        slow.tick(look)
        found += [look] if writes(slow) else []
    assert found[0] == out_at


def test_row_61_stuck_and_slow_followers_leave_the_isr() -> None:
    both = leader(1, 2, 3, end=10)
    for second in range(1, 31):
        both.handle_fetch(3, second // 4, 0, 10 + second, float(second))  # falls further behind each second
        both.handle_append(11 + second, float(second))
    both.tick(30.0)
    assert writes(both) == []
    both.tick(30.1)
    assert writes(both) == [(1,)]


def test_row_62_and_63_a_caught_up_follower_joins_the_isr() -> None:
    grown = leader(1, replicas=(1, 2), end=10)
    assert grown.log.high_watermark == 10
    grown.handle_fetch(2, 3, 0, 10, 1.0)
    assert writes(grown) == []
    grown.handle_fetch(2, 10, 0, 10, 2.0)
    refused = number(grown)
    grown.isr_written(refused, None, 3.0)
    assert (grown.isr, grown.followers[2].log_end_offset) == ((1,), 10)
    grown.handle_fetch(2, 10, 0, 10, 4.0)
    grown.isr_written(number(grown), 8, 5.0)
    assert grown.isr == (1, 2)


def test_row_64_the_start_of_the_epoch_must_be_reached() -> None:
    new = leader(1, 3, replicas=(1, 2, 3), end=10, high_watermark=4)
    new.handle_fetch(2, 4, 0, 10, 1.0)
    assert writes(new) == []
    new.handle_fetch(2, 10, 0, 10, 2.0)
    assert writes(new) == [(1, 3, 2)]


def test_a_replica_that_is_not_alive_stays_out() -> None:
    grown = leader(1, replicas=(1, 2), end=10)
    grown.handle_fetch(2, 10, 0, 10, 2.0, alive=False)
    assert writes(grown) == []


def test_one_write_at_a_time_and_an_answer_counts_for_its_own_only() -> None:
    slow = leader(1, 2, 3, end=10)
    slow.tick(31.0)
    first = number(slow)
    slow.tick(40.0)
    slow.handle_fetch(2, 10, 0, 10, 41.0)
    assert writes(slow) == []
    slow.isr_written(first + 1, 9, 42.0)
    assert slow.isr == (1, 2, 3)
    slow.renew(6, (1, 2, 3), (1, 2, 3), 12, 43.0)
    slow.isr_written(first, 9, 44.0)
    assert (slow.isr, slow.zk_version) == ((1, 2, 3), 12)


def test_a_write_under_way_counts_for_the_high_watermark_but_not_for_the_minimum() -> None:
    grown = leader(1, replicas=(1, 2), end=10, min_isr=2, high_watermark=10)
    grown.handle_fetch(2, 10, 0, 10, 100.0)
    write = number(grown)
    assert grown.may_append(-1) == errors.NOT_ENOUGH_REPLICAS
    assert grown.may_append(1) == errors.NONE
    grown.isr_written(write, 8, 101.0)
    assert grown.may_append(-1) == errors.NONE
    grown.handle_append(12, 200.0)
    assert grown.log.high_watermark == 10
    grown.handle_fetch(2, 12, 0, 12, 201.0)
    assert grown.log.high_watermark == 12


# ------------------------------------------------------------------------------------------------ high watermark


def test_row_68_a_recently_caught_up_follower_limits_the_high_watermark() -> None:
    held = leader(1, replicas=(1, 2), end=10)
    held.handle_fetch(2, 10, 0, 10, 1.0, alive=False)
    held.handle_append(20, 2.0)
    assert held.log.high_watermark == 10
    held.tick(31.0)
    assert held.log.high_watermark == 10
    held.tick(31.1)
    assert held.log.high_watermark == 20


def test_a_leader_alone_of_one_replica_needs_no_more_than_itself() -> None:
    alone = leader(1, min_isr=2)
    assert alone.may_append(-1) == errors.NONE
    alone.handle_append(3, 1.0)
    assert alone.log.high_watermark == 3


# ------------------------------------------------------------------------------------------------ waiting


def test_a_produce_waits_for_the_high_watermark_or_its_deadline_or_the_end() -> None:
    shared = leader(1, 2)
    shared.handle_append(5, 0.0)
    for token, offset, deadline in (("a", 3, 10.0), ("b", 5, 1.0), ("c", 5, 10.0)):
        shared.wait(token, offset, deadline)
    assert (releases(shared), shared.next_deadline) == ({}, 1.0)
    shared.handle_fetch(2, 3, 0, 5, 0.5)
    assert releases(shared) == {"a": errors.NONE}
    shared.expire(1.0)
    assert releases(shared) == {"b": errors.REQUEST_TIMED_OUT}
    shared.end()
    assert releases(shared) == {"c": errors.NOT_LEADER_OR_FOLLOWER}
    assert shared.waiting == 0
    shared.wait("d", 3, 10.0)
    assert releases(shared) == {"d": errors.NONE}


def test_a_repeated_batch_waits_for_its_own_offset_only() -> None:
    shared = leader(1, 2, end=20)
    for token, offset in (("second", 20), ("first, again", 10), ("between", 15)):
        shared.wait(token, offset, 60.0)
    reported = []
    for offset in (10, 15, 20):
        shared.handle_fetch(2, offset, 0, 20, 1.0)
        reported.append(list(releases(shared)))
    assert reported == [["first, again"], ["between"], ["second"]]


def test_row_33_below_the_minimum_nothing_is_committed_and_waiting_ends_by_time() -> None:
    """As in Kafka 3.7 and later, the high watermark stays, so the produce times out."""
    shared = leader(1, 2, min_isr=2)
    shared.handle_append(5, 0.0)
    shared.wait("a", 5, 60.0)
    shared.tick(31.0)
    shared.isr_written(number(shared), 8, 32.0)
    assert (shared.log.high_watermark, releases(shared)) == (0, {})
    shared.expire(60.0)
    assert releases(shared) == {"a": errors.REQUEST_TIMED_OUT}


# ------------------------------------------------------------------------------------------------ random runs


@given(st.data())
def test_the_high_watermark_only_increases_and_is_in_the_whole_isr(data: st.DataObject) -> None:
    now, replicas = 0.0, (1, 2, 3)
    least = data.draw(st.integers(1, 3))
    any_leader, looked_at = leader(1, 2, 3, min_isr=least), leader(1, 2, 3, min_isr=least)

    def do(method: str, *args: object) -> None:
        """Apply the step to both leaders; reading `followers` makes one of them create its followers' state early."""
        for each in (any_leader, looked_at):
            assert looked_at.followers
            getattr(each, method)(*args)

    ends = {2: 0, 3: 0}
    in_zookeeper = {1, 2, 3}
    open_writes: list[WriteIsr] = []
    waiting: set[object] = set()
    released: list[object] = []
    for token in range(data.draw(st.integers(1, 40))):
        now += data.draw(st.sampled_from((0.0, 0.5, 16.0, 31.0)))
        before = any_leader.log.high_watermark
        match data.draw(st.sampled_from(("append", "fetch", "tick", "write", "lose", "expire", "renew"))):
            case "append":
                do("handle_append", any_leader.log.end + data.draw(st.integers(1, 3)), now)
                if any_leader.may_append(-1) == errors.NONE:
                    do("wait", token, any_leader.log.end, now + 20.0)
                    waiting.add(token)
            case "fetch":
                replica = data.draw(st.sampled_from((2, 3)))
                ends[replica] = data.draw(st.integers(ends[replica], any_leader.log.end))
                do("handle_fetch", replica, ends[replica], 0, any_leader.log.end, now)
            case "tick":
                do("tick", now)
            case "write" if open_writes:
                write = open_writes.pop()
                in_zookeeper = set(write.isr)
                do("isr_written", write.number, write.zk_version + 1, now)
            case "lose" if open_writes:
                do("isr_written", open_writes.pop().number, None, now)
            case "expire":
                do("expire", now)
            case "renew":
                open_writes.clear()
                do("renew", any_leader.leader_epoch + 1, replicas, sorted(in_zookeeper), 50, now)
        steps = any_leader.take()
        assert steps == looked_at.take()
        for at in (now, now + 16.0, now + 31.0):
            assert any_leader.check_after(at) == looked_at.check_after(at)
        for step in steps:
            match step:
                case WriteIsr():
                    assert not open_writes
                    open_writes.append(step)
                case CompleteProduce(token, code):
                    released.append(token)
                    assert code in (errors.NONE, errors.REQUEST_TIMED_OUT)
        assert before <= any_leader.log.high_watermark <= any_leader.log.end
        assert (any_leader.log.high_watermark, any_leader.isr) == (looked_at.log.high_watermark, looked_at.isr)
        assert any_leader.broker_id in any_leader.isr
        if any_leader.log.high_watermark > before:
            possible = in_zookeeper | {r for write in open_writes for r in write.isr}
            for replica in possible - {1}:
                assert ends[replica] >= any_leader.log.high_watermark, "elected, it would lack acknowledged records"
    any_leader.end()
    released += [step.token for step in any_leader.take() if isinstance(step, CompleteProduce)]
    assert sorted(map(str, released)) == sorted(map(str, waiting)), "each gets one response"


def test_a_member_of_the_isr_that_is_no_replica_leaves_it() -> None:
    unfollowed = leader(1, 3, replicas=(1,))
    assert unfollowed.check_after(1.0) is not None
    followed = leader(1, 2, 3, replicas=(1, 2))
    followed.handle_fetch(2, 0, 0, 0, 99.0)
    assert followed.check_after(99.0) is not None
    followed.tick(100.0)
    assert writes(followed) == [(1, 2)]


def test_a_shrink_names_how_far_behind_each_follower_is_and_since_when() -> None:
    led = leader(1, 2, 3, end=10, now=100.0)
    never_fetched = (LaggingFollower(2, UNKNOWN, 31.0, 31.0), LaggingFollower(3, UNKNOWN, 31.0, 31.0))
    assert led.laggards((1,), 131.0) == never_fetched
    led.handle_fetch(3, 4, 0, 10, 125.0)
    assert led.laggards((1, 2), 131.0) == (LaggingFollower(3, 4, 6.0, 31.0),)
    led.followers[3].caught_up_at = led.followers[3].fetched_at = NEVER
    assert led.laggards((1, 2), 131.0) == (LaggingFollower(3, 4, -1.0, -1.0),)


# ------------------------------------------------------------------------------------------------ times of records

NOW, HOUR = 10**12, 3_600_000
BEFORE, AFTER = LogSettings(timestamp_before_max_ms=HOUR), LogSettings(timestamp_after_max_ms=HOUR)
BOTH, APPEND = LogSettings(timestamp_difference_max_ms=HOUR), LogSettings(append_time=True, timestamp_after_max_ms=1)


@pytest.mark.parametrize(
    ("settings", "valid"),
    [
        (LogSettings(), (True, True, True, True)),
        (BOTH, (False, True, True, False)),
        (BEFORE, (False, True, True, True)),
        (AFTER, (True, True, True, False)),
        (LogSettings(timestamp_difference_max_ms=HOUR, timestamp_after_max_ms=2 * HOUR), (False, True, True, True)),
        (APPEND, (True, True, True, True)),
    ],
)
def test_a_time_outside_the_limits_refuses_the_batch(settings: LogSettings, valid: tuple[bool, ...]) -> None:
    """A limit that is not set is `message.timestamp.difference.max.ms` (Kafka 3.9 `LogConfig`)."""
    for shift, is_valid in zip((-HOUR - 1, -HOUR, HOUR, HOUR + 1), valid, strict=True):
        assert judged(batch(b"a", timestamp=NOW + shift), settings) == ((0, []) if is_valid else (32, [0]))


def test_records_with_invalid_times_are_named_if_all_have_the_same() -> None:
    data = batch(b"a", b"b", timestamp=NOW + 2 * HOUR)
    assert judged(data, AFTER) == (32, [])
    assert judged(with_header(data, max_timestamp=NOW + 2 * HOUR), AFTER) == (32, [0, 1])


@pytest.mark.parametrize(("settings", "time", "code"), [(APPEND, 1, 32), (BOTH, -1, 32), (LogSettings(), 1, 0)])
def test_a_producer_must_not_set_the_append_time(settings: LogSettings, time: int, code: int) -> None:
    assert judged(with_header(batch(b"a"), attributes=8, max_timestamp=time), settings)[0] == code


def judged(data: bytes, settings: LogSettings) -> tuple[int, list[int]]:
    """Return the error code of a batch and the records that it names."""
    part = ProducePartition(TopicPartition("t", 0), read_records(data))
    verdict = batch_verdict(AppendBatch(0, 0, part, 1, 8, 1.0), settings, NOW)
    return (0, []) if verdict is None else (verdict.error_code, [each.batch_index for each in verdict.record_errors])
