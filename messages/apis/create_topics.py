"""CreateTopics: create topics, or only check if they can be created (broker.md 6.4)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from messages import errors
from messages.acls import Operation, ResourceType
from messages.apis.declaration import CONTROLLER, TIMEOUT_MS, Api, Binding, Shown, each_topic, on_topics
from messages.sensitive_configs import masked_value
from messages.vocabulary import AnyMessage, Message, message

BY_DEFAULT = -1
"""Value for a number of partitions or a replication factor: use the controller's default."""


@message
class CreatableAssignment(Message):
    """The brokers that host one partition of a new topic, preferred replica first."""

    partition_index: int
    broker_ids: tuple[int, ...]


@message
class CreatableConfig(Message):
    """A config for a new topic; a null value is an error."""

    name: str
    value: str | None


@message
class CreatableTopic(Message):
    """A topic to be created, with numbers of partitions and replicas, or with explicit assignments."""

    name: str
    num_partitions: int = BY_DEFAULT
    replication_factor: int = BY_DEFAULT
    assignments: tuple[CreatableAssignment, ...] = ()
    configs: tuple[CreatableConfig, ...] = ()


@message
class CreateTopicsRequest(Message):
    """A client's request to the controller to create topics, or only to check if they can be created (API key 19)."""

    version: int
    topics: tuple[CreatableTopic, ...]
    timeout_ms: int
    validate_only: bool = False


@message
class CreatedConfig(Message):
    """A config of a newly created topic. The numbers of config sources are those of DescribeConfigs."""

    name: str
    value: str | None
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False


@message
class CreatedTopic(Message):
    """The result of creating one topic: an error, or the topic's configs and numbers of partitions and replicas.

    `topic_config_error_code` says why the configs and numbers are missing.
    """

    name: str
    error_code: int
    error_message: str | None = None
    num_partitions: int = -1
    replication_factor: int = -1
    configs: tuple[CreatedConfig, ...] | None = ()
    topic_id: str = ""
    topic_config_error_code: int = 0


@message
class CreateTopicsResponse(Message):
    """The response to CreateTopics."""

    topics: tuple[CreatedTopic, ...]
    throttle_time_ms: int = 0


def _tags(topic: AnyMessage) -> tuple[tuple[int, bytes], ...]:
    code = topic.topic_config_error_code
    return ((_CONFIG_ERROR, code.to_bytes(2, "big", signed=True)),) if code else ()


def _without_configs(topic: CreatedTopic, code: int) -> CreatedTopic:
    """Return what a client sees that may not describe the configs. Kafka gives no reason where the creation failed."""
    code = code if topic.error_code in (errors.NONE, errors.TOPIC_AUTHORIZATION_FAILED) else 0
    return CreatedTopic(topic.name, topic.error_code, topic.error_message, topic_config_error_code=code)


def _config_error(tags: Mapping[int, bytes] = MappingProxyType({})) -> int:
    return int.from_bytes(tags.get(_CONFIG_ERROR, b""), "big", signed=True)


_CONFIG_ERROR = 0
"""The tag of `topic_config_error_code`."""

API = Api(
    key=19,
    versions=(0, 7),
    request=CreateTopicsRequest,
    response=CreateTopicsResponse,
    answerer=CONTROLLER,
    access=(on_topics(Operation.CREATE, "topics", or_cluster=Operation.CREATE),),
    shown=(
        Shown(
            Operation.DESCRIBE_CONFIGS,
            ResourceType.TOPIC,
            lambda topic: topic.name,
            "topics",
            _without_configs,
            lambda request: True,
            of_refused=True,
        ),
    ),
    codes="NONE NOT_CONTROLLER INVALID_PARTITIONS INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT"
    " TOPIC_ALREADY_EXISTS INVALID_REQUEST INVALID_TOPIC INVALID_CONFIG REQUEST_TIMED_OUT",
    sample=lambda about: CreateTopicsRequest(
        5,
        (
            CreatableTopic(
                "valid",
                assignments=(CreatableAssignment(0, (0,)),),
                configs=(CreatableConfig("retention.ms", "900000000"),),
            ),
        ),
        TIMEOUT_MS,
        validate_only=True,
    ),
    odd="name=@topic topics=twice name=bad/name assignments=;num_partitions=0;replication_factor=1"
    " assignments=;num_partitions=2;replication_factor=1 assignments=;num_partitions=1;replication_factor=90"
    " broker_ids=0|0 configs.name=no.such.config",
    refuse=each_topic(CreateTopicsResponse, CreatedTopic, "Authorization failed."),
    # A sensitive value is masked, because the trace stores the request; no such config can be changed.
    bindings={
        CreatableConfig: Binding(read={"value": masked_value}),
        CreatedTopic: Binding(read={"topic_config_error_code": _config_error}, tags=_tags),
    },
    elsewhere=errors.NOT_CONTROLLER,
    controller_first=True,
    awaits_metadata=True,
)
