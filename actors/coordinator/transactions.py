"""TransactionsActor manages the transactional ids that belong to one partition of __transaction_state.

Rule 1: `actors.core.transaction.transactions` makes the decisions about an id. This actor appends records with acks=all
        to the partition, and sends markers to TransactionMarkersActor and responses to the clients.
Rule 2: this actor reads its partition first. The coordinator sends it no request until the whole partition is read.
Rule 3: while a transaction is open, one timer for all ids checks for timed out transactions. Another timer checks for
        expired ids. If the append of a record with a final state fails, the record is appended again every
        RETRY_SECONDS.

Kafka: `TransactionStateManager`, `TransactionCoordinator`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from thespian.actors import ActorAddress, WakeupMessage

from actors.coordinator.partition_reader import PartitionReader
from actors.core.coordinator.group_metadata_records import DamagedRecord
from actors.core.coordinator.loading import Row
from actors.core.coordinator.membership import Reply
from actors.core.topic.topic_name import TRANSACTION_STATE
from actors.core.transaction.transaction import Transaction
from actors.core.transaction.transaction_records import key_value, read_key, read_value
from actors.core.transaction.transactions import Append, Mark, TakeId, TransactionalIds
from actors.runtime import Answerer
from messages import errors, transactions
from messages.apis.end_txn import EndTxnRequest
from messages.apis.init_producer_id import InitProducerIdRequest
from messages.apis.produce import ACKS_ALL, ProducePartition
from messages.cluster import TopicPartition
from messages.error_names import name_of
from messages.network import Forwarded
from messages.partition import COORDINATOR_VERSION, FROM_COORDINATOR, AppendBatch, AppendBatches, BatchesAppended
from messages.vocabulary import Message
from messages.wire.record_batch import batch_of


class TransactionLoading:
    """The transactional ids loaded so far from one partition of __transaction_state.

    The last record of an id applies; a tombstone removes the id. A key of an unknown version is skipped with a warning.
    A value that cannot be read makes loading fail. Kafka: `TransactionStateManager.loadTransactionMetadata`.
    """

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.records = 0
        self.ids: dict[str, Transaction] = {}

    def take(self, rows: Sequence[Row]) -> None:
        """Process the next records.

        Raises:
            DamagedRecord: A record cannot be decoded.
        """
        self.records += len(rows)
        for _, is_marker, key, value, _ in rows:
            if is_marker:
                continue
            name = read_key(key.encode("latin-1"))
            if name is None:
                log.warning(
                    "Skipping a record with an unknown key version in partition %d of __transaction_state: key %s",
                    *(self.partition, key.encode("latin-1").hex()),
                )
            elif value is None:
                self.ids.pop(name, None)
            else:
                self.ids[name] = read_value(name, value.encode("latin-1"))


log = logging.getLogger("kafka.coordinator.transaction.TransactionStateManager")

ABORT, EXPIRY, RETRY = "abort", "expiry", "retry"
RETRY_SECONDS = 0.1


class TransactionsActor(PartitionReader, Answerer):
    """This actor manages the transactional ids that belong to one partition of __transaction_state."""

    def __init__(self) -> None:
        super().__init__()
        self._coordinator: ActorAddress
        self._start: transactions.StartTransactions
        self._loading: TransactionLoading | None = None
        self._transactions = TransactionalIds({})
        self._looks_for_timeouts = False
        self._retries = 0
        """The last published number of completions to retry."""

    def receiveMsg_StartTransactions(self, message: transactions.StartTransactions, sender: ActorAddress) -> None:
        """Start reading the partition (rule 2)."""
        self._coordinator, self._start = sender, message
        self._loading = TransactionLoading(message.partition)
        place = TopicPartition(TRANSACTION_STATE, message.partition)
        self.start_reading(place, message.log, message.settings.node_id, message.settings.load_bytes)

    def take_rows(self, rows: Sequence[Row]) -> None:
        """Add records of the partition to the loaded state. An unreadable value ends the load with an error."""
        if self._loading is None:
            return
        try:
            self._loading.take(rows)
        except DamagedRecord as damage:
            log.error(
                "[Transaction State Manager %d]: Error loading partition %d of __transaction_state: %s",
                *(self._start.settings.node_id, self._start.partition, damage),
            )
            self.reading_ended(errors.CORRUPT_MESSAGE)

    def reading_ended(self, error_code: int) -> None:
        """Report the end of the load, and start the timers if the load succeeded."""
        loading, self._loading = self._loading, None
        if loading is None:
            return
        ids = loading.ids if error_code == errors.NONE else {}
        self.send(
            self._coordinator, transactions.TransactionsLoaded(loading.partition, error_code, len(ids), self.unreadable)
        )
        if error_code == errors.NONE:
            self._transactions = TransactionalIds(ids, self._start.settings.request_timeout_ms)
            self._transactions.begin(self._wall_ms())
            self.set_timer(
                EXPIRY, self._start.settings.expiry_interval_ms / 1000, transactions.ExpireTransactionalIds()
            )
            self._carry_out()

    # ------------------------------------------------------------------------------------------------ requests

    def receiveMsg_Forwarded(self, message: Forwarded, sender: ActorAddress) -> None:
        """Handle a client's request about one transactional id."""
        match message.request.request:
            case InitProducerIdRequest():
                self._transactions.init_producer_id(message, self._wall_ms())
            case EndTxnRequest():
                self._transactions.end(message, self._wall_ms())
        self._carry_out()

    def receiveMsg_AddToTransaction(self, message: transactions.AddToTransaction, sender: ActorAddress) -> None:
        """Add a client's partitions to its transaction."""
        self._transactions.add(message.forwarded, message.partitions, self._wall_ms())
        self._carry_out()

    def receiveMsg_ProducerIdTaken(self, message: transactions.ProducerIdTaken, sender: ActorAddress) -> None:
        """Continue a request with its new producer id."""
        self._transactions.producer_id_received(message, self._wall_ms())
        self._carry_out()

    def answer(self, question: Message) -> Message:
        """Answer a request that the coordinator makes on behalf of an admin client or a partition's leader."""
        match question:
            case transactions.VerifyTransaction():
                return transactions.PartitionsVerified(self._transactions.verify(question))
            case transactions.DescribeTransaction(transactional_id):
                return self._transactions.describe(transactional_id)
            case transactions.ListPartitionTransactions():
                return transactions.PartitionTransactions(
                    self._transactions.list_transactions(question, self._wall_ms())
                )
        raise TypeError(f"TransactionsActor has no handler for {type(question).__name__}")

    # ------------------------------------------------------------------------------------------------ what comes later

    def receiveMsg_BatchesAppended(self, message: BatchesAppended, sender: ActorAddress) -> None:
        """Handle the results of appends to the log."""
        now = self._wall_ms()
        for request, _, result in message.results:
            self._transactions.handle_append(request, result.error_code, now)
        self._carry_out()

    def receiveMsg_PartitionsMarked(self, message: transactions.PartitionsMarked, sender: ActorAddress) -> None:
        """Record that partitions have their markers."""
        producer = message.producer_id, message.producer_epoch
        self._transactions.note_markers(message.transactional_id, producer, message.partitions, self._wall_ms())
        self._carry_out()

    def receiveMsg_MarkersCancelled(self, message: transactions.MarkersCancelled, sender: ActorAddress) -> None:
        """Write to the node's log that a partition has a newer coordinator epoch.

        Keep the state of the transactional id unchanged: its new coordinator ends the transaction.
        """
        log.warning(
            "[Transaction State Manager %d]: The markers of transactional id %r (producer id %d, epoch %d) were"
            " rejected with %s. A newer coordinator writes them.",
            *(self._start.settings.node_id, message.transactional_id, message.producer_id, message.producer_epoch),
            name_of(message.error_code),
        )

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        """Handle an expired timer (rule 3)."""
        now = self._wall_ms()
        match message.payload:
            case transactions.AbortTimedOut():
                self._looks_for_timeouts = False
                self._transactions.abort_timed_out(now)
            case transactions.ExpireTransactionalIds():
                settings = self._start.settings
                self._transactions.expire(now, settings.id_expiration_ms)
                self.set_timer(EXPIRY, settings.expiry_interval_ms / 1000, transactions.ExpireTransactionalIds())
            case transactions.RetryCompletions():
                self._transactions.retry(now)
        self._carry_out()

    def receiveMsg_UnloadTransactions(self, message: transactions.UnloadTransactions, sender: ActorAddress) -> None:
        """Fail pending requests, because another broker coordinates the ids."""
        self._transactions.unload()
        self._carry_out()

    # ------------------------------------------------------------------------------------------------ instructions

    def _carry_out(self) -> None:
        """Send the responses, records, markers and requests that the decisions about the ids require (rule 1)."""
        for step in self._transactions.take():
            match step:
                case Reply(forwarded, response):
                    self.send(*forwarded.reply(response))
                case Append():
                    self._append(step)
                case Mark(transaction):
                    self.send(self._start.markers, transactions.SendMarkers((self._marker(transaction),)))
                case TakeId(number):
                    self.send(self._start.producer_ids, transactions.TakeProducerId(number))
        self._arm()

    def _append(self, step: Append) -> None:
        pairs = [key_value(name, transaction) for name, transaction in step.entries]
        part = ProducePartition(self._place, batch_of(pairs, self._wall_ms()))
        batch = AppendBatch(
            step.number, 0, part, ACKS_ALL, COORDINATOR_VERSION, step.timeout_ms / 1000, FROM_COORDINATOR
        )
        self.send(self._start.log, AppendBatches((batch,)))

    def _marker(self, txn: Transaction) -> transactions.Marker:
        return transactions.Marker(
            *(txn.transactional_id, txn.producer_id, txn.producer_epoch, self._start.coordinator_epoch),
            *(txn.is_commit, txn.partitions, self._start.partition, self.myAddress),
        )

    def _arm(self) -> None:
        """Start the timers that are needed (rule 3)."""
        if self._transactions.has_open and not self._looks_for_timeouts:
            self._looks_for_timeouts = True
            self.set_timer(ABORT, self._start.settings.abort_interval_ms / 1000, transactions.AbortTimedOut())
        retries = self._transactions.to_retry
        if retries != self._retries:
            self._retries = retries
            self.send(self._start.markers, transactions.CompletionsToRetry(self._start.partition, retries))
            if retries:
                self.set_timer(RETRY, RETRY_SECONDS, transactions.RetryCompletions())

    def _wall_ms(self) -> int:
        return int(self.port("time").wall_ms())
