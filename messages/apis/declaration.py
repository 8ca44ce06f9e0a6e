"""The declaration of an API, and what the modules of several APIs share (`messages.apis`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import attrs

from messages import errors
from messages.acls import KAFKA_CLUSTER, Operation, ResourceType
from messages.cluster import TopicPartition
from messages.records import EMPTY, Records
from messages.vocabulary import AnyMessage, Message, message, value_class

REQUEST_HANDLER = "request_handler"
METADATA_CACHE = "metadata_cache"
REPLICA_MANAGER = "replica_manager"
CONTROLLER = "controller"
PARTITIONS = "partition_requests"
CONFIGS = "configs"
GROUPS = "group_coordinator"
COORDINATOR_FINDER = "coordinator_finder"
TRANSACTIONS = "transaction_coordinator"
AUTHORIZER = "authorizer"
DELEGATION_TOKENS = "delegation_tokens"
"""Names of the actors that handle requests. Each broker has all of them, except that only the active controller handles
requests to CONTROLLER, and that only a node with an authorizer has an AUTHORIZER, and DELEGATION_TOKENS only one with
their key.
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
            gets this field's value, if the field is present. The parameter `version` gets the API version, and `tags`
            the tagged fields by their tags, if `tags` of the binding is set.
        tags: Function that returns the (tag, bytes) pairs of the struct's tagged fields; None if none is supported.
    """

    renamed: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    gathered: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    written: Mapping[str, Callable[..., object]] = MappingProxyType({})
    read: Mapping[str, Callable[..., object]] = MappingProxyType({})
    tags: Callable[[AnyMessage], tuple[tuple[int, bytes], ...]] | None = None


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


UNAUTHORIZED = {
    errors.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    errors.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    errors.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
"""Kafka's error messages for missing rights; some APIs have others, or none."""


def each_topic(response: type[AnyMessage], entry: Callable[[str, int, str | None], object], text: str) -> Refusal:
    """Return a function that makes a response with an error for each topic of the request.

    `text` is the error message if the client has no right to a topic.
    """

    def refuse(request: AnyMessage, code: int) -> AnyMessage:
        said = text if code == errors.TOPIC_AUTHORIZATION_FAILED else None
        return response(tuple([entry(topic.name, code, said) for topic in request.topics]))

    return refuse


def each_resource(
    response: type[AnyMessage],
    entry: Callable[[int, str | None, int, str], object],
    texts: Mapping[int, str] = MappingProxyType({}),
) -> Refusal:
    """Return a function that makes a response with an error, and its text, for each resource of the request."""
    return lambda request, code: response(
        tuple([entry(code, texts.get(code), each.resource_type, each.resource_name) for each in request.resources])
    )


_PARTITION, _NO_RECORDS = TopicPartition("t", 0), Records((), EMPTY)


@value_class
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


class Access(NamedTuple):
    """An operation on resources that a client needs for a request (`actors.core.security.access`).

    Attributes:
        operation: The operation.
        resource: The type of the resources.
        name: Function of the request, or of an entry in it, that returns the name of its resource; a NamedById if it
            has the topic's id; UNNAMED if it has neither, which only a super user may use; None if nothing is needed.
        entries: The field of the request with the entries that are judged one by one; "" if the request is judged.
        into: The field of the response with the results of the entries.
        when: Function of the request: whether anything is needed; None means always.
        keeps: Whether the request is handled even if no entry is left.
        or_cluster: An operation on the cluster that suffices; 0 if there is none.
        or_any_topic: Whether Write on any topic suffices.
        code: The error code of what is refused; by default that of the resource's type.
        rest: The error code of the other entries if one is refused; 0 if they are handled.
    """

    operation: Operation
    resource: ResourceType
    name: Callable[[AnyMessage], str | None]
    entries: str = ""
    into: str = ""
    when: Callable[[AnyMessage], bool] | None = None
    keeps: bool = False
    or_cluster: int = 0
    or_any_topic: bool = False
    code: int = 0
    rest: int = 0


Allows: TypeAlias = Callable[[int, int, str], bool]
"""Function (operation, resource type, name) -> whether the client may do that."""

UNNAMED = ""
"""The name of a resource that has none."""


class NamedById(str):
    """The id of a topic, in place of its name."""


REFUSED = {
    ResourceType.TOPIC: errors.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: errors.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: errors.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error code of a refused operation, by the type of its resource."""


class Shown(NamedTuple):
    """What a client needs to see the entries of a response; the others are left out, or get an error.

    Attributes:
        operation: The operation.
        resource: The type of the resources.
        name: Function of an entry that returns the name of its resource.
        entries: The field of the response; the names of nested fields are separated by a dot.
        hidden: Function (entry, error code) that returns what a client gets that has asked for this entry.
        asked: Function of the request: whether the client has named its entries. If not, they are left out.
        or_cluster: An operation on the cluster that suffices; 0 if there is none.
        of: Function of an entry that returns the principals which see it in any case.
        of_refused: Whether this counts for the entries that were refused, too.
    """

    operation: Operation
    resource: ResourceType
    name: Callable[[Any], str]
    entries: str
    hidden: Callable[[Any, int], Any] | None = None
    asked: Callable[[AnyMessage], bool] = lambda request: False
    or_cluster: int = 0
    of: Callable[[Any], tuple[str, ...]] = lambda entry: ()
    of_refused: bool = False


class Permitted(NamedTuple):
    """A field of a response with the operations that the client may execute on a resource, as bits.

    Attributes:
        asked: The field of the request that says whether the client wants to know.
        field: The field, in the response or in its entries.
        resource: The type of the resource.
        name: Function of the response, or of an entry, that returns the name of the resource.
        entries: The field of the response with the entries; "" if the field is in the response.
    """

    asked: str
    field: str
    resource: ResourceType
    name: Callable[[Any], str]
    entries: str = ""


PERMITTED_ON_CLUSTER = Permitted(
    "include_cluster_authorized_operations",
    "cluster_authorized_operations",
    ResourceType.CLUSTER,
    lambda response: KAFKA_CLUSTER,
)


def on_cluster(operation: Operation, **more: Any) -> Access:
    """Return the need of an operation on the cluster."""
    return Access(operation, ResourceType.CLUSTER, lambda request: KAFKA_CLUSTER, **more)


def on_group(operation: Operation, **more: Any) -> Access:
    """Return the need of an operation on the request's group."""
    return Access(operation, ResourceType.GROUP, lambda request: request.group_id, **more)


def on_transactional_id(operation: Operation) -> Access:
    """Return the need of an operation on the request's transactional id, if it has one."""
    return Access(operation, ResourceType.TRANSACTIONAL_ID, lambda request: request.transactional_id)


def _topic_of(entry: Any) -> str:
    """Return the topic's name in an entry: a partition, an entry for a partition or a topic, or a name."""
    if isinstance(entry, str):
        return entry
    if isinstance(partition := getattr(entry, "partition", None), TopicPartition):
        return partition.topic
    if topic_id := getattr(entry, "topic_id", ""):
        return NamedById(topic_id)
    return str(entry.topic if hasattr(entry, "topic") else entry.name or UNNAMED)


def on_topics(operation: Operation, entries: str = "partitions", into: str = "", **more: Any) -> Access:
    """Return the need of an operation on the topic of each entry; results are in the field of the same name."""
    return Access(operation, ResourceType.TOPIC, _topic_of, entries, into or entries, **more)


def on_configs(of_topic: Operation, entries: str) -> tuple[Access, ...]:
    """Return the need of an operation on each resource of a request about configs; `entries` is the response's field.

    The resources are topics, brokers and their loggers.
    """

    def name_of(resource: Any, is_topic: bool) -> str | None:
        if (resource.resource_type == TOPIC_CONFIG) != is_topic:
            return None
        return str(resource.resource_name) if is_topic else KAFKA_CLUSTER

    return (
        Access(of_topic, ResourceType.TOPIC, lambda each: name_of(each, True), "resources", entries),
        Access(of_topic, ResourceType.CLUSTER, lambda each: name_of(each, False), "resources", entries),
    )


TOPIC_CONFIG = 2
"""The resource type of a topic in a request about configs."""

OPEN: tuple[Access, ...] = ()
"""The needs of an API that every client may use."""


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
        controller_first: Whether a broker that is not the controller says so in place of a refusal.
        control: Whether only controllers and brokers may send the request. ApiVersions does not list such an API: the
            configured inter.broker.protocol.version fixes its version (broker.md 4.1).
        is_listed: Whether ApiVersions lists it; brokers agree on its version so.
        feature: The unsupported feature that the API belongs to: no actor handles its requests. The log names it once.
        carries_records: Whether the request or response consists mostly of record batches. If so, the trace keeps only
            the headers of the batches.
        awaits_metadata: Whether a request to a broker that has just started waits for its first UpdateMetadata.
        access: What a client needs if the node has an authorizer, in the order of the checks; None if it may not use
            the API at all.
        shown: What a client needs to see the entries of the response.
        permitted: The fields of the response with the operations that the client may execute.
        narrow: Function (request, allows) -> the request without what the client may not cause.
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
    controller_first: bool = False
    control: bool = False
    is_listed: bool = attrs.field()
    feature: str | None = None
    carries_records: bool = False
    awaits_metadata: bool = False
    access: tuple[Access, ...] | None = None
    shown: tuple[Shown, ...] = ()
    permitted: tuple[Permitted, ...] = ()
    narrow: Callable[[AnyMessage, Allows], AnyMessage] | None = None
    name: str = attrs.field(init=False)
    min_version: int = attrs.field(init=False)
    max_version: int = attrs.field(init=False)

    @is_listed.default
    def _is_listed(self) -> bool:
        return not self.control

    @name.default
    def _name(self) -> str:
        return self.request.__name__.removesuffix("Request")

    @min_version.default
    def _min_version(self) -> int:
        return self.versions[0]

    @max_version.default
    def _max_version(self) -> int:
        return self.versions[1]

    def refusal(self, request: Message, code: int) -> Message:
        """Return the response that rejects a request with this error code."""
        return self.response(code) if self.refuse is None else self.refuse(request, code)
