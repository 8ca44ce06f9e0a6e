"""What a follower fetches from one leader: for each partition where it stands, and what is asked next (broker.md 4).

Rule 1: a partition is first *truncating*: where its log and the leader's part is found by the leader epochs. Then it is
        *fetching*, from its log's end on. One whose offset the leader does not have is *out of range*, until it knows
        where the leader's log ends or begins.
Rule 2: one request is under way at a time; the next is made when every partition has dealt with the answer. Truncating
        goes before finding offsets, that before fetching.
Rule 3: an answer counts for a partition only if it still follows in the same epoch, at the same offset.
Rule 4: what fails waits for the backoff. A partition whose own epoch is over (74), or whose disk failed, is left alone
        until the controller's next order.
Rule 5: of an answer that brings nothing new the partition hears nothing. One that got records is asked for last the
        next time: an answer holds so many bytes, and nobody may take them all for ever.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple

import attrs

from messages.cluster import TopicPartition
from messages.data_requests import (
    EARLIEST,
    LATEST,
    EpochEnd,
    EpochQuery,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    ListedOffset,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    OffsetQuery,
)
from messages.errors import FENCED_LEADER_EPOCH, KAFKA_STORAGE_ERROR, NONE, OFFSET_OUT_OF_RANGE
from messages.partition import Reconcile, Replicate, Replicated, Restart

FETCH_VERSION = 11
EPOCH_VERSION = 3
LIST_OFFSETS_VERSION = 5
"""What brokers of protocol version 2.6 speak with each other (broker.md 4.1)."""

UNKNOWN_EPOCH = -1


class Phase(enum.Enum):
    """What a partition needs next (rule 1)."""

    TRUNCATING = "truncating"
    FETCHING = "fetching"
    LATEST = "beyond the leader's end?"
    EARLIEST = "before the leader's start?"


@attrs.define
class Followed:
    """One partition that is followed."""

    leader_epoch: int
    log_end: int
    high_watermark: int
    ask_epoch: int
    """The leader epoch whose end the leader is asked for, -1 where the log has none."""
    phase: Phase = Phase.TRUNCATING
    not_before: float = 0.0
    told: tuple[int, int] = (-1, -1)
    """High watermark and log start that the partition last heard of."""
    busy: bool = False
    """Whether the partition is dealing with what it was sent."""


class Order(NamedTuple):
    """To be sent to a partition."""

    partition: TopicPartition
    message: Reconcile | Replicate | Restart


Request = FetchRequest | OffsetForLeaderEpochRequest | ListOffsetsRequest


@attrs.frozen
class FetchSettings:
    """How a follower fetches: bytes, and times in seconds."""

    broker_id: int
    max_wait: float = 0.5
    min_bytes: int = 1
    max_bytes: int = 10 << 20
    partition_max_bytes: int = 1 << 20
    backoff: float = 1.0


class Fetcher:
    """The partitions that are fetched over one connection from one leader."""

    def __init__(self, settings: FetchSettings) -> None:
        self.partitions: dict[TopicPartition, Followed] = {}
        self.failed: dict[TopicPartition, int] = {}
        """Partitions left alone, with the code (rule 4)."""
        self._settings = settings
        self._asked: dict[TopicPartition, tuple[int, int]] = {}
        """What the request under way is about: leader epoch and offset (or epoch) of each partition."""

    # ------------------------------------------------------------------------------------------------ orders

    def follow(
        self, partition: TopicPartition, leader_epoch: int, log_end: int, high_watermark: int, epoch: int
    ) -> None:
        """Begin, or begin anew in another epoch. `epoch` is the newest in the log, -1 where there is none."""
        known = self.partitions.get(partition)
        if known is None or known.leader_epoch != leader_epoch:
            self.failed.pop(partition, None)
            self.partitions[partition] = Followed(leader_epoch, log_end, high_watermark, epoch)

    def unfollow(self, partitions: Iterable[TopicPartition]) -> None:
        """These are followed here no longer."""
        for partition in partitions:
            self.partitions.pop(partition, None)
            self.failed.pop(partition, None)

    # ------------------------------------------------------------------------------------------------ requests

    @property
    def settled(self) -> bool:
        """Whether every partition has dealt with what it was sent."""
        return not any(followed.busy for followed in self.partitions.values())

    def next_time(self) -> float | None:
        """When something is to be asked again; None where nothing is."""
        return min((followed.not_before for followed in self.partitions.values()), default=None)

    def without_epochs(self, now: float) -> list[Order]:
        """Partitions whose logs have no epoch: they are cut at their high watermark, without asking anybody."""
        orders = []
        for partition, followed in self._due(Phase.TRUNCATING, now):
            if followed.ask_epoch == UNKNOWN_EPOCH:
                followed.busy = True
                message = Reconcile(followed.leader_epoch, UNKNOWN_EPOCH, -1, followed.high_watermark)
                orders.append(Order(partition, message))
        return orders

    def next_request(self, now: float) -> Request | None:
        """What to ask the leader now (rule 2); None where nothing is due."""
        settings = self._settings
        truncating = self._due(Phase.TRUNCATING, now)
        if truncating:
            self._asked = {tp: (f.leader_epoch, f.ask_epoch) for tp, f in truncating}
            queries = tuple(EpochQuery(tp, f.ask_epoch, f.leader_epoch) for tp, f in truncating)
            return OffsetForLeaderEpochRequest(EPOCH_VERSION, settings.broker_id, queries)
        for phase, what in ((Phase.LATEST, LATEST), (Phase.EARLIEST, EARLIEST)):
            lost = self._due(phase, now)
            if lost:
                self._asked = {tp: (f.leader_epoch, f.log_end) for tp, f in lost}
                wanted = tuple(OffsetQuery(tp, what, f.leader_epoch) for tp, f in lost)
                return ListOffsetsRequest(LIST_OFFSETS_VERSION, settings.broker_id, wanted)
        fetching = self._due(Phase.FETCHING, now)
        if not fetching:
            return None
        self._asked = {tp: (f.leader_epoch, f.log_end) for tp, f in fetching}
        parts = tuple(
            FetchPartition(tp, f.log_end, settings.partition_max_bytes, f.leader_epoch, max(f.told[1], 0))
            for tp, f in fetching
        )
        return FetchRequest(
            FETCH_VERSION,
            settings.broker_id,
            round(settings.max_wait * 1000),
            settings.min_bytes,
            parts,
            settings.max_bytes,
        )

    def _due(self, phase: Phase, now: float) -> list[tuple[TopicPartition, Followed]]:
        return [
            (partition, followed)
            for partition, followed in self.partitions.items()
            if followed.phase is phase and followed.not_before <= now and not followed.busy
        ]

    # ------------------------------------------------------------------------------------------------ answers

    def unanswered(self, now: float) -> None:
        """The request under way failed as a whole."""
        asked, self._asked = self._asked, {}
        for partition in asked:
            self._delay(partition, now)

    def fetched(self, results: Iterable[FetchedPartition], now: float) -> list[Order]:
        """The leader's records."""
        orders = []
        for result in results:
            followed = self._still(result.partition)
            if followed is None:
                continue
            if result.error_code == NONE:
                news = result.high_watermark, result.log_start_offset
                if result.body.size:
                    self.partitions[result.partition] = self.partitions.pop(result.partition)
                if result.body.size or news != followed.told:
                    followed.told = news
                    followed.busy = True
                    message = Replicate(followed.leader_epoch, followed.log_end, result.body, *news)
                    orders.append(Order(result.partition, message))
            elif result.error_code == OFFSET_OUT_OF_RANGE:
                followed.phase = Phase.LATEST
            else:
                self._refused(result.partition, result.error_code, now)
        self._asked = {}
        return orders

    def epochs_ended(self, results: Iterable[EpochEnd], now: float) -> list[Order]:
        """Where the leader's epochs end."""
        orders = []
        for ended in results:
            partition, error_code = ended.partition, ended.error_code
            followed = self._still(partition)
            if followed is None:
                continue
            if error_code == NONE:
                followed.busy = True
                message = Reconcile(
                    followed.leader_epoch, ended.leader_epoch, ended.end_offset, followed.high_watermark
                )
                orders.append(Order(partition, message))
            else:
                self._refused(partition, error_code, now)
        self._asked = {}
        return orders

    def offsets_listed(self, results: Iterable[ListedOffset], now: float) -> list[Order]:
        """Where the leader's log ends or begins (broker.md 4.4, code 1)."""
        orders = []
        for listed in results:
            partition, error_code, offset = listed.partition, listed.error_code, listed.offset
            followed = self._still(partition)
            if followed is None:
                continue
            if error_code != NONE:
                self._refused(partition, error_code, now)
            elif followed.phase is Phase.LATEST and offset < followed.log_end:
                followed.busy = True
                orders.append(Order(partition, Reconcile(followed.leader_epoch, UNKNOWN_EPOCH, offset, offset)))
            elif followed.phase is Phase.LATEST:
                followed.phase = Phase.EARLIEST
            elif offset > followed.log_end:
                followed.busy = True
                orders.append(Order(partition, Restart(followed.leader_epoch, offset)))
            else:
                followed.phase = Phase.FETCHING
        self._asked = {}
        return orders

    def replicated(self, done: Replicated, now: float) -> None:
        """A partition has dealt with what it was sent."""
        followed = self.partitions.get(done.partition)
        if followed is None or followed.leader_epoch != done.leader_epoch:
            return
        followed.busy = False
        followed.log_end = done.log_end
        if done.error_code in (FENCED_LEADER_EPOCH, KAFKA_STORAGE_ERROR):
            self._fail(done.partition, done.error_code)
        elif done.error_code != NONE:
            followed.told = (-1, -1)
            self._delay(done.partition, now)
        elif done.ask_epoch != UNKNOWN_EPOCH:
            followed.ask_epoch = done.ask_epoch
        else:
            followed.phase = Phase.FETCHING

    # ------------------------------------------------------------------------------------------------ rules

    def _still(self, partition: TopicPartition) -> Followed | None:
        """Rule 3."""
        followed, asked = self.partitions.get(partition), self._asked.get(partition)
        if followed is None or asked is None:
            return None
        at = followed.ask_epoch if followed.phase is Phase.TRUNCATING else followed.log_end
        return followed if asked == (followed.leader_epoch, at) else None

    def _refused(self, partition: TopicPartition, error_code: int, now: float) -> None:
        if error_code == FENCED_LEADER_EPOCH:
            self._fail(partition, error_code)
        else:
            self._delay(partition, now)

    def _fail(self, partition: TopicPartition, error_code: int) -> None:
        """Rule 4."""
        del self.partitions[partition]
        self.failed[partition] = error_code

    def _delay(self, partition: TopicPartition, now: float) -> None:
        followed = self.partitions.get(partition)
        if followed is not None:
            followed.not_before = now + self._settings.backoff
