"""PartitionActor hosts one replica of a partition: it leads or follows, and writes the replica's log.

Rule 1: orders of the replica manager are obeyed by the rules of `actors.core.broker.partition`, data by those of
        `leader`, or as the leader says. Nothing here waits: what must wait is in the leader's state.
Rule 2: every request is answered, also when the role changes meanwhile or the disk fails.
Rule 3: a disk error makes the order or request fail with code 56; the replica manager is notified, and takes the whole
        log directory offline.
Rule 4: readers see what was true before they came: a follower learns the high watermark that its own fetch moves by its
        next (broker.md 3.5).
Rule 5: an empty log is not touched before its first record, not even by a new leader epoch: all
        its epochs would begin at its start, and only the last of them counts.
Rule 6: a reader receives the log's state with the data, and one notification of each later change (`LogMoved`):
        nothing has to be asked of a partition in which nothing happens.

Kafka: `Partition`; requests that wait are `DelayedProduce` and `DelayedDeleteRecords` in their purgatories.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, cast

import attrs
from thespian.actors import ActorAddress, WakeupMessage

from actors.core.broker.leader import CompleteProduce, Leader, WriteIsr
from actors.core.broker.partition import (
    FOLLOWER,
    STOPPED,
    Partition,
    health_flags,
    is_superseded,
    make_follower,
    make_leader,
    make_stopped,
    role_verdict,
    stop_verdict,
)
from actors.core.broker.produce import TAKEN, acks_verdict, epoch_verdict, produce_verdict
from actors.core.broker.state_changes import changed_isr, changing_isr
from actors.core.broker.verification import RefusedBatches, TransactionVerification
from actors.core.log_settings import log_config
from actors.runtime import Answerer
from actors.storage.log import NO_DESCRIPTORS, UNSUPPORTED_FORMAT
from actors.storage.log_directories import deleted_path
from messages.broker import (
    BecomeFollower,
    BecomeLeader,
    LogFailed,
    LogPlace,
    PartitionHealth,
    PartitionStopped,
    RoleTaken,
    StopPartition,
)
from messages.cluster import TopicPartition
from messages.data_requests import (
    ACKS_ALL,
    CONSUMER,
    EARLIEST,
    LATEST,
    NO_REPLICA,
    READ_COMMITTED,
    AbortedTransaction,
    DeletedRecords,
    EpochEnd,
    FetchedPartition,
    ListedOffset,
    ProducedPartition,
    RecordError,
    produced_partition,
)
from messages.error_codes import (
    CORRUPT_MESSAGE,
    FENCED_LEADER_EPOCH,
    INVALID_RECORD,
    KAFKA_STORAGE_ERROR,
    LEADER_NOT_AVAILABLE,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_NOT_AVAILABLE,
    OFFSET_OUT_OF_RANGE,
    POLICY_VIOLATION,
    REQUEST_TIMED_OUT,
    UNKNOWN_LEADER_EPOCH,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from messages.partition import (
    FROM_CLIENT,
    AppendBatch,
    AppendBatches,
    AppendMarker,
    AppendMarkers,
    BatchAppended,
    BatchesAppended,
    CaughtUp,
    ChangeIsr,
    CheckFollowers,
    Configure,
    ContinueSearch,
    EpochEndFound,
    ExpireLog,
    FindEpochEnd,
    FindOffset,
    FindProducers,
    IsrChanged,
    LogMoved,
    LogRead,
    LogSettings,
    LogState,
    LogTrimmed,
    OffsetFound,
    ProducersFound,
    QueryIdleFollowers,
    ReadLog,
    Replicate,
    Replicated,
    ScheduleFollowerCheck,
    TrimLog,
    TruncateFullyAndStartAt,
    TruncateToEpochEnd,
    last_stable_offset,
)
from messages.probes import probe
from messages.records import NO_PRODUCER_ID
from messages.requests import LeaderAndIsrPartitionState
from messages.transaction_requests import DescribedProducer, DescribedProducers
from messages.transactions import TransactionVerified, VerificationRequest, Verify
from messages.vocabulary import Message

log = logging.getLogger("kafka.cluster.Partition")

Transition = Callable[[Partition, LeaderAndIsrPartitionState], tuple[Partition, bool]]

ANY_TIME = 2**63 - 1
"""A `message.timestamp.difference.max.ms` that no record's time exceeds."""
FOLLOWERS_SERVE_SINCE = 11
"""The Fetch version from which consumers may read from followers."""
ZSTD_SINCE = 10
"""The Fetch version from which a topic whose `compression.type` is zstd is served."""
NOT_AVAILABLE_SINCE = 5
"""The ListOffsets version that knows OFFSET_NOT_AVAILABLE."""

_role_taken = lru_cache(256)(RoleTaken)
"""Of a hundred thousand orders most end alike: equal results are one value."""

_NO_STATE = Partition(TopicPartition("", -1), -1)
_DEFAULTS = LogSettings()


class PartitionActor(Answerer):
    """This actor hosts one replica of one partition; no other actor writes the replica's log.

    Every attribute has a value from the start, also what the first mail brings: Python shares the table of an object's
    attributes only with those that have the same at first. That is 700 bytes of each of a hundred thousand.
    """

    def __init__(self) -> None:
        super().__init__()
        self._known = _NO_STATE
        self._settings = _DEFAULTS
        self._manager: ActorAddress = None
        self._isr_keeper: ActorAddress = None
        self._verifier: ActorAddress | None = None
        self._verification: TransactionVerification[tuple[ActorAddress, AppendBatch]] | None = None
        """The transactions of producers while this replica leads; None before the first."""
        self._log_path = ""
        self._log_start_offset = 0
        self._log_end_offset = 0
        self._latest_epoch = -1
        self._high_watermark = 0
        self._first_unstable = -1
        self._leader: Leader | None = None
        self._health_flags: tuple[str, ...] = ()
        """What the replica manager knows to be the matter."""
        self._read: tuple[ActorAddress, LogState, LogState] | None = None
        """The last reader of the log, its state at that read, and the changes sent since (rule 6)."""
        self._trims: tuple[tuple[ActorAddress, TrimLog, float], ...] = ()
        """Who waits for all replicas' logs to begin at an offset, and until when."""
        self._isr_writes = 0
        """ISR writes without an outcome, those of earlier leaderships included."""
        self._look_at: float | None = None
        """When we are to look at the followers."""
        self._alarm: float | None = None
        """The next deadline of a waiting request."""

    @property
    def known(self) -> Partition:
        """The replica as of the last order that it took over: for checks of invariants."""
        return self._known

    def receiveMsg_Configure(self, message: Configure, sender: ActorAddress) -> None:
        """The topic's configuration changed: it applies to all later operations."""
        self._settings = message.settings
        if self._log_path:
            self.port("logs").configure(self._log_path, log_config(self._settings))
        if self._leader is not None:
            self._leader.configured(self._settings.lag, self._settings.min_insync_replicas, self.now)
            self._carry_out(self._leader)
            self._send_health_flags()

    # ------------------------------------------------------------------------------------------------ orders

    def answer(self, question: Message) -> Message:
        """Obey one order of the replica manager."""
        match question:
            case BecomeLeader():
                return self._take_role(question, make_leader)
            case BecomeFollower():
                return self._take_role(question, make_follower if question.leader_alive else _await_leader)
            case StopPartition():
                return self._stop(question.leader_epoch, question.delete)
        raise TypeError(f"PartitionActor has no handler for {type(question).__name__}")

    def _take_role(self, asked: BecomeLeader | BecomeFollower, transition: Transition) -> RoleTaken:
        order, host = asked.state, asked.host
        if host is not None:
            self._known = Partition(order.partition, host.broker_id)
            self._settings, self._manager = host.settings, host.manager
            self._isr_keeper, self._verifier = host.isr_keeper, host.verifier
        before = self._known
        error_code, storage_error, changed = role_verdict(before, order), "", False
        try:
            if (
                error_code == NONE
                and not self._log_path
                and (transition is _await_leader or not is_superseded(before, order))
            ):
                error_code = self._open_log(asked.log, log_config(self._settings) if host is None else host.log_config)
            if error_code == NONE:
                self._known, changed = transition(before, order)
                if self._known is not before:
                    self._enter_role(order)
        except OSError as error:
            error_code, storage_error = KAFKA_STORAGE_ERROR, self._disk_failure(error)
        known = self._known
        self._health_flags = self._find_health_flags()
        return _role_taken(
            error_code,
            changed,
            known.leads,
            self._health_flags,
            self._log_path != "",
            storage_error,
            self._log_end_offset,
            self._high_watermark,
            self._latest_epoch,
            known.leader_epoch,
            None if self._leader is None else self._next_look(self._leader),
        )

    def _enter_role(self, order: LeaderAndIsrPartitionState) -> None:
        """The role is taken over: begin, renew or end the leadership."""
        known = self._known
        if not known.leads:
            self._end_leadership()
            # What was replicated since has brought epochs of its own: a log that seemed to have none would be cut at
            # its high watermark, which may lag behind what was acknowledged.
            self._latest_epoch = self.port("logs").latest_epoch(self._log_path) if self._log_end_offset else -1
            return
        if self._log_end_offset:
            self.port("logs").begin_epoch(self._log_path, known.leader_epoch)
        self._latest_epoch = known.leader_epoch
        leader = self._leader
        if leader is None:
            leader = self._leader = Leader(
                known.broker_id,
                known.leader_epoch,
                order.replicas,
                order.isr,
                order.zk_version,
                self._log_start_offset,
                self._log_end_offset,
                self._high_watermark,
                self._settings.lag,
                self._settings.min_insync_replicas,
                self.now,
            )
            self._move_high_watermark(leader.high_watermark)
            self._tell_reader()
        else:
            leader.renew(known.leader_epoch, order.replicas, order.isr, order.zk_version, self.now)
            self._take_steps(leader)

    def _end_leadership(self) -> None:
        leader, self._leader = self._leader, None
        if leader is not None:
            leader.end()
            self._carry_out(leader)
        self._forget_transactions()
        self._refuse_trims()
        self._tell_reader()

    def _open_log(self, place: LogPlace | None, config: tuple[int, ...]) -> int:
        """Open the log, or make it. Raises OSError."""
        if place is None:
            return KAFKA_STORAGE_ERROR
        opened = self.port("logs").open(place.path, place.missing, config)
        self._log_start_offset, self._log_end_offset, self._latest_epoch, high_watermark, self._first_unstable = opened
        self._high_watermark = min(max(high_watermark, self._log_start_offset), self._log_end_offset)
        self._log_path = place.path
        return NONE

    def _stop(self, leader_epoch: int, delete: bool) -> PartitionStopped:
        error_code = stop_verdict(self._known, leader_epoch)
        if error_code != NONE:
            return PartitionStopped(error_code, leader_epoch=self._known.leader_epoch)
        if not delete:
            if self._leader is not None:
                self._leader.end()
                self._carry_out(self._leader)
            self._forget_transactions()
            self._known = make_stopped(self._known)
            self._tell_reader()
            return PartitionStopped(NONE)
        self._end_leadership()
        path, self._log_path = self._log_path, ""
        self._known = Partition(self._known.partition, self._known.broker_id)
        writes_isr = self._isr_writes > 0
        if not path:
            return PartitionStopped(NONE, writes_isr=writes_isr)
        deleted = deleted_path(path, self.port("random").uuid_hex())
        try:
            self.port("logs").close(path, True)
            renamed = self.port("disk").rename(path, deleted)
        except OSError as error:
            return PartitionStopped(KAFKA_STORAGE_ERROR, storage_error=self._disk_failure(error))
        return PartitionStopped(NONE, deleted if renamed else "", writes_isr=writes_isr)

    # ------------------------------------------------------------------------------------------------ producers

    def receiveMsg_AppendBatches(self, message: AppendBatches, sender: ActorAddress) -> None:
        """Append, and answer now or when it is committed."""
        done, taken, leader = [], [], self._leader
        refusals: dict[int, int] = {}
        """By acks."""
        for batch in message.batches:
            error_code = refusals.get(batch.acks)
            if error_code is None:
                error_code = refusals[batch.acks] = self._acks_refused(batch.acks)
            refused = self._refused(batch, error_code)
            if refused is None:
                if batch.transactional_id is None or self._is_verified(batch, sender):
                    taken.append(batch)
            else:
                done.append(BatchAppended(batch.request, batch.place, refused))
        if taken and leader is not None:
            done += self._append(taken, leader, sender)
            self._carry_out(leader)
        if done:
            self.send(sender, BatchesAppended(tuple(done)))

    def _acks_refused(self, acks: int) -> int:
        """NONE, or the error of an append with this `acks`."""
        leader = self._leader
        return NOT_LEADER_OR_FOLLOWER if leader is None else acks_verdict(acks) or leader.may_append(acks)

    def _refused(self, batch: AppendBatch, error_code: int) -> ProducedPartition | None:
        """The error of a batch, `error_code` if already known; None if it is appended."""
        part = batch.part
        if error_code != NONE:
            return ProducedPartition(part.partition, error_code)
        any_time = self._settings.timestamp_difference_max_ms == ANY_TIME
        now_ms = 0 if any_time else self.port("time").wall_ms()
        refusal = produce_verdict(part.records, batch.version, self._settings, now_ms)
        if refusal is not TAKEN:
            return ProducedPartition(part.partition, refusal.error_code, error_message=refusal.message)
        if self._settings.compacted and part.records.keyless:
            text = "Compacted topic cannot accept message without key"
            runs = part.records.keyless
            errors = tuple(
                [
                    RecordError(place, text)
                    for first, last in zip(runs[::2], runs[1::2], strict=True)
                    for place in range(first, last + 1)
                ]
            )
            return ProducedPartition(part.partition, INVALID_RECORD, record_errors=errors, error_message=text)
        return None

    def _is_verified(self, batch: AppendBatch, sender: ActorAddress) -> bool:
        """Whether a batch may be appended now; otherwise it waits until its transaction is verified."""
        [header] = batch.part.records.batches
        if self._verifier is None or not header.is_transactional or header.producer_id == NO_PRODUCER_ID:
            return True
        if self._verification is None:
            self._verification = TransactionVerification()
        producer = header.producer_id, header.producer_epoch
        if self._verification.is_open(*producer):
            return True
        number, refused = self._verification.wait(*producer, header.base_sequence, (sender, batch))
        if number:
            probe("a transaction is verified")
            asked = VerificationRequest(number, cast("str", batch.transactional_id), *producer, self._known.partition)
            self.send(self._verifier, Verify((asked,)))
        self._refuse_unverified(refused)
        return False

    def receiveMsg_TransactionVerified(self, message: TransactionVerified, sender: ActorAddress) -> None:
        """The coordinator's answer: append what waited for it, or refuse it."""
        verification, leader = self._verification, self._leader
        if verification is None or leader is None:
            return
        waited, refused = verification.answered(message.number, message.producer_id, message.error_code)
        self._refuse_unverified(refused)
        for sender_of, batch in waited:
            [header] = batch.part.records.batches
            code = verification.append_verdict(header.producer_id, header.producer_epoch, header.base_sequence)
            code = code or self._acks_refused(batch.acks)
            if code != NONE:
                self._refuse_unverified(RefusedBatches(((sender_of, batch),), code))
                continue
            end = self._log_end_offset
            done = self._append((batch,), leader, sender_of)
            if self._log_end_offset > end:
                verification.opened(header.producer_id, header.producer_epoch)
            if done:
                self.send(sender_of, BatchesAppended(tuple(done)))
        self._carry_out(leader)

    def _refuse_unverified(self, refused: RefusedBatches[tuple[ActorAddress, AppendBatch]] | None) -> None:
        """Answer batches that waited for a verification."""
        if refused is not None:
            for sender, batch in refused.batches:
                result = ProducedPartition(batch.part.partition, refused.error_code)
                self.send(sender, BatchesAppended((BatchAppended(batch.request, batch.place, result),)))

    def _forget_transactions(self) -> None:
        """This replica does not lead any more: another leader verifies."""
        if self._verification is not None:
            waiting = self._verification.leadership_ended()
            self._refuse_unverified(RefusedBatches(waiting, NOT_LEADER_OR_FOLLOWER))

    def receiveMsg_AppendMarkers(self, message: AppendMarkers, sender: ActorAddress) -> None:
        """End transactions, and answer when that is committed (transactions.md 1.6)."""
        done, leader = [], self._leader
        for marker in message.markers:
            error_code = self._acks_refused(ACKS_ALL)
            if error_code != NONE or leader is None:
                refused = ProducedPartition(self._known.partition, error_code)
                done.append(BatchAppended(marker.request, marker.place, refused))
            else:
                end = self._log_end_offset
                done += self._append((marker,), leader, sender)
                if self._verification is not None and self._log_end_offset > end:
                    self._refuse_unverified(self._verification.ended(marker.producer_id))
        if leader is not None:
            self._carry_out(leader)
        if done:
            self.send(sender, BatchesAppended(tuple(done)))

    def _append(
        self, batches: Sequence[AppendBatch] | Sequence[AppendMarker], leader: Leader, sender: ActorAddress
    ) -> list[BatchAppended]:
        """What became of the batches of one origin, or of a marker, but for those that wait to be committed."""
        logs, partition, epoch = self.port("logs"), self._known.partition, self._known.leader_epoch
        alone, append_time = leader.is_alone, self._settings.append_time
        appending: Iterable[Any]
        if isinstance(batches[0], AppendMarker):
            append, appending = logs.append_marker, batches[0][2:6]
        else:
            append = logs.append if batches[0].origin == FROM_CLIENT else logs.append_as_coordinator
            appending = [batch.part.records.body for batch in cast("Sequence[AppendBatch]", batches)]
        try:
            if not self._log_end_offset:
                logs.begin_epoch(self._log_path, epoch)  # rule 5
            end, self._first_unstable, *appended = append(self._log_path, epoch, append_time, alone, *appending)
        except OSError as error:
            failed = ProducedPartition(partition, self._log_failed(error))
            return [BatchAppended(batch.request, batch.place, failed) for batch in batches]
        if end != self._log_end_offset:
            self._log_end_offset = end
            leader.appended(end, self.now)
            if alone:
                self._high_watermark = end  # and noted by the append
        done = []
        for batch, (error_code, first, last, time_ms) in zip(cast("Sequence[Any]", batches), appended, strict=True):
            result = produced_partition(partition, error_code, first, time_ms, self._log_start_offset)
            if batch.acks == ACKS_ALL and error_code == NONE:
                waiting = (sender, batch.request, batch.place, result)
                leader.wait(waiting, last + 1, self.now + batch.timeout)
            else:
                done.append(tuple.__new__(BatchAppended, (batch.request, batch.place, result)))
        return done

    # ------------------------------------------------------------------------------------------------ readers

    def receiveMsg_ReadLog(self, message: ReadLog, sender: ActorAddress) -> None:
        """Read, and take a follower's fetch as news of how far it is. The local coordinator gets no later
        notifications."""
        if message.replica_id == self._known.broker_id:
            self.send(sender, LogRead(message.request, self._fetched(message), self._state()))
            return
        self._read = None  # changes by this fetch are in its own answer
        result, leader = self._fetched(message), self._leader
        state = self._state()
        self._read = sender, state, state
        in_sync = message.replica_id == CONSUMER or leader is None or leader.is_settled(message.replica_id)
        adding = leader is not None and message.replica_id in self._known.adding_replicas
        self.send(sender, LogRead(message.request, result, state, in_sync, adding))

    def _fetched(self, message: ReadLog) -> FetchedPartition:
        part, leader = message.part, self._leader
        tp, follower = part.partition, message.replica_id not in (CONSUMER, self._known.broker_id)
        error_code = epoch_verdict(part.current_leader_epoch, self._known.leader_epoch)
        if error_code == NONE and leader is None:
            follows = self._known.role in (FOLLOWER, STOPPED)
            served = not follower and follows and message.version >= FOLLOWERS_SERVE_SINCE
            error_code = NONE if served else NOT_LEADER_OR_FOLLOWER
        if error_code == NONE and follower and leader is not None and message.replica_id not in leader.followers:
            error_code = UNKNOWN_LEADER_EPOCH  # as 3.9.1 says to a replica that is not assigned
        if error_code == NONE and message.version < ZSTD_SINCE and self._settings.compression_type == "zstd":
            error_code = UNSUPPORTED_COMPRESSION_TYPE
        if error_code != NONE:
            return FetchedPartition(tp, error_code)
        committed = message.isolation_level == READ_COMMITTED
        limit = self._limit(message.replica_id, committed)
        before = (self._high_watermark, self._last_stable_offset, self._log_start_offset, () if committed else None)
        offset, leader_end = part.fetch_offset, self._log_end_offset
        if message.near and leader is not None and self._known.broker_id not in message.near:
            nearer = leader.preferred_read_replica(message.near, offset)
            if nearer != NO_REPLICA:
                return FetchedPartition(tp, NONE, *before, preferred_read_replica=nearer)
        if not self._log_start_offset <= offset <= self._log_end_offset:
            return FetchedPartition(tp, OFFSET_OUT_OF_RANGE)
        held_back = message.throttled and leader is not None and message.replica_id not in leader.isr
        if offset >= limit or held_back or not (message.max_bytes or message.at_least_one):
            result = FetchedPartition(tp, NONE, *before)
        else:
            logs, most = self.port("logs"), min(part.partition_max_bytes, message.max_bytes)
            wanted = (self._log_path, offset, most, limit, message.at_least_one)
            aborted: tuple[AbortedTransaction, ...] | None = None
            try:
                if committed:
                    error_code, body, found = logs.read_committed(*wanted)
                    aborted = tuple([AbortedTransaction(*each) for each in found])
                else:
                    error_code, body = logs.read(*wanted, message.replica_id != self._known.broker_id)
            except OSError as error:
                return FetchedPartition(tp, self._log_failed(error))
            if error_code != NONE:
                return FetchedPartition(tp, error_code)
            result = FetchedPartition(tp, NONE, *before[:3], aborted, body=body)
        if follower and leader is not None:
            if message.idle_until >= 0:
                leader.caught_up(message.replica_id, message.idle_until)
            leader.fetched(message.replica_id, offset, part.log_start_offset, leader_end, self.now, alive=message.alive)
            self._carry_out(leader)
            self._look_at_trims()
        return result

    def _limit(self, replica_id: int, committed: bool) -> int:
        """Up to where a reader may read: a broker everything, a consumer by its isolation level."""
        if replica_id != CONSUMER:
            return self._log_end_offset
        return self._last_stable_offset if committed else self._high_watermark

    @property
    def _last_stable_offset(self) -> int:
        return last_stable_offset(self._first_unstable, self._log_start_offset, self._high_watermark)

    def _state(self) -> LogState:
        known = self._known
        return LogState(
            known.leader_epoch,
            known.leads,
            self._log_start_offset,
            self._high_watermark,
            self._last_stable_offset,
            self._log_end_offset,
        )

    def _tell_reader(self) -> None:
        """Rule 6."""
        if self._read is not None:
            reader, read, last_sent = self._read
            state = self._state()
            if any(now != then and known == then for now, then, known in zip(state, read, last_sent, strict=True)):
                self._read = reader, read, state
                self.send(reader, LogMoved(self._known.partition, state))

    def receiveMsg_FindOffset(self, message: FindOffset, sender: ActorAddress) -> None:
        """Where the log begins, ends, or reaches a time (broker.md 3.8)."""
        self._search(message, sender, 0)

    def receiveMsg_ContinueSearch(self, message: ContinueSearch, sender: ActorAddress) -> None:
        """Go on with a search by time: other mail came between."""
        self._search(message.find, message.asker, message.search)

    def _search(self, message: FindOffset, asker: ActorAddress, search: int) -> None:
        found = self._find_offset(message, search)
        if isinstance(found, int):
            self.send(self.myAddress, ContinueSearch(message, asker, found))
        else:
            self.send(asker, OffsetFound(message.request, message.index, found))

    def _find_offset(self, message: FindOffset, search: int) -> ListedOffset | int:
        """What is found, or the number of the search that has to go on."""
        query, leader = message.query, self._leader
        tp, consumer = query.partition, message.replica_id == CONSUMER
        error_code = epoch_verdict(query.current_leader_epoch, self._known.leader_epoch)
        if error_code == NONE and leader is None:
            error_code = NOT_LEADER_OR_FOLLOWER
        if error_code != NONE or leader is None:
            if search:
                self.port("logs").end_search(search)
            return ListedOffset(tp, error_code)
        epoch = self._known.leader_epoch
        limit = self._limit(message.replica_id, message.isolation_level == READ_COMMITTED)
        behind = consumer and self._high_watermark < leader.epoch_start
        not_available = OFFSET_NOT_AVAILABLE if message.version >= NOT_AVAILABLE_SINCE else LEADER_NOT_AVAILABLE
        if query.timestamp == EARLIEST:
            return ListedOffset(tp, NONE, -1, self._log_start_offset, epoch)
        if query.timestamp == LATEST:
            return ListedOffset(tp, not_available) if behind else ListedOffset(tp, NONE, -1, limit, epoch)
        try:
            search, *found = self.port("logs").find_time(self._log_path, query.timestamp, limit, search)
        except OSError as error:
            return ListedOffset(tp, self._log_failed(error))
        if search:
            return search
        if found[1] < 0 and behind:
            return ListedOffset(tp, not_available)
        return ListedOffset(tp, NONE, *found)

    def receiveMsg_FindEpochEnd(self, message: FindEpochEnd, sender: ActorAddress) -> None:
        """Where a leader epoch ends."""
        query = message.query
        error_code = epoch_verdict(query.current_leader_epoch, self._known.leader_epoch)
        if error_code == NONE and self._leader is None:
            error_code = NOT_LEADER_OR_FOLLOWER
        result = EpochEnd(query.partition, error_code)
        if error_code == NONE:
            logs = self.port("logs")
            try:
                if not self._log_end_offset:
                    logs.begin_epoch(self._log_path, self._known.leader_epoch)  # rule 5
                result = EpochEnd(query.partition, NONE, *logs.epoch_end(self._log_path, query.leader_epoch))
            except OSError as error:
                result = EpochEnd(query.partition, self._log_failed(error))
        self.send(sender, EpochEndFound(message.request, message.index, result))

    def receiveMsg_FindProducers(self, message: FindProducers, sender: ActorAddress) -> None:
        """Describe the producers of the log, as a follower too (transactions.md 1.8)."""
        rows = self.port("logs").producers(self._log_path) if self._log_path else ()
        states = tuple([DescribedProducer(*row) for row in rows])
        found = DescribedProducers(message.partition, NONE, None, states)
        self.send(sender, ProducersFound(message.request, message.index, found))

    # ------------------------------------------------------------------------------------------------ trimming

    def receiveMsg_TrimLog(self, message: TrimLog, sender: ActorAddress) -> None:
        """Begin the log later, and answer when all live replicas have followed (broker.md 9.7 row 95)."""
        offset = self._high_watermark if message.offset == -1 else message.offset
        error_code = NONE
        if self._leader is None:
            error_code = NOT_LEADER_OR_FOLLOWER
        elif not self._settings.deleting:
            error_code = POLICY_VIOLATION
        elif not 0 <= offset <= self._high_watermark:
            error_code = OFFSET_OUT_OF_RANGE
        else:
            try:
                self._log_start_offset = self.port("logs").advance_start(self._log_path, offset)
            except OSError as error:
                error_code = self._log_failed(error)
        if error_code != NONE:
            self._trimmed(sender, message, error_code)
            return
        self._tell_reader()
        self._trims += ((sender, message, self.now + message.timeout),)
        self._look_at_trims()

    def _look_at_trims(self) -> None:
        if not self._trims or self._leader is None:
            return
        low = min((f.log_start_offset for f in self._leader.followers.values()), default=self._log_start_offset)
        low, waiting, self._trims = min(low, self._log_start_offset), self._trims, ()
        for sender, trim, deadline in waiting:
            if low >= (self._log_start_offset if trim.offset == -1 else trim.offset):
                self._trimmed(sender, trim, NONE, low)
            elif deadline <= self.now:
                self._trimmed(sender, trim, REQUEST_TIMED_OUT)
            else:
                self._trims += ((sender, trim, deadline),)
                self._wake(deadline)

    def _refuse_trims(self) -> None:
        waiting, self._trims = self._trims, ()
        for sender, trim, _ in waiting:
            self._trimmed(sender, trim, NOT_LEADER_OR_FOLLOWER)

    def _trimmed(self, sender: ActorAddress, trim: TrimLog, error_code: int, low: int = -1) -> None:
        self.send(sender, LogTrimmed(trim.request, trim.index, DeletedRecords(self._known.partition, error_code, low)))

    def receiveMsg_ExpireLog(self, message: ExpireLog, sender: ActorAddress) -> None:
        """Drop old segments, never above the high watermark; a follower too (broker.md 5.5)."""
        if self._log_path:
            try:
                self._log_start_offset, _ = self.port("logs").expire(self._log_path, self._high_watermark)
                self._tell_reader()
            except OSError as error:
                self._log_failed(error)

    # ------------------------------------------------------------------------------------------------ following

    def receiveMsg_Replicate(self, message: Replicate, sender: ActorAddress) -> None:
        """Append what the leader sent, byte for byte, and take over how far it is (broker.md 4.5)."""
        if self._fenced(message.leader_epoch, sender):
            return
        logs, error_code = self.port("logs"), NONE
        try:
            if message.body.size:
                if message.fetch_offset != self._log_end_offset:
                    self._replicated(sender, message.leader_epoch, CORRUPT_MESSAGE)
                    return
                error_code, self._log_end_offset, self._first_unstable = logs.replicate(self._log_path, message.body)
            if message.log_start_offset > self._log_start_offset and message.log_start_offset <= self._log_end_offset:
                self._log_start_offset = logs.advance_start(self._log_path, message.log_start_offset)
        except OSError as error:
            error_code = self._log_failed(error)
        self._move_high_watermark(min(max(message.high_watermark, self._log_start_offset), self._log_end_offset))
        self._replicated(sender, message.leader_epoch, error_code)

    def receiveMsg_TruncateToEpochEnd(self, message: TruncateToEpochEnd, sender: ActorAddress) -> None:
        """Cut the log where it and the leader's part (broker.md 4.4, the table)."""
        if self._fenced(message.leader_epoch, sender):
            return
        ask, error_code = -1, NONE
        try:
            target, ask = self._parting(message)
            if target < self._log_end_offset:
                probe("a follower truncates its log")
                cut = self.port("logs").truncate(self._log_path, target)
                self._log_start_offset, self._log_end_offset, self._first_unstable = cut
                self._move_high_watermark(min(self._high_watermark, self._log_end_offset))
        except OSError as error:
            error_code = self._log_failed(error)
        self._replicated(sender, message.leader_epoch, error_code, ask)

    def _parting(self, said: TruncateToEpochEnd) -> tuple[int, int]:
        """(where to cut, which epoch to ask about next or -1)."""
        if said.end < 0:
            probe("a follower does not learn where an epoch ends")
            return said.otherwise, -1
        if said.epoch < 0:
            return said.end, -1
        own_epoch, own_end = self.port("logs").epoch_end(self._log_path, said.epoch)
        if own_epoch == said.epoch:
            return min(said.end, own_end), -1
        if 0 <= own_epoch < said.epoch:
            probe("a follower asks about an older epoch")
            return own_end, own_epoch
        return said.end, -1

    def receiveMsg_TruncateFullyAndStartAt(self, message: TruncateFullyAndStartAt, sender: ActorAddress) -> None:
        """Nothing of our log is in the leader's any more."""
        if self._fenced(message.leader_epoch, sender):
            return
        probe("a follower begins its log anew")
        error_code = NONE
        try:
            begun = self.port("logs").restart(self._log_path, message.offset)
            self._log_start_offset, self._log_end_offset, self._first_unstable = begun
            self._move_high_watermark(message.offset)
        except OSError as error:
            error_code = self._log_failed(error)
        self._replicated(sender, message.leader_epoch, error_code)

    def _fenced(self, leader_epoch: int, sender: ActorAddress) -> bool:
        """Whether a fetcher brings data of a leader epoch that this replica does not follow; refuse it with code 74.

        A fetcher is stopped only after its partition has accepted a new role or a stop, so what it sent before that
        may arrive afterwards.
        """
        fenced = leader_epoch != self._known.leader_epoch or self._known.role != FOLLOWER
        if fenced:
            probe("a follower refuses data of another leader epoch")
            self._replicated(sender, leader_epoch, FENCED_LEADER_EPOCH)
        return fenced

    def _replicated(self, sender: ActorAddress, leader_epoch: int, error_code: int, ask: int = -1) -> None:
        self.send(sender, Replicated(self._known.partition, leader_epoch, error_code, self._log_end_offset, ask))
        self._tell_reader()

    # ------------------------------------------------------------------------------------------------ leading

    def receiveMsg_IsrChanged(self, message: IsrChanged, sender: ActorAddress) -> None:
        """The outcome of a write of the ISR."""
        self._isr_writes -= 1
        leader = self._leader
        if leader is not None and message.leader_epoch == leader.leader_epoch:
            written = message.zk_version >= 0
            leader.isr_written(message.number, message.zk_version if written else None, self.now)
            self._say(changed_isr(leader, written))
            self._carry_out(leader)
            self._send_health_flags()

    def receiveMsg_CheckFollowers(self, message: CheckFollowers, sender: ActorAddress) -> None:
        """A timer for lagging followers is due."""
        self._look_at = None
        leader = self._leader
        if leader is not None and self._read is not None and leader.lagging(self.now):
            self.send(self._read[0], QueryIdleFollowers(self._known.partition))
        elif leader is not None:
            leader.tick(self.now)
            self._carry_out(leader)

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        """A waiting request has timed out."""
        self._alarm = None
        if self._leader is not None:
            self._leader.expire(self.now)
            self._look_at_trims()
            self._carry_out(self._leader)

    def receiveMsg_CaughtUp(self, message: CaughtUp, sender: ActorAddress) -> None:
        """What is known of followers that were found behind; look again, for good."""
        leader = self._leader
        if leader is not None:
            for replica, at in message.idle_until:
                leader.caught_up(replica, at)
            leader.tick(self.now)
            self._carry_out(leader)

    def _carry_out(self, leader: Leader) -> None:
        """Do what the leader's state wants done."""
        self._take_steps(leader)
        look_at = self._next_look(leader) if leader is self._leader else None
        if look_at is not None:
            self.send(self._isr_keeper, ScheduleFollowerCheck(look_at, (self.myAddress,)))

    def _next_look(self, leader: Leader) -> float | None:
        """When it is to be reminded of its followers, if the reminder must be sent now."""
        if self._look_at is not None:
            return None
        after = leader.look_after(self.now)
        if after is not None:
            half = self._settings.lag / 2
            self._look_at = (after // half + 1) * half
        return self._look_at

    def _take_steps(self, leader: Leader) -> None:
        """Everything except the reminder of its followers."""
        self._move_high_watermark(leader.high_watermark)
        to_do = leader.take()
        if to_do:
            self._release(step for step in to_do if isinstance(step, CompleteProduce))
        for step in to_do:
            match step:
                case WriteIsr(number, isr, zk_version):
                    known, moves = self._known, self._known.adding_replicas or self._known.removing_replicas
                    if len(isr) > len(leader.isr):
                        probe("ISR expands while a reassignment is under way" if moves else "ISR expands")
                    else:
                        probe("ISR shrinks while a reassignment is under way" if moves else "ISR shrinks")
                    self._say(changing_isr(leader, isr, self.now, self.port("time").wall_ms()))
                    self._isr_writes += 1
                    self.send(
                        self._isr_keeper,
                        ChangeIsr(
                            known.partition,
                            number,
                            known.broker_id,
                            known.leader_epoch,
                            known.controller_epoch,
                            isr,
                            zk_version,
                            len(isr) > len(leader.isr),
                        ),
                    )
        if leader is self._leader:
            deadline = leader.next_deadline
            if deadline is not None:
                self._wake(deadline)
            self._tell_reader()

    def _release(self, released: Iterable[CompleteProduce]) -> None:
        """Tell those who waited."""
        for sender, of_sender in groupby(released, lambda release: release.token[0]):
            done = []
            for release in of_sender:
                _, request, index, result = release.token
                done.append(BatchAppended(request, index, attrs.evolve(result, error_code=release.error_code)))
            self.send(sender, BatchesAppended(tuple(done)))

    def _find_health_flags(self) -> tuple[str, ...]:
        leader = self._leader
        return () if leader is None else health_flags(self._known, leader.isr, leader.min_isr)

    def _send_health_flags(self) -> None:
        """Tell the replica manager what is the matter now, if that has changed."""
        found = self._find_health_flags()
        if found != self._health_flags:
            self._health_flags = found
            self.send(self._manager, PartitionHealth(self._known.partition, found))

    def _say(self, words: str) -> None:
        log.info("[Partition %s broker=%d] %s", self._known.partition, self._known.broker_id, words)

    def _move_high_watermark(self, offset: int) -> None:
        if offset != self._high_watermark:
            self._high_watermark = offset
            self._first_unstable = self.port("logs").note_high_watermark(self._log_path, offset)

    def _wake(self, at: float) -> None:
        if self._alarm is None or self._alarm > at:
            self._alarm = at
            self.wake_at(at)

    def _log_failed(self, error: OSError) -> int:
        """Rule 3; the code of whatever was asked of the log."""
        if failure := self._disk_failure(error):
            self.send(self._manager, LogFailed(self._known.partition, failure))
        return KAFKA_STORAGE_ERROR

    def _disk_failure(self, error: OSError) -> str:
        """Return what the disk says, "" if the disk works and its directory stays online."""
        if error.errno == UNSUPPORTED_FORMAT:
            return ""
        if error.errno in NO_DESCRIPTORS:
            log.error(
                "[Partition %s broker=%d] Failed to open a log file: %s",
                *(self._known.partition, self._known.broker_id, error.strerror),
            )
            return ""
        return error.strerror or str(error)


def _await_leader(known: Partition, order: LeaderAndIsrPartitionState) -> tuple[Partition, bool]:
    """The leader is not alive: the log stands, the order is not taken over, so it can come again (broker.md 1.4)."""
    return known, False
