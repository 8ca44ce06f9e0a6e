"""Who leads what and who is alive, as the controller last said, and what clients are told of it (broker.md 3.9).

Rule 1: of an UpdateMetadata, live brokers and controller replace what was known; partitions are merged into it.
Rule 2: a partition whose leader is LEADER_DURING_DELETE is forgotten, and with its last partition the topic.
Rule 3: clients are told the endpoints of the listener they came in on. A leader that is not alive is answered with
        code 5 and leader -1; one that is alive, but has no such listener, with code 72 (5 below version 6).
Rule 4: version 0 knows neither "no topics" (its empty list means all) nor replicas that are not alive (code 9).
"""

from __future__ import annotations

from actors.core.topic_name import INTERNAL_TOPICS, InvalidTopic, check_name
from messages.cluster import LEADER_DURING_DELETE, NO_LEADER, Endpoint
from messages.errors import (
    INVALID_TOPIC,
    LEADER_NOT_AVAILABLE,
    LISTENER_NOT_FOUND,
    NONE,
    REPLICA_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from messages.requests import (
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)

NO_CONTROLLER = -1


class MetadataCache:
    """The cluster as this broker knows it; owned and changed by its MetadataCacheActor alone."""

    def __init__(self) -> None:
        self.controller_id = NO_CONTROLLER
        self.brokers: dict[int, UpdateMetadataBroker] = {}
        self.topics: dict[str, dict[int, UpdateMetadataPartitionState]] = {}

    def merge(self, request: UpdateMetadataRequest) -> None:
        """Take over an UpdateMetadata (rules 1 and 2)."""
        self.controller_id = request.controller_id
        self.brokers = {broker.id: broker for broker in sorted(request.live_brokers, key=lambda broker: broker.id)}
        for state in request.partition_states:
            topic, partition = state.partition
            if state.leader != LEADER_DURING_DELETE:
                self.topics.setdefault(topic, {})[partition] = state
            elif topic in self.topics:
                self.topics[topic].pop(partition, None)
                if not self.topics[topic]:
                    del self.topics[topic]

    def answer(self, request: MetadataRequest, cluster_id: str, listener: str) -> MetadataResponse:
        """The response to a client on `listener`: topics in the order asked, or all by name."""
        endpoints = self._endpoints(listener)
        brokers = tuple(
            MetadataBroker(id, endpoint.host, endpoint.port, self.brokers[id].rack)
            for id, endpoint in endpoints.items()
        )
        everything = request.topics is None or (request.version == 0 and not request.topics)
        names = sorted(self.topics) if everything else dict.fromkeys(request.topics or ())
        topics = tuple(self._topic(name, endpoints, request.version) for name in names)
        return MetadataResponse(brokers, cluster_id, self.controller_id, topics)

    def _endpoints(self, listener: str) -> dict[int, Endpoint]:
        """The live brokers that have this listener, by id."""
        return {
            id: endpoint
            for id, broker in self.brokers.items()
            for endpoint in broker.endpoints
            if endpoint.listener == listener
        }

    def _topic(self, name: str, endpoints: dict[int, Endpoint], version: int) -> MetadataTopic:
        partitions = self.topics.get(name)
        if partitions is None:
            return MetadataTopic(_absence(name), name, name in INTERNAL_TOPICS, ())
        described = tuple(self._partition(partitions[number], endpoints, version) for number in sorted(partitions))
        return MetadataTopic(NONE, name, name in INTERNAL_TOPICS, described)

    def _partition(
        self, state: UpdateMetadataPartitionState, endpoints: dict[int, Endpoint], version: int
    ) -> MetadataPartition:
        replicas, isr = state.replicas, state.isr
        if version == 0:
            replicas = tuple(id for id in replicas if id in endpoints)
            isr = tuple(id for id in isr if id in endpoints)
        leader = state.leader
        error_code = NONE
        if leader not in endpoints:
            error_code = LISTENER_NOT_FOUND if leader in self.brokers and version >= 6 else LEADER_NOT_AVAILABLE
            leader = NO_LEADER
        elif (len(replicas), len(isr)) < (len(state.replicas), len(state.isr)):
            error_code = REPLICA_NOT_AVAILABLE
        return MetadataPartition(
            error_code,
            state.partition.partition,
            leader,
            state.leader_epoch,
            replicas,
            isr,
            state.offline_replicas,
        )


def _absence(topic: str) -> int:
    """The code of a topic that is not known: there is none now (3), or there can be none (17)."""
    try:
        check_name(topic)
    except InvalidTopic:
        return INVALID_TOPIC
    return UNKNOWN_TOPIC_OR_PARTITION
