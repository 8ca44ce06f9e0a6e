"""The follower's side of replication: which partitions are fetched from a leader, and the next request for each
(broker.md 4).

Rule 1: a partition is first *truncating*: where its log and the leader's part is found by the leader epochs. Then it is
        *fetching*, from its log's end on. One whose offset the leader does not have is *out of range*, until it knows
        where the leader's log ends or begins.
Rule 2: one request is under way at a time; the next is made when every partition has dealt with the answer. Truncating
        goes before finding offsets, that before fetching.
Rule 3: an answer counts for a partition only if it still follows in the same epoch, at the same offset.
Rule 4: what fails waits for the backoff. A partition whose own epoch is over (74), or whose disk failed, is left alone
        until the controller's next order.
Rule 5: of an answer that brings nothing new the partition hears nothing. One that got records is asked for last the
        next time: an answer has a maximum size, and no partition may use all of it forever. (Within a session the
        leader sees to that.)
Rule 6: fetches go by a session where the leader grants one (`fetch_sessions`): then a fetch names what has changed, and
        what is not fetched any more. A session that is lost (70) is begun anew, one in doubt (71, no answer) is ended
        and begun anew by the next request. A poll in which nothing changes costs nothing per partition, and is repeated
        by the network itself, if no backoff runs, until it brings something or we have something to say.
Rule 7: the bytes of throttled replicas are counted (`replication_quota`); while they are held back, those of them that
        are not in sync are not asked for.

Kafka: `ReplicaFetcherThread` and its `FetchSessionHandler`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

import attrs

from actors.core.broker.fetch_sessions import INITIAL_EPOCH, NO_SESSION
from actors.core.broker.replication_quota import ThrottledReplicas
from messages.cluster import TopicPartition
from messages.data_requests import (
    EARLIEST,
    LATEST,
    EpochEnd,
    EpochQuery,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListedOffset,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    OffsetQuery,
    is_idle_poll,
    next_epoch,
)
from messages.error_codes import (
    FENCED_LEADER_EPOCH,
    FETCH_SESSION_ID_NOT_FOUND,
    KAFKA_STORAGE_ERROR,
    NONE,
    OFFSET_OUT_OF_RANGE,
)
from messages.partition import Replicate, Replicated, TruncateFullyAndStartAt, TruncateToEpochEnd

FETCH_VERSION = 11
EPOCH_VERSION = 3
LIST_OFFSETS_VERSION = 5
"""What brokers of protocol version 2.6 speak with each other (broker.md 4.1)."""

UNKNOWN_EPOCH = -1


class Phase(enum.Enum):
    """What a fetcher does next for a partition, such as truncate or fetch."""

    TRUNCATING = "truncating"
    FETCHING = "fetching"
    LATEST = "beyond the leader's end?"
    EARLIEST = "before the leader's start?"


@attrs.define
class PartitionFetchState:
    """The fetch state of a partition that this broker follows (Kafka's PartitionFetchState)."""

    leader_epoch: int
    log_end_offset: int
    high_watermark: int
    ask_epoch: int
    """The leader epoch whose end the leader is asked for, -1 where the log has none."""
    phase: Phase = Phase.TRUNCATING
    not_before: float = 0.0
    last_sent: tuple[int, int] = (-1, -1)
    """High watermark and log start that the partition last heard of."""
    busy: bool = False
    adding: bool = False
    """Whether a reassignment adds the replica."""
    """Whether the partition is dealing with what it was sent."""


class PartitionCommand(NamedTuple):
    """A message that the fetcher sends to the actor of a partition."""

    partition: TopicPartition
    message: TruncateToEpochEnd | Replicate | TruncateFullyAndStartAt


Request = FetchRequest | OffsetForLeaderEpochRequest | ListOffsetsRequest


@attrs.frozen
class FetchSettings:
    """The settings of a fetcher; sizes are in bytes and times in seconds."""

    broker_id: int
    max_wait: float = 0.5
    min_bytes: int = 1
    max_bytes: int = 10 << 20
    partition_max_bytes: int = 1 << 20
    backoff: float = 1.0


class Fetcher:
    """The state of all partitions that are fetched from one leader over one connection."""

    def __init__(self, settings: FetchSettings) -> None:
        self.partitions: dict[TopicPartition, PartitionFetchState] = {}
        self.failed: dict[TopicPartition, int] = {}
        """Partitions left alone, with the code (rule 4)."""
        self.throttled = ThrottledReplicas()
        self._throttled_bytes = 0
        self._held_until = 0.0
        self._settings = settings
        self._due: dict[Phase, dict[TopicPartition, None]] = {phase: {} for phase in Phase}
        """Partitions that may be asked about now, by what they need."""
        self._delayed: list[tuple[float, TopicPartition]] = []
        self._busy = 0
        self._asked: dict[TopicPartition, tuple[int, int]] = {}
        """What the request under way is about, if it is no fetch: leader epoch and offset (or epoch) of each."""
        self._session = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._named: dict[TopicPartition, FetchPartition] = {}
        """What the leader's session holds of us, or the fetch under way."""
        self._changed: dict[TopicPartition, None] = {}
        """Partitions of which the session may have to hear something else."""
        self._behind: dict[TopicPartition, int] = {}
        """How many records partitions are behind their leaders' high watermarks, where they are."""

    # ------------------------------------------------------------------------------------------------ orders

    def follow(
        self,
        partition: TopicPartition,
        leader_epoch: int,
        log_end_offset: int,
        high_watermark: int,
        epoch: int,
        adding: bool = False,
    ) -> None:
        """Begin, or begin anew in another epoch. `epoch` is the newest in the log, -1 where there is none."""
        known = self.partitions.get(partition)
        if known is None or known.leader_epoch != leader_epoch:
            self.unfollow((partition,))
            self.partitions[partition] = PartitionFetchState(
                leader_epoch, log_end_offset, high_watermark, epoch, adding=adding
            )
            self._is_due(partition)

    def unfollow(self, partitions: Iterable[TopicPartition]) -> None:
        """These are followed here no longer."""
        for partition in partitions:
            self.failed.pop(partition, None)
            if partition in self.partitions:
                self._is_not_due(partition)
                self._busy -= self.partitions.pop(partition).busy

    def back_off(self, until: float) -> None:
        """Ask for throttled replicas no more until then (rule 7); what is under way counts."""
        self._held_until = until

    def take_throttled_bytes(self) -> int:
        """How many have come since this was last asked."""
        taken, self._throttled_bytes = self._throttled_bytes, 0
        return taken

    # ------------------------------------------------------------------------------------------------ requests

    @property
    def settled(self) -> bool:
        """Whether every partition has dealt with what it was sent."""
        return not self._busy

    def next_time(self) -> float | None:
        """The time of the next request; None if there is none."""
        return self._delayed[0][0] if self._delayed else None

    def without_epochs(self, now: float) -> list[PartitionCommand]:
        """Partitions whose logs have no epoch: they are cut at their high watermark, without asking anybody."""
        self._end_delays(now)
        orders = []
        for partition in list(self._due[Phase.TRUNCATING]):
            followed = self.partitions[partition]
            if followed.ask_epoch == UNKNOWN_EPOCH:
                message = TruncateToEpochEnd(followed.leader_epoch, UNKNOWN_EPOCH, -1, followed.high_watermark)
                orders.append(self._order(partition, message))
        return orders

    def next_request(self, now: float) -> Request | None:
        """The next request to the leader (rule 2); None if nothing is due."""
        self._end_delays(now)
        broker_id, following = self._settings.broker_id, self.partitions
        truncating = [(partition, following[partition]) for partition in self._due[Phase.TRUNCATING]]
        if truncating:
            self._asked = {tp: (f.leader_epoch, f.ask_epoch) for tp, f in truncating}
            queries = tuple(EpochQuery(tp, f.ask_epoch, f.leader_epoch) for tp, f in truncating)
            return OffsetForLeaderEpochRequest(EPOCH_VERSION, broker_id, queries)
        for phase, what in ((Phase.LATEST, LATEST), (Phase.EARLIEST, EARLIEST)):
            lost = [(partition, following[partition]) for partition in self._due[phase]]
            if lost:
                self._asked = {tp: (f.leader_epoch, f.log_end_offset) for tp, f in lost}
                wanted = tuple(OffsetQuery(tp, what, f.leader_epoch) for tp, f in lost)
                return ListOffsetsRequest(LIST_OFFSETS_VERSION, broker_id, wanted)
        if now < self._held_until:
            for partition in list(self._due[Phase.FETCHING]):
                self._throttle(partition)
        return self._fetch() if self._due[Phase.FETCHING] else None

    def may_repeat(self, request: Request) -> bool:
        """Whether nothing has to be said before something is heard (rule 6)."""
        return is_idle_poll(request) and not self._delayed

    def polled(self, times: int) -> None:
        """The network repeated the request under way so often before it was answered."""
        for _ in range(times):
            self._epoch = next_epoch(self._epoch)

    def _fetch(self) -> FetchRequest:
        """Everything where a session begins or there is none, else what has changed (rule 6)."""
        settings, due = self._settings, self._due[Phase.FETCHING]
        forgotten: tuple[TopicPartition, ...] = ()
        if self._epoch == INITIAL_EPOCH:
            parts = self._named = {
                partition: self._part(partition) for partition in self.partitions if partition in due
            }
        else:
            forgotten = tuple(tp for tp in self._changed if tp not in due and tp in self._named)
            parts = {partition: self._part(partition) for partition in self._changed if partition in due}
            parts = {partition: part for partition, part in parts.items() if self._named.get(partition) != part}
            for partition in forgotten:
                del self._named[partition]
            self._named |= parts
        self._changed.clear()
        return FetchRequest(
            FETCH_VERSION,
            settings.broker_id,
            round(settings.max_wait * 1000),
            settings.min_bytes,
            tuple(parts.values()),
            settings.max_bytes,
            session_id=self._session,
            session_epoch=self._epoch,
            forgotten=forgotten,
        )

    def _part(self, partition: TopicPartition) -> FetchPartition:
        followed = self.partitions[partition]
        start = max(followed.last_sent[1], 0)
        most = self._settings.partition_max_bytes
        return FetchPartition(partition, followed.log_end_offset, most, followed.leader_epoch, start)

    # ------------------------------------------------------------------------------------------------ answers

    def unanswered(self, now: float) -> None:
        """The request under way failed as a whole. A session may have heard of it, and is ended by the next."""
        asked, self._asked = list(self._asked), {}
        if not asked:
            asked = list(self._due[Phase.FETCHING])
            self._epoch = INITIAL_EPOCH
        for partition in asked:
            self._delay(partition, now)

    def fetched(self, response: FetchResponse, now: float) -> list[PartitionCommand]:
        """The leader's records."""
        if response.error_code != NONE:
            if response.error_code == FETCH_SESSION_ID_NOT_FOUND:
                self._session = NO_SESSION
            self._epoch = INITIAL_EPOCH
            return []
        self._session = response.session_id
        self._epoch = INITIAL_EPOCH if self._session == NO_SESSION else next_epoch(self._epoch)
        orders, fetching = [], self._due[Phase.FETCHING]
        for result in response.partitions:
            partition = result.partition
            followed, named = self.partitions.get(partition), self._named.get(partition)
            if followed is None or named is None or partition not in fetching:
                continue
            if (named.current_leader_epoch, named.fetch_offset) != (followed.leader_epoch, followed.log_end_offset):
                continue
            if result.error_code == NONE:
                news = result.high_watermark, result.log_start_offset
                if result.body.size:
                    self.partitions[partition] = self.partitions.pop(partition)
                    self._throttled_bytes += result.body.size if partition in self.throttled else 0
                if result.body.size or news != followed.last_sent:
                    followed.last_sent = news
                    message = Replicate(followed.leader_epoch, followed.log_end_offset, result.body, *news)
                    orders.append(self._order(partition, message))
            elif result.error_code == OFFSET_OUT_OF_RANGE:
                self._enter(partition, Phase.LATEST)
            else:
                self._refused(partition, result.error_code, now)
        return orders

    def epochs_ended(self, results: Iterable[EpochEnd], now: float) -> list[PartitionCommand]:
        """Where the leader's epochs end."""
        orders = []
        for ended in results:
            partition, error_code = ended.partition, ended.error_code
            followed = self._still(partition)
            if followed is None:
                continue
            if error_code == NONE:
                message = TruncateToEpochEnd(
                    followed.leader_epoch, ended.leader_epoch, ended.end_offset, followed.high_watermark
                )
                orders.append(self._order(partition, message))
            else:
                self._refused(partition, error_code, now)
        self._asked = {}
        return orders

    def offsets_listed(self, results: Iterable[ListedOffset], now: float) -> list[PartitionCommand]:
        """Where the leader's log ends or begins (broker.md 4.4, code 1)."""
        orders = []
        for listed in results:
            partition, error_code, offset = listed.partition, listed.error_code, listed.offset
            followed = self._still(partition)
            if followed is None:
                continue
            if error_code != NONE:
                self._refused(partition, error_code, now)
            elif followed.phase is Phase.LATEST and offset < followed.log_end_offset:
                orders.append(
                    self._order(partition, TruncateToEpochEnd(followed.leader_epoch, UNKNOWN_EPOCH, offset, offset))
                )
            elif followed.phase is Phase.LATEST:
                self._enter(partition, Phase.EARLIEST)
            elif offset > followed.log_end_offset:
                orders.append(self._order(partition, TruncateFullyAndStartAt(followed.leader_epoch, offset)))
            else:
                self._enter(partition, Phase.FETCHING)
        self._asked = {}
        return orders

    def max_lag(self) -> int:
        """How many records the partition that is behind most is behind its leader's high watermark."""
        self._behind = {tp: lag for tp, lag in self._behind.items() if tp in self.partitions}
        return max(self._behind.values(), default=0)

    def replicated(self, done: Replicated, now: float) -> None:
        """A partition has dealt with what it was sent."""
        followed = self.partitions.get(done.partition)
        if followed is None or followed.leader_epoch != done.leader_epoch:
            return
        self._busy -= followed.busy
        followed.busy = False
        followed.log_end_offset = done.log_end_offset
        lag = followed.last_sent[0] - done.log_end_offset
        if lag > 0:
            self._behind[done.partition] = lag
        else:
            self._behind.pop(done.partition, None)
        if done.error_code in (FENCED_LEADER_EPOCH, KAFKA_STORAGE_ERROR):
            self._fail(done.partition, done.error_code)
        elif done.error_code != NONE:
            followed.last_sent = (-1, -1)
            self._delay(done.partition, now)
        elif done.ask_epoch != UNKNOWN_EPOCH:
            followed.ask_epoch = done.ask_epoch
            self._is_due(done.partition)
        else:
            self._enter(done.partition, Phase.FETCHING)

    # ------------------------------------------------------------------------------------------------ rules

    def _still(self, partition: TopicPartition) -> PartitionFetchState | None:
        """Rule 3."""
        followed, asked = self.partitions.get(partition), self._asked.get(partition)
        if followed is None or asked is None:
            return None
        at = followed.ask_epoch if followed.phase is Phase.TRUNCATING else followed.log_end_offset
        return followed if asked == (followed.leader_epoch, at) else None

    def _refused(self, partition: TopicPartition, error_code: int, now: float) -> None:
        if error_code == FENCED_LEADER_EPOCH:
            self._fail(partition, error_code)
        else:
            self._delay(partition, now)

    def _fail(self, partition: TopicPartition, error_code: int) -> None:
        """Rule 4."""
        self.unfollow((partition,))
        self.failed[partition] = error_code

    def _delay(self, partition: TopicPartition, now: float) -> None:
        followed = self.partitions.get(partition)
        if followed is not None:
            self._wait(partition, followed, now + self._settings.backoff)

    def _wait(self, partition: TopicPartition, followed: PartitionFetchState, until: float) -> None:
        self._is_not_due(partition)
        followed.not_before = until
        heappush(self._delayed, (until, partition))

    def _throttle(self, partition: TopicPartition) -> None:
        """Rule 7. In sync is who has all that is committed, as far as it knows."""
        followed = self.partitions[partition]
        known, _ = followed.last_sent
        if partition in self.throttled and not 0 <= known <= followed.log_end_offset:
            self._wait(partition, followed, self._held_until)

    def _end_delays(self, now: float) -> None:
        """Those whose backoff is over may be asked about again."""
        while self._delayed and self._delayed[0][0] <= now:
            not_before, partition = heappop(self._delayed)
            followed = self.partitions.get(partition)
            if followed is not None and followed.not_before == not_before and not followed.busy:
                self._is_due(partition)

    def _order(
        self, partition: TopicPartition, message: TruncateToEpochEnd | Replicate | TruncateFullyAndStartAt
    ) -> PartitionCommand:
        """The partition has something to do, and is not asked about meanwhile."""
        self._is_not_due(partition)
        self.partitions[partition].busy = True
        self._busy += 1
        return PartitionCommand(partition, message)

    def _enter(self, partition: TopicPartition, phase: Phase) -> None:
        self._is_not_due(partition)
        self.partitions[partition].phase = phase
        self._is_due(partition)

    def _is_due(self, partition: TopicPartition) -> None:
        phase = self.partitions[partition].phase
        self._due[phase][partition] = None
        if phase is Phase.FETCHING:
            self._changed[partition] = None

    def _is_not_due(self, partition: TopicPartition) -> None:
        self._due[self.partitions[partition].phase].pop(partition, None)
        self._changed[partition] = None
