"""TransactionCoordinatorActor forwards each request to the TransactionsActor that manages its transactional id.

Rule 1: a transactional id belongs to one partition of __transaction_state, and the leader of that partition is the id's
        coordinator. When this broker becomes leader, the partition's TransactionsActor loads the partition. Until it is
        loaded, requests for ids of the partition are refused with error code 14. When another broker becomes leader,
        the TransactionsActor fails all pending requests and is stopped.
Rule 2: the metadata cache must have the partitions of AddPartitionsToTxn. If it lacks a partition (error code 3), or
        clients are not allowed to write to a partition (29), no partition is added. The other partitions of the request
        get error code 55. This check precedes rule 1.
Rule 3: an InitProducerId without a transactional id is sent to ProducerIdsActor.
Rule 4: ListTransactions and DescribeTransactions are sent to the actors of the partitions. The response is sent when
        all of these actors have answered.
Rule 5: AddPartitionsToTxn from version 4 on has several transactions. It is split by transactional id, and the results
        are collected as in rule 4. Each part is handled as a producer's request, whose response this actor receives;
        if it only verifies, the id's partition of __transaction_state answers instead.

Kafka: `TransactionCoordinator`, `KafkaApis`.
"""

from __future__ import annotations

import logging

import attrs
from thespian.actors import ActorAddress, ActorExitRequest, ChildActorExited

from actors.coordinator.transaction_markers import TransactionMarkersActor
from actors.coordinator.transactions import TransactionsActor
from actors.core.coordinator.request_checks import LedPartitions
from actors.core.topic.topic_name import GROUP_METADATA, INTERNAL_TOPICS, TRANSACTION_STATE
from actors.core.transaction.decisions import init_verdict, is_half_pair, is_valid_id
from actors.core.transaction.transactions import unknown_states
from actors.core.transaction.verifications import VERSION as VERIFYING_VERSION
from actors.runtime import Dispatcher
from messages import errors, transactions
from messages.apis import API_BY_REQUEST
from messages.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from messages.apis.add_partitions_to_txn import (
    AddedPartition,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
)
from messages.apis.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from messages.apis.end_txn import EndTxnRequest
from messages.apis.init_producer_id import InitProducerIdRequest
from messages.apis.list_transactions import ListedTransaction, ListTransactionsRequest, ListTransactionsResponse
from messages.ask import Answer, Ask
from messages.broker import InternalTopicLeadership, LedPartition, PartitionsDeleted
from messages.cluster import TopicPartition
from messages.error_names import name_of
from messages.groups import CountPartitions, PartitionCount
from messages.metrics import Gauge, Gauges
from messages.network import ClientResponse, Forwarded
from messages.node import NodeSettings, StartTransactionCoordinator
from messages.partition import CheckPartitionsExist, PartitionsExist
from messages.placement import slot
from messages.probes import probe
from messages.vocabulary import Message, evolve

log = logging.getLogger("kafka.coordinator.transaction.TransactionStateManager")

LOAD_TIME = "kafka_server_transaction_coordinator_metrics_partition_load_time"


@attrs.define
class _LedPartition:
    """A partition of __transaction_state that this broker leads.

    The fields are the partition's actor, and the time when that actor began to load the partition.
    """

    actor: ActorAddress
    began: float


@attrs.define
class _SplitRequest:
    """A client request that was sent to several partitions, with the responses so far.

    `results` are in the order of the request.
    """

    forwarded: Forwarded
    results: list[Message | None]
    outstanding: int


class TransactionCoordinatorActor(Dispatcher):
    """This actor forwards a request to the TransactionsActor that manages the request's transactional id.

    Each broker has one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._start: StartTransactionCoordinator
        self._transaction_settings: transactions.TransactionSettings
        self._markers: ActorAddress
        self._places = LedPartitions()
        self._hosted: dict[int, _LedPartition] = {}
        self._counting: set[str] = set()
        """Topics for which a request for the number of partitions is in progress."""
        self._groups_count = 0
        """Number of partitions of __consumer_offsets; 0 before it is known."""
        self._awaiting_count: list[Forwarded] = []
        """AddOffsetsToTxn requests that wait for that number."""
        self._numbers = 0
        self._asked: dict[int, Forwarded] = {}
        """Requests that wait for the metadata cache, by number."""
        self._gathered: dict[int, tuple[_SplitRequest, int]] = {}
        """Number of a request to a partition -> the client's request, and the index of the result."""
        self._load_ms = (0, 0, 0)
        """Loads of partitions: their number, and the sum and maximum of their times in ms."""

    @property
    def _settings(self) -> NodeSettings:
        return self._start.settings

    def receiveMsg_StartTransactionCoordinator(
        self, message: StartTransactionCoordinator, sender: ActorAddress
    ) -> None:
        """Set the settings, and the actors that this actor sends requests to."""
        self._start, settings = message, message.settings
        self._transaction_settings = transactions.TransactionSettings(
            settings.node_id,
            settings.transaction_max_timeout_ms,
            settings.transactional_id_expiration_ms,
            settings.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            settings.transaction_remove_expired_transaction_cleanup_interval_ms,
            settings.transaction_state_log_load_buffer_size,
            settings.request_timeout_ms,
        )
        self._markers = self.createActor(TransactionMarkersActor)
        self.send(
            self._markers,
            transactions.StartTransactionMarkers(
                settings.node_id,
                settings.request_timeout_ms,
                *(message.bridge, message.metadata_cache, message.network, message.metrics),
            ),
        )

    # ------------------------------------------------------------------------------------------------ requests

    def receiveMsg_Forwarded(self, message: Forwarded, sender: ActorAddress) -> None:
        """Handle a client's request."""
        match message.request.request:
            case InitProducerIdRequest() as request:
                self._initialize(message, request)
            case AddPartitionsToTxnRequest() as request if request.version >= VERIFYING_VERSION:
                self._split(message, request)
            case AddPartitionsToTxnRequest() as request:
                self._add_partitions(message, request)
            case AddOffsetsToTxnRequest():
                self._add_offsets(message)
            case EndTxnRequest() as request:
                self._route(message, request.transactional_id, message)
            case DescribeTransactionsRequest() as request:
                self._describe(message, request)
            case ListTransactionsRequest() as request:
                self._list(message, request)

    def _initialize(self, forwarded: Forwarded, request: InitProducerIdRequest) -> None:
        if is_half_pair(request):
            self._refuse(forwarded, errors.INVALID_REQUEST)
        elif request.transactional_id is None:
            self.send(self._start.producer_ids, forwarded)
        elif code := init_verdict(request, self._settings.transaction_max_timeout_ms):
            self._refuse(forwarded, code)
        else:
            self._route(forwarded, request.transactional_id, forwarded)

    def _add_partitions(self, forwarded: Forwarded, request: AddPartitionsToTxnRequest) -> None:
        self._numbers += 1
        self._asked[self._numbers] = forwarded
        self.send(self._start.metadata_cache, CheckPartitionsExist(self._numbers, request.partitions))

    def receiveMsg_PartitionsExist(self, message: PartitionsExist, sender: ActorAddress) -> None:
        """Continue an AddPartitionsToTxn after the metadata cache has returned which partitions exist (rule 2)."""
        forwarded = self._asked.pop(message.request)
        request: AddPartitionsToTxnRequest = forwarded.request.request
        codes = [
            errors.TOPIC_AUTHORIZATION_FAILED
            if each.topic in INTERNAL_TOPICS and request.version < VERIFYING_VERSION
            else errors.NONE
            if known
            else errors.UNKNOWN_TOPIC_OR_PARTITION
            for each, known in zip(message.partitions, message.known, strict=True)
        ]
        if any(codes):
            added = zip(request.partitions, codes, strict=True)
            results = tuple([AddedPartition(each, code or errors.OPERATION_NOT_ATTEMPTED) for each, code in added])
            self.send(*forwarded.reply(AddPartitionsToTxnResponse(results)))
        else:
            mail: Message = transactions.AddToTransaction(forwarded, request.partitions)
            for each in request.transactions:  # one that only verifies
                producer = each.transactional_id, each.producer_id, each.producer_epoch
                mail = Ask(forwarded.request.correlation_id, transactions.VerifyTransaction(*producer, each.partitions))
            self._route(forwarded, request.transactional_id, mail)

    def _add_offsets(self, forwarded: Forwarded) -> None:
        if not self._groups_count:
            self._awaiting_count.append(forwarded)
            self._count(GROUP_METADATA)
            return
        request: AddOffsetsToTxnRequest = forwarded.request.request
        partition = TopicPartition(GROUP_METADATA, slot(request.group_id) % self._groups_count)
        self._route(forwarded, request.transactional_id, transactions.AddToTransaction(forwarded, (partition,)))

    def _route(self, forwarded: Forwarded, transactional_id: str, mail: Message) -> None:
        """Send a request to the partition of its id (rule 1)."""
        code = self._verdict(transactional_id)
        if code != errors.NONE:
            self._refuse(forwarded, code)
        else:
            self.send(self._hosted[self._places.partition_of(transactional_id)].actor, mail)

    def _verdict(self, transactional_id: str) -> int:
        """Return NONE if this broker coordinates the id, else the error code."""
        if not is_valid_id(transactional_id):
            return errors.INVALID_REQUEST
        if not self._places.count:
            self._count(TRANSACTION_STATE)
        partition = self._places.partition_of(transactional_id)
        if partition in self._places.loading:
            return errors.COORDINATOR_LOAD_IN_PROGRESS
        return errors.NONE if partition in self._places.serving else errors.NOT_COORDINATOR

    def _refuse(self, forwarded: Forwarded, code: int) -> None:
        request = forwarded.request.request
        self.send(*forwarded.reply(API_BY_REQUEST[type(request)].refusal(request, code)))

    # ------------------------------------------------------------------------------------------------ admin requests

    def _describe(self, forwarded: Forwarded, request: DescribeTransactionsRequest) -> None:
        """Send a request for each id to the id's partition (rule 4)."""
        gathering = _SplitRequest(forwarded, [None] * len(request.transactional_ids), 0)
        for place, name in enumerate(request.transactional_ids):
            code = self._verdict(name)
            if code != errors.NONE:
                gathering.results[place] = DescribedTransaction(code, name)
            else:
                actor = self._hosted[self._places.partition_of(name)].actor
                self._ask(gathering, place, actor, transactions.DescribeTransaction(name))
        self._answer_gathered(gathering)

    def _split(self, forwarded: Forwarded, request: AddPartitionsToTxnRequest) -> None:
        """Split a request by transactional id, and verify or add the partitions of each (rule 5)."""
        gathering = _SplitRequest(forwarded, [None] * len(request.transactions), 0)
        for place, each in enumerate(request.transactions):
            producer = each.transactional_id, each.producer_id, each.producer_epoch
            one = AddPartitionsToTxnRequest(request.version, *producer, each.partitions, (each,) * each.verify_only)
            own = evolve(forwarded.request, correlation_id=self._expect(gathering, place), request=one)
            self._add_partitions(Forwarded(self.myAddress, own), one)
        self._answer_gathered(gathering)

    def _list(self, forwarded: Forwarded, request: ListTransactionsRequest) -> None:
        """Send a request to each partition (rule 4)."""
        if self._places.loading:
            self.send(*forwarded.reply(ListTransactionsResponse(errors.COORDINATOR_LOAD_IN_PROGRESS)))
            return
        places = sorted(self._places.serving)
        gathering = _SplitRequest(forwarded, [None] * len(places), 0)
        question = transactions.ListPartitionTransactions(
            request.state_filters, request.producer_id_filters, request.duration_filter
        )
        for place, partition in enumerate(places):
            self._ask(gathering, place, self._hosted[partition].actor, question)
        self._answer_gathered(gathering)

    def _ask(self, gathering: _SplitRequest, place: int, actor: ActorAddress, question: Message) -> None:
        self.send(actor, Ask(self._expect(gathering, place), question))

    def _expect(self, gathering: _SplitRequest, place: int) -> int:
        """Return the number that the answer with this result will have."""
        self._numbers += 1
        gathering.outstanding += 1
        self._gathered[self._numbers] = gathering, place
        return self._numbers

    def receiveMsg_Answer(self, message: Answer, sender: ActorAddress) -> None:
        """Store a partition's answer, and respond when all partitions have answered."""
        self._gather(message.id, message.result)

    def receiveMsg_ClientResponse(self, message: ClientResponse, sender: ActorAddress) -> None:
        """Store the response to a part of AddPartitionsToTxn, and respond when all parts are handled (rule 5)."""
        self._gather(message.correlation_id, message.response)

    def _gather(self, number: int, result: Message) -> None:
        if number not in self._gathered:
            return
        gathering, place = self._gathered.pop(number)
        gathering.results[place] = result
        gathering.outstanding -= 1
        self._answer_gathered(gathering)

    def _answer_gathered(self, gathering: _SplitRequest) -> None:
        if gathering.outstanding:
            return
        forwarded, results = gathering.forwarded, gathering.results
        match forwarded.request.request:
            case DescribeTransactionsRequest(transactional_ids=names):
                described = [
                    result
                    if isinstance(result, DescribedTransaction)
                    else DescribedTransaction(errors.UNKNOWN_SERVER_ERROR, name)
                    for name, result in zip(names, results, strict=True)
                ]
                self.send(*forwarded.reply(DescribeTransactionsResponse(tuple(described))))
            case AddPartitionsToTxnRequest(transactions=asked):
                verified = [_verification_result(*each) for each in zip(asked, results, strict=True)]
                self.send(*forwarded.reply(AddPartitionsToTxnResponse(transactions=tuple(verified))))
            case ListTransactionsRequest(state_filters=states):
                listed: list[ListedTransaction] = []
                for result in results:
                    if isinstance(result, transactions.PartitionTransactions):
                        listed += result.transactions
                self.send(
                    *forwarded.reply(ListTransactionsResponse(errors.NONE, unknown_states(states), tuple(listed)))
                )

    # ---------------------------------------------------------------------------------------------- loading, unloading

    @property
    def is_loading(self) -> bool:
        """Whether this actor is loading a partition."""
        return bool(self._places.loading)

    def receiveMsg_InternalTopicLeadership(self, message: InternalTopicLeadership, sender: ActorAddress) -> None:
        """Load and unload partitions after leadership changes (rule 1)."""
        for partition in message.lost:
            if partition.topic == TRANSACTION_STATE:
                self._unload(partition.partition)
        for led in message.led:
            if led.partition.topic == TRANSACTION_STATE:
                self._load(led)

    def _load(self, led: LedPartition) -> None:
        partition = led.partition.partition
        self._unload(partition)
        if not self._places.count:
            self._count(TRANSACTION_STATE)
        self._places.loading.add(partition)
        actor = self.createActor(TransactionsActor)
        self._hosted[partition] = _LedPartition(actor, self.now)
        self.send(
            actor,
            transactions.StartTransactions(
                *(partition, led.leader_epoch, led.actor, self._transaction_settings),
                *(self._start.producer_ids, self._markers),
            ),
        )

    def receiveMsg_TransactionsLoaded(self, message: transactions.TransactionsLoaded, sender: ActorAddress) -> None:
        """Serve a loaded partition, or unload it if it cannot be read."""
        partition, node_id = message.partition, self._settings.node_id
        hosted = self._hosted.get(partition)
        if hosted is None or hosted.actor != sender:
            return
        self._places.loading.discard(partition)
        if message.error_code != errors.NONE:
            log.error(
                "[Transaction State Manager %d]: Error loading transactions from %s-%d: %s",
                *(node_id, TRANSACTION_STATE, partition, name_of(message.error_code)),
            )
            self._unload(partition)
            return
        self._places.serving.add(partition)
        loading_ms = round((self.now - hosted.began) * 1000)
        log.info(
            "[Transaction State Manager %d]: Finished loading %d transaction metadata from %s-%d in %d milliseconds",
            *(node_id, message.ids, TRANSACTION_STATE, partition, loading_ms),
        )
        count, total, longest = self._load_ms
        self._load_ms = count + 1, total + loading_ms, max(longest, loading_ms)
        average = self._load_ms[1] / self._load_ms[0]
        gauges = Gauge(f"{LOAD_TIME}_avg", average), Gauge(f"{LOAD_TIME}_max", self._load_ms[2])
        self.send(self._start.metrics, Gauges(gauges))

    def _unload(self, partition: int) -> None:
        """Drop the ids of a partition that another broker leads (rule 1)."""
        if partition in self._places.loading:
            probe("a coordinator gives up a partition of transactions that it loads")
        self._places.loading.discard(partition)
        self._places.serving.discard(partition)
        hosted = self._hosted.pop(partition, None)
        if hosted is not None:
            self.send(self._markers, transactions.DropMarkers(partition))
            self.send(hosted.actor, transactions.UnloadTransactions())
            self.send(hosted.actor, ActorExitRequest())

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: ActorAddress) -> None:
        """Ignore the exit of a partition's actor, because this coordinator has requested it."""

    # ------------------------------------------------------------------------------------------------ counting

    def _count(self, topic: str) -> None:
        """Request the number of partitions of a topic, unless such a request is in progress."""
        if topic not in self._counting:
            self._counting.add(topic)
            self.send(self._start.finder, CountPartitions(topic))

    def receiveMsg_PartitionCount(self, message: PartitionCount, sender: ActorAddress) -> None:
        """Store the number of partitions of a topic.

        If __consumer_offsets does not exist, use the number of partitions that it is created with.
        """
        self._counting.discard(message.topic)
        if message.topic == TRANSACTION_STATE:
            self._places.count = message.count
            return
        self._groups_count = message.count or self._settings.offsets_topic_num_partitions
        waiting, self._awaiting_count = self._awaiting_count, []
        for forwarded in waiting:
            self._add_offsets(forwarded)
        if not message.count:
            self._groups_count = 0

    def receiveMsg_PartitionsDeleted(self, message: PartitionsDeleted, sender: ActorAddress) -> None:
        """Drop the partition counts of deleted internal topics, because a recreated topic may have another count."""
        topics = {partition.topic for partition in message.partitions} & INTERNAL_TOPICS
        if TRANSACTION_STATE in topics:
            self._places.count = 0
        if GROUP_METADATA in topics:
            self._groups_count = 0
        if topics:
            self.send(self._start.finder, message)


def _verification_result(asked: AddPartitionsToTxnTransaction, result: Message | None) -> AddPartitionsToTxnResult:
    """Return the result for one transactional id, taken from the answer of the id's partition."""
    failed = (errors.UNKNOWN_SERVER_ERROR,) * len(asked.partitions)
    if isinstance(result, AddPartitionsToTxnResponse):
        return AddPartitionsToTxnResult(asked.transactional_id, result.partitions)
    codes = result.error_codes if isinstance(result, transactions.PartitionsVerified) else failed
    added = [AddedPartition(*each) for each in zip(asked.partitions, codes, strict=True)]
    return AddPartitionsToTxnResult(asked.transactional_id, tuple(added))
