"""Read the logs of an idle cluster: all records, and what consumers with `read_committed` see.

Rule 1: it also reads the partitions of __consumer_offsets, from their beginning, as the next coordinator would.
"""

from __future__ import annotations

from actors.core.topic.topic_name import GROUP_METADATA
from actors.simulation.client_history import CommittedView, content
from actors.simulation.members import Script
from actors.simulation.observed_cluster import ObservedCluster
from messages import errors
from messages.apis import fetch
from messages.apis.fetch import READ_COMMITTED, READ_UNCOMMITTED, FetchPartition, FetchRequest, FetchResponse
from messages.cluster import TopicPartition
from messages.wire.control_batch import visible_records
from messages.wire.record_batch import whole_batches

MOST_BYTES = 1 << 20


class LogReader:
    """Reads the partitions of a cluster's clients from their leaders into `observed.history`."""

    def __init__(self, observed: ObservedCluster) -> None:
        self._observed = observed
        self.reads = 0
        """Number of partitions that are being read."""

    def read_back(self) -> None:
        """Read the partitions with acknowledged records, those of transactions, and the offsets of groups."""
        observed, history = self._observed, self._observed.history
        history.read.clear()
        history.read_committed.clear()
        written = {partition for each in history.transactions.values() for partition in each.values}
        groups = {partition for partition in observed.znodes.states if partition.topic == GROUP_METADATA}
        for partition in history.acknowledged:
            observed.cluster.run_script(self._read(partition, READ_UNCOMMITTED))
        for partition in sorted(written | groups if written else ()):
            observed.cluster.run_script(self._read(partition, READ_COMMITTED))

    def _read(self, partition: TopicPartition, level: int) -> Script:
        """Read a partition up to its last stable offset or, uncommitted, its high watermark."""
        observed, history = self._observed, self._observed.history
        offset, is_read = observed.first_offset(partition), False
        data, aborted = b"", dict[fetch.AbortedTransaction, None]()
        self.reads += 1
        while not is_read and (leader := observed.leader_of(partition)) is not None:
            part = FetchPartition(partition, offset, MOST_BYTES)
            response = yield leader, FetchRequest(11, -1, 0, 0, (part,), MOST_BYTES, level)
            if not isinstance(response, FetchResponse) or not response.partitions:
                break
            result = response.partitions[0]
            if result.error_code != errors.NONE:
                break
            more = bytes(result.body.data) if result.body.size else b""
            data += more
            aborted.update(dict.fromkeys(result.aborted_transactions or ()))
            offset = max((header.next_offset for _, header in whole_batches(more)), default=-1)
            stable, high_watermark = result.last_stable_offset, result.high_watermark
            is_read = not 0 <= offset < (stable if level == READ_COMMITTED else high_watermark)
            if is_read and level == READ_COMMITTED:
                values = tuple(record.value or b"" for record in visible_records(data, tuple(aborted)))
                history.read_committed[partition] = CommittedView(values, stable, high_watermark, data)
            elif is_read:
                history.read[partition] = {each.offset: content(each) for each in visible_records(data, ())}
        self.reads -= 1
