"""The metadata that the controller last sent to a broker, and Metadata responses built from it (broker.md 3.9).

Rule 1: an UpdateMetadata replaces the live brokers and the controller; its partitions are merged into the known
        partitions.
Rule 2: a partition with leader LEADER_DURING_DELETE is removed; the topic is removed together with its last partition.
Rule 3: clients receive the endpoints of their own listener. A leader that is not alive is reported with code 5 and
        leader -1; a live leader without such a listener is reported with code 72 (code 5 in versions before 6).
Rule 4: in version 0, an empty list of topics means all topics, and replicas that are not alive are reported with code
        9.
Rule 5: clients see whole updates: parts of an UpdateMetadata become visible with its last part, all at once.
Rule 6: a topic has the id in the last UpdateMetadata with one of its partitions; without an id there, it has none.

Kafka: `MetadataCache` (`ZkMetadataCache`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

import attrs

from actors.core.topic.topic_name import INTERNAL_TOPICS, InvalidTopic, check_name
from messages import errors
from messages.apis.delete_topics import DeletedTopic
from messages.apis.describe_cluster import BROKERS, CONTROLLERS, DescribeClusterRequest, DescribeClusterResponse
from messages.apis.elect_leaders import ElectedPartition, ElectedTopic, ElectLeadersResponse
from messages.apis.fetch import IDS_SINCE, FetchResponse
from messages.apis.metadata import (
    NOT_REQUESTED,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)
from messages.apis.update_metadata import UpdateMetadataBroker, UpdateMetadataPartitionState, UpdateMetadataRequest
from messages.broker import LEADER_CODES, ExpectedTopicState
from messages.cluster import (
    LEADER_DURING_DELETE,
    NO_CONTROLLER,
    NO_ID,
    NO_LEADER,
    CurrentLeader,
    Endpoint,
    TopicPartition,
)
from messages.flow.conversation import SLICE
from messages.network import ClientRequest
from messages.transactions import PartitionLeader
from messages.vocabulary import AnyMessage, evolve

TOPIC_OPERATIONS = sum(1 << each for each in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << each for each in (5, 7, 8, 9, 10, 11, 12))
"""All operations on topics and on the cluster that a client may perform without authorization."""

LISTENERS_SINCE = 6
"""The Metadata version from which a leader without the client's listener has its own error code."""


class ClusterView:
    """An immutable snapshot of the cluster metadata; each change creates a new snapshot."""

    def __init__(
        self,
        controller_id: int = NO_CONTROLLER,
        brokers: Mapping[int, UpdateMetadataBroker] = MappingProxyType({}),
        topics: Mapping[str, Mapping[int, UpdateMetadataPartitionState]] = MappingProxyType({}),
        topic_ids: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.controller_id = controller_id
        self.brokers = brokers
        self.topics = topics
        self.topic_ids = topic_ids
        """Topic -> its id, for the topics that have one (rule 6)."""

    def names(self, request: MetadataRequest) -> Iterable[str]:
        """Return the requested topics that have a name, in the order of the request, or all topics sorted by name.

        If the request has an id, topics without an id are ignored, as in Kafka.
        """
        if requests_all_topics(request):
            return sorted(self.topics)
        by_id = self._requested_ids(request)
        if by_id:
            return dict.fromkeys([name for name in by_id.values() if name is not None])
        return dict.fromkeys((*(request.topics or ()), *(each.name for each in request.named_or_ids if each.name)))

    def unresolved_topics(self, request: MetadataRequest) -> tuple[MetadataTopic, ...]:
        """Return the results of requested topics without a name: those with an unknown id, or with neither."""
        by_id = self._requested_ids(request)
        if by_id:
            unknown = [topic_id for topic_id, name in by_id.items() if name is None]
            return tuple([MetadataTopic(errors.UNKNOWN_TOPIC_ID, "", False, (), topic_id) for topic_id in unknown])
        nameless = [each for each in request.named_or_ids if each.name is None]
        return (MetadataTopic(errors.INVALID_REQUEST, "", False, ()),) * len(nameless)

    def _requested_ids(self, request: MetadataRequest) -> dict[str, str | None]:
        """Return the topic ids in a request, each with its topic if it is known."""
        if not request.named_or_ids:
            return {}
        topics = {topic_id: topic for topic, topic_id in self.topic_ids.items()}
        return {each.topic_id: topics.get(each.topic_id) for each in request.named_or_ids if each.topic_id}

    def in_parts(self, names: Iterable[str]) -> Iterator[tuple[str, ...]]:
        """Yield the topics in groups of about SLICE partitions."""
        part: list[str] = []
        partitions = 0
        for name in names:
            part.append(name)
            partitions += max(1, len(self.topics.get(name, ())))
            if partitions >= SLICE:
                yield tuple(part)
                part, partitions = [], 0
        if part:
            yield tuple(part)

    def missing(self, request: MetadataRequest) -> tuple[str, ...]:
        """Return the requested topics that do not exist."""
        return tuple(name for name in dict.fromkeys(request.topics or ()) if name not in self.topics)

    def describe(
        self,
        names: Iterable[str],
        listener: str,
        version: int,
        absent: Mapping[str, int] = MappingProxyType({}),
        operations: int = NOT_REQUESTED,
    ) -> tuple[MetadataTopic, ...]:
        """Return these topics for a client on `listener`.

        Args:
            names: The topics.
            listener: The client's listener, which selects the brokers' endpoints.
            version: The version of the Metadata request.
            absent: The error codes of topics that could not be created.
            operations: The client's authorized operations on the topics.
        """
        endpoints = self.endpoints(listener)
        return tuple([self._topic(name, endpoints, version, absent, operations) for name in names])

    def answer(
        self, topics: tuple[MetadataTopic, ...], cluster_id: str, listener: str, operations: int = NOT_REQUESTED
    ) -> MetadataResponse:
        """Return the Metadata response, which contains these topics and the cluster's brokers on `listener`."""
        return MetadataResponse(self._brokers(listener), cluster_id, self.controller_id, topics, operations)

    def describe_cluster(
        self, request: DescribeClusterRequest, cluster_id: str, listener: str
    ) -> DescribeClusterResponse:
        """Return the response to DescribeCluster; a cluster with ZooKeeper has no endpoints of controllers."""
        if request.endpoint_type != BROKERS:
            is_known = request.endpoint_type == CONTROLLERS
            code = errors.MISMATCHED_ENDPOINT_TYPE if is_known else errors.UNSUPPORTED_ENDPOINT_TYPE
            return DescribeClusterResponse(code, f"Unsupported endpoint type {request.endpoint_type}")
        operations = CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_REQUESTED
        brokers = self._brokers(listener)
        return DescribeClusterResponse(errors.NONE, None, cluster_id, self.controller_id, brokers, operations)

    def _brokers(self, listener: str) -> tuple[MetadataBroker, ...]:
        return tuple([self._metadata_broker(id, endpoint) for id, endpoint in self.endpoints(listener).items()])

    def leader(self, partition: TopicPartition, listener: str) -> MetadataBroker | None:
        """Return a partition's leader, if it is alive and has this listener; otherwise None."""
        state = self.topics.get(partition.topic, {}).get(partition.partition)
        endpoint = None if state is None else self.endpoints(listener).get(state.leader)
        return None if state is None or endpoint is None else self._metadata_broker(state.leader, endpoint)

    def place(self, partition: TopicPartition, endpoints: Mapping[int, Endpoint]) -> PartitionLeader:
        """Return a partition's leader and the leader's endpoint in `endpoints`.

        The endpoint is None if `endpoints` does not contain the leader.
        """
        state = self.topics.get(partition.topic, {}).get(partition.partition)
        if state is None:
            return PartitionLeader(False, NO_LEADER, None)
        return PartitionLeader(True, state.leader, endpoints.get(state.leader))

    def with_leaders(self, response: AnyMessage, request: ClientRequest, node_id: int) -> AnyMessage:
        """Return a response to Produce or Fetch with the leader of each partition that has a code in LEADER_CODES.

        If this cache still says that this broker leads a partition that it does not lead, it names no leader: a wrong
        endpoint is worse than none. Each leader's endpoint on the client's listener is added once.
        """
        endpoints, leaders, partitions = self.endpoints(request.listener), dict[int, None](), []
        by_id = isinstance(response, FetchResponse) and request.request.version >= IDS_SINCE
        topics = {topic_id: topic for topic, topic_id in self.topic_ids.items()} if by_id else {}
        for each in response.partitions:
            topic, number = each.partition
            state = self.topics.get(topics.get(topic, topic), {}).get(number)
            is_other = each.error_code == errors.NOT_LEADER_OR_FOLLOWER
            if (
                state is None
                or state.leader < 0
                or each.error_code not in LEADER_CODES
                or (is_other and state.leader == node_id)
            ):
                partitions.append(each)
            else:
                leaders[state.leader] = None
                partitions.append(evolve(each, current_leader=CurrentLeader(state.leader, state.leader_epoch)))
        nodes = [self._metadata_broker(id, endpoints[id]) for id in leaders if id in endpoints]
        return evolve(response, partitions=tuple(partitions), node_endpoints=tuple(nodes))

    def _metadata_broker(self, id: int, endpoint: Endpoint) -> MetadataBroker:
        """Return a broker as it appears in Metadata responses."""
        return MetadataBroker(id, endpoint.host, endpoint.port, self.brokers[id].rack)

    def endpoints(self, listener: str) -> dict[int, Endpoint]:
        """Return the live brokers that have this listener, by id."""
        return {
            id: endpoint
            for id, broker in self.brokers.items()
            for endpoint in broker.endpoints
            if endpoint.listener == listener
        }

    def _topic(
        self, name: str, endpoints: dict[int, Endpoint], version: int, absent: Mapping[str, int], operations: int
    ) -> MetadataTopic:
        partitions = self.topics.get(name)
        if partitions is None:
            code = absent.get(name) or _absence(name)
            return MetadataTopic(code, name, name in INTERNAL_TOPICS, (), NO_ID, operations)
        described = tuple(self._partition(partitions[number], endpoints, version) for number in sorted(partitions))
        topic_id = self.topic_ids.get(name, NO_ID)
        return MetadataTopic(errors.NONE, name, name in INTERNAL_TOPICS, described, topic_id, operations)

    def _partition(
        self, state: UpdateMetadataPartitionState, endpoints: dict[int, Endpoint], version: int
    ) -> MetadataPartition:
        replicas, isr = state.replicas, state.isr
        if version == 0:
            replicas = tuple(id for id in replicas if id in endpoints)
            isr = tuple(id for id in isr if id in endpoints)
        leader = state.leader
        error_code = errors.NONE
        if leader not in endpoints:
            error_code = (
                errors.LISTENER_NOT_FOUND
                if leader in self.brokers and version >= LISTENERS_SINCE
                else errors.LEADER_NOT_AVAILABLE
            )
            leader = NO_LEADER
        elif (len(replicas), len(isr)) < (len(state.replicas), len(state.isr)):
            error_code = errors.REPLICA_NOT_AVAILABLE
        return MetadataPartition(
            error_code,
            state.partition.partition,
            leader,
            state.leader_epoch,
            replicas,
            isr,
            state.offline_replicas,
        )


def is_as_expected(view: ClusterView, expected: ExpectedTopicState) -> bool:
    """Return whether the view has the expected leaders of a topic, or no longer has a topic that was deleted."""
    known = view.topics.get(expected.topic, {})
    if not expected.partitions:
        return not known
    leaders = (known[number].leader if number in known else NO_LEADER for number in expected.partitions)
    if expected.leader is None:
        return all(leader >= 0 for leader in leaders)
    return all(leader == expected.leader for leader in leaders)


def timed_out(response: AnyMessage, late: Collection[ExpectedTopicState]) -> AnyMessage:
    """Return the response, with the result of each late topic or partition reduced to REQUEST_TIMED_OUT."""
    if isinstance(response, ElectLeadersResponse):
        return _elections_timed_out(response, late)
    topics = {each.topic for each in late}
    results = (_topic_timed_out(result) if result.name in topics else result for result in response.topics)
    return attrs.evolve(response, topics=tuple(results))


def _topic_timed_out(result: AnyMessage) -> AnyMessage:
    ids = (result.topic_id,) if isinstance(result, DeletedTopic) else ()
    return type(result)(result.name, errors.REQUEST_TIMED_OUT, *ids)


def _elections_timed_out(response: ElectLeadersResponse, late: Collection[ExpectedTopicState]) -> ElectLeadersResponse:
    waiting = {(each.topic, number) for each in late for number in each.partitions}
    results = []
    for topic in response.topics:
        partitions = (
            ElectedPartition(each.partition_index, errors.REQUEST_TIMED_OUT)
            if (topic.name, each.partition_index) in waiting
            else each
            for each in topic.partitions
        )
        results.append(ElectedTopic(topic.name, tuple(partitions)))
    return ElectLeadersResponse(tuple(results), response.error_code)


class MetadataCache:
    """The cluster metadata of a broker: the current snapshot, and the next snapshot while it is being built."""

    def __init__(self) -> None:
        self.view = ClusterView()
        self._draft: dict[str, dict[int, UpdateMetadataPartitionState]] = {}
        """Topics that the next view changes; a topic without partitions is deleted."""
        self._deleted: list[TopicPartition] = []
        """The partitions that the draft deletes."""
        self._named: set[str] = set()
        """The topics in the parts of the draft, if the current view has topic ids (rule 6)."""
        self._old: list[Mapping[int, UpdateMetadataPartitionState]] = []
        """Topics of an older view: freeing 100,000 partitions at once takes 10 ms."""

    def stage(self, states: Iterable[UpdateMetadataPartitionState], begins: bool) -> None:
        """Add states of an UpdateMetadata to the draft of the next view (rule 2).

        Start a new draft if `begins` is true.
        """
        if begins:
            self._draft, self._deleted, self._named = {}, [], set()
        draft, topics = self._draft, self.view.topics
        if self.view.topic_ids:
            states = tuple(states)
            self._named.update([state.partition.topic for state in states])
        for state in states:
            topic, number = state.partition
            partitions = draft.get(topic)
            if partitions is None:
                known = topics.get(topic, {})
                # When a broker returns, the controller sends all states again. If the controller runs in this process,
                # a repeated state can be the held object. Otherwise, and in a replay, it is an equal copy.
                held = known.get(number)
                if held is state or held == state:
                    continue
                partitions = draft[topic] = dict(known)
            if state.leader != LEADER_DURING_DELETE:
                partitions[number] = state
            else:
                partitions.pop(number, None)
                self._deleted.append(state.partition)

    def merge(self, request: UpdateMetadataRequest, begins: bool = True) -> tuple[TopicPartition, ...]:
        """Create the newest view from the staged parts of an UpdateMetadata and its last part, `request`.

        Rules 1, 2 and 5 apply.

        Returns:
            The deleted partitions.
        """
        self.stage(request.partition_states, begins)
        known = self.view.topics
        self._old += [known[topic] for topic in self._draft if topic in known]
        topics = {**known, **self._draft}
        for topic, partitions in self._draft.items():
            if not partitions:
                del topics[topic]
        deleted = tuple(self._deleted)
        self._draft, self._deleted = {}, []
        brokers = {broker.id: broker for broker in sorted(request.live_brokers, key=lambda broker: broker.id)}
        ids = self.view.topic_ids
        if self._named or request.topic_ids:
            ids = {topic: topic_id for topic, topic_id in ids.items() if topic not in self._named}
            ids.update([each for each in request.topic_ids if each.topic in topics])
        self.view = ClusterView(request.controller_id, brokers, topics, ids)
        return deleted

    def drop_old(self) -> int:
        """Free the older states of about SLICE partitions, topic by topic; return the number of topics left."""
        partitions = 0
        while self._old and partitions < SLICE:
            partitions += len(self._old.pop())
        return len(self._old)


def requests_all_topics(request: MetadataRequest) -> bool:
    """Return whether a client requests all topics (rule 4)."""
    return request.topics is None or (request.version == 0 and not request.topics)


def shares_metadata(version: int) -> int:
    """Return the lowest request version whose response has the same content as the response to `version`.

    Rules 3 and 4 apply.
    """
    return max(least for least in (0, 1, LISTENERS_SINCE) if least <= version)


def _absence(topic: str) -> int:
    """Return the error code of an unknown topic: 3, or 17 for an invalid name."""
    try:
        check_name(topic)
    except InvalidTopic:
        return errors.INVALID_TOPIC
    return errors.UNKNOWN_TOPIC_OR_PARTITION
