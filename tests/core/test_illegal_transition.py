"""IllegalTransition: the error of every state machine for a change that its table does not contain."""

from __future__ import annotations

import logging
import pickle

import pytest

from actors.core.coordinator import group_states
from actors.core.coordinator.group_states import GroupState
from actors.core.illegal_transition import IllegalTransition, enter
from actors.core.transaction import transaction_states
from actors.core.transaction.transaction_states import TransactionState


def refused() -> IllegalTransition:
    with pytest.raises(IllegalTransition) as caught:
        enter("group g", GroupState.EMPTY, GroupState.STABLE, group_states.PREVIOUS)
    return caught.value


def test_a_change_of_the_table_is_made() -> None:
    assert enter("group g", GroupState.EMPTY, GroupState.DEAD, group_states.PREVIOUS) is GroupState.DEAD


def test_it_names_the_subject_both_states_and_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    error = refused()
    assert (error.subject, error.previous, error.target) == ("group g", GroupState.EMPTY, GroupState.STABLE)
    logging.getLogger("kafka_actors").error("%s", error)
    text = "group g cannot move from Empty to Stable: it should be in the state CompletingRebalance"
    assert caplog.messages == [str(error)] == [text]


def test_it_is_pickled_with_its_fields() -> None:
    error = refused()
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is IllegalTransition and vars(again) == vars(error) and str(again) == str(error)


def test_tables_name_each_state() -> None:
    assert set(group_states.PREVIOUS) == set(GroupState)
    assert set(transaction_states.PREVIOUS) == set(TransactionState)
