"""ControlledShutdown: move the leaderships of a stopping broker to other brokers."""

from __future__ import annotations

from messages import errors
from messages.acls import Operation
from messages.apis.declaration import CONTROLLER, Api, on_cluster
from messages.cluster import UNKNOWN_BROKER_EPOCH, TopicPartition
from messages.vocabulary import Message, message


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


API = Api(
    key=7,
    versions=(0, 3),
    request=ControlledShutdownRequest,
    response=ControlledShutdownResponse,
    answerer=CONTROLLER,
    access=(on_cluster(Operation.CLUSTER_ACTION),),
    codes="NONE BROKER_NOT_AVAILABLE STALE_BROKER_EPOCH STALE_CONTROLLER_EPOCH",
    sample=lambda about: ControlledShutdownRequest(3, 90, about.broker_epoch),
    odd="broker_id=@node;broker_epoch-1",
    elsewhere=errors.STALE_CONTROLLER_EPOCH,
    control=True,
)
