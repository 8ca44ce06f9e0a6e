"""MetadataCacheActor stores the cluster metadata that the controller sends, and answers Metadata requests from it.

Rule 1: a request of the replica manager gets its reply at once. A response to a client is built in slices (actors.md 3)
        from one view, which a later UpdateMetadata does not change.
Rule 2: the response for all topics is created once per view; all clients receive the same objects.
Rule 3: on the controller's node, the response to CreateTopics, CreatePartitions, DeleteTopics or ElectLeaders waits
        until the change is visible here (Kafka's purgatory). Once a topic is as expected, the response no longer waits
        for the topic, even if the topic changes later.
Rule 4: a missing topic that a client names is created if the settings and the client permit it. The client's request is
        sent to the actor that creates topics, which sends it back with the outcome. Other requests do not wait
        meanwhile.

Kafka: `MetadataCache` (`ZkMetadataCache`); a response that waits (rule 3) is a `DelayedCreatePartitions`,
`DelayedDeleteTopics` or `DelayedElectLeader` in Kafka's purgatory.
"""

from __future__ import annotations

from typing import NamedTuple

from thespian.actors import ActorAddress, WakeupMessage

from actors.core.broker import metadata_cache
from actors.core.broker.validation import check, view_disagreements
from actors.runtime import Answerer, FlowActor
from messages import broker, errors
from messages.apis.describe_cluster import DescribeClusterRequest
from messages.apis.metadata import API, BY_ID_SINCE, NOT_REQUESTED, MetadataResponse, MetadataTopic
from messages.ask import Done
from messages.cluster import TopicId
from messages.flow.conversation import Flow, Pause
from messages.network import ClientPart, CloseClient, Forwarded
from messages.node import StartMetadataCache
from messages.partition import CheckPartitionsExist, PartitionsExist
from messages.parts import MetadataPart
from messages.transactions import FindLeaders, LeadersFound
from messages.vocabulary import Message


class EncodedMetadata(NamedTuple):
    """A Metadata response that is encoded already, except for the correlation id."""

    parts: tuple[MetadataPart, ...]
    last: MetadataResponse


def _timer(wait: int) -> str:
    return f"wait-{wait}"


class MetadataCacheActor(FlowActor, Answerer):
    """This actor applies UpdateMetadata requests and answers Metadata requests; each broker has one."""

    def __init__(self) -> None:
        super().__init__()
        self._cache = metadata_cache.MetadataCache()
        self._cluster_id = ""
        self._node_id = -1
        self._validates = False
        self._inter_broker_listener = ""
        self._partition_requests: ActorAddress | None = None
        self._topic_creation: ActorAddress | None = None
        """The actor that creates missing topics; None if automatic creation is off."""
        self._request_handler: ActorAddress | None = None
        """The actor that holds clients' requests until the first UpdateMetadata; then None."""
        self._sent_alive = broker.AliveBrokers(())
        self._prepared_of: metadata_cache.ClusterView | None = None
        self._prepared: dict[tuple[str, int, bool, bool], EncodedMetadata] = {}
        """Responses for all topics of one view, by listener, version and the two kinds of authorized operations."""
        self._waiting: dict[int, broker.AwaitTopics] = {}
        """Waiting clients, each with the topics that it still waits for."""
        self._waits = 0

    def receiveMsg_StartMetadataCache(self, message: StartMetadataCache, sender: ActorAddress) -> None:
        """Set the cluster id, the settings and the other actors."""
        self._cluster_id = message.cluster_id
        self._node_id = message.settings.node_id
        self._validates = message.settings.validate_state
        self._inter_broker_listener = message.settings.inter_broker_listener_name
        self._partition_requests = message.partition_requests
        if message.settings.auto_create_topics_enable:
            self._topic_creation = message.topic_creation

    def receiveMsg_AwaitMetadata(self, message: broker.AwaitMetadata, sender: ActorAddress) -> None:
        """Notify the request handler when the first UpdateMetadata is applied."""
        self._request_handler = sender

    def answer(self, question: Message) -> Message:
        """Reply to another actor's request to change or read the metadata.

        Raises:
            TypeError: The request has no handler here.
        """
        match question:
            case broker.StageMetadata(part, begins):
                self._cache.stage(part.entries, begins)
                return Done()
            case broker.MergeMetadata(request, begins):
                ids = self._cache.view.topic_ids
                deleted = self._cache.merge(request, begins)
                if self._cache.view.topic_ids != ids and self._partition_requests is not None:
                    topics = tuple([TopicId(*each) for each in self._cache.view.topic_ids.items()])
                    self.send(self._partition_requests, broker.TopicIds(topics))
                if self._validates:
                    check(view_disagreements(self._cache.view))
                alive = self._publish_live_brokers()
                if self._request_handler is not None:
                    self.send(self._request_handler, broker.MetadataReceived())
                    self._request_handler = None
                for number in tuple(self._waiting):
                    self._respond_if_complete(number)
                return broker.MetadataMerged(deleted, self._cache.drop_old(), alive)
            case broker.DropOldTopics():
                return broker.OldTopics(self._cache.drop_old())
            case broker.GetAliveBrokers():
                return self._alive()
            case broker.GetKnownTopics(topics):
                known = self._cache.view.topics
                return broker.KnownTopics(tuple(topic for topic in dict.fromkeys(topics) if topic in known))
            case FindLeaders(partitions):
                endpoints = self._cache.view.endpoints(self._inter_broker_listener)
                return LeadersFound(tuple([self._cache.view.place(each, endpoints) for each in partitions]))
            case broker.FindLeader(partition, listener):
                return broker.LeaderFound(self._cache.view.leader(partition, listener))
        raise TypeError(f"MetadataCacheActor has no handler for {type(question).__name__}")

    def _alive(self) -> broker.AliveBrokers:
        view = self._cache.view
        endpoints = view.endpoints(self._inter_broker_listener)
        return broker.AliveBrokers(
            tuple(view.brokers),
            tuple(endpoints.get(each) for each in view.brokers),
            tuple(each.rack for each in view.brokers.values()),
        )

    def _publish_live_brokers(self) -> broker.AliveBrokers | None:
        """Return a changed set of live brokers, else None; PartitionRequestsActor lets only these join an ISR."""
        alive = self._alive()
        if alive == self._sent_alive:
            return None
        self._sent_alive = alive
        if self._partition_requests is not None:
            self.send(self._partition_requests, alive)
        return alive

    def receiveMsg_CheckPartitionsExist(self, message: CheckPartitionsExist, sender: ActorAddress) -> None:
        """Answer whether these partitions exist anywhere in the cluster."""
        topics = self._cache.view.topics
        known = tuple(partition in topics.get(topic, ()) for topic, partition in message.partitions)
        self.send(sender, PartitionsExist(message.request, message.partitions, known))

    def receiveMsg_AddLeaders(self, message: broker.AddLeaders, sender: ActorAddress) -> None:
        """Send a response to Produce or Fetch with the leaders of partitions that this broker does not lead."""
        forwarded, view = message.forwarded, self._cache.view
        self.send(*forwarded.reply(view.with_leaders(message.response, forwarded.request, self._node_id)))

    def receiveMsg_AwaitTopics(self, message: broker.AwaitTopics, sender: ActorAddress) -> None:
        """Delay the response to a client of the controller until the client's topics are as expected (rule 3)."""
        self._waits += 1
        self._waiting[self._waits] = message
        self._respond_if_complete(self._waits)
        if self._waits in self._waiting:
            seconds = max(0, message.timeout_ms) / 1000
            self.set_timer(_timer(self._waits), seconds, broker.AwaitTopicsTimeout(self._waits))

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        """Respond to a client whose timeout has passed, if it still waits."""
        waiting = self._waiting.pop(message.payload.number, None)
        if waiting is not None:
            self.send(*waiting.forwarded.reply(metadata_cache.timed_out(waiting.response, waiting.expected)))

    def _respond_if_complete(self, number: int) -> None:
        """Respond to a waiting client if all its topics are as expected."""
        waiting = self._waiting[number]
        view = self._cache.view
        left = tuple(expected for expected in waiting.expected if not metadata_cache.is_as_expected(view, expected))
        if left:
            self._waiting[number] = broker.AwaitTopics(waiting.forwarded, waiting.response, left, waiting.timeout_ms)
        else:
            del self._waiting[number]
            self.cancel_timer(_timer(number))
            self.send(*waiting.forwarded.reply(waiting.response))

    def flow(self, message: Message) -> Flow[None] | None:
        """Handle a client's Metadata request, at once or after its missing topics are created (rule 4)."""
        match message:
            case Forwarded(request=request) if isinstance(request.request, DescribeClusterRequest):
                view = self._cache.view
                self.send(*message.reply(view.describe_cluster(request.request, self._cluster_id, request.listener)))
                return None
            case Forwarded(request=request):
                wanted = request.request
                if wanted.named_or_ids and wanted.version < BY_ID_SINCE:
                    self.send(*message.reply(API.refusal(wanted, errors.INVALID_REQUEST)))
                    return None
                missing = () if metadata_cache.requests_all_topics(wanted) else self._cache.view.missing(wanted)
                if missing and self._topic_creation is not None and wanted.allow_auto_topic_creation:
                    self.send(self._topic_creation, broker.CreateMissingTopics(missing, message))
                    return None
                return self._serve(message)
            case broker.MissingTopicsCreated(forwarded, topics):
                return self._serve(forwarded, topics)
        return super().flow(message)

    def event_failed(self, event: Message, error: Exception) -> None:
        """Close the connection of a client whose response cannot be built."""
        forwarded = event.forwarded if isinstance(event, broker.MissingTopicsCreated) else event
        if isinstance(forwarded, Forwarded):
            reason = f"the answer cannot be made: {type(error).__name__}"
            self.send(forwarded.client, CloseClient(forwarded.request.connection, reason))

    def _serve(self, forwarded: Forwarded, created: tuple[broker.Creation, ...] = ()) -> Flow[None]:
        request = forwarded.request
        if metadata_cache.requests_all_topics(request.request):
            prepared = yield from self._about_all(forwarded)
        else:
            prepared = yield from self._prepare(forwarded, self._cache.view, created)
        for part in prepared.parts:
            self.send(forwarded.client, ClientPart(request.connection, part))
        self.send(*forwarded.reply(prepared.last))

    def _about_all(self, forwarded: Forwarded) -> Flow[EncodedMetadata]:
        """Return the response for all topics (rule 2)."""
        view = self._cache.view
        if self._prepared_of is not view:
            self._prepared_of, self._prepared = view, {}
        request = forwarded.request.request
        key = (
            *(forwarded.request.listener, metadata_cache.shares_metadata(request.version)),
            *(request.include_topic_authorized_operations, request.include_cluster_authorized_operations),
        )
        if key not in self._prepared:
            self._prepared[key] = yield from self._prepare(forwarded, view)
        return self._prepared[key]

    def _prepare(
        self, forwarded: Forwarded, view: metadata_cache.ClusterView, created: tuple[broker.Creation, ...] = ()
    ) -> Flow[EncodedMetadata]:
        """Build a response from this view."""
        listener, request = forwarded.request.listener, forwarded.request.request
        groups, absent = view.in_parts(view.names(request)), dict(created)
        operations = metadata_cache.TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_REQUESTED
        of_cluster = (
            metadata_cache.CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_REQUESTED
        )
        topics: list[tuple[MetadataTopic, ...]] = (
            [unresolved] if (unresolved := view.unresolved_topics(request)) else []
        )
        for names in groups:
            if topics:
                yield Pause()
            topics.append(view.describe(names, listener, request.version, absent, operations))
        *ahead, rest = topics or [()]
        return EncodedMetadata(
            tuple(map(MetadataPart, ahead)), view.answer(rest, self._cluster_id, listener, of_cluster)
        )
