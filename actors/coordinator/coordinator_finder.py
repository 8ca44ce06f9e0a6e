"""CoordinatorFinderActor answers FindCoordinator requests (broker.md 6.5).

Rule 1: a group belongs to one partition of __consumer_offsets, and its coordinator is who leads that; any broker says
        who it is. The first request creates the topic, and is answered that there is no coordinator yet.
Rule 2: how many partitions the topic has is read once, in ZooKeeper: if it is enlarged later, groups stay with those
        who have their offsets.
"""

from __future__ import annotations

from thespian.actors import ActorAddress

from actors.core.coordinator.placement import slot
from actors.core.topic_name import GROUP_METADATA
from actors.runtime import FlowActor
from messages.broker import CreateMissingTopics, FindLeader, Forwarded, PartitionsDeleted
from messages.cluster import TopicPartition
from messages.conversation import AskFailed, Flow, ask
from messages.error_codes import COORDINATOR_NOT_AVAILABLE, INVALID_REQUEST, NONE
from messages.group_requests import GROUP_KEY, FindCoordinatorRequest, FindCoordinatorResponse
from messages.groups import CountGroupPartitions, GroupPartitions
from messages.network import ClientResponse
from messages.node import StartCoordinatorFinder
from messages.vocabulary import Message
from messages.zookeeper import GetAssignments

TEXTS = {NONE: "NONE", COORDINATOR_NOT_AVAILABLE: "The coordinator is not available."}
"""What FindCoordinator says beside its code."""


class CoordinatorFinderActor(FlowActor):
    """This actor finds the coordinator of a consumer group for clients; each broker has one."""

    def __init__(self) -> None:
        super().__init__()
        self._topic_creation: ActorAddress
        self._partitions = 0
        """How many there are, 0 while that is not known."""

    def receiveMsg_StartCoordinatorFinder(self, message: StartCoordinatorFinder, sender: ActorAddress) -> None:
        """Learn whom to ask, and who makes the topic."""
        self.peers = {"bridge": message.bridge, "metadata_cache": message.metadata_cache}
        self._topic_creation = message.topic_creation

    def flow(self, message: Message) -> Flow[None] | None:
        """A client's FindCoordinator, the coordinator's question, and news of the topic."""
        match message:
            case Forwarded():
                return self._serve(message)
            case CountGroupPartitions():
                return self._tell_count()
            case PartitionsDeleted(partitions):
                if any(partition.topic == GROUP_METADATA for partition in partitions):
                    self._partitions = 0
                return None
        return super().flow(message)

    def event_failed(self, event: Message, error: Exception) -> None:
        """A client is answered whatever happened."""
        if isinstance(event, Forwarded):
            self._respond(event, _no_coordinator(COORDINATOR_NOT_AVAILABLE))

    def _serve(self, forwarded: Forwarded) -> Flow[None]:
        response = yield from self._found(forwarded.request.request, forwarded.request.listener)
        self._respond(forwarded, response)

    def _found(self, request: FindCoordinatorRequest, listener: str) -> Flow[FindCoordinatorResponse]:
        """Who coordinates a group (rule 1)? The request handler refuses transactions."""
        if request.key_type != GROUP_KEY:
            return _no_coordinator(INVALID_REQUEST)
        try:
            if not (yield from self._count()):
                self.send(self._topic_creation, CreateMissingTopics((GROUP_METADATA,)))
                return _no_coordinator(COORDINATOR_NOT_AVAILABLE)
            partition = TopicPartition(GROUP_METADATA, slot(request.key) % self._partitions)
            broker = (yield from ask(FindLeader(partition, listener))).broker
        except AskFailed:
            return _no_coordinator(COORDINATOR_NOT_AVAILABLE)
        if broker is None:
            return _no_coordinator(COORDINATOR_NOT_AVAILABLE)
        return FindCoordinatorResponse(NONE, TEXTS[NONE], broker.id, broker.host, broker.port)

    def _count(self) -> Flow[int]:
        """How many partitions there are (rule 2), 0 where there is no such topic. Raises AskFailed."""
        if not self._partitions:
            found = yield from ask(GetAssignments((GROUP_METADATA,), watch=False))
            self._partitions = next((len(topic.partitions) for topic in found.topics), 0)
        return self._partitions

    def _tell_count(self) -> Flow[None]:
        coordinator = self.sender
        try:
            count = yield from self._count()
        except AskFailed:
            count = 0
        self.send(coordinator, GroupPartitions(count))

    def _respond(self, forwarded: Forwarded, response: Message) -> None:
        request = forwarded.request
        self.send(forwarded.client, ClientResponse(request.connection, request.correlation_id, response))


def _no_coordinator(code: int) -> FindCoordinatorResponse:
    """The response without a coordinator."""
    return FindCoordinatorResponse(code, TEXTS.get(code))
