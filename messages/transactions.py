"""Messages of the transaction coordinator, its partitions and the senders of markers.

Times named `_ms` are wall time or durations in ms; epochs are -1 where there is none.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from thespian.actors import ActorAddress

from messages.broker import METADATA_CACHE, Forwarded
from messages.cluster import Endpoint, TopicPartition
from messages.conversation import Question
from messages.transaction_requests import DescribedTransaction, ListedTransaction
from messages.vocabulary import message

# ---------------------------------------------------------------------------------------------------- producer ids


@message
class TakeProducerId:
    """To ProducerIdsActor: assign a new producer id. -> ProducerIdTaken"""

    request: int


@message
class ProducerIdTaken:
    """The result of TakeProducerId; -1 without ZooKeeper."""

    request: int
    producer_id: int


# ---------------------------------------------------------------------------------------------------- a partition


@message
class TransactionSettings:
    """The transaction settings of the node."""

    node_id: int = -1
    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_interval_ms: int = 10_000
    expiry_interval_ms: int = 3_600_000
    load_bytes: int = 5_242_880
    request_timeout_ms: int = 30_000


@message
class StartTransactions:
    """First message of TransactionsActor: its partition of __transaction_state, which it loads first.

    `coordinator_epoch` is the leader epoch with which this broker began to lead it.
    """

    partition: int
    coordinator_epoch: int
    log: ActorAddress
    settings: TransactionSettings
    producer_ids: ActorAddress
    markers: ActorAddress


@message
class TransactionsLoaded:
    """To the coordinator: the partition is loaded with this number of transactional ids, or cannot be loaded."""

    partition: int
    error_code: int
    ids: int


@message
class AddToTransaction:
    """An AddPartitionsToTxn or AddOffsetsToTxn with the partitions to add."""

    forwarded: Forwarded
    partitions: tuple[TopicPartition, ...]


@message
class DescribeTransaction(Question[DescribedTransaction]):
    """Describe a transactional id. -> DescribedTransaction"""

    transactional_id: str


@message
class ListPartitionTransactions(Question["PartitionTransactions"]):
    """List transactional ids by these filters, as in ListTransactionsRequest. -> PartitionTransactions"""

    states: tuple[str, ...]
    producer_ids: tuple[int, ...]
    duration_ms: int


@message
class PartitionTransactions:
    """The transactional ids of one partition of __transaction_state."""

    transactions: tuple[ListedTransaction, ...]


@message
class UnloadTransactions:
    """Another broker coordinates the ids now: fail all pending requests. The actor's last message."""


@message
class AbortTimedOut:
    """Timer payload: abort the transactions that have timed out."""


@message
class ExpireTransactionalIds:
    """Timer payload: forget the transactional ids that have not been used for long."""


@message
class RetryCompletions:
    """Timer payload: append again the completions that the log refused."""


# ---------------------------------------------------------------------------------------------------- markers


class Marker(NamedTuple):
    """The end of a transaction that some partitions have to learn. `owner` receives the results.

    `state_partition` is that of __transaction_state; its leader epoch is `coordinator_epoch`.
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
class SendMarkers:
    """To TransactionMarkersActor or MarkerSenderActor: send these. -> PartitionsMarked, MarkersCancelled"""

    markers: tuple[Marker, ...]


@message
class RetryMarkers:
    """From MarkerSenderActor: these were not written; find their leaders again after a pause."""

    markers: tuple[Marker, ...]


@message
class DropMarkers:
    """To the senders of markers: drop those of this partition of __transaction_state."""

    state_partition: int


@message
class PartitionsMarked:
    """To the owner of a marker: these partitions have it, or need none."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


@message
class MarkersCancelled:
    """To the owner of a marker: the partition has a newer producer or coordinator epoch; no more markers are sent."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    error_code: int


@message
class CompletionsToRetry:
    """From a partition of __transaction_state: the number of completions that wait for another append."""

    partition: int
    count: int


@message
class StartTransactionMarkers:
    """The first message to TransactionMarkersActor."""

    node_id: int
    request_timeout_ms: int
    bridge: ActorAddress
    metadata_cache: ActorAddress
    network: ActorAddress
    metrics: ActorAddress | None


@message
class StartMarkerSender:
    """The first message to MarkerSenderActor: the broker that it sends markers to, and its connection."""

    node_id: int
    broker: int
    endpoint: Endpoint
    channel: str
    network: ActorAddress
    timeout: float


class PartitionLeader(NamedTuple):
    """A partition's place: whether it exists, its leader (-1: none), and the leader's endpoint if it is alive."""

    exists: bool
    leader: int
    endpoint: Endpoint | None


@message
class FindLeaders(Question["LeadersFound"]):
    """Find the leaders of partitions and their endpoints between brokers. -> LeadersFound"""

    asks: ClassVar[str] = METADATA_CACHE
    partitions: tuple[TopicPartition, ...]


@message
class LeadersFound:
    """The leaders, in the order of FindLeaders."""

    leaders: tuple[PartitionLeader, ...]


@message
class RetryDue:
    """Timer payload of TransactionMarkersActor: find the leaders of waiting markers again."""
