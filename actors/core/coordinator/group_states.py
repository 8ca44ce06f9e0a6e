"""The states of a consumer group, and tables of how each state handles a request (broker.md 6.5).

Rule 1: A state is entered only from the states that `PREVIOUS` contains.
Rule 2: A request is checked first: the group must be coordinated here, the member must be known, and the generation
        must be current. A table cell then defines the handling: an error code for the response, or the name of an
        action.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from actors.core.coordinator.request_table import RequestTable
from messages import errors


class GroupState(enum.Enum):
    """The state of a consumer group; its value is the state's name in Kafka."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState

PREVIOUS: Mapping[GroupState, tuple[GroupState, ...]] = {
    EMPTY: (PREPARING,),
    PREPARING: (EMPTY, COMPLETING, STABLE),
    COMPLETING: (PREPARING,),
    STABLE: (COMPLETING,),
    DEAD: (EMPTY, PREPARING, COMPLETING, STABLE, DEAD),
}
"""State -> states from which it can be entered."""


class GroupAction(enum.Enum):
    """What a group does in response to a request that passed all checks.

    The values of this enum are the descriptions of the actions in the generated documentation.
    """

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


Table = RequestTable[GroupState, GroupAction]

JOIN_NEW: Table = RequestTable(
    "JoinGroup of a new member",
    {
        **dict.fromkeys(GroupState, GroupAction.ADMIT),
        DEAD: errors.COORDINATOR_NOT_AVAILABLE,
    },
)
JOIN_AGAIN: Table = RequestTable(
    "JoinGroup of a member",
    {
        EMPTY: errors.UNKNOWN_MEMBER_ID,
        PREPARING: GroupAction.REBALANCE,
        COMPLETING: GroupAction.REBALANCE_IF_NEWS,
        STABLE: GroupAction.REBALANCE_IF_NEWS_OR_LEADER,
        DEAD: errors.COORDINATOR_NOT_AVAILABLE,
    },
)
JOIN_STATIC: Table = RequestTable(
    "JoinGroup of a static member without its member id",
    {
        EMPTY: errors.UNKNOWN_MEMBER_ID,
        PREPARING: GroupAction.REPLACE,
        COMPLETING: GroupAction.REPLACE,
        STABLE: GroupAction.REPLACE_QUIETLY,
        DEAD: errors.COORDINATOR_NOT_AVAILABLE,
    },
)
SYNC: Table = RequestTable(
    "SyncGroup",
    {
        EMPTY: errors.UNKNOWN_MEMBER_ID,
        PREPARING: errors.REBALANCE_IN_PROGRESS,
        COMPLETING: GroupAction.AWAIT,
        STABLE: GroupAction.TELL,
        DEAD: errors.COORDINATOR_NOT_AVAILABLE,
    },
)
HEARTBEAT: Table = RequestTable(
    "Heartbeat",
    {
        EMPTY: errors.UNKNOWN_MEMBER_ID,
        PREPARING: errors.REBALANCE_IN_PROGRESS,
        COMPLETING: errors.NONE,
        STABLE: errors.NONE,
        DEAD: errors.COORDINATOR_NOT_AVAILABLE,
    },
)
COMMIT: Table = RequestTable(
    "OffsetCommit",
    {
        **dict.fromkeys(GroupState, GroupAction.STORE),
        COMPLETING: errors.REBALANCE_IN_PROGRESS,
        DEAD: errors.COORDINATOR_NOT_AVAILABLE,
    },
)
COMMIT_IN_TRANSACTION: Table = RequestTable(
    "TxnOffsetCommit",
    {
        **dict.fromkeys(GroupState, GroupAction.STORE),
        DEAD: errors.COORDINATOR_NOT_AVAILABLE,
    },
)
LEAVE: Table = RequestTable(
    "LeaveGroup",
    {
        **dict.fromkeys(GroupState, GroupAction.REMOVE),
        EMPTY: errors.UNKNOWN_MEMBER_ID,
        DEAD: errors.COORDINATOR_NOT_AVAILABLE,
    },
)
DELETE_OFFSETS: Table = RequestTable(
    "OffsetDelete",
    {
        **dict.fromkeys(GroupState, GroupAction.UNSUBSCRIBED),
        EMPTY: GroupAction.FORGET,
        DEAD: errors.GROUP_ID_NOT_FOUND,
    },
)
DELETE_GROUP: Table = RequestTable(
    "DeleteGroups",
    {
        **dict.fromkeys(GroupState, errors.NON_EMPTY_GROUP),
        EMPTY: GroupAction.FORGET,
        DEAD: errors.GROUP_ID_NOT_FOUND,
    },
)

TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        *(JOIN_NEW, JOIN_AGAIN, JOIN_STATIC, SYNC, HEARTBEAT, COMMIT, COMMIT_IN_TRANSACTION, LEAVE),
        *(DELETE_OFFSETS, DELETE_GROUP),
    )
}
"""Request name -> table, as shown in the documentation."""
