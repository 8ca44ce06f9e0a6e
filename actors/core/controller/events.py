"""A table that maps each controller event to its handler (controller.md 1.4).

A node that is not the active controller ignores these events. Start, election, session expiry and stop are not in the
table, because `failover` handles them also if the controller is inactive.

Kafka: `KafkaController.process`.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.core.controller import (
    broker_changes,
    features,
    isr_changes,
    leader_balance,
    notifications,
    reassignment,
    responses,
    shutdown,
    topic_changes,
    topic_requests,
    unclean_election,
)
from actors.core.controller.context import ControllerContext, Handler
from actors.core.controller.instructions import DelayedResponse
from messages.apis import (
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    elect_leaders,
    list_partition_reassignments,
)
from messages.apis.alter_partition import AlterPartitionRequest
from messages.apis.controlled_shutdown import ControlledShutdownRequest
from messages.apis.update_features import UpdateFeaturesRequest
from messages.events import ControllerState
from messages.flow.conversation import Flow
from messages.vocabulary import AnyMessage, value_class

HANDLERS: dict[type, Handler] = {
    **broker_changes.EVENTS,
    **topic_changes.EVENTS,
    **leader_balance.EVENTS,
    **unclean_election.EVENTS,
    **reassignment.EVENTS,
    **notifications.EVENTS,
    **responses.EVENTS,
}
"""Event -> its handler on the active controller."""


@value_class
class ClientRequestHandler:
    """The handler of a client request that only the controller answers.

    `state` is the value of the gauge ControllerState while the handler runs.
    """

    state: ControllerState
    flow: Callable[[ControllerContext, AnyMessage], Flow[AnyMessage | DelayedResponse]]


REQUESTS: dict[type, ClientRequestHandler] = {
    ControlledShutdownRequest: ClientRequestHandler(ControllerState.CONTROLLED_SHUTDOWN, shutdown.controlled_shutdown),
    alter_partition_reassignments.AlterPartitionReassignmentsRequest: ClientRequestHandler(
        ControllerState.ALTER_PARTITION_REASSIGNMENT, reassignment.alter
    ),
    list_partition_reassignments.ListPartitionReassignmentsRequest: ClientRequestHandler(
        ControllerState.LIST_PARTITION_REASSIGNMENT, reassignment.list_reassignments
    ),
    elect_leaders.ElectLeadersRequest: ClientRequestHandler(
        ControllerState.MANUAL_LEADER_BALANCE, leader_balance.elect_leaders
    ),
    create_topics.CreateTopicsRequest: ClientRequestHandler(ControllerState.IDLE, topic_requests.create_topics),
    delete_topics.DeleteTopicsRequest: ClientRequestHandler(ControllerState.IDLE, topic_requests.delete_topics),
    create_partitions.CreatePartitionsRequest: ClientRequestHandler(
        ControllerState.IDLE, topic_requests.create_partitions
    ),
    UpdateFeaturesRequest: ClientRequestHandler(ControllerState.IDLE, features.update_features),
    AlterPartitionRequest: ClientRequestHandler(ControllerState.ISR_CHANGE, isr_changes.alter_partitions),
}
"""Request -> its handler. Requests about topics and features have the state IDLE, because Kafka handles them outside
the event queue.
"""
