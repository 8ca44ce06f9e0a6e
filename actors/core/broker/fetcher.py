"""The follower's side of replication: the partitions fetched from one leader, and the next request (broker.md 4).

Rule 1: a partition first *truncates*: leader epochs show where its log and the leader's diverge. Then it *fetches* from
        its log end offset. From protocol version 2.7 on, it fetches at once, with the epoch of its last record, and
        truncates if the response has the epoch where the logs diverge (KIP-595). If the leader does not have a
        partition's offset, the partition is *out of range* until the leader has returned the offset at which the
        leader's log begins or ends.
Rule 2: one request is in flight at a time; the next follows when every partition has processed the response. Truncation
        comes before offset lookups, and offset lookups come before fetches.
Rule 3: a response counts for a partition only if the partition is still followed, with the same epoch and offset as at
        the time of the request.
Rule 4: a failure is retried after the back-off. A partition with an outdated epoch (74), or with a failed disk, is not
        fetched until the controller's next LeaderAndIsr request.
Rule 5: a partition gets no message about a response that has nothing new for it. A partition that got records is the
        last in the next request: a response has a maximum size, and one partition must not use all of it every time.
        Within a session the leader rotates the partitions.
Rule 6: fetches use a session if the leader grants one (`fetch_sessions`); a fetch then names only changed and forgotten
        partitions. A lost session (70) is begun again. If a session is in doubt (71, or no response), the next request
        ends it and begins a new one. A fetch without changes names no partition. If no back-off is running, the network
        repeats such a fetch until the leader returns data or this fetcher interrupts the repetition.
Rule 7: the bytes of throttled replicas are counted (`replication_quota`). While the quota is exceeded (`back_off`), the
        fetcher does not fetch throttled replicas that are out of sync.

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
from messages import errors
from messages.apis.fetch import FetchPartition, FetchRequest, FetchResponse, is_idle_poll, next_epoch
from messages.apis.list_offsets import ListedOffset, ListOffsetsRequest, OffsetQuery
from messages.apis.offset_for_leader_epoch import EpochEnd, EpochQuery, OffsetForLeaderEpochRequest
from messages.cluster import TopicPartition
from messages.partition import Replicate, Replicated, TruncateFullyAndStartAt, TruncateToEpochEnd
from messages.probes import probe
from messages.protocol_version import at_least
from messages.records import EARLIEST, LATEST
from messages.vocabulary import evolve, value_class

TRUNCATES_ON_FETCH = "2.7-IV1"
"""The first protocol version whose leaders report diverging epochs in Fetch responses."""
FETCHER_VERSIONS = (("2.8-IV0", 12, 4, 6), (TRUNCATES_ON_FETCH, 12, 3, 5), ("0.8.0", 11, 3, 5))
"""First protocol version, and the versions of Fetch, OffsetForLeaderEpoch and ListOffsets between brokers from then on
(broker.md 4.1)."""

UNKNOWN_EPOCH = -1


class Phase(enum.Enum):
    """The next step of a fetcher for a partition, such as truncation or a fetch."""

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
    """The leader epoch whose end offset is requested from the leader; -1 if the log has no epoch."""
    last_epoch: int = UNKNOWN_EPOCH
    """The newest epoch in the log, which a fetch names; -1 if fetches name none."""
    phase: Phase = Phase.TRUNCATING
    not_before: float = 0.0
    last_sent: tuple[int, int] = (-1, -1)
    """The high watermark and the log start offset that were last sent to the partition."""
    busy: bool = False
    """Whether the partition is processing what it was sent."""
    adding: bool = False
    """Whether a reassignment adds the replica."""


class PartitionCommand(NamedTuple):
    """A message that the fetcher sends to the actor of a partition."""

    partition: TopicPartition
    message: TruncateToEpochEnd | Replicate | TruncateFullyAndStartAt


Request = FetchRequest | OffsetForLeaderEpochRequest | ListOffsetsRequest


@value_class
class FetchSettings:
    """The settings of a fetcher; sizes are in bytes and times in seconds."""

    broker_id: int
    max_wait: float = 0.5
    min_bytes: int = 1
    max_bytes: int = 10 << 20
    partition_max_bytes: int = 1 << 20
    backoff: float = 1.0
    protocol: str = "2.6"


class Fetcher:
    """The state of all partitions that are fetched from one leader over one connection."""

    def __init__(self, settings: FetchSettings) -> None:
        self.partitions: dict[TopicPartition, PartitionFetchState] = {}
        self.failed: dict[TopicPartition, int] = {}
        """Partitions that are not fetched, with the error code (rule 4)."""
        self.throttled = ThrottledReplicas()
        self._throttled_bytes = 0
        self._held_until = 0.0
        self._settings = settings
        self._truncates_on_fetch = at_least(settings.protocol, TRUNCATES_ON_FETCH)
        self._versions = next(versions for since, *versions in FETCHER_VERSIONS if at_least(settings.protocol, since))
        self._due: dict[Phase, dict[TopicPartition, None]] = {phase: {} for phase in Phase}
        """Partitions that are due, by phase."""
        self._delayed: list[tuple[float, TopicPartition]] = []
        self._busy = 0
        self._asked: dict[TopicPartition, tuple[int, int]] = {}
        """The leader epoch and the offset (or epoch) of each partition in the request in flight; empty for a fetch."""
        self._session = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._named: dict[TopicPartition, FetchPartition] = {}
        """The partitions of the leader's session, or of the fetch in flight."""
        self._changed: dict[TopicPartition, None] = {}
        """Partitions that may differ from the leader's session."""
        self._behind: dict[TopicPartition, int] = {}
        """The lag in records behind the leader's high watermark, of partitions that lag."""

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
        """Begin to follow a partition, or begin again in another epoch.

        Args:
            partition: The partition.
            leader_epoch: The leader epoch in the controller's LeaderAndIsr request.
            log_end_offset: The end of the replica's log.
            high_watermark: The replica's high watermark.
            epoch: The newest epoch in the log, -1 without epochs.
            adding: Whether a reassignment adds the replica.
        """
        known = self.partitions.get(partition)
        if known is None or known.leader_epoch != leader_epoch:
            self.unfollow((partition,))
            state = self.partitions[partition] = PartitionFetchState(
                leader_epoch, log_end_offset, high_watermark, epoch, adding=adding
            )
            if self._truncates_on_fetch and epoch != UNKNOWN_EPOCH:
                state.phase, state.last_epoch = Phase.FETCHING, epoch
            self._is_due(partition)

    def unfollow(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop following these partitions."""
        for partition in partitions:
            self.failed.pop(partition, None)
            if partition in self.partitions:
                self._is_not_due(partition)
                self._busy -= self.partitions.pop(partition).busy

    def back_off(self, until: float) -> None:
        """Until this time, do not fetch throttled replicas that are out of sync (rule 7).

        The response to the request in flight is still processed.
        """
        self._held_until = until

    def take_throttled_bytes(self) -> int:
        """Return the bytes of throttled replicas that arrived since the last call."""
        taken, self._throttled_bytes = self._throttled_bytes, 0
        return taken

    # ------------------------------------------------------------------------------------------------ requests

    @property
    def settled(self) -> bool:
        """Whether every partition has processed the messages that were sent to it."""
        return not self._busy

    def next_time(self) -> float | None:
        """Return the earliest time at which a partition's back-off ends; None if no partition backs off."""
        return self._delayed[0][0] if self._delayed else None

    def without_epochs(self, now: float) -> list[PartitionCommand]:
        """If a log has no epoch, truncate it to the high watermark without a request to the leader."""
        self._end_delays(now)
        orders = []
        for partition in list(self._due[Phase.TRUNCATING]):
            followed = self.partitions[partition]
            if followed.ask_epoch == UNKNOWN_EPOCH:
                orders.append(self._order(partition, self._truncate(followed, UNKNOWN_EPOCH, -1)))
        return orders

    def next_request(self, now: float) -> Request | None:
        """Return the next request to the leader (rule 2); None if nothing is due."""
        self._end_delays(now)
        broker_id, following = self._settings.broker_id, self.partitions
        truncating = [(partition, following[partition]) for partition in self._due[Phase.TRUNCATING]]
        if truncating:
            self._asked = {tp: (f.leader_epoch, f.ask_epoch) for tp, f in truncating}
            queries = tuple(EpochQuery(tp, f.ask_epoch, f.leader_epoch) for tp, f in truncating)
            return OffsetForLeaderEpochRequest(self._versions[1], broker_id, queries)
        for phase, what in ((Phase.LATEST, LATEST), (Phase.EARLIEST, EARLIEST)):
            lost = [(partition, following[partition]) for partition in self._due[phase]]
            if lost:
                self._asked = {tp: (f.leader_epoch, f.log_end_offset) for tp, f in lost}
                wanted = tuple(OffsetQuery(tp, what, f.leader_epoch) for tp, f in lost)
                return ListOffsetsRequest(self._versions[2], broker_id, wanted)
        if now < self._held_until:
            for partition in list(self._due[Phase.FETCHING]):
                self._throttle(partition)
        return self._fetch() if self._due[Phase.FETCHING] else None

    def may_repeat(self, request: Request) -> bool:
        """Return whether the network may repeat this request until the leader returns data (rule 6)."""
        return is_idle_poll(request) and not self._delayed

    def advance_epoch(self, times: int) -> None:
        """Advance the session's epoch by the number of times that the network repeated the request in flight."""
        for _ in range(times):
            self._epoch = next_epoch(self._epoch)

    def _fetch(self) -> FetchRequest:
        """Return the next fetch request (rule 6).

        Within a session, the request names only the changed partitions. Without a session, or at the beginning of a
        session, the request names all partitions that are due.
        """
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
            self._versions[0],
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
        return FetchPartition(
            partition, followed.log_end_offset, most, followed.leader_epoch, start, followed.last_epoch
        )

    def _truncate(self, followed: PartitionFetchState, epoch: int, end: int) -> TruncateToEpochEnd:
        return TruncateToEpochEnd(followed.leader_epoch, epoch, end, followed.high_watermark, self._truncates_on_fetch)

    # ---------------------------------------------------------------------------------------------- responses

    def handle_failure(self, now: float) -> None:
        """Back off after a failed request.

        If the request was a fetch, the next fetch ends the session, because the leader may have processed the failed
        fetch. If the request asked for offsets or epochs, the session continues.
        """
        asked, self._asked = list(self._asked), {}
        if not asked:
            asked = list(self._due[Phase.FETCHING])
            self._epoch = INITIAL_EPOCH
        for partition in asked:
            self._delay(partition, now)

    def handle_response(self, response: FetchResponse, now: float) -> list[PartitionCommand]:
        """Process a fetch response; return the messages to partitions."""
        if response.error_code != errors.NONE:
            if response.error_code == errors.FETCH_SESSION_ID_NOT_FOUND:
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
            if result.error_code == errors.NONE and result.diverging_epoch is not None and self._truncates_on_fetch:
                probe("a follower truncates where a fetch response shows that its log diverges")
                orders.append(self._order(partition, self._truncate(followed, *result.diverging_epoch)))
            elif result.error_code == errors.NONE:
                news = result.high_watermark, result.log_start_offset
                if result.body.size:
                    self.partitions[partition] = self.partitions.pop(partition)
                    self._throttled_bytes += result.body.size if partition in self.throttled else 0
                if result.body.size or news != followed.last_sent:
                    followed.last_sent = news
                    tracks = self._truncates_on_fetch and bool(result.body.size)
                    message = Replicate(followed.leader_epoch, followed.log_end_offset, result.body, *news, tracks)
                    orders.append(self._order(partition, message))
            elif result.error_code == errors.OFFSET_OUT_OF_RANGE:
                self._enter(partition, Phase.LATEST)
            else:
                self._handle_error(partition, result.error_code, now)
        return orders

    def epochs_ended(self, results: Iterable[EpochEnd], now: float) -> list[PartitionCommand]:
        """Process the end offsets of the leader's epochs; return the commands for partitions."""
        orders = []
        for ended in results:
            partition, error_code = ended.partition, ended.error_code
            followed = self._still(partition)
            if followed is None:
                continue
            if error_code == errors.NONE:
                message = self._truncate(followed, ended.leader_epoch, ended.end_offset)
                orders.append(self._order(partition, message))
            else:
                self._handle_error(partition, error_code, now)
        self._asked = {}
        return orders

    def offsets_listed(self, results: Iterable[ListedOffset], now: float) -> list[PartitionCommand]:
        """Process the leader's log start or end offsets; return the commands for partitions (broker.md 4.4, code 1)."""
        orders = []
        for listed in results:
            partition, error_code, offset = listed.partition, listed.error_code, listed.offset
            followed = self._still(partition)
            if followed is None:
                continue
            if error_code != errors.NONE:
                self._handle_error(partition, error_code, now)
            elif followed.phase is Phase.LATEST and offset < followed.log_end_offset:
                message = self._truncate(followed, UNKNOWN_EPOCH, offset)
                orders.append(self._order(partition, evolve(message, otherwise=offset)))
            elif followed.phase is Phase.LATEST:
                self._enter(partition, Phase.EARLIEST)
            elif offset > followed.log_end_offset:
                restart = TruncateFullyAndStartAt(followed.leader_epoch, offset, self._truncates_on_fetch)
                orders.append(self._order(partition, restart))
            else:
                self._enter(partition, Phase.FETCHING)
        self._asked = {}
        return orders

    def max_lag(self) -> int:
        """Return the largest lag of a partition behind its leader's high watermark, in records."""
        self._behind = {tp: lag for tp, lag in self._behind.items() if tp in self.partitions}
        return max(self._behind.values(), default=0)

    def handle_replicated(self, done: Replicated, now: float) -> None:
        """Continue to fetch a partition that has processed the last message sent to it."""
        followed = self.partitions.get(done.partition)
        if followed is None or followed.leader_epoch != done.leader_epoch:
            return
        self._busy -= followed.busy
        followed.busy = False
        followed.log_end_offset = done.log_end_offset
        if done.last_epoch is not None:
            followed.last_epoch = done.last_epoch
        lag = followed.last_sent[0] - done.log_end_offset
        if lag > 0:
            self._behind[done.partition] = lag
        else:
            self._behind.pop(done.partition, None)
        if done.error_code in (errors.FENCED_LEADER_EPOCH, errors.KAFKA_STORAGE_ERROR):
            self._fail(done.partition, done.error_code)
        elif done.error_code != errors.NONE:
            followed.last_sent = (-1, -1)
            self._delay(done.partition, now)
        elif done.ask_epoch != UNKNOWN_EPOCH and followed.phase is Phase.TRUNCATING:
            followed.ask_epoch = done.ask_epoch
            self._is_due(done.partition)
        else:
            self._enter(done.partition, Phase.FETCHING)

    # ------------------------------------------------------------------------------------------------ rules

    def _still(self, partition: TopicPartition) -> PartitionFetchState | None:
        """Return the partition's state if a response for it still counts (rule 3); otherwise None."""
        followed, asked = self.partitions.get(partition), self._asked.get(partition)
        if followed is None or asked is None:
            return None
        at = followed.ask_epoch if followed.phase is Phase.TRUNCATING else followed.log_end_offset
        return followed if asked == (followed.leader_epoch, at) else None

    def _handle_error(self, partition: TopicPartition, error_code: int, now: float) -> None:
        if error_code == errors.FENCED_LEADER_EPOCH:
            self._fail(partition, error_code)
        else:
            self._delay(partition, now)

    def _fail(self, partition: TopicPartition, error_code: int) -> None:
        """Do not fetch the partition until the controller's next LeaderAndIsr request (rule 4)."""
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
        """Delay a throttled partition that is not in sync (rule 7).

        A partition counts as in sync if it has everything up to the last known high watermark.
        """
        followed = self.partitions[partition]
        known, _ = followed.last_sent
        if partition in self.throttled and not 0 <= known <= followed.log_end_offset:
            self._wait(partition, followed, self._held_until)

    def _end_delays(self, now: float) -> None:
        """Mark partitions as due when their back-off has ended."""
        while self._delayed and self._delayed[0][0] <= now:
            not_before, partition = heappop(self._delayed)
            followed = self.partitions.get(partition)
            if followed is not None and followed.not_before == not_before and not followed.busy:
                self._is_due(partition)

    def _order(
        self, partition: TopicPartition, message: TruncateToEpochEnd | Replicate | TruncateFullyAndStartAt
    ) -> PartitionCommand:
        """Return the command for a partition's actor.

        The partition is left out of requests until it has processed the message.
        """
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
