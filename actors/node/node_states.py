"""The states of a node, and tables of how each state handles an event (broker.md 7.1, 7.5).

Rule 1: A state is entered only from the states that `PREVIOUS` lists for it.
Rule 2: The handling of an event is a table cell. While a controlled shutdown is pending, events wait for its end; an
        expired session ends the controlled shutdown.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from messages.events import SessionEstablished
from messages.node import Advertise, ReplicaManagerStarted, StopNode


class NodeState(enum.Enum):
    """The state of a node; the states are modelled on Kafka's `BrokerStates`."""

    STARTING = "Starting"
    LOADING = "LoadingLogs"
    REGISTERING = "Registering"
    RUNNING = "Running"
    LEAVING = "PendingControlledShutdown"
    RETRYING = "BackingOff"
    STOPPING = "ShuttingDown"


STARTING, LOADING, REGISTERING, RUNNING, LEAVING, RETRYING, STOPPING = NodeState

PREVIOUS: Mapping[NodeState, tuple[NodeState, ...]] = {
    STARTING: (),
    LOADING: (STARTING,),
    REGISTERING: (LOADING,),
    RUNNING: (REGISTERING,),
    LEAVING: (RUNNING, RETRYING),
    RETRYING: (LEAVING,),
    STOPPING: tuple(NodeState),
}
"""State -> states from which it can be entered."""


BROKER_STATES: Mapping[NodeState, int] = {
    STARTING: 1,
    LOADING: 2,
    REGISTERING: 2,
    RUNNING: 3,
    LEAVING: 6,
    RETRYING: 6,
    STOPPING: 7,
}
"""State -> value of Kafka's gauge BrokerState, which is 2 from the loading of the logs to the registration."""


class NodeAction(enum.Enum):
    """An action of a node after an event; the value of each enum member describes the action."""

    IGNORE = "nothing"
    JOIN = "creates the broker's actors"
    SERVE = "registers, serves clients and joins the election"
    REJOIN = "registers again and joins the election"
    STORE = "stores the listeners"
    ADVERTISE = "stores the listeners and updates the registration"
    LEAVE = "requests a controlled shutdown if it is enabled, else stops"
    STOP = "stops"


def _cells(starting: NodeAction, serving: NodeAction) -> dict[NodeState, NodeAction]:
    """Return a table row (state -> action) for an event whose handling depends only on whether the node serves.

    Args:
        starting: The action before the node serves clients.
        serving: The action while the node serves clients.
    """
    return {
        **dict.fromkeys((STARTING, LOADING, REGISTERING), starting),
        **dict.fromkeys((RUNNING, RETRYING), serving),
        **dict.fromkeys((LEAVING, STOPPING), NodeAction.IGNORE),
    }


TABLES: Mapping[type, Mapping[NodeState, NodeAction]] = {
    SessionEstablished: {
        **_cells(NodeAction.IGNORE, NodeAction.REJOIN),
        STARTING: NodeAction.JOIN,
        REGISTERING: NodeAction.SERVE,
    },
    ReplicaManagerStarted: {**dict.fromkeys(NodeState, NodeAction.IGNORE), LOADING: NodeAction.SERVE},
    Advertise: _cells(NodeAction.STORE, NodeAction.ADVERTISE),
    StopNode: _cells(NodeAction.STOP, NodeAction.LEAVE),
}
"""Event -> its handling by state."""
