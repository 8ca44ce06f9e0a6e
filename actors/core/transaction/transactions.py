"""The transactional ids of one partition of __transaction_state, and the decisions about requests for them.

No method waits, sends a message to another actor, or reads a clock: each takes an event, and `take()` returns the
resulting steps in order.

Rule 1: A change of state applies when its append succeeds. Until then, every other request for the id fails with
        CONCURRENT_TRANSACTIONS (51). If the append fails, the id keeps its old metadata, with one exception: after a
        failed fence, the raised epoch stays in memory.
Rule 2: After a decision (PrepareCommit, PrepareAbort) is in the log, the response and the transaction's markers are
        sent. After the last partition has its marker, the completion is appended. A failed append of a completion is
        repeated until it succeeds, or until another broker coordinates the id.
Rule 3: Results of markers apply only to the producer id and epoch for which the markers were sent.
Rule 4: If a loaded transaction is already decided, it is completed: its markers are sent again to all partitions.
Rule 5: The check for timeouts reads only ids with an open transaction.

Kafka: `TransactionCoordinator`, `TransactionStateManager`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

import attrs

from actors.core.coordinator.log_codes import COMMON_CODES
from actors.core.coordinator.membership import Reply
from actors.core.illegal_transition import IllegalTransition
from actors.core.transaction import decisions, transaction_states
from actors.core.transaction.transaction import (
    NO_PRODUCER,
    NO_PRODUCER_EPOCH,
    Transaction,
    complete,
    fence,
    finish,
    prepare,
)
from messages import errors
from messages.apis import API_BY_REQUEST
from messages.apis.describe_transactions import DescribedTransaction
from messages.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from messages.apis.list_transactions import ListedTransaction
from messages.cluster import TopicPartition
from messages.error_names import name_of
from messages.network import Forwarded
from messages.probes import probe
from messages.transactions import ListPartitionTransactions, ProducerIdTaken, VerifyTransaction
from messages.vocabulary import Message, value_class

log = logging.getLogger("kafka.coordinator.transaction.TransactionCoordinator")

LOG_CODES: Mapping[int, int] = {
    **COMMON_CODES,
    errors.REQUEST_TIMED_OUT: errors.COORDINATOR_NOT_AVAILABLE,
    errors.MESSAGE_TOO_LARGE: errors.UNKNOWN_SERVER_ERROR,
    errors.RECORD_LIST_TOO_LARGE: errors.UNKNOWN_SERVER_ERROR,
}
"""Error of the log -> error code for the client."""

TOMBSTONES_AT_ONCE, TOMBSTONE_BYTES = 500, 64 * 1024
"""Maximum number of tombstones in a batch, and of bytes of their ids."""


@value_class
class Append:
    """An instruction to append the metadata of these transactional ids to the log; metadata None means a tombstone.

    The result of the append is reported with the same `number`.
    """

    number: int
    entries: tuple[tuple[str, Transaction | None], ...]
    timeout_ms: int


@value_class
class Mark:
    """An instruction to send the markers of a transaction to all its partitions."""

    transaction: Transaction


@value_class
class TakeId:
    """An instruction to take a new producer id for the request with this number."""

    number: int


Step = Reply | Append | Mark | TakeId


@value_class
class _Appending:
    """A state change that is being appended to the log; `answer` is sent to the client afterwards.

    `forwarded` and `answer` are None if no client requested the change.
    """

    target: Transaction
    forwarded: Forwarded | None
    answer: Message | None


class TransactionalIds:
    """All transactional ids of one partition of __transaction_state."""

    def __init__(self, loaded: Mapping[str, Transaction], request_timeout_ms: int = 30_000) -> None:
        self._ids = dict(loaded)
        self._request_timeout_ms = request_timeout_ms
        self._open = dict.fromkeys(name for name, txn in self._ids.items() if txn.state is transaction_states.ONGOING)
        """Ids with an open transaction."""
        self._appending: dict[int, _Appending] = {}
        self._expiring: dict[int, tuple[str, ...]] = {}
        self._waiting: dict[int, Forwarded] = {}
        """InitProducerId requests that wait for a new producer id."""
        self._to_retry: dict[str, None] = {}
        """Ids whose completion could not be appended."""
        self._numbers = 0
        self._steps: list[Step] = []

    def __len__(self) -> int:
        return len(self._ids)

    def get(self, transactional_id: str) -> Transaction | None:
        """Return the metadata of an id; None if it is unknown."""
        return self._ids.get(transactional_id)

    @property
    def has_open(self) -> bool:
        """Whether any transaction is open; only an open transaction can time out."""
        return bool(self._open)

    @property
    def to_retry(self) -> int:
        """Number of completions that have to be appended again."""
        return len(self._to_retry)

    def take(self) -> list[Step]:
        """Return the steps since the last call, in order, and clear them."""
        steps, self._steps = self._steps, []
        return steps

    def begin(self, now: int) -> None:
        """Complete the decided transactions after the partition was loaded (rule 4)."""
        for txn in [txn for txn in self._ids.values() if txn.state in transaction_states.COMPLETION]:
            self._complete(txn, now)

    # ------------------------------------------------------------------------------------------------ requests

    def init_producer_id(self, forwarded: Forwarded, now: int) -> None:
        """Handle an InitProducerId with a transactional id."""
        self._initialize(forwarded, NO_PRODUCER, now)

    def producer_id_received(self, taken: ProducerIdTaken, now: int) -> None:
        """Continue or refuse the InitProducerId that waits for a producer id."""
        forwarded = self._waiting.pop(taken.request, None)
        if forwarded is None:
            return
        if taken.error_code != errors.NONE:
            self._refuse(forwarded, taken.error_code)
        else:
            self._initialize(forwarded, taken.producer_id, now)

    def _initialize(self, forwarded: Forwarded, fresh: int, now: int) -> None:
        request: InitProducerIdRequest = forwarded.request.request
        name = request.transactional_id or ""
        txn = self._ids.get(name)
        if fresh == NO_PRODUCER and decisions.needs_producer_id(txn, request):
            self._numbers += 1
            self._waiting[self._numbers] = forwarded
            self._steps.append(TakeId(self._numbers))
            return
        if txn is None:
            txn = self._ids[name] = Transaction(name, fresh, timeout_ms=request.transaction_timeout_ms, updated_ms=now)
        verdict = decisions.initialize(txn, request, fresh, now)
        if isinstance(verdict, Transaction) and verdict.state is transaction_states.PREPARE_ABORT:
            self._move(verdict, forwarded, InitProducerIdResponse(errors.CONCURRENT_TRANSACTIONS))
        elif isinstance(verdict, Transaction):
            answer = InitProducerIdResponse(errors.NONE, verdict.producer_id, verdict.producer_epoch)
            self._move(verdict, forwarded, answer)
        else:
            self._refuse(forwarded, verdict)

    def add(self, forwarded: Forwarded, partitions: tuple[TopicPartition, ...], now: int) -> None:
        """Handle an AddPartitionsToTxn or AddOffsetsToTxn."""
        request = forwarded.request.request
        self._answer(
            forwarded, decisions.add_partitions(self._ids.get(request.transactional_id), request, partitions, now)
        )

    def end(self, forwarded: Forwarded, now: int) -> None:
        """Handle an EndTxn."""
        request = forwarded.request.request
        self._answer(forwarded, decisions.end(self._ids.get(request.transactional_id), request, now))

    def _answer(self, forwarded: Forwarded, verdict: decisions.Verdict) -> None:
        """Respond with the error code, or append the new metadata and then respond with NONE."""
        if isinstance(verdict, Transaction):
            self._move(verdict, forwarded, self._response(forwarded, errors.NONE))
        else:
            self._refuse(forwarded, verdict)

    def _refuse(self, forwarded: Forwarded, code: int) -> None:
        self._steps.append(Reply(forwarded, self._response(forwarded, code)))

    def _response(self, forwarded: Forwarded, code: int) -> Message:
        request = forwarded.request.request
        return API_BY_REQUEST[type(request)].refusal(request, code)

    # ------------------------------------------------------------------------------------------------ the log

    def _move(self, target: Transaction, forwarded: Forwarded | None = None, answer: Message | None = None) -> None:
        """Append the new metadata of a transactional id to the log (rule 1)."""
        name = target.transactional_id
        self._ids[name] = prepare(self._ids[name], target.state)
        self._numbers += 1
        self._appending[self._numbers] = _Appending(target, forwarded, answer)
        self._steps.append(Append(self._numbers, ((name, target),), target.timeout_ms))

    def handle_append(self, number: int, error_code: int, now: int) -> None:
        """Handle the result of the Append with this number."""
        if number in self._expiring:
            self._end_expiration(self._expiring.pop(number), error_code)
            return
        appending = self._appending.pop(number, None)
        if appending is None:
            return
        code = error_code
        if error_code == errors.NONE:
            code = self._complete_change(appending, now)
        else:
            code = LOG_CODES.get(error_code, error_code)
            self._not_stored(appending.target, error_code)
        if appending.forwarded is not None and appending.answer is not None:
            answer = appending.answer if code == errors.NONE else self._response(appending.forwarded, code)
            self._steps.append(Reply(appending.forwarded, answer))
        if code == errors.NONE and appending.target.state in transaction_states.COMPLETION:
            self._complete(self._ids[appending.target.transactional_id], now)

    def _complete_change(self, appending: _Appending, now: int) -> int:
        """Apply a state change that was appended to the log; return the error code for the client."""
        name = appending.target.transactional_id
        try:
            txn = self._ids[name] = complete(self._ids[name], appending.target)
        except IllegalTransition as error:
            log.error("Failed to complete the state transition of transactional id %r: %s", name, error)
            self._ids[name] = attrs.evolve(self._ids[name], pending=None)
            return errors.UNKNOWN_SERVER_ERROR
        self._to_retry.pop(name, None)
        if txn.state is transaction_states.ONGOING:
            self._open[name] = None
        else:
            self._open.pop(name, None)
        return errors.NONE

    def _not_stored(self, target: Transaction, error_code: int) -> None:
        """Handle a failed append.

        The id keeps its old metadata. If the append was for a fence, the raised epoch stays in memory (rule 1). If the
        append was for a completion, it is repeated later, unless another broker leads the partition (rule 2).
        """
        name = target.transactional_id
        txn = self._ids[name]
        if target.state in transaction_states.COMPLETION.values():
            why = name_of(error_code)
            log.warning("Failed to store state %s of transactional id %r: %s", target.state.value, name, why)
            if error_code != errors.NOT_LEADER_OR_FOLLOWER:
                self._to_retry[name] = None
            return
        if target.producer_epoch > txn.producer_epoch and target.state is transaction_states.PREPARE_ABORT:
            epoch = target.producer_epoch
            txn = attrs.evolve(txn, producer_epoch=epoch, last_producer_epoch=NO_PRODUCER_EPOCH, failed_fence=True)
            probe("a fence is not stored")
        self._ids[name] = attrs.evolve(txn, pending=None)

    # ------------------------------------------------------------------------------------------------ markers

    def _complete(self, txn: Transaction, now: int) -> None:
        """Send the markers of a decision that is in the log (rules 2 and 4)."""
        txn = self._ids[txn.transactional_id] = prepare(txn, transaction_states.COMPLETION[txn.state])
        if txn.partitions:
            self._steps.append(Mark(txn))
        else:
            self._finish(txn, now)

    def note_markers(
        self, transactional_id: str, producer: tuple[int, int], partitions: Iterable[TopicPartition], now: int
    ) -> None:
        """Record that these partitions have the marker, or need none.

        Args:
            producer: Producer id and epoch for which the marker was sent.
        """
        txn = self._ids.get(transactional_id)
        if txn is None or not txn.is_completing or (txn.producer_id, txn.producer_epoch) != producer:
            probe("news of a marker of an older transaction")
            return
        done = set(partitions)
        left = tuple([each for each in txn.partitions if each not in done])
        if left == txn.partitions:
            return
        txn = self._ids[transactional_id] = attrs.evolve(txn, partitions=left)
        if not left:
            self._finish(txn, now)

    def _finish(self, txn: Transaction, now: int) -> None:
        self._move(finish(txn, now))

    def retry(self, now: int) -> None:
        """Repeat the failed appends of completions."""
        names, self._to_retry = list(self._to_retry), {}
        for name in names:
            self._finish(self._ids[name], now)

    # ------------------------------------------------------------------------------ timeout and expiration

    def abort_timed_out(self, now: int) -> None:
        """Abort the transactions that have timed out, and raise their producer epochs to fence the producers."""
        for name in list(self._open):
            txn = self._ids[name]
            if decisions.is_timed_out(txn, now):
                log.info(
                    "Aborting the transaction of %r (producer id %d, epoch %d): it has been open for %d ms, its timeout"
                    " is %d ms",
                    *(name, txn.producer_id, txn.producer_epoch, now - txn.start_ms, txn.timeout_ms),
                )
                self._move(fence(txn, now))

    def expire(self, now: int, expiration_ms: int) -> None:
        """Append tombstones for ids that have no transaction and were not used for `expiration_ms`."""
        names: list[str] = []
        size = 0
        for name, txn in list(self._ids.items()):
            if (
                txn.pending is None
                and txn.state in transaction_states.AT_REST
                and txn.updated_ms <= now - expiration_ms
            ):
                self._ids[name] = prepare(txn, transaction_states.DEAD)
                if len(names) == TOMBSTONES_AT_ONCE or size > TOMBSTONE_BYTES:
                    self._bury(names)
                    names, size = [], 0
                names.append(name)
                size += len(name.encode())
        if names:
            self._bury(names)

    def _bury(self, names: list[str]) -> None:
        self._numbers += 1
        self._expiring[self._numbers] = tuple(names)
        tombstones = tuple([(name, None) for name in names])
        self._steps.append(Append(self._numbers, tombstones, self._request_timeout_ms))

    def _end_expiration(self, names: tuple[str, ...], error_code: int) -> None:
        for name in names:
            txn = self._ids[name]
            if error_code == errors.NONE:
                del self._ids[name]
            else:
                self._ids[name] = attrs.evolve(txn, pending=None)
        if error_code != errors.NONE:
            log.warning("Tombstones of %d transactional ids were not stored: %s", len(names), name_of(error_code))

    # ------------------------------------------------------------------------------------------------ admin

    def verify(self, asked: VerifyTransaction) -> tuple[int, ...]:
        """Return the error codes of the requested partitions, in order; NONE for those in the open transaction."""
        txn = self._ids.get(asked.transactional_id)
        codes = decisions.verify(txn, asked.producer_id, asked.producer_epoch, asked.partitions)
        return tuple([codes[each] for each in asked.partitions])

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """Return the id's description for DescribeTransactions."""
        txn = self._ids.get(transactional_id)
        if txn is None:
            return DescribedTransaction(errors.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
        return DescribedTransaction(
            *(errors.NONE, transactional_id, txn.state.value, txn.timeout_ms, txn.start_ms),
            *(txn.producer_id, txn.producer_epoch, txn.partitions),
        )

    def list_transactions(self, asked: ListPartitionTransactions, now: int) -> tuple[ListedTransaction, ...]:
        """Return the transactional ids that match the filters of ListTransactions, with producer id and state."""
        states = {transaction_states.BY_NAME[name] for name in asked.states if name in transaction_states.BY_NAME}
        return tuple(
            [
                ListedTransaction(name, txn.producer_id, txn.state.value)
                for name, txn in self._ids.items()
                if (not asked.states or txn.state in states)
                and (not asked.producer_ids or txn.producer_id in asked.producer_ids)
                and (asked.duration_ms < 0 or now - txn.start_ms > asked.duration_ms)
            ]
        )

    def unload(self) -> None:
        """Fail all waiting requests, because another broker now coordinates the ids."""
        waiting = [each.forwarded for each in self._appending.values() if each.forwarded is not None]
        for forwarded in [*waiting, *self._waiting.values()]:
            probe("a transactional id is unloaded while a request is pending")
            self._refuse(forwarded, errors.NOT_COORDINATOR)
        self._appending.clear()
        self._waiting.clear()


def unknown_states(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names in a ListTransactions filter that are not states."""
    return tuple([name for name in names if name not in transaction_states.BY_NAME])
