"""The states of a transactional id, and tables of how each state handles a request.

Rule 1: A state is entered only from the states that `PREVIOUS` contains.
Rule 2: If a request has the right producer id and epoch, and no change of state is pending, a table cell defines the
        handling of the request: an error code or an action.

Kafka: `TransactionState`, `TransactionMetadata.validPreviousStates`, `TransactionCoordinator`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from actors.core.coordinator.request_table import RequestTable
from messages import errors


class TransactionState(enum.Enum):
    """The state of a transactional id; the value of each member is Kafka's name for the state."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


(
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
    PREPARE_ABORT,
    COMPLETE_COMMIT,
    COMPLETE_ABORT,
    DEAD,
    PREPARE_EPOCH_FENCE,
) = TransactionState

BYTES: Mapping[TransactionState, int] = {state: number for number, state in enumerate(TransactionState)}
"""State -> its byte in records."""
BY_BYTE: Mapping[int, TransactionState] = {number: state for state, number in BYTES.items()}
BY_NAME: Mapping[str, TransactionState] = {state.value: state for state in TransactionState}

PREVIOUS: Mapping[TransactionState, tuple[TransactionState, ...]] = {
    EMPTY: (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT),
    ONGOING: (ONGOING, EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT),
    PREPARE_COMMIT: (ONGOING,),
    PREPARE_ABORT: (ONGOING, PREPARE_EPOCH_FENCE),
    COMPLETE_COMMIT: (PREPARE_COMMIT,),
    COMPLETE_ABORT: (PREPARE_ABORT,),
    DEAD: (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT),
    PREPARE_EPOCH_FENCE: (ONGOING,),
}
"""State -> states from which it can be entered."""

COMPLETION: Mapping[TransactionState, TransactionState] = {
    PREPARE_COMMIT: COMPLETE_COMMIT,
    PREPARE_ABORT: COMPLETE_ABORT,
}
"""Decision -> the state after its last marker."""

AT_REST = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
"""States in which an id can expire."""


class TransactionAction(enum.Enum):
    """The coordinator's action for a request that it cannot answer immediately.

    The values of the members are the descriptions in the generated documentation.
    """

    INITIALIZE = "the epoch is raised, or a new producer id given"
    FENCE = "the epoch is raised and the transaction aborted; CONCURRENT_TRANSACTIONS (51)"
    ADD = "added"
    COMMIT = "to PrepareCommit"
    ABORT = "to PrepareAbort"
    VERIFY = "verified by partition"


Table = RequestTable[TransactionState, TransactionAction]

_INVALID = dict.fromkeys(TransactionState, errors.INVALID_TXN_STATE)

INIT_PRODUCER_ID: Table = RequestTable(
    "InitProducerId",
    {
        **_INVALID,
        EMPTY: TransactionAction.INITIALIZE,
        ONGOING: TransactionAction.FENCE,
        PREPARE_COMMIT: errors.CONCURRENT_TRANSACTIONS,
        PREPARE_ABORT: errors.CONCURRENT_TRANSACTIONS,
        COMPLETE_COMMIT: TransactionAction.INITIALIZE,
        COMPLETE_ABORT: TransactionAction.INITIALIZE,
    },
)
ADD_PARTITIONS: Table = RequestTable(
    "AddPartitionsToTxn",
    {
        **_INVALID,
        EMPTY: TransactionAction.ADD,
        ONGOING: TransactionAction.ADD,
        PREPARE_COMMIT: errors.CONCURRENT_TRANSACTIONS,
        PREPARE_ABORT: errors.CONCURRENT_TRANSACTIONS,
        COMPLETE_COMMIT: TransactionAction.ADD,
        COMPLETE_ABORT: TransactionAction.ADD,
    },
)
VERIFY: Table = RequestTable(
    "verification of a partition",
    {
        **dict.fromkeys(TransactionState, TransactionAction.VERIFY),
        PREPARE_COMMIT: errors.CONCURRENT_TRANSACTIONS,
        PREPARE_ABORT: errors.CONCURRENT_TRANSACTIONS,
    },
)
COMMIT: Table = RequestTable(
    "EndTxn (commit)",
    {
        **_INVALID,
        ONGOING: TransactionAction.COMMIT,
        PREPARE_COMMIT: errors.CONCURRENT_TRANSACTIONS,
        COMPLETE_COMMIT: errors.NONE,
    },
)
ABORT: Table = RequestTable(
    "EndTxn (abort)",
    {
        **_INVALID,
        ONGOING: TransactionAction.ABORT,
        PREPARE_ABORT: errors.CONCURRENT_TRANSACTIONS,
        COMPLETE_ABORT: errors.NONE,
    },
)

TABLES: Mapping[str, Table] = {table.name: table for table in (INIT_PRODUCER_ID, ADD_PARTITIONS, COMMIT, ABORT, VERIFY)}
"""Request name -> table, as shown in the documentation."""
