"""Test that leaders verify transactions before they append: produce, markers, unavailable coordinators, metrics."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from thespian.actors import ActorAddress

from actors.coordinator.transaction_verifier import FAILURES, TIME, TransactionVerifierActor
from messages import errors
from messages.apis.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
from messages.apis.api_versions import ApiVersionRange, ApiVersionsRequest, ApiVersionsResponse
from messages.apis.describe_producers import DescribeProducersRequest
from messages.apis.produce import ProducePartition, ProduceRequest
from messages.apis.write_txn_markers import WritableTxnMarker, WriteTxnMarkersRequest
from messages.cluster import TopicPartition
from messages.metrics import Count, Counts, Samples
from messages.network import ClientRequest, Received, Transmit, TransmitFailed
from messages.transactions import StartTransactionVerifier
from messages.vocabulary import Message
from messages.wire.record_batch import read_records
from tests.broker.harness import alive, order
from tests.coordinator.transaction_world import A0, A1, B0, ID, START_MS, TransactionWorld
from tests.storage.batches import batch as batch_at

batch = partial(batch_at, timestamp=START_MS, transactional=True)


class VerifyingWorld(TransactionWorld):
    """Broker 0 with a verifier, whose requests its own request handler answers.

    If `holds` is set, requests wait in `held` until `go_on` is called. `version` is the highest version of
    AddPartitionsToTxn that the coordinator supports.
    """

    def __init__(self, place: Path) -> None:
        self.version = 4
        self.holds = self.fails = False
        self.held: list[tuple[Transmit, ActorAddress]] = []
        self.verified: list[AddPartitionsToTxnRequest] = []
        self.figures: list[Message] = []
        self._asked_of_us: dict[int, tuple[Transmit, ActorAddress]] = {}
        super().__init__(place)

    def start(self) -> None:
        self.verifier = self.system.createActor(TransactionVerifierActor)
        self._peer = self.base.external_endpoint(
            "a broker", lambda message, sender: self._answer(message.correlation_id, message.response)
        )
        network = self.base.external_endpoint("network of verifications", self._ask_coordinator)
        figures = self.base.external_endpoint("figures", lambda message, sender: self.figures.append(message))
        start = StartTransactionVerifier(0, 30_000, self.cache, self.finder, network, figures)
        self.base.inject(self.verifier, start)
        super().start()

    def _ask_coordinator(self, message: Message, sender: ActorAddress) -> None:
        if isinstance(message, Transmit):
            self.held.append((message, sender))
            if not self.holds:
                self.go_on()

    def go_on(self) -> None:
        """Answer the held requests to coordinators."""
        held, self.held = self.held, []
        for message, sender in held:
            self._asked_of_us[message.correlation_id] = message, sender
            if self.fails:
                self._answer(message.correlation_id, None)
            elif isinstance(message.request, ApiVersionsRequest):
                versions = ApiVersionsResponse(errors.NONE, (ApiVersionRange(24, 0, self.version),))
                self._answer(message.correlation_id, versions)
            else:
                self.verified.append(message.request)
                request = ClientRequest(1, message.correlation_id, "broker-0", "PLAINTEXT", message.request)
                self.base.inject(self.handler, request, self._peer)

    def _answer(self, number: int, response: Message | None) -> None:
        message, sender = self._asked_of_us.pop(number)
        answer = (
            TransmitFailed(message.channel, number, "reset")
            if response is None
            else Received(message.channel, number, response)
        )
        self.base.inject(sender, answer, self.network)

    def begin_produce(
        self,
        pair: tuple[int, int],
        *values: bytes,
        to: TopicPartition = A0,
        sequence: int = 0,
        name: str = ID,
        version: int = 8,
    ) -> list[int]:
        """Send a produce request for each value, and return the correlation ids."""
        made = []
        for place, value in enumerate(values):
            data = batch(value, producer=pair[0], epoch=pair[1], sequence=sequence + place)
            made.append(
                self.post(ProduceRequest(version, name, 1, 30_000, (ProducePartition(to, read_records(data)),)))
            )
        self.run()
        return made

    def codes_of(self, numbers: list[int]) -> list[int | None]:
        """Return the error codes of produce requests; None for those without a response."""
        answers = {each.correlation_id: each for each in self.answers}
        return [answers[each].response.partitions[0].error_code if each in answers else None for each in numbers]

    def produce(self, pair: tuple[int, int], *values: bytes, **fields: object) -> list[int | None]:
        return self.codes_of(self.begin_produce(pair, *values, **fields))  # type: ignore[arg-type]

    def mark(self, pair: tuple[int, int], commit: bool = False) -> int:
        """Send a marker as a coordinator, and return its error code."""
        marker = WritableTxnMarker(*pair, commit, (A0,), 0)
        return int(self.ask(WriteTxnMarkersRequest(0, (marker,))).markers[0].partitions[0].error_code)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[VerifyingWorld]:
    world = VerifyingWorld(tmp_path)
    world.run()
    world.lead(order("a"), order("b"))
    world.coordinate(0, 1, 2)
    yield world
    assert world.base.failures == 0
    world.base.shutdown()


def test_a_batch_is_appended_where_its_partition_was_added(world: VerifyingWorld) -> None:
    pair = world.producer()
    assert world.produce(pair, b"early") == [errors.INVALID_TXN_STATE]
    world.add(pair, A0)
    assert world.produce(pair, b"a", b"b") == [errors.NONE, errors.NONE]
    assert world.produce(pair, b"c", sequence=2) == [errors.NONE]
    assert len(world.verified) == 2, "an open transaction is not verified again"
    assert world.produce(pair, b"elsewhere", to=B0) == [errors.INVALID_TXN_STATE]
    assert world.produce(pair, b"elsewhere", to=B0, version=11) == [errors.TRANSACTION_ABORTABLE]


def test_a_batch_that_comes_after_the_marker_opens_no_transaction(world: VerifyingWorld) -> None:
    """KAFKA-14402: this transaction would never end, and read_committed consumers would wait for it."""
    pair = world.producer()
    world.add(pair, A0)
    world.holds = True
    late = world.begin_produce(pair, b"late")
    assert world.mark(pair) == errors.NONE
    assert world.codes_of(late) == [errors.INVALID_TXN_STATE]
    world.holds = False
    world.go_on()
    world.run()
    assert world.describe().transaction_state == "Ongoing"
    producers = world.ask(DescribeProducersRequest(0, (A0,))).partitions[0].active_producers
    assert [each.current_txn_start_offset for each in producers] == [-1], "no transaction is open"


def test_batches_of_one_producer_keep_their_order_and_others_do_not_wait(world: VerifyingWorld) -> None:
    pair, other = world.producer(), world.producer("other")
    world.add(pair, A0)
    world.holds = True
    waiting = world.begin_produce(pair, b"a", b"b")
    plain = batch_at(b"plain", timestamp=START_MS)
    number = world.post(ProduceRequest(8, None, 1, 30_000, (ProducePartition(A0, read_records(plain)),)))
    world.run()
    assert (world.codes_of(waiting), world.codes_of([number])) == ([None, None], [errors.NONE])
    assert world.codes_of(world.begin_produce(other, b"x", name="other")) == [None]
    world.holds = False
    while world.held:
        world.go_on()
        world.run()
    assert world.codes_of(waiting) == [errors.NONE, errors.NONE]


def test_a_producer_without_a_coordinator_retries(world: VerifyingWorld) -> None:
    pair = world.producer()
    world.add(pair, A0)
    world.fails = True
    assert world.produce(pair, b"a") == [errors.NOT_ENOUGH_REPLICAS], "no response"
    world.fails = False
    world.coordinate(0, 1, 2, leader=1)
    assert world.produce(pair, b"a") == [errors.NOT_ENOUGH_REPLICAS], "asked at broker 0, which coordinates no longer"
    world.coordinate(0, 1, 2, leader=-1)
    assert world.produce(pair, b"a") == [errors.NOT_ENOUGH_REPLICAS], "there is no coordinator"
    world.coordinate(0, 1, 2)
    assert world.produce(pair, b"b", sequence=1) == [errors.OUT_OF_ORDER_SEQUENCE], "KAFKA-14920"
    assert world.produce(pair, b"a") == [errors.NONE]


def test_a_coordinator_without_version_4_counts_as_having_verified(world: VerifyingWorld) -> None:
    world.version = 3
    assert world.produce(world.producer(), b"a") == [errors.NONE]
    assert world.verified == []


def test_a_new_leader_verifies_again_and_a_former_one_refuses(world: VerifyingWorld) -> None:
    pair = world.producer()
    world.add(pair, A0)
    assert world.produce(pair, b"a") == [errors.NONE]
    world.holds = True
    waiting = world.begin_produce(world.producer("other"), b"x", name="other")
    world.lead(order("a", leader=1, epoch=1))
    world.run()
    assert world.codes_of(waiting) == [errors.NOT_LEADER_OR_FOLLOWER]
    world.holds = False
    world.go_on()
    world.lead(order("a", epoch=2))
    asked = len(world.verified)
    assert world.produce(pair, b"b", sequence=1) == [errors.NONE]
    assert len(world.verified) == asked + 1


def test_batches_do_not_wait_for_a_coordinator_that_has_another_endpoint(world: VerifyingWorld) -> None:
    pair, other = world.producer(), world.producer("other")
    for each, name in ((pair, ID), (other, "other")):
        world.add(each, A0, name=name)
    world.holds = True
    waiting = world.begin_produce(pair, b"a")
    world.update(*world.topics_with(), live=(alive(0, 9192), alive(1, 9093)))
    world.begin_produce(other, b"x", name="other")
    assert world.codes_of(waiting) == [errors.NOT_ENOUGH_REPLICAS]


def test_the_metrics_have_times_and_failures(world: VerifyingWorld) -> None:
    pair = world.producer()
    assert world.produce(pair, b"early") == [errors.INVALID_TXN_STATE]
    world.add(pair, A0)
    world.holds = True
    world.begin_produce(pair, b"a")
    world.pass_time(0.25)
    world.holds = False
    world.go_on()
    world.run()
    [refused, verified] = [each.values for each in world.figures if isinstance(each, Samples)]
    assert [each.values for each in world.figures if isinstance(each, Counts)] == [(Count(FAILURES, 1),)]
    assert {each.name for each in refused} == {TIME}
    assert 250 <= verified[0].value < 300


def test_what_a_coordinator_answers_a_broker(world: VerifyingWorld) -> None:
    producer_id, epoch = world.producer()
    world.add((producer_id, epoch), A0)

    def codes(*transactions: AddPartitionsToTxnTransaction) -> list[list[int]]:
        response = world.ask(AddPartitionsToTxnRequest(4, transactions=transactions))
        return [[each.error_code for each in result.partitions] for result in response.transactions]

    ours = partial(AddPartitionsToTxnTransaction, ID)
    assert codes(ours(producer_id, epoch, True, (A0, A1)), ours(producer_id, epoch + 1, True, (A0,))) == [
        [errors.NONE, errors.TRANSACTION_ABORTABLE],
        [errors.PRODUCER_FENCED],
    ]
    assert codes(AddPartitionsToTxnTransaction("unknown", 1, 0, True, (A0,))) == [[errors.INVALID_PRODUCER_ID_MAPPING]]
    absent = TopicPartition("a", 9)
    for verify_only in (True, False):
        assert codes(ours(producer_id, epoch, verify_only, (A0, absent))) == [
            [errors.OPERATION_NOT_ATTEMPTED, errors.UNKNOWN_TOPIC_OR_PARTITION]
        ]
    assert codes(ours(producer_id, epoch, False, (A1, B0))) == [[errors.NONE, errors.NONE]]
    assert codes(ours(producer_id, epoch, True, (A1, B0)), ours(producer_id, epoch + 1, False, (A1,))) == [
        [errors.NONE, errors.NONE],
        [errors.PRODUCER_FENCED],
    ]
    world.coordinate(0, 1, 2, leader=1)
    assert codes(*[ours(producer_id, epoch, verify_only, (A0,)) for verify_only in (True, False)]) == [
        [errors.NOT_COORDINATOR],
        [errors.NOT_COORDINATOR],
    ]
