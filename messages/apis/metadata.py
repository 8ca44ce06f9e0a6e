"""Metadata: topics, leaders and brokers.

"All topics" is a null list from v1 on. In v0 it is an empty list, so v0 cannot encode "no topics". In v9, librdkafka
writes "all topics" with a four-byte zero count. Apache Kafka and this codec read this count and the bytes after it as a
null list, false flags, one unknown tag and one extra byte. They ignore the tag and the extra byte (broker.md 6.2).
"""

from __future__ import annotations

from messages.apis.declaration import METADATA_CACHE, Api, Binding
from messages.vocabulary import Message, message


@message
class MetadataRequest(Message):
    """A client's request for topics, leaders and brokers (API key 3); `topics` is None for all topics."""

    version: int
    topics: tuple[str, ...] | None
    allow_auto_topic_creation: bool = True


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
    """A topic in a Metadata response."""

    error_code: int
    name: str
    is_internal: bool
    partitions: tuple[MetadataPartition, ...]


@message
class MetadataResponse(Message):
    """The response to Metadata."""

    brokers: tuple[MetadataBroker, ...]
    cluster_id: str | None
    controller_id: int
    topics: tuple[MetadataTopic, ...]


def _refuse(request: MetadataRequest, code: int) -> MetadataResponse:
    return MetadataResponse(
        (), None, -1, tuple(MetadataTopic(code, topic, False, ()) for topic in request.topics or ())
    )


def _topics_asked(request: MetadataRequest) -> tuple[str, ...] | None:
    if request.version > 0:
        return request.topics
    if request.topics == ():
        raise ValueError(
            "Metadata version 0 cannot request an empty list of topics, because an empty list means all topics"
        )
    return request.topics or ()


def _topics_read(version: int, topics: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return topics or None if version == 0 else topics


API = Api(
    key=3,
    versions=(0, 9),
    request=MetadataRequest,
    response=MetadataResponse,
    answerer=METADATA_CACHE,
    codes="NONE UNKNOWN_TOPIC_OR_PARTITION LEADER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE INVALID_TOPIC"
    " INVALID_REPLICATION_FACTOR LISTENER_NOT_FOUND UNKNOWN_SERVER_ERROR",
    sample=lambda about: MetadataRequest(9, (about.partition.topic,), False),
    odd="topics=null;version=0 topics=absent topics=bad/name;allow_auto_topic_creation=yes"
    " topics=auto-@number;allow_auto_topic_creation=yes topics=__consumer_offsets;allow_auto_topic_creation=yes",
    refuse=_refuse,
    bindings={
        MetadataRequest: Binding(written={"topics": _topics_asked}, read={"topics": _topics_read}),
        MetadataBroker: Binding(renamed={"id": ("node_id",)}),
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
