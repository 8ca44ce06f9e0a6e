"""A RequestTable contains the reaction to one kind of request in each state."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Generic, TypeVar

from messages.probes import probe

State = TypeVar("State", bound=enum.Enum)
Action = TypeVar("Action", bound=enum.Enum)


class RequestTable(dict[State, int | Action], Generic[State, Action]):
    """The table for one kind of request; it maps each state to an error code or an action.

    Each lookup is counted by `messages.probes`, so that the simulation's coverage shows which cells were used.
    """

    def __init__(self, name: str, cells: Mapping[State, int | Action]) -> None:
        super().__init__(cells)
        self.name = name
        self.probes = {state: f"{name} in {state.value}" for state in cells}

    def __getitem__(self, state: State) -> int | Action:
        probe(self.probes[state])
        return super().__getitem__(state)
