"""The messages of the transaction coordinator: TransactionsActor and the actors that send markers.

Fields whose names end in `_ms` are durations in ms; a missing epoch is -1.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from thespian.actors import ActorAddress

from messages import errors
from messages.apis.declaration import METADATA_CACHE
from messages.apis.describe_transactions import DescribedTransaction
from messages.apis.list_transactions import ListedTransaction
from messages.ask import Question
from messages.cluster import Endpoint, TopicPartition
from messages.network import Forwarded
from messages.vocabulary import Message, message

# ---------------------------------------------------------------------------------------------------- producer ids


@message
class TakeProducerId(Message):
    """A request to ProducerIdsActor to assign a new producer id; the reply is ProducerIdTaken."""

    request: int


@message
class ProducerIdTaken(Message):
    """The reply to TakeProducerId: the new producer id, or -1 and the code with which InitProducerId is refused."""

    request: int
    producer_id: int
    error_code: int = errors.NONE


# ---------------------------------------------------------------------------------------------------- a partition


@message
class TransactionSettings(Message):
    """The settings of a node that concern transactions."""

    node_id: int = -1
    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_interval_ms: int = 10_000
    expiry_interval_ms: int = 3_600_000
    load_bytes: int = 5_242_880
    request_timeout_ms: int = 30_000


@message
class StartTransactions(Message):
    """The first message to TransactionsActor: load this partition of __transaction_state.

    `coordinator_epoch` is the leader epoch with which this broker began to lead the partition.
    """

    partition: int
    coordinator_epoch: int
    log: ActorAddress
    settings: TransactionSettings
    producer_ids: ActorAddress
    markers: ActorAddress


@message
class TransactionsLoaded(Message):
    """A message to the coordinator: a partition of __transaction_state is loaded, or cannot be loaded.

    If the partition is loaded, `ids` is the number of its transactional ids. `unreadable` is the number of batches that
    were skipped because they are damaged.
    """

    partition: int
    error_code: int
    ids: int
    unreadable: int = 0


@message
class AddToTransaction(Message):
    """A client's AddPartitionsToTxn or AddOffsetsToTxn request, with the partitions that it adds."""

    forwarded: Forwarded
    partitions: tuple[TopicPartition, ...]


@message
class DescribeTransaction(Question[DescribedTransaction]):
    """A request to describe a transactional id; the reply is DescribedTransaction."""

    transactional_id: str


@message
class ListPartitionTransactions(Question["PartitionTransactions"]):
    """A request to list transactional ids by filters; the reply is PartitionTransactions.

    The filters are as in ListTransactionsRequest.
    """

    states: tuple[str, ...]
    producer_ids: tuple[int, ...]
    duration_ms: int


@message
class PartitionTransactions(Message):
    """The reply to ListPartitionTransactions: transactional ids of one partition of __transaction_state."""

    transactions: tuple[ListedTransaction, ...]


@message
class UnloadTransactions(Message):
    """The last message to a TransactionsActor.

    Another broker now coordinates the actor's transactional ids, so all pending requests of the actor fail.
    """


@message
class AbortTimedOut(Message):
    """A timer message: abort the transactions that have timed out."""


@message
class ExpireTransactionalIds(Message):
    """A timer message: delete the transactional ids that have been unused for `transactional.id.expiration.ms`."""


@message
class RetryCompletions(Message):
    """A timer message: append again the CompleteCommit and CompleteAbort records that the log rejected."""


# ---------------------------------------------------------------------------------------------------- markers


class Marker(NamedTuple):
    """A marker that ends a transaction, with the partitions that it must be written to.

    `owner` receives the results. `state_partition` is the partition of __transaction_state that has the transactional
    id, and `coordinator_epoch` is the leader epoch of that partition.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    partitions: tuple[TopicPartition, ...]
    state_partition: int
    owner: ActorAddress


@message
class SendMarkers(Message):
    """A message to TransactionMarkersActor and MarkerSenderActor: send these markers.

    The replies are PartitionsMarked and MarkersCancelled.
    """

    markers: tuple[Marker, ...]


@message
class RetryMarkers(Message):
    """A message from MarkerSenderActor: these markers were not written, so find the leaders again after a pause."""

    markers: tuple[Marker, ...]


@message
class DropMarkers(Message):
    """A message to the actors that send markers: drop the markers of one partition of __transaction_state.

    These are the markers of all transactions that the partition coordinates.
    """

    state_partition: int


@message
class PartitionsMarked(Message):
    """A message to TransactionsActor: these partitions now contain a transaction's marker, or need it no longer."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


@message
class MarkersCancelled(Message):
    """A message to TransactionsActor: the markers of a transaction are no longer sent.

    The reason: a partition already has a newer producer epoch or coordinator epoch.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    error_code: int


@message
class CompletionsToRetry(Message):
    """A message from a TransactionsActor: how many CompleteCommit and CompleteAbort records it must append again."""

    partition: int
    count: int


@message
class StartTransactionMarkers(Message):
    """The first message to TransactionMarkersActor."""

    node_id: int
    request_timeout_ms: int
    bridge: ActorAddress
    metadata_cache: ActorAddress
    network: ActorAddress
    metrics: ActorAddress | None


@message
class StartRequestSender(Message):
    """The first message to an actor that sends a coordinator's requests to one broker.

    It contains the connection to that broker. The actors are MarkerSenderActor and VerificationSenderActor.
    """

    node_id: int
    broker: int
    endpoint: Endpoint
    channel: str
    network: ActorAddress
    timeout: float
    metrics: ActorAddress = None


class PartitionLeader(NamedTuple):
    """Whether a partition exists, its leader (-1: none), and the leader's endpoint if the leader is alive."""

    exists: bool
    leader: int
    endpoint: Endpoint | None


@message
class FindLeaders(Question["LeadersFound"]):
    """A request for the leaders of partitions and their inter-broker endpoints; the reply is LeadersFound."""

    asks: ClassVar[str] = METADATA_CACHE
    partitions: tuple[TopicPartition, ...]


@message
class LeadersFound(Message):
    """The reply to FindLeaders, in the order of the request."""

    leaders: tuple[PartitionLeader, ...]


@message
class RetryDue(Message):
    """A timer message to TransactionMarkersActor: query the leaders for the waiting markers again."""


# ---------------------------------------------------------------------------------------------------- verification


@message
class StartTransactionVerifier(Message):
    """The first message to TransactionVerifierActor."""

    node_id: int
    request_timeout_ms: int
    metadata_cache: ActorAddress
    finder: ActorAddress
    network: ActorAddress
    metrics: ActorAddress = None


class VerificationRequest(NamedTuple):
    """A leader's request to verify that its partition is in the open transaction of a producer.

    `asker` is the partition's actor, and `number` is the number that this actor gave the request. `since` is the time
    when the verifier received the request.
    """

    number: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partition: TopicPartition
    asker: ActorAddress = None
    since: float = 0.0


@message
class Verify(Message):
    """A request to check whether partitions are in the open transactions of producers.

    It goes to TransactionVerifierActor and VerificationSenderActor. The actor that requested a verification receives
    TransactionVerified.
    """

    verifications: tuple[VerificationRequest, ...]


@message
class TransactionVerified(Message):
    """The reply to Verify, for one VerificationRequest.

    It has the number of the verification request, the producer, and the error code for the producer's batches (NONE if
    verified).
    """

    number: int
    producer_id: int
    error_code: int


@message
class VerifyTransaction(Question["PartitionsVerified"]):
    """A request to TransactionsActor to check whether partitions are in the open transaction of a transactional id.

    The reply is PartitionsVerified.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


@message
class PartitionsVerified(Message):
    """The reply to VerifyTransaction: error codes in the order of the request."""

    error_codes: tuple[int, ...]
