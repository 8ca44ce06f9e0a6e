"""IllegalTransition is raised by every state machine for a change of state that is not in the machine's table."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from typing import TypeVar

State = TypeVar("State", bound=enum.Enum)


class IllegalTransition(Exception):
    """`subject` cannot move from the state `previous` to `target`.

    `details` is a text with the reason, or with the last state changes of the subject.

    All fields are arguments of the exception, so that pickling keeps them.
    """

    def __init__(self, subject: str, previous: enum.Enum, target: enum.Enum, details: str) -> None:
        super().__init__(subject, previous, target, details)
        self.subject, self.previous, self.target, self.details = subject, previous, target, details

    def __str__(self) -> str:
        return f"{self.subject} cannot move from {self.previous.value} to {self.target.value}: {self.details}"


def enter(subject: str, state: State, target: State, table: Mapping[State, Collection[State]]) -> State:
    """Return `target` if the subject may enter it from its current state.

    Args:
        table: State -> the states from which it can be entered.

    Raises:
        IllegalTransition: The table does not contain the change.
    """
    if state not in table[target]:
        raise IllegalTransition(subject, state, target, expected_states_text(table[target]))
    return target


def expected_states_text(previous: Collection[enum.Enum]) -> str:
    """Return an error text that lists `previous`, the states from which a state can be entered."""
    names = ", ".join(state.value for state in previous)
    return f"it should be in {'the state' if len(previous) == 1 else 'one of the states'} {names}"
