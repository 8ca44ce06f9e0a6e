"""The committed offsets of a consumer group: how they are written, fetched and expired.

(broker.md 6.5, KIP-98, KIP-447)

Rule 1: An offset counts as committed once its log record is below the high watermark. If a partition has several
        values, the value that is last in the log applies, in whatever order the appends complete.
Rule 2: An offset of a transaction is pending until the transaction's marker. A commit marker makes this offset the
        committed value, unless the log has a later record of the same partition. An abort marker drops the offset. A
        marker applies only to records before it in the log. If the marker arrives before the result of an append, the
        marker is applied when the result arrives.
Rule 3: A failed append leaves its producer's pending values unchanged (Kafka drops them).
Rule 4: A deletion also deletes the values that are pending or being appended, and writes a tombstone for each
        partition. Without the tombstone, a later load of the log would restore a value whose transaction is committed
        after the deletion.
Rule 5: An offset expires after the retention time. In a group that has become empty, the time starts when the group
        became empty. In a stable group of consumers, it starts at the commit, and only offsets of topics without a
        subscriber expire. In a group that never had a member, it starts at the commit. A retention time from the client
        replaces the configured one. An offset does not expire while a newer value is pending or being appended.
Rule 6: An OffsetFetch with require_stable returns UNSTABLE_OFFSET_COMMIT (88) for a partition with a value that is
        being appended or pending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from actors.core.coordinator.group_states import GroupState
from messages import errors
from messages.apis.declaration import PartitionError
from messages.apis.offset_commit import CommittedPartition
from messages.apis.offset_fetch import FetchedOffset, OffsetFetchRequest, OffsetFetchResponse
from messages.cluster import TopicPartition
from messages.groups import NO_TIME, CommittedOffset, OffsetEntry, PendingOffset, TransactionEnded
from messages.probes import probe
from messages.records import NO_OFFSET

LAST_TIME = 2**63 - 1
"""Largest expiry time, in milliseconds. In Kafka the sum overflows, and the offset expires at once."""
CONSUMERS = "consumer"
"""Protocol type of consumer groups."""
NO_TRANSACTION = -1
"""Producer id of a commit outside a transaction."""


@attrs.define
class Writing:
    """An offset commit that is being appended to the log.

    `ends` contains each TransactionEnded of the commit's producer that arrived before the result of the append.
    """

    producer_id: int
    values: dict[TopicPartition, CommittedOffset]
    ends: list[TransactionEnded] = attrs.field(factory=list)


@attrs.define
class Offsets:
    """The offsets of a group: committed, pending in transactions, and being appended to the log."""

    committed: dict[TopicPartition, CommittedOffset] = attrs.field(factory=dict)
    pending: dict[int, dict[TopicPartition, CommittedOffset]] = attrs.field(factory=dict)
    """Producer id -> its pending values, which are in the log."""
    under_way: dict[int, Writing] = attrs.field(factory=dict)
    """Number of an append -> its values."""

    @classmethod
    def from_log(cls, committed: Iterable[OffsetEntry], pending: Iterable[PendingOffset]) -> Offsets:
        """Return offsets with the values loaded from the log."""
        offsets = cls(dict(committed))
        for producer_id, partition, value in pending:
            offsets.pending.setdefault(producer_id, {})[partition] = value
        return offsets

    def __bool__(self) -> bool:
        return bool(self.committed or self.pending or self.under_way)

    @property
    def producer_ids(self) -> tuple[int, ...]:
        """Producer ids whose open transactions have offsets of this group, ascending."""
        writing = {each.producer_id for each in self.under_way.values()}
        return tuple(sorted((writing | self.pending.keys()) - {NO_TRANSACTION}))

    def open_entries(self) -> tuple[PendingOffset, ...]:
        """Return all pending offsets."""
        return tuple(
            [
                PendingOffset(producer_id, *entry)
                for producer_id, values in self.pending.items()
                for entry in values.items()
            ]
        )

    def begin(self, number: int, producer_id: int, entries: Iterable[OffsetEntry]) -> None:
        """Store values that are being appended to the log.

        Args:
            number: Number of the append.
            producer_id: The transaction's producer, or NO_TRANSACTION.
        """
        self.under_way[number] = Writing(producer_id, dict(entries))

    def end(self, number: int, error_code: int, log_offset: int) -> None:
        """Handle the result of an append (rules 1 to 3)."""
        done = self.under_way.pop(number)
        if error_code != errors.NONE:
            return
        producer_id = done.producer_id
        ended = next((each for each in done.ends if each.offset > log_offset), None)
        if ended is not None:
            probe("a transaction ends before the log has answered its offsets")
            if not ended.committed:
                return
            producer_id = NO_TRANSACTION
        for partition, value in done.values.items():
            self.write(producer_id, partition, with_log_offset(value, log_offset))

    def write(self, producer_id: int, partition: TopicPartition, value: CommittedOffset) -> None:
        """Store an offset whose record is in the log."""
        if producer_id == NO_TRANSACTION:
            _store_if_later(self.committed, partition, value)
        else:
            _store_if_later(self.pending.setdefault(producer_id, {}), partition, value)

    def end_transaction(self, ended: TransactionEnded) -> None:
        """Handle a transaction's marker that is committed to the log (rule 2)."""
        for each in self.under_way.values():
            if each.producer_id == ended.producer_id:
                each.ends.append(ended)
        values = self.pending.pop(ended.producer_id, {})
        later = {}
        for partition, value in values.items():
            if value.log_offset > ended.offset:
                later[partition] = value
            elif ended.committed:
                _store_if_later(self.committed, partition, value)
        if later:
            self.pending[ended.producer_id] = later

    def forget(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Delete the values of these partitions (rule 4); return the partitions that had one."""
        values = [self.committed, *self.pending.values(), *(each.values for each in self.under_way.values())]
        gone = list(dict.fromkeys(each for each in partitions if any(each in some for some in values)))
        for some in values:
            for partition in gone:
                some.pop(partition, None)
        self.pending = {producer_id: some for producer_id, some in self.pending.items() if some}
        return gone

    def all_partitions(self) -> list[TopicPartition]:
        """Return the partitions that have a committed or a pending value."""
        return list(dict.fromkeys([*self.committed, *self.unstable()]))

    def unstable(self) -> dict[TopicPartition, None]:
        """Return the partitions with a value that is pending or being appended; pending ones come first."""
        values = [*self.pending.values(), *(each.values for each in self.under_way.values())]
        return dict.fromkeys(partition for some in values for partition in some)

    def over(
        self,
        state: GroupState,
        protocol_type: str | None,
        subscribed: tuple[str, ...] | None,
        since_ms: int,
        wall_ms: int,
        retention_ms: int,
    ) -> list[TopicPartition]:
        """Return the partitions whose offsets have expired (rule 5).

        Args:
            subscribed: Topics to which consumers of the group subscribe; None if unknown.
            since_ms: Wall time in ms at which the group entered its state.
            wall_ms: Current wall time in ms.
        """
        base: Callable[[CommittedOffset], int]
        kept: tuple[str, ...] = ()
        if protocol_type is None:
            base = _of_commit
        elif state is GroupState.EMPTY:
            base = _of_commit if since_ms == NO_TIME else lambda _: since_ms
        elif state is GroupState.STABLE and protocol_type == CONSUMERS and subscribed is not None:
            base, kept = _of_commit, subscribed
        else:
            return []
        unstable = self.unstable()
        return [
            partition
            for partition, value in self.committed.items()
            if partition.topic not in kept
            and partition not in unstable
            and (
                wall_ms >= value.expires_at_ms
                if value.expires_at_ms != NO_TIME
                else wall_ms - base(value) >= retention_ms
            )
        ]


def _store_if_later(
    values: dict[TopicPartition, CommittedOffset], partition: TopicPartition, value: CommittedOffset
) -> None:
    """Store the value, unless `values` already has a value that is later in the log (rule 1)."""
    current = values.get(partition)
    if current is None or current.log_offset <= value.log_offset:
        values[partition] = value


def with_log_offset(value: CommittedOffset, log_offset: int) -> CommittedOffset:
    """Return the value with the base offset of its batch in the log."""
    return CommittedOffset(
        value.offset, value.leader_epoch, value.metadata, value.committed_at_ms, value.expires_at_ms, log_offset
    )


def _of_commit(value: CommittedOffset) -> int:
    return value.committed_at_ms


def to_commit(
    wanted: Iterable[CommittedPartition],
    unknown: Iterable[TopicPartition],
    metadata_max_bytes: int,
    wall_ms: int,
    retention_ms: int = NO_TIME,
) -> tuple[list[PartitionError], list[OffsetEntry]]:
    """Check the offsets of a request.

    Args:
        unknown: Partitions that do not exist.
        retention_ms: The client's retention time in ms; negative if it sent none.

    Returns:
        An error code per requested partition, and the offsets without an error.
    """
    nowhere = frozenset(unknown)
    expires = NO_TIME if retention_ms < 0 else min(wall_ms + retention_ms, LAST_TIME)
    codes: list[PartitionError] = []
    entries: dict[TopicPartition, CommittedOffset] = {}
    for each in wanted:
        code = _verdict(each, nowhere, metadata_max_bytes)
        codes.append(PartitionError(each.partition, code))
        if code == errors.NONE:
            entries[each.partition] = CommittedOffset(
                each.committed_offset, each.committed_leader_epoch, each.committed_metadata or "", wall_ms, expires
            )
    return codes, [OffsetEntry(partition, value) for partition, value in entries.items()]


def _verdict(each: CommittedPartition, nowhere: frozenset[TopicPartition], metadata_max_bytes: int) -> int:
    if each.partition in nowhere:
        return errors.UNKNOWN_TOPIC_OR_PARTITION
    too_large = each.committed_metadata is not None and len(each.committed_metadata) > metadata_max_bytes
    return errors.OFFSET_METADATA_TOO_LARGE if too_large else errors.NONE


def fetch_offsets(request: OffsetFetchRequest, offsets: Offsets) -> OffsetFetchResponse:
    """Return the response to OffsetFetch (rule 6) for the requested partitions, or for all partitions."""
    wanted = (
        list(offsets.committed)
        if request.topics is None
        else dict.fromkeys(TopicPartition(topic.name, n) for topic in request.topics for n in topic.partition_indexes)
    )
    unstable = offsets.unstable() if request.require_stable else {}
    return OffsetFetchResponse(
        errors.NONE, tuple([_fetched_offset(each, offsets.committed.get(each), each in unstable) for each in wanted])
    )


def _fetched_offset(partition: TopicPartition, value: CommittedOffset | None, is_unstable: bool) -> FetchedOffset:
    if is_unstable:
        return FetchedOffset(partition, NO_OFFSET, error_code=errors.UNSTABLE_OFFSET_COMMIT)
    if value is None:
        return FetchedOffset(partition, NO_OFFSET)
    return FetchedOffset(partition, value.offset, value.leader_epoch, value.metadata)
