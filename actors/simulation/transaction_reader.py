"""The reader of committed data: in an idle cluster it reads what consumers with `read_committed` see.

Rule 1: it also reads the partitions of __consumer_offsets, from their beginning, as the next coordinator would.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from actors.core.topic.topic_name import GROUP_METADATA
from actors.simulation.checker import Checker
from actors.simulation.simulated_transactions import CommittedView
from messages import errors
from messages.apis.fetch import READ_COMMITTED, AbortedTransaction, FetchPartition, FetchRequest, FetchResponse
from messages.cluster import TopicPartition
from messages.vocabulary import Message
from messages.wire.control_batch import visible_records
from messages.wire.record_batch import whole_batches

MOST_BYTES = 1 << 20
PATIENCE = 10.0


class TransactionReader:
    """Reads, as a `read_committed` consumer does, the partitions that transactions wrote to; see the module's rules."""

    def __init__(self, law: Checker) -> None:
        self._law = law
        self.reads = 0
        """Number of fetches without a response."""

    def read_back(self) -> None:
        """Read all partitions that transactions wrote to, and the offsets of groups."""
        law = self._law
        law.read_committed.clear()
        written = {partition for each in law.transactions.values() for partition in each.values}
        groups = {partition for partition in law.states if partition.topic == GROUP_METADATA}
        for partition in sorted(written | groups if written else ()):
            self._read(partition, law.first_offset(partition), b"", ())

    def _read(
        self, partition: TopicPartition, offset: int, data: bytes, aborted: tuple[AbortedTransaction, ...]
    ) -> None:
        law = self._law
        state = law.states.get(partition)
        if state is not None and state.leader in law.cluster.machines:
            part = FetchPartition(partition, offset, MOST_BYTES)
            request = FetchRequest(11, -1, 0, 0, (part,), MOST_BYTES, READ_COMMITTED)
            self.reads += 1
            law.cluster.ask(state.leader, request, partial(self._fetched, partition, data, aborted), PATIENCE)

    def _fetched(
        self,
        partition: TopicPartition,
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
        if 0 <= end < result.last_stable_offset:
            self._read(partition, end, data, aborted)
        else:
            values = tuple(record.value or b"" for record in visible_records(data, aborted))
            self._law.read_committed[partition] = CommittedView(
                values, result.last_stable_offset, result.high_watermark, data
            )
