"""Committed offsets of a group: storage, fetching and expiry (broker.md 6.5).

Rule 1: an offset counts when its record is committed, not before. Commits of one partition count in the order of their
        records.
Rule 2: an offset is over when its group has been empty for the retention time; in a stable group of consumers, when
        its topic has no subscriber and its commit is that old; in a group without a former member, when its commit is
        that old. A time that its client gave is decisive instead. Nothing expires while a commit of it is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from actors.core.coordinator.group_states import GroupState
from messages.cluster import TopicPartition
from messages.data_requests import NO_OFFSET
from messages.error_codes import NONE, OFFSET_METADATA_TOO_LARGE, UNKNOWN_TOPIC_OR_PARTITION
from messages.group_requests import (
    CommittedPartition,
    FetchedOffset,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from messages.groups import NO_TIME, CommittedOffset, OffsetEntry
from messages.requests import PartitionError

LAST_TIME = 2**63 - 1
"""Milliseconds: a record has no later time. Kafka's sum overflows, and the offset expires at once."""
CONSUMERS = "consumer"
"""The protocol type of consumers' groups."""


@attrs.define
class Offsets:
    """The committed and pending offsets of a group."""

    committed: dict[TopicPartition, CommittedOffset] = attrs.field(factory=dict)
    under_way: dict[TopicPartition, int] = attrs.field(factory=dict)
    """How many commits of a partition are not yet answered by the log."""

    def begin(self, entries: Iterable[OffsetEntry]) -> None:
        """These are on their way to the log."""
        for partition, _ in entries:
            self.under_way[partition] = self.under_way.get(partition, 0) + 1

    def end(self, entries: Iterable[OffsetEntry], error_code: int) -> None:
        """The log has answered (rule 1)."""
        for partition, value in entries:
            self.under_way[partition] -= 1
            if not self.under_way[partition]:
                del self.under_way[partition]
            if error_code == NONE:
                self.committed[partition] = value

    def forget(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Forget these; those that there were."""
        return [partition for partition in partitions if self.committed.pop(partition, None) is not None]

    def over(
        self,
        state: GroupState,
        protocol_type: str | None,
        subscribed: tuple[str, ...] | None,
        since_ms: int,
        wall_ms: int,
        retention_ms: int,
    ) -> list[TopicPartition]:
        """The partitions whose offset is over, for a group that stands so since `since_ms` (rule 2)."""
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
        return [
            partition
            for partition, value in self.committed.items()
            if partition.topic not in kept
            and partition not in self.under_way
            and (
                wall_ms >= value.expires_at_ms
                if value.expires_at_ms != NO_TIME
                else wall_ms - base(value) >= retention_ms
            )
        ]


def _of_commit(value: CommittedOffset) -> int:
    return value.committed_at_ms


def to_commit(
    request: OffsetCommitRequest, unknown: Iterable[TopicPartition], metadata_max_bytes: int, wall_ms: int
) -> tuple[list[PartitionError], list[OffsetEntry]]:
    """Each partition's code as far as the request alone says it, and the offsets that may be stored."""
    nowhere = frozenset(unknown)
    expires = NO_TIME if request.retention_time_ms < 0 else min(wall_ms + request.retention_time_ms, LAST_TIME)
    codes = [PartitionError(each.partition, _verdict(each, nowhere, metadata_max_bytes)) for each in request.partitions]
    entries = {
        each.partition: CommittedOffset(
            each.committed_offset, each.committed_leader_epoch, each.committed_metadata or "", wall_ms, expires
        )
        for each, code in zip(request.partitions, codes, strict=True)
        if code.error_code == NONE
    }
    return codes, [OffsetEntry(partition, value) for partition, value in entries.items()]


def _verdict(each: CommittedPartition, nowhere: frozenset[TopicPartition], metadata_max_bytes: int) -> int:
    if each.partition in nowhere:
        return UNKNOWN_TOPIC_OR_PARTITION
    too_large = each.committed_metadata is not None and len(each.committed_metadata) > metadata_max_bytes
    return OFFSET_METADATA_TOO_LARGE if too_large else NONE


def fetched(request: OffsetFetchRequest, committed: dict[TopicPartition, CommittedOffset]) -> OffsetFetchResponse:
    """The answer to OffsetFetch: of what is asked, or of all there is."""
    wanted = (
        list(committed)
        if request.topics is None
        else [TopicPartition(topic.name, number) for topic in request.topics for number in topic.partition_indexes]
    )
    return OffsetFetchResponse(NONE, tuple([_fetched(each, committed.get(each)) for each in wanted]))


def _fetched(partition: TopicPartition, value: CommittedOffset | None) -> FetchedOffset:
    if value is None:
        return FetchedOffset(partition, NO_OFFSET)
    return FetchedOffset(partition, value.offset, value.leader_epoch, value.metadata)
