"""GroupLoaderActor reads one partition of __consumer_offsets for the coordinator, then stops (broker.md 1.6).

Rule 1: it reads from the partition's beginning to its end, READ_BYTES in a turn; what the records say is
        `actors.core.coordinator.loading`.
Rule 2: the groups are handed over GROUPS_AT_ONCE in a turn, then it says how it went. Where the partition cannot be
        read - it is led here no longer, or its disk has failed - it says so and hands over nothing.

Kafka: `GroupMetadataManager`.
"""

from __future__ import annotations

from thespian.actors import ActorAddress

from actors.core.coordinator.loading import Loading
from actors.core.topic_name import GROUP_METADATA
from actors.runtime import Dispatcher
from messages.cluster import TopicPartition
from messages.data_requests import EARLIEST, FetchPartition, OffsetQuery
from messages.error_codes import NONE
from messages.groups import GroupsLoaded, HandOver, LoadedGroup, LoadEnded, LoadGroups
from messages.partition import FindOffset, LogRead, OffsetFound, ReadLog

READ_BYTES = 128 * 1024
GROUPS_AT_ONCE = 200
READ_VERSION, LIST_VERSION = 11, 5


class GroupLoaderActor(Dispatcher):
    """This actor loads the groups and offsets of one partition of __consumer_offsets, and then stops."""

    def __init__(self) -> None:
        super().__init__()
        self._coordinator: ActorAddress
        self._log: ActorAddress
        self._place: TopicPartition
        self._node_id = -1
        self._loading: Loading
        self._groups: list[LoadedGroup] = []
        """Those that are still to be handed over."""

    def receiveMsg_LoadGroups(self, message: LoadGroups, sender: ActorAddress) -> None:
        """Begin: where does the partition begin?"""
        self._coordinator, self._log, self._node_id = sender, message.log, message.node_id
        self._place = TopicPartition(GROUP_METADATA, message.partition)
        self._loading = Loading(message.partition)
        self.send(self._log, FindOffset(0, 0, OffsetQuery(self._place, EARLIEST), self._node_id, LIST_VERSION))

    def receiveMsg_OffsetFound(self, message: OffsetFound, sender: ActorAddress) -> None:
        """Where it begins."""
        if message.result.error_code != NONE:
            self._end(message.result.error_code)
            return
        self._loading.next = message.result.offset
        self._read_on()

    def _read_on(self) -> None:
        part = FetchPartition(self._place, self._loading.next, READ_BYTES)
        self.send(self._log, ReadLog(0, part, self._node_id, READ_VERSION, 0, READ_BYTES, at_least_one=True))

    def receiveMsg_LogRead(self, message: LogRead, sender: ActorAddress) -> None:
        """Some records."""
        loading, result = self._loading, message.result
        if result.error_code != NONE:
            self._end(result.error_code)
            return
        if result.body.size:
            loading.next, rows = self.port("logs").key_values(result.body, loading.next)
            loading.take(rows)
        if result.body.size and loading.next < message.state.end:
            self._read_on()
        else:
            self._groups = loading.groups()
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
