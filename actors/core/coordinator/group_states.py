"""The states of a group, and what each says to a request of one of its members (broker.md 6.5): tables.

Rule 1: a state is entered only from those that `PREVIOUS` names.
Rule 2: what a state says to a request that passed the gates - the group is ours, the member is known, the generation is
        the present one - is a cell of one of the tables: a code that answers it, or what is done, by name.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from messages.errors import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_ID_NOT_FOUND,
    NON_EMPTY_GROUP,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)
from messages.probes import probe


class GroupState(enum.Enum):
    """Where a group stands; the value is Kafka's name."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class IllegalMove(Exception):
    """A group was to go from a state to another that is not reached from there."""


EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState

PREVIOUS: Mapping[GroupState, tuple[GroupState, ...]] = {
    EMPTY: (PREPARING,),
    PREPARING: (EMPTY, COMPLETING, STABLE),
    COMPLETING: (PREPARING,),
    STABLE: (COMPLETING,),
    DEAD: (EMPTY, PREPARING, COMPLETING, STABLE, DEAD),
}
"""State -> those that it is entered from."""


class Action(enum.Enum):
    """What is done where no code answers at once; the value says it for the documentation."""

    ADMIT = "taken in"
    REBALANCE = "joins the rebalance"
    REBALANCE_IF_NEWS = "the same subscription: receives the generation; another: rebalance"
    REBALANCE_IF_NEWS_OR_LEADER = "a follower with the same subscription: receives the generation; else: rebalance"
    REPLACE = "replaces the member with its instance id"
    REPLACE_QUIETLY = "replaces the member with its instance id, without a rebalance if the assignor stays"
    AWAIT = "waits for the leader's assignment; the leader's is stored"
    TELL = "receives its assignment"
    STORE = "stored"
    REMOVE = "out, and rebalance"
    FORGET = "forgotten"
    UNSUBSCRIBED = "forgotten where no consumer of the group subscribes"


class Table(dict[GroupState, int | Action]):
    """What each state says to one kind of request: its `name`. Each look at a cell is a probe."""

    def __init__(self, name: str, cells: Mapping[GroupState, int | Action]) -> None:
        super().__init__(cells)
        self.name = name
        self.probes = {state: f"{name} in {state.value}" for state in cells}

    def __getitem__(self, state: GroupState) -> int | Action:
        probe(self.probes[state])
        return super().__getitem__(state)


JOIN_NEW = Table(
    "JoinGroup of a new member",
    {
        EMPTY: Action.ADMIT,
        PREPARING: Action.ADMIT,
        COMPLETING: Action.ADMIT,
        STABLE: Action.ADMIT,
        DEAD: COORDINATOR_NOT_AVAILABLE,
    },
)
JOIN_AGAIN = Table(
    "JoinGroup of a member",
    {
        EMPTY: UNKNOWN_MEMBER_ID,
        PREPARING: Action.REBALANCE,
        COMPLETING: Action.REBALANCE_IF_NEWS,
        STABLE: Action.REBALANCE_IF_NEWS_OR_LEADER,
        DEAD: COORDINATOR_NOT_AVAILABLE,
    },
)
JOIN_STATIC = Table(
    "JoinGroup of a static member without its member id",
    {
        EMPTY: UNKNOWN_MEMBER_ID,
        PREPARING: Action.REPLACE,
        COMPLETING: Action.REPLACE,
        STABLE: Action.REPLACE_QUIETLY,
        DEAD: COORDINATOR_NOT_AVAILABLE,
    },
)
SYNC = Table(
    "SyncGroup",
    {
        EMPTY: UNKNOWN_MEMBER_ID,
        PREPARING: REBALANCE_IN_PROGRESS,
        COMPLETING: Action.AWAIT,
        STABLE: Action.TELL,
        DEAD: COORDINATOR_NOT_AVAILABLE,
    },
)
HEARTBEAT = Table(
    "Heartbeat",
    {
        EMPTY: UNKNOWN_MEMBER_ID,
        PREPARING: REBALANCE_IN_PROGRESS,
        COMPLETING: NONE,
        STABLE: NONE,
        DEAD: COORDINATOR_NOT_AVAILABLE,
    },
)
COMMIT = Table(
    "OffsetCommit",
    {
        EMPTY: Action.STORE,
        PREPARING: Action.STORE,
        COMPLETING: REBALANCE_IN_PROGRESS,
        STABLE: Action.STORE,
        DEAD: COORDINATOR_NOT_AVAILABLE,
    },
)
LEAVE = Table(
    "LeaveGroup",
    {
        EMPTY: UNKNOWN_MEMBER_ID,
        PREPARING: Action.REMOVE,
        COMPLETING: Action.REMOVE,
        STABLE: Action.REMOVE,
        DEAD: COORDINATOR_NOT_AVAILABLE,
    },
)
DELETE_OFFSETS = Table(
    "OffsetDelete",
    {
        EMPTY: Action.FORGET,
        PREPARING: Action.UNSUBSCRIBED,
        COMPLETING: Action.UNSUBSCRIBED,
        STABLE: Action.UNSUBSCRIBED,
        DEAD: GROUP_ID_NOT_FOUND,
    },
)
DELETE_GROUP = Table(
    "DeleteGroups",
    {
        EMPTY: Action.FORGET,
        PREPARING: NON_EMPTY_GROUP,
        COMPLETING: NON_EMPTY_GROUP,
        STABLE: NON_EMPTY_GROUP,
        DEAD: GROUP_ID_NOT_FOUND,
    },
)

TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (JOIN_NEW, JOIN_AGAIN, JOIN_STATIC, SYNC, HEARTBEAT, COMMIT, LEAVE, DELETE_OFFSETS, DELETE_GROUP)
}
"""Every table by what it answers; the documentation shows them."""
