"""A table that maps each controller event to its handler (controller.md 1.4).

Events that concern the term itself - start, election, expiry, stop - are not here: they are handled whether or not we
are the controller (`failover`); those below are ignored by a controller that is not active.

Kafka: `KafkaController.process`.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from actors.core.controller import (
    broker_changes,
    leader_balance,
    notifications,
    reassignment,
    responses,
    shutdown,
    topic_changes,
    topic_requests,
    unclean_election,
)
from actors.core.controller.context import ControllerContext
from actors.core.controller.instructions import DelayedResponse
from messages.admin_requests import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from messages.conversation import Flow
from messages.events import ControllerState
from messages.requests import ControlledShutdownRequest
from messages.vocabulary import Message

Handler = Callable[[ControllerContext, Message], Flow[None]]

HANDLERS: dict[type, Handler] = {
    **broker_changes.EVENTS,
    **topic_changes.EVENTS,
    **leader_balance.EVENTS,
    **unclean_election.EVENTS,
    **reassignment.EVENTS,
    **notifications.EVENTS,
    **responses.EVENTS,
}
"""Event -> what the active controller does about it."""


@attrs.frozen
class ClientRequestHandler:
    """The handler of a client request that only the controller answers.

    `state` is what the gauge ControllerState shows meanwhile.
    """

    state: ControllerState
    flow: Callable[[ControllerContext, Message], Flow[Message | DelayedResponse]]


REQUESTS: dict[type, ClientRequestHandler] = {
    ControlledShutdownRequest: ClientRequestHandler(ControllerState.CONTROLLED_SHUTDOWN, shutdown.controlled_shutdown),
    AlterPartitionReassignmentsRequest: ClientRequestHandler(
        ControllerState.ALTER_PARTITION_REASSIGNMENT, reassignment.alter
    ),
    ListPartitionReassignmentsRequest: ClientRequestHandler(
        ControllerState.LIST_PARTITION_REASSIGNMENT, reassignment.listed
    ),
    ElectLeadersRequest: ClientRequestHandler(ControllerState.MANUAL_LEADER_BALANCE, leader_balance.elect_leaders),
    CreateTopicsRequest: ClientRequestHandler(ControllerState.IDLE, topic_requests.create_topics),
    DeleteTopicsRequest: ClientRequestHandler(ControllerState.IDLE, topic_requests.delete_topics),
    CreatePartitionsRequest: ClientRequestHandler(ControllerState.IDLE, topic_requests.create_partitions),
}
"""Request -> how it is answered. Those about topics show as idle: Kafka answers them beside the event queue."""
