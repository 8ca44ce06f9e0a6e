"""Kafka's requests and responses as values, one class for all versions (`messages.wire` encodes them).

`version` is the API version to encode with, or the one that was decoded. Fields that a version lacks hold their
defaults. Grouping by topic (v2+) is the codec's matter: partitions are flat here.
"""

from __future__ import annotations

from messages.cluster import NO_EPOCH, UNKNOWN_BROKER_EPOCH, Endpoint, TopicPartition
from messages.encoded import Encoded
from messages.vocabulary import message


@message
class LeaderAndIsrPartitionState(Encoded):
    """One partition of a LeaderAndIsr request."""

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
class LiveLeader:
    """A leader named in a LeaderAndIsr request, on the inter-broker listener."""

    broker_id: int
    host: str
    port: int


@message
class LeaderAndIsrRequest:
    """Controller to broker: the leader and ISR of hosted partitions (API key 4)."""

    version: int
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partition_states: tuple[LeaderAndIsrPartitionState, ...]
    live_leaders: tuple[LiveLeader, ...]


@message
class PartitionError:
    """One partition's error code in a LeaderAndIsr or StopReplica response."""

    partition: TopicPartition
    error_code: int


@message
class LeaderAndIsrResponse:
    """The response to LeaderAndIsr."""

    error_code: int
    partition_errors: tuple[PartitionError, ...] = ()


@message
class StopReplicaPartitionState(Encoded):
    """One partition of a StopReplica request. Before v3 the leader epoch is not on the wire."""

    partition: TopicPartition
    leader_epoch: int = NO_EPOCH
    delete_partition: bool = False


@message
class StopReplicaRequest:
    """Controller to broker: stop these replicas, and delete some (API key 5).

    Below v3 all partitions of one request must agree in `delete_partition`.
    """

    version: int
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partition_states: tuple[StopReplicaPartitionState, ...]


@message
class StopReplicaResponse:
    """The response to StopReplica."""

    error_code: int
    partition_errors: tuple[PartitionError, ...] = ()


@message
class UpdateMetadataPartitionState(Encoded):
    """One partition of an UpdateMetadata request."""

    partition: TopicPartition
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


@message
class UpdateMetadataBroker:
    """A live broker in an UpdateMetadata request, with all its endpoints."""

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


@message
class UpdateMetadataRequest:
    """Controller to broker: live brokers (always whole) and partitions (to merge) for the cache (API key 6)."""

    version: int
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partition_states: tuple[UpdateMetadataPartitionState, ...]
    live_brokers: tuple[UpdateMetadataBroker, ...]


ControllerRequest = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
"""What a controller orders of brokers."""


@message
class UpdateMetadataResponse:
    """The response to UpdateMetadata."""

    error_code: int


@message
class ControlledShutdownRequest:
    """Broker to controller: move the leaders from this broker (API key 7)."""

    version: int
    broker_id: int
    broker_epoch: int = UNKNOWN_BROKER_EPOCH


@message
class ControlledShutdownResponse:
    """The partitions that the broker still leads."""

    error_code: int
    remaining_partitions: tuple[TopicPartition, ...] = ()


@message
class ApiVersionRange:
    """The supported versions of one API."""

    api_key: int
    min_version: int
    max_version: int


@message
class ApiVersionsRequest:
    """Client to broker: list the supported APIs (API key 18). `version` may be unknown to the broker."""

    version: int
    client_software_name: str = ""
    client_software_version: str = ""


@message
class ApiVersionsResponse:
    """The response to ApiVersions; error 35 is encoded in version 0."""

    error_code: int
    api_keys: tuple[ApiVersionRange, ...]


@message
class MetadataRequest:
    """Client to broker: describe topics, leaders and brokers (API key 3); `topics` None requests all."""

    version: int
    topics: tuple[str, ...] | None
    allow_auto_topic_creation: bool = True


@message
class MetadataBroker:
    """A live broker with its endpoint for clients."""

    id: int
    host: str
    port: int
    rack: str | None = None


@message
class MetadataPartition:
    """One partition of a Metadata response."""

    error_code: int
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


@message
class MetadataTopic:
    """One topic of a Metadata response."""

    error_code: int
    name: str
    is_internal: bool
    partitions: tuple[MetadataPartition, ...]


@message
class MetadataResponse:
    """The response to Metadata."""

    brokers: tuple[MetadataBroker, ...]
    cluster_id: str | None
    controller_id: int
    topics: tuple[MetadataTopic, ...]
