"""A broker with its transaction coordinator on virtual time. The partitions of __transaction_state are real logs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from thespian.actors import ActorAddress

from actors.broker.producer_ids import ProducerIdsActor
from actors.coordinator.coordinator_finder import CoordinatorFinderActor
from actors.coordinator.transaction_coordinator import TransactionCoordinatorActor
from actors.core.topic.topic_name import GROUP_METADATA, TRANSACTION_STATE
from actors.core.transaction.transaction import Transaction
from actors.core.transaction.transaction_records import read_key, read_value
from messages.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from messages.apis.add_partitions_to_txn import AddPartitionsToTxnRequest
from messages.apis.declaration import PartitionError
from messages.apis.describe_transactions import DescribedTransaction, DescribeTransactionsRequest
from messages.apis.end_txn import EndTxnRequest
from messages.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from messages.apis.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from messages.ask import Answer, Ask, Failure
from messages.cluster import LEADER_DURING_DELETE, PartitionAssignment, ReplicaAssignment, TopicPartition
from messages.errors import NONE
from messages.network import Received, Transmit, TransmitFailed
from messages.node import StartCoordinatorFinder, StartProducerIds, StartRequestHandler, StartTransactionCoordinator
from messages.placement import slot
from messages.vocabulary import Message
from messages.wire.batch_records import records
from messages.wire.record_batch import whole_batches
from messages.zookeeper import Assignments, GetAssignments, ProducerIds, TakeProducerIds, TopicAssignment
from tests.broker.harness import Broker, alive, known, order

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ID = "id"
START_MS = 1_700_000_000_000


class VirtualTime:
    """A wall clock that follows the virtual clock."""

    def __init__(self, world: TransactionWorld) -> None:
        self._world = world

    def wall_ms(self) -> int:
        return START_MS + round(self._world.clock.now() * 1000)


class TransactionWorld(Broker):
    """Broker 0, which leads the partitions of __transaction_state that the test selects, of `partitions`.

    Broker 0 leads a-0 and b-0, broker 1 leads a-1. `codes` has the error code of a marker by partition. A broker in
    `frozen` does not answer.
    """

    def __init__(self, place: Path, partitions: int = 3, **fields: Any) -> None:
        self.partitions = partitions
        self.topic_exists: bool | None = True
        self.group_partitions = 5
        self.existing = {"a": 2, "b": 1}
        """Topics in ZooKeeper, with their partitions."""
        self.blocks = 0
        self.no_block: Failure | None = None
        """The failure of requests for producer ids."""
        self.created: list[Message] = []
        self.sent: list[Transmit] = []
        """WriteTxnMarkers requests."""
        self.codes: dict[TopicPartition, int] = {}
        self.frozen: set[int] = set()
        super().__init__(place, start=False, **fields)
        self.base.ports["time"] = VirtualTime(self)
        made = self.base.external_endpoint("topic creation", lambda message, sender: self.created.append(message))
        self.network = self.base.external_endpoint("network of markers", self._transmit)
        producer_ids, self.finder = (
            self.system.createActor(each) for each in (ProducerIdsActor, CoordinatorFinderActor)
        )
        self.base.inject(producer_ids, StartProducerIds(0, self._bridge))
        self.base.inject(self.finder, StartCoordinatorFinder(self._bridge, self.cache, made))
        self._coordinator = self.coordinator = self.system.createActor(TransactionCoordinatorActor)
        self.base.inject(
            self.coordinator,
            StartTransactionCoordinator(
                *(self.settings, self._bridge, self.cache, self.finder, producer_ids, self.network, self._metrics)
            ),
        )
        self.base.inject(
            self.handler,
            StartRequestHandler(
                *(self.settings, self.cache, self.manager, None, self.partition_requests),
                coordinator_finder=self.finder,
                transaction_coordinator=self.coordinator,
            ),
        )
        self.start()
        self.epoch = 0
        self.inform()

    def inform(self, *states: Any, live: Iterable[int] = (0, 1)) -> None:
        """Send UpdateMetadata for these partitions, by default for the topics a and b."""
        topics = states or tuple(self.topics_with())
        self.update(*topics, live=tuple(alive(each, 9092 + each) for each in live))

    def topics_with(self, *more: TopicPartition) -> list[Any]:
        """Return the metadata of the topics a and b, and of other partitions that broker 0 leads."""
        return [known("a"), known("a", 1, leader=1), known("b"), *(known(each.topic, each.partition) for each in more)]

    def forget(self, partition: TopicPartition) -> None:
        """Remove a partition from the metadata cache."""
        self.inform(known(partition.topic, partition.partition, leader=LEADER_DURING_DELETE))

    def _asked(self, message: Ask, sender: ActorAddress) -> None:
        result: Message
        match message.question:
            case TakeProducerIds():
                self.blocks += 1
                result = self.no_block or ProducerIds(1000 * self.blocks, 1000 * self.blocks + 1000)
            case GetAssignments(topics):
                there = {**self.existing, GROUP_METADATA: self.group_partitions}
                if self.topic_exists:
                    there[TRANSACTION_STATE] = self.partitions
                result = Assignments(
                    tuple(
                        TopicAssignment(
                            topic, tuple(PartitionAssignment(n, ReplicaAssignment((0, 1))) for n in range(there[topic]))
                        )
                        for topic in topics
                        if there.get(topic)
                    )
                )
            case _:
                super()._asked(message, sender)
                return
        if self.topic_exists is None:
            result = Failure("ConnectionLoss", "ZooKeeper is away")
        self.base.inject(sender, Answer(message.id, result), self._bridge)

    def _transmit(self, message: Message, sender: ActorAddress) -> None:
        """Answer a WriteTxnMarkers request as its receiver, unless this broker is frozen."""
        if not isinstance(message, Transmit):
            return
        self.sent.append(message)
        if message.endpoint.port - 9092 not in self.frozen:
            self.respond(message, sender)
        else:
            self.unanswered = message, sender

    def respond(self, message: Transmit, sender: ActorAddress) -> None:
        request: WriteTxnMarkersRequest = message.request
        results = tuple(
            WritableTxnMarkerResult(
                each.producer_id,
                tuple(PartitionError(partition, self.codes.get(partition, NONE)) for partition in each.partitions),
            )
            for each in request.markers
        )
        answer = Received(message.channel, message.correlation_id, WriteTxnMarkersResponse(results))
        self.base.inject(sender, answer, self.network)

    def thaw(self, failed: bool = False) -> None:
        """Let the frozen broker answer the last request, or break its connection if `failed`."""
        self.frozen.clear()
        message, sender = self.unanswered
        if failed:
            self.base.inject(sender, TransmitFailed(message.channel, message.correlation_id, "reset"), self.network)
        else:
            self.respond(message, sender)
        self.run()

    # ------------------------------------------------------------------------------------------------ requests

    def coordinate(self, *partitions: int, leader: int = 0) -> None:
        """Make a broker the leader of these partitions of __transaction_state."""
        self.epoch += 1
        reported = {"leader": leader, "epoch": self.epoch, "isr": (leader,), "replicas": (leader, 1 - leader)}
        self.inform(*(known(TRANSACTION_STATE, number, **reported) for number in partitions))
        self.lead(*(order(TRANSACTION_STATE, number, **reported, is_new=self.epoch == 1) for number in partitions))
        self.run()

    def partition_of(self, transactional_id: str = ID) -> int:
        return slot(transactional_id) % self.partitions

    def pass_time(self, seconds: float) -> None:
        self.base.simulate(self.clock.now() + seconds)

    def init(
        self, name: str | None = ID, timeout: int = 60_000, pair: tuple[int, int] = (-1, -1), version: int = 3
    ) -> InitProducerIdResponse:
        response: InitProducerIdResponse = self.ask(InitProducerIdRequest(version, name, timeout, *pair))
        return response

    def producer(self, name: str = ID, **fields: Any) -> tuple[int, int]:
        """Initialize a producer, and return its id and epoch."""
        response = self.init(name, **fields)
        assert response.error_code == NONE, response
        return response.producer_id, response.producer_epoch

    def add(self, pair: tuple[int, int], *partitions: TopicPartition, name: str = ID, version: int = 1) -> list[int]:
        response = self.ask(AddPartitionsToTxnRequest(version, name, *pair, partitions))
        return [each.error_code for each in response.partitions]

    def add_offsets(self, pair: tuple[int, int], group: str = "g", name: str = ID) -> int:
        return int(self.ask(AddOffsetsToTxnRequest(1, name, *pair, group)).error_code)

    def end(self, pair: tuple[int, int], commit: bool = True, name: str = ID, version: int = 1) -> int:
        return int(self.ask(EndTxnRequest(version, name, *pair, commit)).error_code)

    def describe(self, name: str = ID) -> DescribedTransaction:
        described: DescribedTransaction = self.ask(DescribeTransactionsRequest(0, (name,))).transaction_states[0]
        return described

    def stands(self, name: str = ID) -> tuple[str, int]:
        """Return the state and the producer epoch of a transactional id."""
        described = self.describe(name)
        return described.transaction_state, described.producer_epoch

    @property
    def markers(self) -> list[WritableTxnMarker]:
        """Return all markers that were sent."""
        return [marker for each in self.sent for marker in each.request.markers]

    def logged(self, name: str = ID) -> list[Transaction | None]:
        """Read the records of a transactional id from the log file; None for a tombstone."""
        place = Path(self.settings.log_dirs[0]) / f"{TRANSACTION_STATE}-{self.partition_of(name)}"
        data = (place / f"{0:020d}.log").read_bytes()
        found: list[Transaction | None] = []
        for at, header in whole_batches(data):
            for record in records(memoryview(data)[at:], header, 1 << 20):
                if record.key is not None and read_key(record.key) == name:
                    found.append(None if record.value is None else read_value(name, record.value))
        return found
