"""DescribeProducers: the producers of partitions."""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import BY_TOPIC, LEADERSHIP, PARTITIONS, Api, Binding, on_topics
from messages.cluster import TopicPartition
from messages.vocabulary import Message, message


@message
class DescribeProducersRequest(Message):
    """A client's request to partition leaders to describe the producers of partitions (API key 61)."""

    version: int
    partitions: tuple[TopicPartition, ...]


@message
class DescribedProducer(Message):
    """A producer of a partition. A missing sequence number, marker or open transaction is -1."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


@message
class DescribedProducers(Message):
    """The producers of one partition."""

    partition: TopicPartition
    error_code: int
    error_message: str | None = None
    active_producers: tuple[DescribedProducer, ...] = ()


@message
class DescribeProducersResponse(Message):
    """The response to DescribeProducers: the producers of each partition."""

    partitions: tuple[DescribedProducers, ...]
    throttle_time_ms: int = 0


API = Api(
    key=61,
    versions=(0, 0),
    request=DescribeProducersRequest,
    response=DescribeProducersResponse,
    answerer=PARTITIONS,
    access=(on_topics(Operation.READ),),
    codes=f"NONE {LEADERSHIP} INVALID_TOPIC",
    sample=lambda about: DescribeProducersRequest(
        0, (about.partition, TopicPartition("absent", 0), TopicPartition("bad/name", 0))
    ),
    refuse=lambda request, code: DescribeProducersResponse(
        tuple([DescribedProducers(each, code) for each in request.partitions])
    ),
    bindings={
        DescribeProducersRequest: Binding(gathered={"partitions": ("topics.partition_indexes",)}),
        DescribeProducersResponse: BY_TOPIC,
    },
)
