"""GroupLoaderActor reads one partition of __consumer_offsets for the coordinator, then stops (broker.md 1.6).

Rule 1: it reads the partition from its beginning to its end, READ_BYTES per message. `actors.core.coordinator.loading`
        interprets the records.
Rule 2: it sends the groups in messages of GROUPS_AT_ONCE groups, and then the result. If the partition cannot be read,
        because another broker leads it or its disk failed, it sends only the error code.

Kafka: `GroupMetadataManager`.
"""

from __future__ import annotations

from collections.abc import Sequence

from thespian.actors import ActorAddress

from actors.coordinator.partition_reader import PartitionReader
from actors.core.coordinator.loading import Loading, Row
from actors.core.topic.topic_name import GROUP_METADATA
from messages import errors
from messages.cluster import TopicPartition
from messages.groups import GroupsLoaded, HandOver, LoadedGroup, LoadEnded, LoadGroups

READ_BYTES = 128 * 1024
GROUPS_AT_ONCE = 200


class GroupLoaderActor(PartitionReader):
    """This actor loads the groups and offsets of one partition of __consumer_offsets, and then stops."""

    def __init__(self) -> None:
        super().__init__()
        self._coordinator: ActorAddress
        self._loading: Loading
        self._groups: list[LoadedGroup] = []
        """Groups that are still to be sent."""

    def receiveMsg_LoadGroups(self, message: LoadGroups, sender: ActorAddress) -> None:
        """Start reading the partition."""
        self._coordinator = sender
        self._loading = Loading(message.partition)
        place = TopicPartition(GROUP_METADATA, message.partition)
        self.start_reading(place, message.log, message.node_id, READ_BYTES)

    def take_rows(self, rows: Sequence[Row]) -> None:
        """Add records of the partition to the loaded state."""
        self._loading.take(rows)

    def reading_ended(self, error_code: int) -> None:
        """Send the groups, or the error code."""
        if error_code != errors.NONE:
            self._end(error_code)
            return
        self._groups = self._loading.groups()
        self._hand_over()

    def receiveMsg_HandOver(self, message: HandOver, sender: ActorAddress) -> None:
        """Send the next groups."""
        self._hand_over()

    def _hand_over(self) -> None:
        now, self._groups = self._groups[:GROUPS_AT_ONCE], self._groups[GROUPS_AT_ONCE:]
        if now:
            self.send(self._coordinator, GroupsLoaded(self._loading.partition, tuple(now)))
        if self._groups:
            self.send(self.myAddress, HandOver())
        else:
            self._end(errors.NONE)

    def _end(self, code: int) -> None:
        loading = self._loading
        unreadable = self.unreadable + loading.damaged
        self.send(self._coordinator, LoadEnded(loading.partition, code, loading.records, unreadable))
