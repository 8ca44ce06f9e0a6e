"""PartitionReader is an actor that reads one partition of an internal topic from its beginning to its end.

Rule: it reads up to the log end offset, not the high watermark, because the leader's whole log counts. Reading ends
with an error code if another broker leads the partition, if the disk of the partition failed, or if a read before the
end of the partition returns no data. The records of a batch with a wrong checksum are skipped, which is logged.

Kafka: the loading loops of `GroupMetadataManager` and `TransactionStateManager`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from thespian.actors import ActorAddress

from actors.core.coordinator.loading import Row
from actors.runtime import Dispatcher
from messages import errors
from messages.apis.fetch import FetchPartition
from messages.apis.list_offsets import OffsetQuery
from messages.cluster import TopicPartition
from messages.partition import FindOffset, LogRead, OffsetFound, ReadLog
from messages.records import EARLIEST

log = logging.getLogger("kafka.coordinator")

READ_VERSION, LIST_VERSION = 11, 5


class PartitionReader(Dispatcher):
    """The base class of actors that read a partition from its beginning to its end.

    Subclasses call `start_reading` and implement `take_rows` and `reading_ended`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._place: TopicPartition
        self._log: ActorAddress
        self._node_id = -1
        self._read_bytes = 0
        self.unreadable = 0
        """Number of unreadable batches, whose records are skipped."""
        self._next_offset = -1
        """The next offset to read; -1 before the first is known."""

    def take_rows(self, rows: Sequence[Row]) -> None:
        """Handle the next records."""
        raise NotImplementedError

    def reading_ended(self, error_code: int) -> None:
        """Handle the end of the partition, or the error code if the partition cannot be read."""
        raise NotImplementedError

    def start_reading(self, place: TopicPartition, log: ActorAddress, node_id: int, read_bytes: int) -> None:
        """Read this partition of this node, `read_bytes` at a time."""
        self._place, self._log, self._node_id, self._read_bytes = place, log, node_id, read_bytes
        self.send(log, FindOffset(0, 0, OffsetQuery(place, EARLIEST), node_id, LIST_VERSION))

    def receiveMsg_OffsetFound(self, message: OffsetFound, sender: ActorAddress) -> None:
        """Start at the log start offset."""
        if message.result.error_code != errors.NONE:
            self.reading_ended(message.result.error_code)
            return
        self._next_offset = message.result.offset
        self._read_on()

    def _read_on(self) -> None:
        size = self._read_bytes
        part = FetchPartition(self._place, self._next_offset, size)
        self.send(self._log, ReadLog(0, part, self._node_id, READ_VERSION, 0, size, at_least_one=True))

    def receiveMsg_LogRead(self, message: LogRead, sender: ActorAddress) -> None:
        """Pass the records to `take_rows`, and read on until the end of the partition."""
        result = message.result
        if result.error_code != errors.NONE:
            self.reading_ended(result.error_code)
            return
        if result.body.size:
            self._next_offset, rows, unreadable = self.port("logs").key_values(result.body, self._next_offset)
            for text in unreadable:
                log.error("Skipping an unreadable batch of %s at %s", self._place, text)
            self.unreadable += len(unreadable)
            self.take_rows(rows)
        if self._next_offset >= message.state.end:
            self.reading_ended(errors.NONE)
        elif result.body.size:
            self._read_on()
        else:
            self.reading_ended(errors.UNKNOWN_SERVER_ERROR)
