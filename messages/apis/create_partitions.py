"""CreatePartitions: add partitions to topics (broker.md 6.4)."""

from __future__ import annotations

from messages import errors
from messages.acls import Operation
from messages.apis.declaration import CONTROLLER, TIMEOUT_MS, Api, Binding, each_topic, on_topics
from messages.vocabulary import Message, message


@message
class WantedReplicas(Message):
    """The brokers that will host one new partition, preferred replica first."""

    broker_ids: tuple[int, ...]


@message
class GrowingTopic(Message):
    """A topic that gets more partitions.

    `count` is the new total number of partitions. `assignments` has the brokers of the added partitions; if it is None,
    the brokers are assigned automatically.
    """

    name: str
    count: int
    assignments: tuple[WantedReplicas, ...] | None = None


@message
class CreatePartitionsRequest(Message):
    """A client's request to the controller to add partitions to topics (API key 37)."""

    version: int
    topics: tuple[GrowingTopic, ...]
    timeout_ms: int
    validate_only: bool = False


@message
class GrownTopic(Message):
    """The result of adding partitions to one topic."""

    name: str
    error_code: int
    error_message: str | None = None


@message
class CreatePartitionsResponse(Message):
    """The response to CreatePartitions."""

    topics: tuple[GrownTopic, ...]
    throttle_time_ms: int = 0


API = Api(
    key=37,
    versions=(0, 3),
    request=CreatePartitionsRequest,
    response=CreatePartitionsResponse,
    answerer=CONTROLLER,
    access=(on_topics(Operation.ALTER, "topics"),),
    codes="NONE NOT_CONTROLLER INVALID_REPLICATION_FACTOR INVALID_PARTITIONS INVALID_REPLICA_ASSIGNMENT"
    " UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC INVALID_REQUEST REASSIGNMENT_IN_PROGRESS REQUEST_TIMED_OUT",
    sample=lambda about: CreatePartitionsRequest(
        1,
        (GrowingTopic(about.partition.topic, about.partitions + 1, (WantedReplicas((0,)),)),),
        TIMEOUT_MS,
        validate_only=True,
    ),
    odd="assignments=null assignments=null;count-1 broker_ids=90 name=absent topics=twice",
    refuse=each_topic(CreatePartitionsResponse, GrownTopic, "The topic authorization is failed."),
    bindings={CreatePartitionsResponse: Binding(renamed={"topics": ("results",)})},
    elsewhere=errors.NOT_CONTROLLER,
    controller_first=True,
)
