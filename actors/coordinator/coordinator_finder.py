"""CoordinatorFinderActor answers FindCoordinator requests (broker.md 6.5).

Rule 1: a group belongs to one partition of __consumer_offsets, a transactional id to one of __transaction_state. The
        leader of that partition is the coordinator. A client can send FindCoordinator to any broker. If the topic does
        not exist, this actor requests its creation and responds that the coordinator is not available.
Rule 2: the number of partitions of each topic is read from ZooKeeper once. If it increases later, groups and
        transactional ids stay in the partitions that have their records.
"""

from __future__ import annotations

from thespian.actors import ActorAddress

from actors.core.topic.topic_name import GROUP_METADATA, TRANSACTION_STATE
from actors.runtime import FlowActor
from messages import errors
from messages.apis import find_coordinator
from messages.ask import AskFailed
from messages.broker import CreateMissingTopics, FindLeader, PartitionsDeleted
from messages.cluster import TopicPartition
from messages.flow.conversation import Flow, ask
from messages.groups import CountPartitions, PartitionCount
from messages.network import Forwarded
from messages.node import StartCoordinatorFinder
from messages.placement import slot
from messages.vocabulary import Message
from messages.zookeeper import GetAssignments

TEXTS = {
    errors.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    errors.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the client library or the"
    " message was sent to an incompatible broker. See the broker logs for more details.",
}
"""Error code of FindCoordinator -> its error message (Kafka: `Errors`). A share group's error has none."""

TOPICS = {find_coordinator.GROUP_KEY: GROUP_METADATA, find_coordinator.TRANSACTION_KEY: TRANSACTION_STATE}
"""Key type of FindCoordinator -> the topic whose leaders are the coordinators."""


class CoordinatorFinderActor(FlowActor):
    """This actor finds the coordinators of groups and transactional ids for clients; each broker has one."""

    def __init__(self) -> None:
        super().__init__()
        self._topic_creation: ActorAddress
        self._partitions: dict[str, int] = {}
        """Topic -> its number of partitions, if read."""

    def receiveMsg_StartCoordinatorFinder(self, message: StartCoordinatorFinder, sender: ActorAddress) -> None:
        """Set the bridge and the metadata cache, which this actor queries, and the actor that creates topics."""
        self.peers = {"bridge": message.bridge, "metadata_cache": message.metadata_cache}
        self._topic_creation = message.topic_creation

    def flow(self, message: Message) -> Flow[None] | None:
        """Return the flow of a FindCoordinator or CountPartitions request.

        PartitionsDeleted has no flow: the counts of its topics are dropped at once.
        """
        match message:
            case Forwarded():
                return self._serve(message)
            case CountPartitions(topic):
                return self._send_count(topic)
            case PartitionsDeleted(partitions):
                for partition in partitions:
                    self._partitions.pop(partition.topic, None)
                return None
        return super().flow(message)

    def event_failed(self, event: Message, error: Exception) -> None:
        """Respond to the client with COORDINATOR_NOT_AVAILABLE after an unexpected failure."""
        if isinstance(event, Forwarded):
            request = event.request.request
            self.send(*event.reply(find_coordinator.API.refusal(request, errors.COORDINATOR_NOT_AVAILABLE)))

    def _serve(self, forwarded: Forwarded) -> Flow[None]:
        request, listener = forwarded.request.request, forwarded.request.listener
        found = []
        for key in request.coordinator_keys if request.version >= find_coordinator.KEYS_SINCE else (request.key,):
            found.append((yield from self._found(request, key, listener)))
        if request.version >= find_coordinator.KEYS_SINCE:
            response = find_coordinator.FindCoordinatorResponse(errors.NONE, coordinators=tuple(found))
        else:
            [one] = found
            text = "NONE" if one.error_code == errors.NONE else one.error_message
            response = find_coordinator.FindCoordinatorResponse(one.error_code, text, one.node_id, one.host, one.port)
        self.send(*forwarded.reply(response))

    def _found(
        self, request: find_coordinator.FindCoordinatorRequest, key: str, listener: str
    ) -> Flow[find_coordinator.FoundCoordinator]:
        """Return the coordinator of a group or transactional id (rule 1)."""
        topic = TOPICS.get(request.key_type)
        if topic is None:
            if request.key_type != find_coordinator.SHARE_KEY or request.version < find_coordinator.KEYS_SINCE:
                return _no_coordinator(key, errors.INVALID_REQUEST)
            is_known = request.version >= find_coordinator.SHARE_GROUPS_SINCE
            code = errors.COORDINATOR_NOT_AVAILABLE if is_known else errors.INVALID_REQUEST
            return find_coordinator.FoundCoordinator(key, error_code=code, error_message="")
        try:
            count = yield from self._count(topic)
            if not count:
                self.send(self._topic_creation, CreateMissingTopics((topic,)))
                return _no_coordinator(key, errors.COORDINATOR_NOT_AVAILABLE)
            partition = TopicPartition(topic, slot(key) % count)
            broker = (yield from ask(FindLeader(partition, listener))).broker
        except AskFailed:
            return _no_coordinator(key, errors.COORDINATOR_NOT_AVAILABLE)
        if broker is None:
            return _no_coordinator(key, errors.COORDINATOR_NOT_AVAILABLE)
        return find_coordinator.FoundCoordinator(key, broker.id, broker.host, broker.port, errors.NONE, "")

    def _count(self, topic: str) -> Flow[int]:
        """Return the number of partitions of a topic (rule 2), 0 if the topic does not exist. Raises AskFailed."""
        if topic not in self._partitions:
            found = yield from ask(GetAssignments((topic,), watch=False))
            count = next((len(each.partitions) for each in found.topics), 0)
            if not count:
                return 0
            self._partitions[topic] = count
        return self._partitions[topic]

    def _send_count(self, topic: str) -> Flow[None]:
        coordinator = self.sender
        try:
            count = yield from self._count(topic)
        except AskFailed:
            count = 0
        self.send(coordinator, PartitionCount(topic, count))


def _no_coordinator(key: str, code: int) -> find_coordinator.FoundCoordinator:
    """Return the result for a key without a coordinator."""
    return find_coordinator.FoundCoordinator(key, error_code=code, error_message=TEXTS[code])
