"""Test the state tables of a node."""

from __future__ import annotations

import pytest

from actors.core.illegal_transition import IllegalTransition, enter
from actors.node.node_states import (
    LEAVING,
    LOADING,
    PREVIOUS,
    REGISTERING,
    RETRYING,
    RUNNING,
    STARTING,
    STOPPING,
    TABLES,
    NodeAction,
    NodeState,
)
from messages.events import SessionEstablished


@pytest.mark.parametrize("event", TABLES)
def test_each_event_has_a_cell_for_each_state(event: type) -> None:
    assert set(TABLES[event]) == set(NodeState)
    assert TABLES[event][STOPPING] is TABLES[event][LEAVING] is NodeAction.IGNORE


def test_a_node_starts_runs_and_stops_in_this_order() -> None:
    state = STARTING
    for target in (LOADING, REGISTERING, RUNNING, LEAVING, RETRYING, LEAVING, STOPPING):
        state = enter("node 1", state, target, PREVIOUS)
    assert state is STOPPING


@pytest.mark.parametrize("state", NodeState)
def test_a_node_stops_in_every_state_and_leaves_it_in_none(state: NodeState) -> None:
    assert enter("node 1", state, STOPPING, PREVIOUS) is STOPPING
    if state is not STOPPING:
        with pytest.raises(IllegalTransition, match=f"node 1 cannot move from ShuttingDown to {state.value}"):
            enter("node 1", STOPPING, state, PREVIOUS)


def test_a_new_session_continues_the_start_from_where_it_was() -> None:
    reaction = TABLES[SessionEstablished]
    assert (reaction[STARTING], reaction[LOADING], reaction[REGISTERING], reaction[RUNNING]) == (
        *(NodeAction.JOIN, NodeAction.IGNORE, NodeAction.SERVE, NodeAction.REJOIN),
    )
