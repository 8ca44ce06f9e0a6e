"""OffsetForLeaderEpoch: the end offsets of leader epochs."""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import BY_TOPIC, EPOCHS, LEADERSHIP, PARTITIONS, Api, each_partition, on_topics
from messages.apis.fetch import CONSUMER
from messages.cluster import NO_EPOCH, TopicPartition
from messages.records import NO_OFFSET
from messages.vocabulary import Message, message


@message
class EpochQuery(Message):
    """A partition and a leader epoch; a follower or consumer requests the end offset of this epoch."""

    partition: TopicPartition
    leader_epoch: int
    current_leader_epoch: int = NO_EPOCH


@message
class OffsetForLeaderEpochRequest(Message):
    """The request of a follower or consumer for the end offsets of leader epochs (API key 23)."""

    version: int
    replica_id: int
    partitions: tuple[EpochQuery, ...]


@message
class EpochEnd(Message):
    """The result of OffsetForLeaderEpoch for one partition.

    It has the largest epoch that is not greater than the requested epoch, and the end offset of this largest epoch.
    """

    partition: TopicPartition
    error_code: int
    leader_epoch: int = NO_EPOCH
    end_offset: int = NO_OFFSET


@message
class OffsetForLeaderEpochResponse(Message):
    """The response to OffsetForLeaderEpoch."""

    partitions: tuple[EpochEnd, ...]
    throttle_time_ms: int = 0


API = Api(
    key=23,
    versions=(0, 4),
    request=OffsetForLeaderEpochRequest,
    response=OffsetForLeaderEpochResponse,
    answerer=PARTITIONS,
    access=(on_topics(Operation.DESCRIBE, or_cluster=Operation.CLUSTER_ACTION),),
    codes=f"NONE {LEADERSHIP} {EPOCHS}",
    sample=lambda about: OffsetForLeaderEpochRequest(
        3, CONSUMER, (EpochQuery(about.partition, about.leader_epoch, about.leader_epoch),)
    ),
    odd="partition=absent current_leader_epoch-1 current_leader_epoch+1",
    refuse=each_partition(OffsetForLeaderEpochResponse, EpochEnd),
    bindings={OffsetForLeaderEpochRequest: BY_TOPIC, OffsetForLeaderEpochResponse: BY_TOPIC},
)
