"""The leader's side of replication: followers, ISR, high watermark and delayed produce requests (broker.md 3).

Rule 1 (followers): for every follower, the leader stores two values. The first is the follower's log end offset (LEO):
    the offset of the follower's last fetch. The second is the time at which the follower was last caught up. A fetch
    from the leader's current LEO shows that the follower is caught up now. A fetch from the LEO that the leader had at
    the follower's previous fetch shows that the follower was caught up at that previous fetch.
Rule 2 (shrink): a follower leaves the ISR if it is behind and was last caught up more than `lag` seconds ago. A
        follower that is not behind stays, even if it does not fetch. The leader always stays.
Rule 3 (expand): a live replica joins the ISR when it has reached the high watermark and the start of this leader's
        epoch.
Rule 4 (writes): only the ISR in ZooKeeper is confirmed. One write is in flight at a time. Until its outcome is known,
        the high watermark is computed from the union of the old and the new ISR. But `min.insync.replicas` is compared
        with the confirmed ISR. An outcome counts only if it has the number of the write in flight, and the leader epoch
        is still the one in which this write was sent.
Rule 5 (high watermark): it is the least log end offset of the ISR and of replicas that were caught up within the last
        `lag` seconds. It never falls, and does not move while the ISR is smaller than `min.insync.replicas` (Kafka >=
        3.7).
Rule 6 (waiting): a produce with acks=all waits until the high watermark has reached the end of its records, or until
    the produce times out. Each produce gets one response. When the leadership ends, all waiting requests are answered.
Rule 7 (cost): a leadership without events is cheap, so that a broker can have a hundred thousand of them. The table of
        followers is created when the first of them fetches. Until then, the state of each follower follows from the ISR
        and the start of the leadership.
Rule 8 (appends): `batch_verdict` decides which batches of a Produce request are appended (broker.md 3.6, 5.2).

Methods do not wait or send: each takes an event and the time; `take()` returns the resulting steps in order.

Kafka: `Partition` as leader, its `Replica`s, and `LogValidator`. A produce that waits is a `DelayedProduce` in the
purgatory; the low watermark of a `DelayedDeleteRecords` is the least log start offset.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeAlias

import attrs

from actors.core.broker.replica_log import ReplicaLog
from messages import errors
from messages.apis.fetch import NO_REPLICA
from messages.apis.produce import ACKS_ALL, ProducedPartition, ProduceRequest, RecordError
from messages.cluster import NO_EPOCH
from messages.partition import AppendBatch, LaggingFollower, LogSettings
from messages.probes import probe
from messages.records import (
    CODEC_MASK,
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTION_BIT,
    BatchHeader,
    Records,
)
from messages.vocabulary import value_class

ZSTD = 4
ZSTD_SINCE = 7
"""The Produce version from which producers may use zstd."""

ACKS = (-1, 0, 1)
ANY_TIME = 2**63 - 1
"""A limit of record times that permits any time."""


class BatchValidation(NamedTuple):
    """The result of validating a batch: an error code (errors.NONE if it is valid) and an error message."""

    error_code: int
    message: str | None = None


TAKEN = BatchValidation(errors.NONE)


def transactional_verdict(request: ProduceRequest) -> int:
    """Return one error code for all partitions of a request.

    It is 53 if a batch is transactional but the request has no transactional id, 49 for batches of two producers,
    otherwise errors.NONE.
    """
    producer_id = None
    for part in request.partitions:
        for header in part.records.batches:
            if header.attributes & TRANSACTION_BIT:
                if request.transactional_id is None:
                    return errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                if producer_id not in (None, header.producer_id):
                    return errors.INVALID_PRODUCER_ID_MAPPING
                producer_id = header.producer_id
    return errors.NONE


def acks_verdict(acks: int) -> int:
    """Return errors.NONE, or 21 for an unknown `acks`."""
    return errors.NONE if acks in ACKS else errors.INVALID_REQUIRED_ACKS


def produce_verdict(records: Records, version: int, settings: LogSettings) -> BatchValidation:
    """Return the first error found in a producer's batches for a partition; the constant TAKEN if they are valid.

    Args:
        records: The batches for one partition.
        version: The version of the Produce request.
        settings: The topic's settings.
    """
    if records.error_code not in (errors.NONE, errors.CORRUPT_MESSAGE) or (
        records.error_code != errors.NONE and not records.batches
    ):
        return BatchValidation(records.error_code, "Produce requests hold record batches of format 2")
    if len(records.batches) != 1:
        return BatchValidation(errors.INVALID_RECORD, "Produce requests hold exactly one record batch per partition")
    [header] = records.batches
    base_offset, length, _, _, _, attributes, delta, _, _, producer, _, sequence, count = header
    if attributes & CODEC_MASK == ZSTD and version < ZSTD_SINCE:
        return BatchValidation(errors.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs version {ZSTD_SINCE} of Produce")
    if base_offset != 0:
        return BatchValidation(errors.INVALID_RECORD, f"The base offset is {base_offset}, it should be 0")
    size = length + LOG_OVERHEAD
    if size > settings.max_message_bytes:
        return BatchValidation(
            errors.MESSAGE_TOO_LARGE, f"The batch has {size} bytes, the topic takes {settings.max_message_bytes}"
        )
    if size > settings.segment_bytes and settings.message_format == header.magic:
        return BatchValidation(
            errors.RECORD_LIST_TOO_LARGE, f"The batch has {size} bytes, a segment {settings.segment_bytes}"
        )
    if records.error_code != errors.NONE:
        return BatchValidation(records.error_code, "The checksum does not fit the batch")
    if attributes & CONTROL_BIT:
        return BatchValidation(errors.INVALID_RECORD, "Control batches are not for producers")
    if count <= 0 or count != delta + 1:
        return BatchValidation(errors.INVALID_RECORD, f"{count} records, but the last offset delta is {delta}")
    if producer < NO_PRODUCER_ID or (producer == NO_PRODUCER_ID and attributes & TRANSACTION_BIT):
        return BatchValidation(errors.INVALID_RECORD, f"Producer id {producer} in a batch that needs one")
    if producer != NO_PRODUCER_ID and sequence < 0:
        return BatchValidation(errors.INVALID_RECORD, "A producer id without a sequence number")
    if records.fault is not None:
        return BatchValidation(*records.fault)
    return TAKEN


def epoch_verdict(named: int, local: int) -> int:
    """Return errors.NONE, 74 for an outdated leader epoch, or 75 for an epoch that is not known here yet."""
    if named in (NO_EPOCH, local):
        return errors.NONE
    return errors.FENCED_LEADER_EPOCH if named < local else errors.UNKNOWN_LEADER_EPOCH


def time_limits(settings: LogSettings) -> tuple[int, int]:
    """Return by how many ms a record's time may be before and after the broker's (Kafka 3.9 `LogConfig`)."""
    before, after = settings.timestamp_before_max_ms, settings.timestamp_after_max_ms
    difference = settings.timestamp_difference_max_ms
    return difference if before == ANY_TIME else before, difference if after == ANY_TIME else after


def time_fault(header: BatchHeader, settings: LogSettings, now_ms: int) -> str | None:
    """Return why the times of a batch are invalid (`LogValidator.validateTimestamp`); None if they are valid."""
    first, newest = header.first_timestamp, header.max_timestamp
    if settings.append_time or newest == NO_TIMESTAMP:
        is_wrong = header.attributes & LOG_APPEND_TIME_BIT
        return "Producer should not set timestamp type to LogAppendTime." if is_wrong else None
    before, after = time_limits(settings)
    if now_ms - min(first, newest) <= before and newest - now_ms <= after:
        return None
    return f"Timestamp {newest} is out of range. It should be within [{now_ms - before}, {now_ms + after}]"


def batch_verdict(batch: AppendBatch, settings: LogSettings, now_ms: int) -> ProducedPartition | None:
    """Return the result of a refused batch; None if it may be appended."""
    part = batch.part
    refusal = produce_verdict(part.records, batch.version, settings)
    if refusal is not TAKEN:
        return ProducedPartition(part.partition, refusal.error_code, error_message=refusal.message)
    if settings.compacted and part.records.keyless:
        text = "Compacted topic cannot accept message without key"
        return _refused_records(batch, errors.INVALID_RECORD, text, part.records.keyless)
    [header] = part.records.batches
    fault = time_fault(header, settings, now_ms)
    if fault is None:
        return None
    # The header of a batch tells the times of all its records only if they are equal.
    runs = (0, header.last_offset_delta) if header.first_timestamp == header.max_timestamp else ()
    return _refused_records(batch, errors.INVALID_TIMESTAMP, fault, runs)


def _refused_records(batch: AppendBatch, error_code: int, text: str, runs: Sequence[int]) -> ProducedPartition:
    """Return the result of a batch whose records in these ranges are invalid; the ranges are as `Records.keyless`."""
    places = [place for first, last in zip(runs[::2], runs[1::2], strict=True) for place in range(first, last + 1)]
    faults = tuple([RecordError(place, text) for place in places])
    return ProducedPartition(batch.part.partition, error_code, record_errors=faults, error_message=text)


UNKNOWN = -1
"""A follower's log end offset (LEO) before its first fetch."""

NEVER = -1e18
"""A time further back than any lag."""

_OFFSET = attrgetter("offset")


@attrs.define
class Follower:
    """A follower's state as the leader sees it, such as its log end offset.

    Times are in seconds by the node's clock.
    """

    log_end_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    caught_up_at: float = NEVER
    leader_end_before: int = 0
    fetched_at: float = NEVER


Token: TypeAlias = tuple[object, int, int, ProducedPartition]
"""A produce request that waits: its sender, its number, the index of the partition, and the result of the append."""


@value_class
class DelayedProduce:
    """A produce request with acks=all, which completes when the high watermark reaches `offset`.

    `token` identifies the request.
    """

    token: Token
    offset: int
    deadline: float


@value_class
class CompleteProduce:
    """An instruction to complete a delayed produce request with this result."""

    token: Token
    error_code: int


@value_class
class WriteIsr:
    """An instruction to write this ISR to ZooKeeper if the znode's version is `zk_version`.

    `number` identifies the write.
    """

    number: int
    isr: tuple[int, ...]
    zk_version: int


ToDo = CompleteProduce | WriteIsr


def _ago(at: float, now: float) -> float:
    """Return the seconds since `at`, rounded to microseconds; -1 if `at` is NEVER."""
    return -1.0 if at == NEVER else round(now - at, 6)


class Leader:
    """The state of a partition's leader during one leader epoch."""

    __slots__ = (
        *(
            "_followers",
            "_since",
            "_to_do",
            "_waiting",
            "_writes",
            "_writing",
            "broker_id",
            "epoch_start",
            "isr",
        ),
        *("lag", "leader_epoch", "log", "min_isr", "replicas", "zk_version"),
    )

    def __init__(
        self,
        broker_id: int,
        leader_epoch: int,
        replicas: Sequence[int],
        isr: Sequence[int],
        zk_version: int,
        log: ReplicaLog,
        lag: float,
        min_isr: int,
        now: float,
    ) -> None:
        self.broker_id = broker_id
        self.leader_epoch = leader_epoch
        self.log = log
        self.epoch_start = log.end
        self.replicas = tuple(replicas)
        self.isr = tuple(isr)
        self.zk_version = zk_version
        self.lag = lag
        self.min_isr = min_isr
        self._followers: dict[int, Follower] | None = None
        """None until a follower fetches (rule 7)."""
        self._since = now
        """The time of the order that began this leadership."""
        self._writing: WriteIsr | None = None
        self._writes = 0
        self._waiting: list[DelayedProduce] | None = None
        """Sorted by offset: a batch that is sent again may wait for a smaller offset than earlier requests."""
        self._to_do: tuple[ToDo, ...] = ()
        log.move_high_watermark(min(max(log.high_watermark, log.start), log.end))
        if log.high_watermark != log.end:
            self._advance(now)

    # ----------------------------------------------------------------------------------------------- queries

    @property
    def followers(self) -> dict[int, Follower]:
        """The state of every follower, by broker id."""
        if self._followers is None:
            self._followers = self._initial_followers({})
        return self._followers

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The confirmed ISR, and the replicas that a write in flight adds (rule 4)."""
        if self._writing is None:
            return self.isr
        return (*self.isr, *(replica for replica in self._writing.isr if replica not in self.isr))

    @property
    def required_isr(self) -> int:
        """The number of in-sync replicas that an acks=all produce needs, at most the number of replicas."""
        return min(self.min_isr, len(self.replicas))

    @property
    def next_deadline(self) -> float | None:
        """The earliest deadline of a waiting produce."""
        return min(waiter.deadline for waiter in self._waiting) if self._waiting else None

    def check_after(self, now: float) -> float | None:
        """Return the earliest time at which to check the followers for lag; None if no check is needed.

        A check is needed while a follower is behind, if it is in the ISR or was caught up within the last `lag` seconds
        (rule 5).

        Every follower counts as caught up when the leadership begins. Therefore no follower lags before the leadership
        has lasted `lag` seconds.
        """
        followers = self._followers
        if followers is None:
            is_any_behind = self.isr != (self.broker_id,)
        else:
            is_any_behind = any(
                follower.log_end_offset != self.log.end
                and (replica in self.isr or now - follower.caught_up_at <= self.lag)
                for replica, follower in followers.items()
            ) or any(replica != self.broker_id and replica not in followers for replica in self.isr)
        return max(now, self._since + self.lag) if is_any_behind else None

    def lagging(self, now: float) -> list[int]:
        """Return the members of the ISR that must leave it (rule 2)."""
        return [replica for replica in self.isr if replica != self.broker_id and self._is_out_of_sync(replica, now)]

    def laggards(self, isr: Sequence[int], now: float) -> tuple[LaggingFollower, ...]:
        """Return the followers in the current ISR that are not in `isr`, with their offsets and lags.

        Each follower has two lags: the seconds since its last fetch, and the seconds since it was last caught up.
        """
        left = [(replica, self.followers.get(replica)) for replica in self.isr if replica not in isr]
        return tuple(
            LaggingFollower(
                *(replica, follower.log_end_offset),
                *(_ago(max(follower.fetched_at, follower.caught_up_at), now), _ago(follower.caught_up_at, now)),
            )
            for replica, follower in left
            if follower is not None
        )

    @property
    def is_alone(self) -> bool:
        """Whether appended records are committed at once, because the partition has only this replica (rule 5)."""
        return len(self.replicas) == 1 and len(self.isr) >= self.required_isr

    def is_settled(self, replica: int) -> bool:
        """Return whether the follower is in the confirmed ISR, and no ISR write is in flight.

        If such a follower repeats its previous fetch, nothing changes.
        """
        return replica in self.isr and self._writing is None

    @property
    def waiting(self) -> int:
        """The number of waiting produce requests."""
        return len(self._waiting or ())

    def take(self) -> tuple[ToDo, ...]:
        """Return the new steps to carry out, in order; each step is returned once."""
        taken, self._to_do = self._to_do, ()
        return taken

    # ------------------------------------------------------------------------------------------------ orders

    def renew(
        self, leader_epoch: int, replicas: Sequence[int], isr: Sequence[int], zk_version: int, now: float
    ) -> None:
        """Begin a new epoch of the same leader.

        Keep the followers' log end offsets unless an epoch was missed (broker.md 1.5).

        If this broker missed an epoch, another broker may have led in it, and followers may have truncated their logs:
        their log end offsets are unknown until they fetch again. Kafka 3.9.1 keeps the offsets even then.
        """
        has_missed_an_epoch = leader_epoch > self.leader_epoch + 1
        self.leader_epoch = leader_epoch
        self.epoch_start = self.log.end
        self.isr, self.zk_version = tuple(isr), zk_version
        self._writing = None
        self.replicas = tuple(replicas)
        self._since = now
        if self._followers is not None:
            self._followers = self._initial_followers({} if has_missed_an_epoch else self._followers)
        self._advance(now)

    def end(self, error_code: int = errors.NOT_LEADER_OR_FOLLOWER) -> None:
        """End this leadership: fail all waiting requests with `error_code`."""
        waiting, self._waiting = self._waiting, None
        self._release(waiting or (), error_code)
        self._writing = None

    def _initial_followers(self, known: dict[int, Follower]) -> dict[int, Follower]:
        """Return the followers' state at the start of the leadership; replicas in `known` keep their log end offset."""
        followers: dict[int, Follower] = {}
        for replica in self.replicas:
            if replica != self.broker_id:
                follower = followers[replica] = known.get(replica) or Follower()
                follower.caught_up_at = self._since if replica in self.isr else NEVER
                follower.leader_end_before = self.epoch_start
                follower.fetched_at = self._since
        return followers

    # ------------------------------------------------------------------------------------------------ events

    def may_append(self, acks: int) -> int:
        """Return NONE, or the error code that refuses a produce before anything is appended."""
        return errors.NOT_ENOUGH_REPLICAS if acks == ACKS_ALL and len(self.isr) < self.required_isr else errors.NONE

    def handle_append(self, log_end_offset: int, now: float) -> None:
        """Set the log end offset after an append."""
        self.log.end = log_end_offset
        self._advance(now)

    def wait(self, token: Token, offset: int, deadline: float) -> None:
        """Delay the response to an acks=all produce until the high watermark reaches `offset` (rule 6).

        Args:
            token: Identifies the request.
            offset: The end of the produce's records.
            deadline: The time at which the produce times out.
        """
        waiter = DelayedProduce(token, offset, deadline)
        if offset <= self.log.high_watermark:
            self._release((waiter,), errors.NONE)
        elif self._waiting is None:
            self._waiting = [waiter]
        else:
            insort(self._waiting, waiter, key=_OFFSET)

    def caught_up(self, replica: int, at: float) -> None:
        """Record that a fetch by the follower found no new data at the time `at`."""
        follower = self.followers.get(replica)
        if follower is not None:
            follower.caught_up_at = max(follower.caught_up_at, at)

    def handle_fetch(
        self, replica: int, offset: int, start: int, leader_end: int, now: float, alive: bool = True
    ) -> None:
        """Process a fetch by a follower.

        Args:
            replica: The follower, which must be in `followers`.
            offset: The fetch offset, which is the follower's log end offset.
            start: The follower's log start offset.
            leader_end: The leader's log end offset at the time of the read.
            now: Seconds of the node's clock.
            alive: Whether the follower's broker is alive; only then may it join the ISR.
        """
        follower = self.followers[replica]
        if offset >= leader_end:
            follower.caught_up_at = max(follower.caught_up_at, now)
        elif offset >= follower.leader_end_before:
            follower.caught_up_at = max(follower.caught_up_at, follower.fetched_at)
        grew = offset != follower.log_end_offset
        follower.log_end_offset, follower.log_start_offset = offset, start
        follower.leader_end_before, follower.fetched_at = leader_end, now
        if alive:
            self._maybe_expand(replica)
        if grew:
            self._advance(now)

    def tick(self, now: float) -> None:
        """Start to remove lagging followers from the ISR, if no ISR write is in flight (rule 2)."""
        if self._writing is not None:
            return
        out = self.lagging(now)
        if out:
            self._write(tuple(replica for replica in self.isr if replica not in out))
        self._advance(now)

    def expire(self, now: float) -> None:
        """Fail produces whose deadline has passed; their records stay in the log."""
        waiting = self._waiting or ()
        late = [waiter for waiter in waiting if waiter.deadline <= now]
        if late:
            probe("a produce times out")
            self._waiting = [waiter for waiter in waiting if waiter.deadline > now]
            self._release(late, errors.REQUEST_TIMED_OUT)

    def isr_written(self, number: int, zk_version: int | None, now: float) -> None:
        """Process the outcome of the ISR write `number`: the znode's new version, or None if the write was refused.

        Rule 4 applies.
        """
        writing = self._writing
        if writing is None or writing.number != number:
            return
        self._writing = None
        if zk_version is None:
            probe("ZooKeeper refuses an ISR change")
        else:
            self.isr, self.zk_version = writing.isr, zk_version
        self._advance(now)

    def apply_config(self, lag: float, min_isr: int, now: float) -> None:
        """Apply the topic's changed configuration."""
        self.lag, self.min_isr = lag, min_isr
        self._advance(now)

    def preferred_read_replica(self, near: Collection[int], offset: int) -> int:
        """Return the broker from which a consumer should read `offset`.

        Candidates are in-sync replicas in `near` that have the offset. The largest log end offset wins, then the latest
        time of being caught up (Kafka's RackAwareReplicaSelector).

        Returns:
            A broker id; -1 if there is no candidate.
        """
        able = [
            (follower.log_end_offset, follower.caught_up_at, replica)
            for replica, follower in self.followers.items()
            if replica in near
            and replica in self.isr
            and follower.log_start_offset <= offset <= follower.log_end_offset
        ]
        return max(able)[-1] if able else NO_REPLICA

    # ------------------------------------------------------------------------------------------------ rules

    @property
    def _is_followed(self) -> bool:
        """Whether the ISR has another replica."""
        for replica in self.replicas:  # noqa: SIM110  (asked for every leadership that begins)
            if replica != self.broker_id and replica in self.isr:
                return True
        return False

    def _is_out_of_sync(self, replica: int, now: float) -> bool:
        if self._followers is None:
            return replica not in self.replicas or now - self._since > self.lag
        follower = self._followers.get(replica)
        if follower is None:
            return True
        return follower.log_end_offset != self.log.end and now - follower.caught_up_at > self.lag

    def _maybe_expand(self, replica: int) -> None:
        """Start to add a replica to the ISR, if it has caught up and no ISR write is in flight (rule 3)."""
        end = self.followers[replica].log_end_offset
        if self._writing is None and replica not in self.isr and end >= max(self.log.high_watermark, self.epoch_start):
            self._write((*self.isr, replica))

    def _write(self, isr: tuple[int, ...]) -> None:
        self._writes += 1
        self._writing = WriteIsr(self._writes, isr, self.zk_version)
        self._to_do += (self._writing,)

    def _advance(self, now: float) -> bool:
        """Raise the high watermark if possible, complete waiting produces, and return whether it moved (rules 5, 6)."""
        if self.log.high_watermark == self.log.end or len(self.isr) < self.required_isr:
            return False
        if self._followers is None:
            candidate = UNKNOWN if self._is_followed else self.log.end
        else:
            counted = self.maximal_isr
            ends = (
                follower.log_end_offset
                for replica, follower in self._followers.items()
                if replica in counted or now - follower.caught_up_at <= self.lag
            )
            candidate = min(min(ends, default=self.log.end), self.log.end)
        if candidate <= self.log.high_watermark:
            return False
        self.log.move_high_watermark(candidate)
        if self._waiting:
            done = bisect_right(self._waiting, candidate, key=_OFFSET)
            self._release(self._waiting[:done], errors.NONE)
            del self._waiting[:done]
        return True

    def _release(self, waiters: Iterable[DelayedProduce], error_code: int) -> None:
        self._to_do += tuple([CompleteProduce(waiter.token, error_code) for waiter in waiters])
