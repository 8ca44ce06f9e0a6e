"""Requests and responses of the Kafka protocol; each class covers all versions of its API.

`messages.wire` encodes and decodes them. `version` is the API version of the encoded form. Fields that a version lacks
have their defaults. Partitions are one flat list here; the codec groups them by topic in the versions that do so.
"""

from __future__ import annotations

from messages.cluster import NO_EPOCH, UNKNOWN_BROKER_EPOCH, Endpoint, TopicPartition
from messages.encoded import Encoded
from messages.vocabulary import Message, message


@message
class LeaderAndIsrPartitionState(Encoded):
    """A partition in a LeaderAndIsr request, with its leader, ISR and replicas."""

    partition: TopicPartition
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    is_new: bool = False
    leader_recovery_state: int = 0


@message
class LiveLeader(Message):
    """A leader named in a LeaderAndIsr request, with its inter-broker endpoint."""

    broker_id: int
    host: str
    port: int


@message
class LeaderAndIsrRequest(Message):
    """The controller's request to a broker to lead or follow partitions (API key 4)."""

    version: int
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partition_states: tuple[LeaderAndIsrPartitionState, ...]
    live_leaders: tuple[LiveLeader, ...]


@message
class PartitionError(Message):
    """The error code of one partition in a LeaderAndIsr or StopReplica response."""

    partition: TopicPartition
    error_code: int


@message
class LeaderAndIsrResponse(Message):
    """The response to LeaderAndIsr."""

    error_code: int
    partition_errors: tuple[PartitionError, ...] = ()


@message
class StopReplicaPartitionState(Encoded):
    """A partition in a StopReplica request; its leader epoch is sent only from version 3 on."""

    partition: TopicPartition
    leader_epoch: int = NO_EPOCH
    delete_partition: bool = False


@message
class StopReplicaRequest(Message):
    """The controller's request to a broker to stop replicas, and to delete some of them (API key 5).

    Below v3 all partitions of one request must have the same `delete_partition`.
    """

    version: int
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partition_states: tuple[StopReplicaPartitionState, ...]


@message
class StopReplicaResponse(Message):
    """The response to StopReplica."""

    error_code: int
    partition_errors: tuple[PartitionError, ...] = ()


@message
class UpdateMetadataPartitionState(Encoded):
    """A partition in an UpdateMetadata request, with its leader, ISR and replicas."""

    partition: TopicPartition
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


@message
class UpdateMetadataBroker(Message):
    """A live broker in an UpdateMetadata request, with all its endpoints."""

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


@message
class UpdateMetadataRequest(Message):
    """The controller's request to a broker to update its metadata cache (API key 6).

    The request has all live brokers, and some partitions.
    """

    version: int
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partition_states: tuple[UpdateMetadataPartitionState, ...]
    live_brokers: tuple[UpdateMetadataBroker, ...]


ControllerRequest = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
"""The controller's requests to brokers."""


@message
class UpdateMetadataResponse(Message):
    """The response to UpdateMetadata."""

    error_code: int


@message
class ControlledShutdownRequest(Message):
    """A stopping broker's request to the controller to move its leaderships to other brokers (API key 7)."""

    version: int
    broker_id: int
    broker_epoch: int = UNKNOWN_BROKER_EPOCH


@message
class ControlledShutdownResponse(Message):
    """The response to ControlledShutdown: the partitions that the broker still leads."""

    error_code: int
    remaining_partitions: tuple[TopicPartition, ...] = ()


@message
class ApiVersionRange(Message):
    """The versions of one API that a broker supports."""

    api_key: int
    min_version: int
    max_version: int


@message
class ApiVersionsRequest(Message):
    """A client's request for the APIs that a broker supports (API key 18).

    `version` can be a version that the broker does not support.
    """

    version: int
    client_software_name: str = ""
    client_software_version: str = ""


@message
class ApiVersionsResponse(Message):
    """The response to ApiVersions; a response with error code 35 is encoded in version 0."""

    error_code: int
    api_keys: tuple[ApiVersionRange, ...]


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
