"""Read the logs of an idle cluster: all records, and what consumers with `read_committed` see.

Rule 1: it also reads the partitions of __consumer_offsets, from their beginning, as the next coordinator would.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from actors.core.topic.topic_name import GROUP_METADATA
from actors.simulation.client_history import CommittedView, content
from actors.simulation.observed_cluster import ObservedCluster
from messages import errors
from messages.apis.fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from messages.cluster import TopicPartition
from messages.vocabulary import Message
from messages.wire.control_batch import visible_records
from messages.wire.record_batch import whole_batches

MOST_BYTES = 1 << 20
PATIENCE = 10.0


class LogReader:
    """Reads the partitions of a cluster's clients from their leaders into `observed.history`."""

    def __init__(self, observed: ObservedCluster) -> None:
        self._observed = observed
        self.reads = 0
        """Number of fetches without a response."""

    def read_back(self) -> None:
        """Read the partitions with acknowledged records, those of transactions, and the offsets of groups."""
        observed, history = self._observed, self._observed.history
        history.read.clear()
        history.read_committed.clear()
        for partition in history.acknowledged:
            self._read(partition, READ_UNCOMMITTED, observed.first_offset(partition), b"", ())
        written = {partition for each in history.transactions.values() for partition in each.values}
        groups = {partition for partition in observed.znodes.states if partition.topic == GROUP_METADATA}
        for partition in sorted(written | groups if written else ()):
            self._read(partition, READ_COMMITTED, observed.first_offset(partition), b"", ())

    def _read(
        self, partition: TopicPartition, level: int, offset: int, data: bytes, aborted: tuple[AbortedTransaction, ...]
    ) -> None:
        cluster, leader = self._observed.cluster, self._observed.leader_of(partition)
        if leader is not None:
            part = FetchPartition(partition, offset, MOST_BYTES)
            request = FetchRequest(11, -1, 0, 0, (part,), MOST_BYTES, level)
            self.reads += 1
            cluster.ask(leader, request, partial(self._handle_fetch, partition, level, data, aborted), PATIENCE)

    def _handle_fetch(
        self,
        partition: TopicPartition,
        level: int,
        data: bytes,
        aborted: tuple[AbortedTransaction, ...],
        response: Message | None,
    ) -> None:
        self.reads -= 1
        if not isinstance(response, FetchResponse) or not response.partitions:
            return
        result: Any = response.partitions[0]
        if result.error_code != errors.NONE:
            return
        more = bytes(result.body.data) if result.body.size else b""
        data += more
        aborted = tuple(dict.fromkeys((*aborted, *(result.aborted_transactions or ()))))
        end = max((header.next_offset for _, header in whole_batches(more)), default=-1)
        history, stable, high_watermark = self._observed.history, result.last_stable_offset, result.high_watermark
        if 0 <= end < (stable if level == READ_COMMITTED else high_watermark):
            self._read(partition, level, end, data, aborted)
        elif level == READ_COMMITTED:
            values = tuple(record.value or b"" for record in visible_records(data, aborted))
            history.read_committed[partition] = CommittedView(values, stable, high_watermark, data)
        else:
            history.read[partition] = {each.offset: content(each) for each in visible_records(data, ())}
