"""Metadata: topics, leaders and brokers.

"All topics" is a null list from v1 on. In v0 it is an empty list, so v0 cannot encode "no topics". In v9, librdkafka
writes "all topics" with a four-byte zero count. Apache Kafka and this codec read this count and the bytes after it as a
null list, false flags, one unknown tag and one extra byte. They ignore the tag and the extra byte (broker.md 6.2).
"""

from __future__ import annotations

from messages.acls import KAFKA_CLUSTER, Operation, ResourceType
from messages.apis.declaration import (
    METADATA_CACHE,
    NAMED_OR_ID,
    PERMITTED_ON_CLUSTER,
    Allows,
    Api,
    Binding,
    Permitted,
    Shown,
    on_topics,
)
from messages.cluster import NO_ID
from messages.vocabulary import Message, evolve, message

NOT_REQUESTED = -(2**31)
"""The authorized operations that a client did not request."""


@message
class MetadataRequestTopic(Message):
    """A topic in a Metadata request, which has a name or a topic id."""

    topic_id: str = NO_ID
    name: str | None = None


@message
class MetadataRequest(Message):
    """A client's request for topics, leaders and brokers (API key 3); `topics` is None for all topics.

    `named_or_ids` replaces `topics` in a request (version 10 or later) that has a topic id or a topic without a name.
    """

    version: int
    topics: tuple[str, ...] | None
    allow_auto_topic_creation: bool = True
    named_or_ids: tuple[MetadataRequestTopic, ...] = ()
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


@message
class MetadataBroker(Message):
    """A live broker in a Metadata response, with its endpoint for clients."""

    id: int
    host: str
    port: int
    rack: str | None = None


@message
class MetadataPartition(Message):
    """A partition in a Metadata response."""

    error_code: int
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


@message
class MetadataTopic(Message):
    """A topic in a Metadata response; the name of a topic that is unknown by its id is empty."""

    error_code: int
    name: str
    is_internal: bool
    partitions: tuple[MetadataPartition, ...]
    topic_id: str = NO_ID
    topic_authorized_operations: int = NOT_REQUESTED


@message
class MetadataResponse(Message):
    """The response to Metadata."""

    brokers: tuple[MetadataBroker, ...]
    cluster_id: str | None
    controller_id: int
    topics: tuple[MetadataTopic, ...]
    cluster_authorized_operations: int = NOT_REQUESTED
    throttle_time_ms: int = 0


BY_ID_SINCE = 12
"""The first version in which a topic may be requested by its id."""


def _refuse(request: MetadataRequest, code: int) -> MetadataResponse:
    topics = [MetadataTopic(code, topic, False, ()) for topic in request.topics or ()]
    topics += [MetadataTopic(code, each.name or "", False, (), each.topic_id) for each in request.named_or_ids]
    return MetadataResponse((), None, -1, tuple(topics))


def _topics_written(request: MetadataRequest) -> tuple[MetadataRequestTopic, ...] | None:
    if request.named_or_ids:
        return request.named_or_ids
    if request.version == 0 and request.topics == ():
        raise ValueError(
            "Metadata version 0 cannot request an empty list of topics, because an empty list means all topics"
        )
    if request.topics is None:
        return None if request.version > 0 else ()
    return tuple([MetadataRequestTopic(name=name) for name in request.topics])


def _topics_read(version: int, topics: tuple[MetadataRequestTopic, ...] | None) -> tuple[str, ...] | None:
    if topics is None or (version == 0 and not topics):
        return None
    return () if _named_or_ids_read(topics) else tuple([each.name or "" for each in topics])


def _named_or_ids_read(topics: tuple[MetadataRequestTopic, ...] | None) -> tuple[MetadataRequestTopic, ...]:
    """Return the topics of a request that does not simply name them all."""
    return topics or () if any(each.name is None or each.topic_id for each in topics or ()) else ()


def _without_creation(request: MetadataRequest, allows: Allows) -> MetadataRequest:
    """Return the request, without automatic creation if the client may not create a topic that it names."""
    names = request.topics or ()
    if not request.allow_auto_topic_creation or allows(Operation.CREATE, ResourceType.CLUSTER, KAFKA_CLUSTER):
        return request
    creatable = all(allows(Operation.CREATE, ResourceType.TOPIC, name) for name in names)
    return request if creatable else evolve(request, allow_auto_topic_creation=False)


API = Api(
    key=3,
    versions=(0, 12),
    request=MetadataRequest,
    response=MetadataResponse,
    answerer=METADATA_CACHE,
    access=(
        on_topics(Operation.DESCRIBE, "topics", keeps=True),
        on_topics(Operation.DESCRIBE, "named_or_ids", "topics", keeps=True),
    ),
    shown=(
        Shown(
            Operation.DESCRIBE,
            ResourceType.TOPIC,
            lambda topic: topic.name,
            "topics",
            lambda topic, code: MetadataTopic(code, topic.name, False, ()),
            lambda request: request.topics is not None,
        ),
    ),
    permitted=(
        PERMITTED_ON_CLUSTER,
        Permitted(
            "include_topic_authorized_operations",
            "topic_authorized_operations",
            ResourceType.TOPIC,
            lambda topic: topic.name,
            "topics",
        ),
    ),
    narrow=_without_creation,
    codes="NONE UNKNOWN_TOPIC_OR_PARTITION LEADER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE INVALID_TOPIC"
    " INVALID_REQUEST UNKNOWN_TOPIC_ID INVALID_REPLICATION_FACTOR LISTENER_NOT_FOUND UNKNOWN_SERVER_ERROR",
    sample=lambda about: MetadataRequest(9, (about.partition.topic,), False),
    odd="topics=null;version=0 topics=absent topics=bad/name;allow_auto_topic_creation=yes"
    " topics=auto-@number;allow_auto_topic_creation=yes topics=__consumer_offsets;allow_auto_topic_creation=yes",
    refuse=_refuse,
    bindings={
        MetadataRequest: Binding(
            renamed={"topics": (), "named_or_ids": ("topics",)},
            written={"topics": _topics_written},
            read={"topics": _topics_read, "named_or_ids": _named_or_ids_read},
        ),
        MetadataTopic: NAMED_OR_ID,
        MetadataBroker: Binding(renamed={"id": ("node_id", "broker_id")}),
        MetadataPartition: Binding(
            renamed={
                "partition": ("partition_index",),
                "leader": ("leader_id",),
                "replicas": ("replica_nodes",),
                "isr": ("isr_nodes",),
            },
        ),
    },
    awaits_metadata=True,
)
