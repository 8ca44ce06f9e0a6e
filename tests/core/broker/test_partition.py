"""A hosted partition by calls: events in, effects out. Rows of broker.md 4.4, 4.5, 9.3, 9.4, 9.5 and 9.7."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from actors.broker.partition import PartitionActor
from actors.core.broker.hosted_replica import delete_verdict
from actors.core.broker.leader import Leader
from actors.core.broker.partition import Partition
from actors.core.broker.partition_effects import CallAdapter, RenameDeletedLog, Send, StorageError, WakeAt
from actors.core.broker.replica_log import ReplicaLog, truncation
from actors.runtime import Answerer
from messages import broker, errors
from messages.apis.fetch import CONSUMER, READ_COMMITTED, READ_UNCOMMITTED, FetchPartition
from messages.apis.list_offsets import OffsetQuery
from messages.apis.offset_for_leader_epoch import EpochQuery
from messages.apis.produce import ACKS_ALL, ProducePartition
from messages.cluster import TopicPartition
from messages.partition import (
    AppendBatch,
    AppendBatches,
    CaughtUp,
    ChangeIsr,
    CheckFollowers,
    Configure,
    ExpireLog,
    FindEpochEnd,
    FindOffset,
    IsrChanged,
    LogMoved,
    LogSettings,
    QueryIdleFollowers,
    ReadLog,
    Replicate,
    Replicated,
    ScheduleFollowerCheck,
    TrimLog,
    TruncateFullyAndStartAt,
    TruncateToEpochEnd,
)
from messages.records import EARLIEST, EMPTY, LATEST, BatchHeader, Body, Records
from tests.broker.harness import order

T0 = TopicPartition("t", 0)
READER, PRODUCER, MANAGER, KEEPER, ADMIN = "reader", "producer", "manager", "keeper", "admin"
BATCH = Records((BatchHeader(0, 50, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1),), EMPTY)
"""One record."""


@attrs.define
class Disk:
    """Answer a partition's effects as a log of offsets would; methods in `failing` fail with the text given there."""

    start: int = 0
    end: int = 0
    high_watermark: int = 0
    epochs: dict[int, int] = attrs.field(factory=dict)
    """The end offset of each leader epoch."""
    failing: dict[str, str] = attrs.field(factory=dict)
    keeps_ids: bool = True
    calls: list[str] = attrs.field(factory=list)

    def answer(self, effect: CallAdapter) -> Any:
        method, arguments = effect.method, effect.arguments[1:]
        self.calls.append(method)
        if method in self.failing:
            raise StorageError(self.failing[method])
        match method, *arguments:
            case "wall_ms", *_:
                return 0
            case "open", *_:
                return self.start, self.end, max(self.epochs, default=-1), self.high_watermark, -1
            case "append", epoch, _, _, *bodies:
                first, self.end = self.end, self.end + len(bodies)
                self.epochs[epoch] = self.end
                return self.end, -1, *((errors.NONE, first + n, first + n, -1) for n in range(len(bodies)))
            case "read", *_:
                return errors.NONE, Body(7, 0)
            case "read_committed", *_:
                return errors.NONE, Body(7, 0), ((1, 0),)
            case "replicate", body:
                self.end += body.size
                return errors.NONE, self.end, -1
            case "truncate" | "restart", offset:
                self.end = offset
                self.start = min(self.start, offset) if method == "truncate" else offset
                return self.start, self.end, -1
            case "advance_start", offset:
                self.start = offset
                return offset
            case "expire", high_watermark:
                self.start = high_watermark
                return high_watermark, 1
            case "epoch_end", asked:
                return max(((epoch, end) for epoch, end in self.epochs.items() if epoch <= asked), default=(-1, -1))
            case "find_time", *_:
                return 0, 5, self.start, 0
            case "note_high_watermark", _:
                return -1
            case "latest_epoch", *_:
                return max(self.epochs, default=-1)
            case "assign_topic_id", topic_id:
                return topic_id if self.keeps_ids else ""
        return None


@attrs.define
class Stage:
    """A partition of broker 0 with its disk, and the messages it sent that are not yet taken."""

    disk: Disk = attrs.field(factory=Disk)
    partition: Partition = attrs.field(factory=Partition)
    sent: list[tuple[Any, Any]] = attrs.field(factory=list)
    wakes: list[float] = attrs.field(factory=list)

    def handle(self, event: Any, sender: str = "", now: float = 0.0) -> Any:
        """Handle an event and return the reply to a role change or stop."""
        return self.carry_out(self.partition.handle(event, sender, now))

    def expire(self, now: float) -> None:
        self.carry_out(self.partition.expire(now))

    def carry_out(self, effects: Any) -> Any:
        result, error, reply = None, None, None
        try:
            while True:
                effect = effects.send(result) if error is None else effects.throw(error)
                result = error = None
                try:
                    match effect:
                        case Send(to, message):
                            self.sent.append((to, message))
                        case WakeAt(at):
                            self.wakes.append(at)
                        case RenameDeletedLog(path):
                            result = f"{path}-delete"
                        case CallAdapter():
                            result = self.disk.answer(effect)
                        case broker.RoleTaken() | broker.PartitionStopped():
                            reply = effect
                except StorageError as failure:
                    error = failure
        except StopIteration:
            return reply

    def take(self, to: str | None = None) -> list[Any]:
        """Return and remove the messages to one receiver, by default to all."""
        sent, self.sent = self.sent, [each for each in self.sent if to is not None and each[0] != to]
        return [message for receiver, message in sent if to is None or receiver == to]

    def lead(self, *isr: int, epoch: int = 0, replicas: tuple[int, ...] = (), now: float = 0.0, **fields: Any) -> Any:
        host = broker.PartitionContext(0, LogSettings(**fields), (), MANAGER, KEEPER)  # type: ignore[arg-type]
        state = order("t", epoch=epoch, isr=isr or (0,), replicas=replicas or isr or (0,))
        return self.handle(broker.BecomeLeader(state, broker.LogPlace("/d/t-0"), host), now=now)

    def follow(self, epoch: int = 0, alive: bool = True) -> Any:
        host = broker.PartitionContext(0, LogSettings(), (), MANAGER, KEEPER)  # type: ignore[arg-type]
        return self.handle(
            broker.BecomeFollower(order("t", leader=1, epoch=epoch), broker.LogPlace("/d/t-0"), host, alive)
        )

    def append(self, count: int = 1, acks: int = 1, now: float = 0.0) -> list[int]:
        """Append batches of one record and return the error codes that are sent at once."""
        batch = AppendBatch(1, 0, ProducePartition(T0, BATCH), acks, 9, 10.0)
        self.handle(AppendBatches((batch,) * count), PRODUCER, now)
        return self.answered()

    def answered(self) -> list[int]:
        return [each.result.error_code for done in self.take(PRODUCER) for each in done.results]

    def fetch(self, replica: int, offset: int, start: int = 0, now: float = 0.0, **fields: Any) -> Any:
        """Fetch and return the result."""
        epoch = fields.pop("epoch", -1)
        part = FetchPartition(T0, offset, 1 << 20, epoch, start)
        defaults = {"version": 11, "isolation_level": READ_UNCOMMITTED, "max_bytes": 100, "at_least_one": True}
        self.handle(ReadLog(1, part, replica, **{**defaults, **fields}), READER, now)
        [read] = [each for each in self.take(READER) if not isinstance(each, LogMoved)]
        return read.result

    def delete(
        self, offset: int, timeout: float = 10.0, now: float = 0.0, alive: tuple[int, ...] = (0, 1)
    ) -> list[tuple[int, int]]:
        self.handle(TrimLog(1, 0, offset, timeout, alive), ADMIN, now)
        return self.deleted()

    def deleted(self) -> list[tuple[int, int]]:
        return [(each.result.error_code, each.result.low_watermark) for each in self.take(ADMIN)]

    @property
    def offsets(self) -> tuple[int, int, int]:
        log = self.partition.log
        return log.start, log.high_watermark, log.end


# ------------------------------------------------------------------------------------------------ no duplicate state


def test_no_field_of_the_actor_shadows_the_partition() -> None:
    assert vars(PartitionActor()).keys() - vars(Answerer()).keys() == {"partition"}
    log, leader = set(ReplicaLog.__slots__), set(Leader.__slots__)
    partition = {name for each in Partition.__mro__ for name in getattr(each, "__slots__", ())}
    assert {"start", "end", "high_watermark"} <= log
    assert not log & leader and not log & partition
    assert partition & leader == {"log"}, "the one log"
    stage = Stage()
    stage.lead()
    assert stage.partition.leader is not None
    assert stage.partition.leader.log is stage.partition.log


# ------------------------------------------------------------------------------------------------ orders


def test_rows_3_and_4_an_order_by_its_epoch() -> None:
    stage = Stage(Disk(0, 5, 3))
    taken = stage.lead(0, 1, epoch=3)
    assert (taken.error_code, taken.changed, taken.leads, taken.log_end_offset) == (errors.NONE, True, True, 5)
    assert stage.offsets == (0, 3, 5)
    assert stage.handle(broker.BecomeLeader(order("t", epoch=3), None)).error_code == errors.STALE_CONTROLLER_EPOCH
    assert stage.disk.calls == ["open", "begin_epoch"]


@pytest.mark.parametrize(
    ("keeps_ids", "named", "codes"),
    [
        (True, ["", "x", "x", "", "y"], [11, 0, 11, 0, 103]),
        (False, ["", "x", "y", ""], [11, 0, 0, 11]),
    ],
)
def test_an_id_is_named_without_a_new_leader_epoch(keeps_ids: bool, named: list[str], codes: list[int]) -> None:
    stage = Stage(Disk(keeps_ids=keeps_ids))
    stage.lead(0, 1, epoch=3)
    taken = [
        stage.handle(broker.BecomeLeader(order("t", epoch=4 if each == "y" and keeps_ids else 3), None, None, each))
        for each in named
    ]
    assert [each.error_code for each in taken] == codes
    assert not any(each.changed for each in taken)


def test_a_follower_whose_leader_is_not_alive_opens_its_log_and_keeps_its_role() -> None:
    stage = Stage()
    taken = stage.follow(alive=False)
    assert (taken.error_code, taken.changed, taken.has_log, stage.partition.role.name) == (
        errors.NONE,
        False,
        True,
        "none",
    )
    assert stage.follow().changed


def test_an_order_without_a_place_for_its_log_fails_with_a_storage_error() -> None:
    host = broker.PartitionContext(0, LogSettings(), (), MANAGER, KEEPER)  # type: ignore[arg-type]
    taken = Stage().handle(broker.BecomeLeader(order("t"), None, host))
    assert (taken.error_code, taken.storage_error, taken.has_log) == (errors.KAFKA_STORAGE_ERROR, "", False)
    broken = Stage(Disk(failing={"open": "I/O error"})).lead()
    assert (broken.error_code, broken.storage_error, broken.leads) == (errors.KAFKA_STORAGE_ERROR, "I/O error", False)


def test_a_stop_answers_what_waits_and_deletes_the_log() -> None:
    stage = Stage()
    stage.lead(0, 1)
    assert stage.append(acks=ACKS_ALL) == [] and stage.delete(0) == []
    assert stage.handle(broker.StopPartition(0, False)) == broker.PartitionStopped(errors.NONE)
    assert stage.answered() == [errors.NOT_LEADER_OR_FOLLOWER]
    assert stage.handle(broker.StopPartition(0, True)) == broker.PartitionStopped(errors.NONE, "/d/t-0-delete")
    assert stage.deleted() == [(errors.NOT_LEADER_OR_FOLLOWER, -1)]
    assert stage.append() == [errors.NOT_LEADER_OR_FOLLOWER]


# ------------------------------------------------------------------------------------------------ appends, ISR


def test_an_append_that_the_isr_has_not_fetched_waits_for_the_high_watermark() -> None:
    stage = Stage()
    stage.lead(0, 1)
    assert stage.append() == [errors.NONE]
    assert stage.append(acks=ACKS_ALL) == []
    assert (stage.offsets, stage.wakes) == ((0, 0, 2), [10.0])
    assert stage.fetch(1, 2, now=1.0).error_code == errors.NONE
    assert (stage.offsets, stage.answered()) == ((0, 2, 2), [errors.NONE])
    assert stage.disk.calls[-1] == "note_high_watermark"


def test_the_only_replica_commits_with_its_append_alone() -> None:
    stage = Stage()
    stage.lead()
    assert stage.append(2, acks=ACKS_ALL) == [errors.NONE, errors.NONE]
    assert (stage.offsets, stage.disk.calls) == ((0, 2, 2), ["open", "begin_epoch", "append"])


def test_a_delayed_produce_times_out_and_its_leader_forgets_it() -> None:
    stage = Stage()
    stage.lead(0, 1)
    assert stage.append(acks=ACKS_ALL) == []
    stage.expire(9.9)
    assert stage.answered() == []
    stage.expire(10.0)
    assert stage.answered() == [errors.REQUEST_TIMED_OUT]
    stage.fetch(1, 1)
    assert stage.answered() == []


@pytest.mark.parametrize(("failure", "sent"), [("I/O error", [broker.LogFailed(T0, "I/O error")]), ("", [])])
def test_a_disk_error_fails_the_append_and_notifies_the_manager_unless_the_disk_works(
    failure: str, sent: list[Any]
) -> None:
    stage = Stage(Disk(0, 1, 1, failing={"append": failure}))
    stage.lead()
    assert (stage.append(), stage.take(MANAGER), stage.offsets) == ([errors.KAFKA_STORAGE_ERROR], sent, (0, 1, 1))


def test_a_lagging_follower_leaves_the_isr_after_its_reader_was_asked() -> None:
    stage = Stage()
    stage.partition.address = "self"
    assert stage.lead(0, 1, min_insync_replicas=2).look_at == 45.0
    stage.fetch(1, 0)
    stage.append()
    stage.handle(CheckFollowers(45.0), now=45.0)
    assert stage.take(READER)[-1:] == [QueryIdleFollowers(T0)]
    stage.handle(CaughtUp(()), now=45.0)
    change, watch = stage.take(KEEPER)
    assert watch == ScheduleFollowerCheck(60.0, ("self",))
    assert (change.isr, change.zk_version, change.grows) == ((0,), 0, False)
    stage.handle(IsrChanged(0, change.number, 1), now=45.0)
    flags = ("underreplicatedpartitions", "underminisrpartitioncount")
    assert stage.take(MANAGER) == [broker.PartitionHealth(T0, flags)]
    stage.handle(Configure(LogSettings(min_insync_replicas=1)), now=46.0)
    assert stage.take(MANAGER) == [broker.PartitionHealth(T0, ("underreplicatedpartitions", "atminisrpartitioncount"))]
    assert stage.offsets == (0, 1, 1)
    stage.fetch(1, 1, now=47.0)
    [grown] = [each for each in stage.take(KEEPER) if isinstance(each, ChangeIsr)]
    assert (grown.isr, grown.zk_version, grown.grows) == ((0, 1), 1, True)


# ------------------------------------------------------------------------------------------------ reads


@pytest.mark.parametrize(
    ("replica", "fields", "code"),
    [
        (CONSUMER, {}, errors.NONE),
        (1, {}, errors.NONE),
        (CONSUMER, {"epoch": 4}, errors.FENCED_LEADER_EPOCH),
        (1, {"epoch": 6}, errors.UNKNOWN_LEADER_EPOCH),
        (9, {}, errors.UNKNOWN_LEADER_EPOCH),
        (CONSUMER, {"version": 9}, errors.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_a_leader_serves_by_epoch_replica_and_version(replica: int, fields: dict[str, Any], code: int) -> None:
    stage = Stage(Disk(0, 5, 3))
    stage.lead(0, 1, epoch=5, compression_type="zstd")
    assert stage.fetch(replica, 2, **fields).error_code == code


@pytest.mark.parametrize(
    ("replica", "version", "code"),
    [
        (CONSUMER, 11, errors.NONE),
        (CONSUMER, 10, errors.NOT_LEADER_OR_FOLLOWER),
        (2, 11, errors.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_row_53_a_follower_serves_new_consumers_alone(replica: int, version: int, code: int) -> None:
    stage = Stage(Disk(0, 5, 3))
    stage.follow()
    assert stage.fetch(replica, 2, version=version).error_code == code


@pytest.mark.parametrize(
    ("replica", "offset", "code", "size"),
    [
        (CONSUMER, 0, errors.OFFSET_OUT_OF_RANGE, 0),
        (CONSUMER, 1, errors.NONE, 7),
        (CONSUMER, 3, errors.NONE, 0),
        (CONSUMER, 6, errors.OFFSET_OUT_OF_RANGE, 0),
        (1, 4, errors.NONE, 7),
        (1, 5, errors.NONE, 0),
    ],
)
def test_row_47_consumers_read_to_the_high_watermark_and_followers_to_the_log_end(
    replica: int, offset: int, code: int, size: int
) -> None:
    stage = Stage(Disk(1, 5, 3))
    stage.lead(0, 1)
    result = stage.fetch(replica, offset)
    assert (result.error_code, result.body.size) == (code, size)


def test_a_read_of_committed_data_names_aborted_transactions() -> None:
    stage = Stage(Disk(0, 5, 3))
    stage.lead(0, 1)
    read = stage.fetch(CONSUMER, 0, isolation_level=READ_COMMITTED)
    assert [(each.producer_id, each.first_offset) for each in read.aborted_transactions] == [(1, 0)]
    assert stage.fetch(CONSUMER, 0).aborted_transactions is None


def test_a_reader_is_notified_once_of_each_later_change() -> None:
    stage = Stage()
    stage.lead(0, 1)
    stage.fetch(1, 0)
    stage.append()
    stage.append()
    [moved] = stage.take(READER)
    assert (moved.partition, moved.state.end) == (T0, 1), "the end has changed: more is not news"


@pytest.mark.parametrize(
    ("replica", "timestamp", "version", "found"),
    [
        (CONSUMER, EARLIEST, 5, (errors.NONE, 1)),
        (CONSUMER, LATEST, 5, (errors.OFFSET_NOT_AVAILABLE, -1)),
        (CONSUMER, LATEST, 4, (errors.LEADER_NOT_AVAILABLE, -1)),
        (1, LATEST, 5, (errors.NONE, 5)),
        (CONSUMER, 3, 5, (errors.NONE, 1)),
    ],
)
def test_row_54_a_new_leader_returns_no_latest_offset_before_its_epoch_is_committed(
    replica: int, timestamp: int, version: int, found: tuple[int, int]
) -> None:
    stage = Stage(Disk(1, 5, 3))
    stage.lead(0, 1)
    stage.handle(FindOffset(1, 0, OffsetQuery(T0, timestamp), replica, version), READER)
    [answer] = stage.take(READER)
    assert (answer.result.error_code, answer.result.offset) == found


def test_a_committed_epoch_lets_consumers_learn_the_last_offset() -> None:
    stage = Stage(Disk(1, 5, 3))
    stage.lead(0, 1)
    stage.fetch(1, 5)
    stage.handle(FindOffset(1, 0, OffsetQuery(T0, LATEST), CONSUMER, 5), READER)
    assert stage.take(READER)[-1].result.offset == 5


def test_only_the_leader_returns_the_end_of_an_epoch() -> None:
    stage = Stage(Disk(0, 5, 5, {2: 3, 4: 5}))
    stage.lead(epoch=6)
    stage.handle(FindEpochEnd(1, 0, EpochQuery(T0, 3)), READER)
    stage.handle(FindEpochEnd(1, 0, EpochQuery(T0, 3, 5)), READER)
    first, second = (each.result for each in stage.take(READER))
    assert (first.leader_epoch, first.end_offset, second.error_code) == (2, 3, errors.FENCED_LEADER_EPOCH)


# ------------------------------------------------------------------------------------------------ DeleteRecords


@pytest.mark.parametrize(
    ("offset", "leads", "deletes", "code"),
    [
        (3, False, True, errors.NOT_LEADER_OR_FOLLOWER),
        (3, True, False, errors.POLICY_VIOLATION),
        (-2, True, True, errors.OFFSET_OUT_OF_RANGE),
        (4, True, True, errors.OFFSET_OUT_OF_RANGE),
        (0, True, True, errors.NONE),
        (3, True, True, errors.NONE),
    ],
)
def test_records_are_deleted_up_to_the_high_watermark(offset: int, leads: bool, deletes: bool, code: int) -> None:
    assert delete_verdict(offset, leads, deletes, high_watermark=3) == code


def test_row_95_a_deletion_is_answered_when_every_replica_has_followed() -> None:
    stage = Stage(Disk(0, 5, 3))
    stage.lead(0, 1)
    stage.fetch(1, 5, start=0)
    assert stage.delete(2) == []
    assert stage.offsets == (2, 5, 5)
    stage.fetch(1, 5, start=1)
    assert stage.deleted() == []
    stage.fetch(1, 5, start=2)
    assert stage.deleted() == [(errors.NONE, 2)]
    assert stage.delete(3, alive=(0,)) == [(errors.NONE, 3)], "it does not wait for brokers that are down"


def test_a_deletion_times_out_or_ends_with_the_leadership() -> None:
    stage = Stage(Disk(0, 5, 3))
    stage.lead(0, 1)
    assert stage.delete(2, timeout=5.0) == [] and stage.delete(-1, timeout=50.0) == []
    stage.expire(5.0)
    assert (stage.deleted(), stage.wakes[-1]) == ([(errors.REQUEST_TIMED_OUT, -1)], 50.0)
    stage.follow(epoch=1)
    assert stage.deleted() == [(errors.NOT_LEADER_OR_FOLLOWER, -1)]


def test_the_only_replica_deletes_at_once_and_retention_stops_at_the_high_watermark() -> None:
    stage = Stage(Disk(0, 5, 5))
    stage.lead()
    assert stage.delete(2) == [(errors.NONE, 2)]
    stage.handle(ExpireLog())
    assert stage.offsets == (5, 5, 5)


# ------------------------------------------------------------------------------------------------ following


@pytest.mark.parametrize(
    ("epoch", "end", "own", "target"),
    [
        (5, -1, (-1, -1), (4, -1)),
        (-1, 9, (-1, -1), (9, -1)),
        (5, 9, (5, 12), (9, -1)),
        (5, 9, (5, 7), (7, -1)),
        (5, 9, (3, 6), (6, 3)),
        (5, 9, (-1, -1), (9, -1)),
    ],
    ids=[
        "the leader knows no such epoch: the high watermark",
        "the leader knows no epochs: its answer",
        "KIP-101: the leader's end of the epoch",
        "KIP-101: the follower's own, if that is less",
        "KIP-279: ask about the older epoch",
        "no epoch of our own: the leader's end",
    ],
)
def test_where_a_follower_truncates(epoch: int, end: int, own: tuple[int, int], target: tuple[int, int]) -> None:
    assert truncation(TruncateToEpochEnd(6, epoch, end, otherwise=4), *own) == target


def test_a_truncated_follower_lowers_its_high_watermark_and_asks_on() -> None:
    stage = Stage(Disk(0, 10, 8, {3: 6, 5: 10}))
    stage.follow(epoch=6)
    stage.handle(TruncateToEpochEnd(6, 4, 5, otherwise=8), READER)
    assert stage.take(READER) == [Replicated(T0, 6, errors.NONE, 6, 3)]
    assert stage.offsets == (0, 6, 6)


def test_a_follower_appends_what_fits_its_end_and_bounds_its_high_watermark() -> None:
    stage = Stage(Disk(0, 5, 3))
    stage.follow()
    stage.handle(Replicate(0, 5, Body(2, 0), high_watermark=9, log_start_offset=4), READER)
    assert (stage.offsets, stage.take(READER)) == ((4, 7, 7), [Replicated(T0, 0, errors.NONE, 7)])
    stage.handle(Replicate(0, 6, Body(2, 0), high_watermark=9, log_start_offset=4), READER)
    assert (stage.offsets, stage.take(READER)) == ((4, 7, 7), [Replicated(T0, 0, errors.CORRUPT_MESSAGE, 7)])


@pytest.mark.parametrize(
    "event", [Replicate(3, 5, Body(2, 0), 5, 0), TruncateToEpochEnd(3, 2, 1, 0), TruncateFullyAndStartAt(3, 9)]
)
def test_data_of_another_leader_epoch_or_for_a_stopped_replica_is_fenced(event: Any) -> None:
    stage = Stage(Disk(0, 5, 3))
    stage.follow(epoch=4)
    stage.handle(event, READER)
    stage.handle(broker.StopPartition(-2, False))
    stage.handle(attrs.evolve(event, leader_epoch=4), READER)
    assert [each.error_code for each in stage.take(READER)] == [errors.FENCED_LEADER_EPOCH] * 2
    assert stage.offsets == (0, 3, 5)


def test_a_follower_before_the_leaders_log_start_restarts() -> None:
    stage = Stage(Disk(0, 5, 3))
    stage.follow()
    stage.handle(TruncateFullyAndStartAt(0, 20), READER)
    assert (stage.offsets, stage.take(READER)) == ((20, 20, 20), [Replicated(T0, 0, errors.NONE, 20)])


@pytest.mark.parametrize(
    ("method", "event"),
    [
        ("replicate", Replicate(0, 5, Body(2, 0), 5, 0)),
        ("truncate", TruncateToEpochEnd(0, -1, 2, 0)),
        ("restart", TruncateFullyAndStartAt(0, 9)),
    ],
)
def test_a_disk_error_while_following_is_answered(method: str, event: Any) -> None:
    stage = Stage(Disk(0, 5, 3, failing={method: "I/O error"}))
    stage.follow()
    stage.handle(event, READER)
    assert stage.take(READER)[0].error_code == errors.KAFKA_STORAGE_ERROR
    assert stage.take(MANAGER) == [broker.LogFailed(T0, "I/O error")]
