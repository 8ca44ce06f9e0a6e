"""The declaration of an API, and what the modules of several APIs share (`messages.apis`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import attrs

from messages import errors
from messages.cluster import TopicPartition
from messages.records import EMPTY, Records
from messages.vocabulary import AnyMessage, Message, message

REQUEST_HANDLER = "request_handler"
METADATA_CACHE = "metadata_cache"
REPLICA_MANAGER = "replica_manager"
CONTROLLER = "controller"
PARTITIONS = "partition_requests"
CONFIGS = "configs"
GROUPS = "group_coordinator"
COORDINATOR_FINDER = "coordinator_finder"
TRANSACTIONS = "transaction_coordinator"
"""Names of the actors that handle requests. Each broker has all of them, except that only the active controller handles
requests to CONTROLLER.
"""

TIMEOUT_MS = 3000
"""The time-out of samples."""

LEADERSHIP = "UNKNOWN_TOPIC_OR_PARTITION NOT_LEADER_OR_FOLLOWER KAFKA_STORAGE_ERROR"
EPOCHS = "FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH"
COORDINATOR = "COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR"
MEMBER = "UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID"
TRANSACTION = (
    f"INVALID_REQUEST {COORDINATOR} COORDINATOR_NOT_AVAILABLE INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_EPOCH"
    " PRODUCER_FENCED CONCURRENT_TRANSACTIONS"
)
"""Error codes that several APIs have."""


@message
class PartitionError(Message):
    """The error code of one partition in a response, such as LeaderAndIsr's or OffsetCommit's."""

    partition: TopicPartition
    error_code: int


class Binding(NamedTuple):
    """How a message class maps to its protocol struct where the names of the fields differ or values are converted.

    Attributes:
        renamed: Attribute -> the fields that hold its value; each version has one of them.
        gathered: Attribute -> the paths of the arrays that hold its elements; each version has at most one of them. A
            path with one name, such as "partitions", means an array whose elements contain their topics. The path
            "topics.partitions" means that each struct of `topics` has an array with the elements of one topic. Elements
            that are plain int32 or int64 numbers are read and written like structs with one field.
        written: Field -> function that computes its value from the message. A parameter `nullable`
            gets whether the field may be null in the version.
        read: Attribute -> function that computes its value. Each parameter of the function has the name of a field and
            gets this field's value, if the field is present. The parameter `version` gets the API version.
    """

    renamed: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    gathered: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    written: Mapping[str, Callable[..., object]] = MappingProxyType({})
    read: Mapping[str, Callable[..., object]] = MappingProxyType({})


BY_TOPIC = Binding(gathered={"partitions": ("topics.partitions",)})
"""Partitions are flat in messages, and grouped by topic on the wire."""


def _name(topic: AnyMessage, nullable: bool) -> str | None:
    return None if nullable and topic.topic_id and not topic.name else topic.name


def _name_read(name: str | None) -> str:
    return name or ""


NAMED_OR_ID = Binding(written={"name": _name}, read={"name": _name_read})
"""In a response, the name of a topic that is unknown by its id is empty in messages, and null on the wire."""

Refusal: TypeAlias = Callable[[AnyMessage, int], Message]
"""Function (request, error code) -> the response that rejects the whole request."""


def each_partition(response: type[AnyMessage], entry: Callable[[TopicPartition, int], object]) -> Refusal:
    """Return a function that makes a response with an error for each partition of the request."""
    return lambda request, code: response(tuple([entry(each.partition, code) for each in request.partitions]))


def each_topic(response: type[AnyMessage], entry: Callable[[str, int], object]) -> Refusal:
    """Return a function that makes a response with an error for each topic of the request."""
    return lambda request, code: response(tuple([entry(topic.name, code) for topic in request.topics]))


def each_resource(response: type[AnyMessage], entry: Callable[[int, None, int, str], object]) -> Refusal:
    """Return a function that makes a response with an error for each resource of the request."""
    return lambda request, code: response(
        tuple([entry(code, None, each.resource_type, each.resource_name) for each in request.resources])
    )


_PARTITION, _NO_RECORDS = TopicPartition("t", 0), Records((), EMPTY)


@attrs.frozen
class Target:
    """What a sample is about: a partition, a group, the node that receives it, and the state of their cluster."""

    partition: TopicPartition = _PARTITION
    group: str = "g"
    node: int = 0
    partitions: int = 1
    """The number of the topic's partitions."""
    leader_epoch: int = 0
    controller: int = 0
    controller_epoch: int = 1
    broker_epoch: int = 1
    records: Records = _NO_RECORDS


@attrs.frozen(eq=False)
class Api:
    """A Kafka API that a node serves.

    Attributes:
        key: The API key.
        versions: The lowest and the highest supported version.
        request: The message class of requests; its name is Kafka's name of the API, and "Request".
        response: The message class of responses.
        answerer: The name of the actor that handles the requests.
        codes: The names of the error codes that the API can return (broker.md 6.2), except UNKNOWN_SERVER_ERROR where
            only a failed handler returns it. The coverage of the simulator demands each of them.
        sample: Function that makes a request which may be sent at any time: it is valid, or a node refuses it.
        odd: Changes of the sample, separated by spaces, that make other requests (`actors.simulation.client_requests`).
        refuse: Function that makes the response for a rejected request; by default it has the error code at top level.
        bindings: Message class -> how it maps to Kafka's fields, if some of its fields differ from them.
        elsewhere: The error code of the response if the handler is not on this node. NONE means that the connection is
            closed without a response.
        control: Whether only controllers and brokers may send the request. ApiVersions does not list such an API: the
            configured inter.broker.protocol.version fixes its version (broker.md 4.1).
        feature: The unsupported feature that the API belongs to: no actor handles its requests. The log names it once.
        carries_records: Whether the request or response consists mostly of record batches. If so, the trace keeps only
            the headers of the batches.
        awaits_metadata: Whether a request to a broker that has just started waits for its first UpdateMetadata.
    """

    key: int
    versions: tuple[int, int]
    request: type[AnyMessage]
    response: type[AnyMessage]
    answerer: str
    codes: str
    sample: Callable[[Target], AnyMessage]
    odd: str = ""
    refuse: Refusal | None = None
    bindings: Mapping[type, Binding] = MappingProxyType({})
    elsewhere: int = errors.NONE
    control: bool = False
    feature: str | None = None
    carries_records: bool = False
    awaits_metadata: bool = False
    name: str = attrs.field(init=False)
    min_version: int = attrs.field(init=False)
    max_version: int = attrs.field(init=False)

    @name.default
    def _name(self) -> str:
        return self.request.__name__.removesuffix("Request")

    @min_version.default
    def _min_version(self) -> int:
        return self.versions[0]

    @max_version.default
    def _max_version(self) -> int:
        return self.versions[1]

    def refusal(self, request: AnyMessage, code: int) -> Message:
        """Return the response that rejects a request with this error code."""
        return self.response(code) if self.refuse is None else self.refuse(request, code)
