"""GroupLoaderActor reads one partition of __consumer_offsets for the coordinator, then stops (broker.md 1.6).

Rule 1: it reads from the partition's beginning to its end, READ_BYTES in a turn; what the records say is
        `actors.core.coordinator.loading`.
Rule 2: the groups are handed over GROUPS_AT_ONCE in a turn, then it says how it went. Where the partition cannot be
        read - it is led here no longer, or its disk has failed - it says so and hands over nothing.

Kafka: `GroupMetadataManager`.
"""

from __future__ import annotations

from collections.abc import Sequence

from thespian.actors import ActorAddress

from actors.coordinator.partition_reader import PartitionReader
from actors.core.coordinator.loading import Loading, Row
from actors.core.topic_name import GROUP_METADATA
from messages.cluster import TopicPartition
from messages.error_codes import NONE
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
        """Those that are still to be handed over."""

    def receiveMsg_LoadGroups(self, message: LoadGroups, sender: ActorAddress) -> None:
        """Begin: where does the partition begin?"""
        self._coordinator = sender
        self._loading = Loading(message.partition)
        place = TopicPartition(GROUP_METADATA, message.partition)
        self.start_reading(place, message.log, message.node_id, READ_BYTES)

    def take_rows(self, rows: Sequence[Row]) -> None:
        """Some records."""
        self._loading.take(rows)

    def reading_ended(self, error_code: int) -> None:
        """Hand the groups over, or say why there are none."""
        if error_code != NONE:
            self._end(error_code)
            return
        self._groups = self._loading.groups()
        self._hand_over()

    def receiveMsg_HandOver(self, message: HandOver, sender: ActorAddress) -> None:
        """Some more of the groups."""
        self._hand_over()

    def _hand_over(self) -> None:
        now, self._groups = self._groups[:GROUPS_AT_ONCE], self._groups[GROUPS_AT_ONCE:]
        if now:
            self.send(self._coordinator, GroupsLoaded(self._loading.partition, tuple(now)))
        if self._groups:
            self.send(self.myAddress, HandOver())
        else:
            self._end(NONE)

    def _end(self, code: int) -> None:
        self.send(self._coordinator, LoadEnded(self._loading.partition, code, self._loading.records))
