"""ListTransactions: the transactions that a broker coordinates."""

from __future__ import annotations

from messages.acls import Operation, ResourceType
from messages.apis.declaration import OPEN, TRANSACTIONS, Api, Binding, Shown
from messages.vocabulary import Message, message


@message
class ListTransactionsRequest(Message):
    """A client's request for the transactions that a broker coordinates (API key 66).

    An empty filter selects all transactions. `duration_filter` is in ms: it selects transactions that have been open
    for longer.
    """

    version: int
    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[int, ...] = ()
    duration_filter: int = -1


@message
class ListedTransaction(Message):
    """A transactional id that the broker coordinates, with the state of its transaction."""

    transactional_id: str
    producer_id: int
    transaction_state: str


@message
class ListTransactionsResponse(Message):
    """The response to ListTransactions: the broker's transactions, and the requested states that do not exist."""

    error_code: int
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[ListedTransaction, ...] = ()
    throttle_time_ms: int = 0


API = Api(
    key=66,
    versions=(0, 1),
    request=ListTransactionsRequest,
    response=ListTransactionsResponse,
    answerer=TRANSACTIONS,
    access=OPEN,
    shown=(
        Shown(
            Operation.DESCRIBE,
            ResourceType.TRANSACTIONAL_ID,
            lambda transaction: transaction.transactional_id,
            "transaction_states",
        ),
    ),
    codes="NONE COORDINATOR_LOAD_IN_PROGRESS",
    sample=lambda about: ListTransactionsRequest(0),
    bindings={ListTransactionsRequest: Binding(gathered={"producer_id_filters": ("producer_id_filters",)})},
)
