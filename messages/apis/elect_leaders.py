"""ElectLeaders: elect leaders of partitions (controller.md 1.5)."""

from __future__ import annotations

from messages import errors
from messages.acls import Operation
from messages.apis.declaration import CONTROLLER, TIMEOUT_MS, Api, Binding, on_cluster
from messages.vocabulary import Message, message

PREFERRED, UNCLEAN = 0, 1
"""Election types: the preferred replica; any live replica if no in-sync replica is alive."""


@message
class ElectableTopic(Message):
    """The partitions of one topic for which a client requests a leader election."""

    name: str
    partitions: tuple[int, ...]


@message
class ElectLeadersRequest(Message):
    """A client's request to the controller to elect leaders, for all or some partitions (API key 43)."""

    version: int
    topics: tuple[ElectableTopic, ...] | None
    timeout_ms: int
    election_type: int = PREFERRED


@message
class ElectedPartition(Message):
    """The result of an election for one partition; the error code is NONE if the election took place."""

    partition_index: int
    error_code: int
    error_message: str | None = None


@message
class ElectedTopic(Message):
    """The election results for the partitions of one topic."""

    name: str
    partitions: tuple[ElectedPartition, ...]


@message
class ElectLeadersResponse(Message):
    """The response to ElectLeaders."""

    topics: tuple[ElectedTopic, ...]
    error_code: int = 0
    throttle_time_ms: int = 0


def _refuse(request: ElectLeadersRequest, code: int) -> ElectLeadersResponse:
    """Return a response with the error code for each partition and at top level.

    If the request names partitions, the error code NOT_CONTROLLER is returned only for the partitions.
    """
    topics = (
        ElectedTopic(topic.name, tuple([ElectedPartition(number, code) for number in topic.partitions]))
        for topic in request.topics or ()
    )
    whole = code if request.topics is None or code != errors.NOT_CONTROLLER else errors.NONE
    return ElectLeadersResponse(tuple(topics), whole)


API = Api(
    key=43,
    versions=(0, 2),
    request=ElectLeadersRequest,
    response=ElectLeadersResponse,
    answerer=CONTROLLER,
    access=(on_cluster(Operation.ALTER),),
    codes="NONE NOT_CONTROLLER PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE ELECTION_NOT_NEEDED"
    " UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC UNKNOWN_SERVER_ERROR REQUEST_TIMED_OUT",
    sample=lambda about: ElectLeadersRequest(
        1, (ElectableTopic(about.partition.topic, (about.partition.partition,)),), TIMEOUT_MS
    ),
    odd="topics=null name=absent name=absent;election_type=1 election_type=9",
    refuse=_refuse,
    bindings={
        ElectLeadersRequest: Binding(renamed={"topics": ("topic_partitions",)}),
        ElectableTopic: Binding(renamed={"name": ("topic",)}),
        ElectLeadersResponse: Binding(renamed={"topics": ("replica_election_results",)}),
        ElectedTopic: Binding(renamed={"name": ("topic",), "partitions": ("partition_result",)}),
        ElectedPartition: Binding(renamed={"partition_index": ("partition_id",)}),
    },
    elsewhere=errors.NOT_CONTROLLER,
)
