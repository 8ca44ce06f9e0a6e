"""Admin requests about topics, reassignments and leader elections.

The rules: broker.md 6.2, 6.4; controller.md 1.5, 7.7.

As in `messages.requests`, one class covers all versions. Every response about topics has one result per topic in
`topics`: its name, its error code, and Kafka's error message.
"""

from __future__ import annotations

from messages.vocabulary import message

BY_DEFAULT = -1
"""Value for a number of partitions or a replication factor: use the controller's default."""


@message
class CreatableAssignment:
    """The brokers that host one partition of a new topic, preferred replica first."""

    partition_index: int
    broker_ids: tuple[int, ...]


@message
class CreatableConfig:
    """A config for a new topic; a null value is an error."""

    name: str
    value: str | None


@message
class CreatableTopic:
    """A topic to be created, with numbers of partitions and replicas, or with explicit assignments."""

    name: str
    num_partitions: int = BY_DEFAULT
    replication_factor: int = BY_DEFAULT
    assignments: tuple[CreatableAssignment, ...] = ()
    configs: tuple[CreatableConfig, ...] = ()


@message
class CreateTopicsRequest:
    """A client's request to the controller to create topics (API key 19); `validate_only` only checks the request."""

    version: int
    topics: tuple[CreatableTopic, ...]
    timeout_ms: int
    validate_only: bool = False


@message
class CreatedConfig:
    """A config of a topic that was created, and its source, numbered as in DescribeConfigs."""

    name: str
    value: str | None
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False


@message
class CreatedTopic:
    """The result of creating one topic: its size and configs, or an error."""

    name: str
    error_code: int
    error_message: str | None = None
    num_partitions: int = -1
    replication_factor: int = -1
    configs: tuple[CreatedConfig, ...] | None = ()


@message
class CreateTopicsResponse:
    """The response to CreateTopics."""

    topics: tuple[CreatedTopic, ...]
    throttle_time_ms: int = 0


@message
class DeleteTopicsRequest:
    """A client's request to the controller to delete topics (API key 20)."""

    version: int
    topics: tuple[str, ...]
    timeout_ms: int


@message
class DeletedTopic:
    """The result of deleting one topic."""

    name: str
    error_code: int


@message
class DeleteTopicsResponse:
    """The response to DeleteTopics."""

    topics: tuple[DeletedTopic, ...]
    throttle_time_ms: int = 0


@message
class WantedReplicas:
    """The brokers that shall host one new partition, preferred replica first."""

    broker_ids: tuple[int, ...]


@message
class GrowingTopic:
    """A topic that gets more partitions.

    It has the new total number of partitions, and the brokers of the added ones (None: assigned automatically).
    """

    name: str
    count: int
    assignments: tuple[WantedReplicas, ...] | None = None


@message
class CreatePartitionsRequest:
    """A client's request to the controller to add partitions to topics (API key 37)."""

    version: int
    topics: tuple[GrowingTopic, ...]
    timeout_ms: int
    validate_only: bool = False


@message
class GrownTopic:
    """The result of adding partitions to one topic."""

    name: str
    error_code: int
    error_message: str | None = None


@message
class CreatePartitionsResponse:
    """The response to CreatePartitions."""

    topics: tuple[GrownTopic, ...]
    throttle_time_ms: int = 0


@message
class ReassignablePartition:
    """The target replicas of one partition, preferred replica first; None cancels its reassignment."""

    partition_index: int
    replicas: tuple[int, ...] | None


@message
class ReassignableTopic:
    """The partitions of one topic that a client wants to reassign."""

    name: str
    partitions: tuple[ReassignablePartition, ...]


@message
class AlterPartitionReassignmentsRequest:
    """A client's request to the controller to start or cancel reassignments (API key 45)."""

    version: int
    timeout_ms: int
    topics: tuple[ReassignableTopic, ...]


@message
class ReassignablePartitionResponse:
    """The result for one partition; the error code is NONE if its reassignment has started."""

    partition_index: int
    error_code: int
    error_message: str | None = None


@message
class ReassignableTopicResponse:
    """The results for the partitions of one topic."""

    name: str
    partitions: tuple[ReassignablePartitionResponse, ...]


@message
class AlterPartitionReassignmentsResponse:
    """The response to AlterPartitionReassignments; it has no partitions if it has a top-level error."""

    error_code: int
    error_message: str | None = None
    responses: tuple[ReassignableTopicResponse, ...] = ()
    throttle_time_ms: int = 0


@message
class ListPartitionReassignmentsTopics:
    """The partitions of one topic whose reassignments in progress a client wants to see."""

    name: str
    partition_indexes: tuple[int, ...]


@message
class ListPartitionReassignmentsRequest:
    """A client's request to the controller to list the reassignments in progress (API key 46).

    It lists all partitions or some.
    """

    version: int
    timeout_ms: int
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None


@message
class OngoingPartitionReassignment:
    """A partition that is being reassigned: all its replicas, those being added, and those being removed."""

    partition_index: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


@message
class OngoingTopicReassignment:
    """The partitions of one topic that are being reassigned."""

    name: str
    partitions: tuple[OngoingPartitionReassignment, ...]


@message
class ListPartitionReassignmentsResponse:
    """The response to ListPartitionReassignments."""

    error_code: int
    error_message: str | None = None
    topics: tuple[OngoingTopicReassignment, ...] = ()
    throttle_time_ms: int = 0


PREFERRED, UNCLEAN = 0, 1
"""Election types: the preferred replica; any live replica if no in-sync replica is alive."""


@message
class ElectableTopic:
    """The partitions of one topic for which a client requests a leader election."""

    name: str
    partitions: tuple[int, ...]


@message
class ElectLeadersRequest:
    """A client's request to the controller to elect leaders, for all or some partitions (API key 43)."""

    version: int
    topics: tuple[ElectableTopic, ...] | None
    timeout_ms: int
    election_type: int = PREFERRED


@message
class ElectedPartition:
    """The result of an election for one partition; the error code is NONE if it has the requested leader."""

    partition_index: int
    error_code: int
    error_message: str | None = None


@message
class ElectedTopic:
    """The election results for the partitions of one topic."""

    name: str
    partitions: tuple[ElectedPartition, ...]


@message
class ElectLeadersResponse:
    """The response to ElectLeaders."""

    topics: tuple[ElectedTopic, ...]
    error_code: int = 0
    throttle_time_ms: int = 0
