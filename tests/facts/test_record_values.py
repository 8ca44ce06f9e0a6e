"""Test the values of messages: each is a column in Spark, and a payload of another class is rejected with its name."""

from __future__ import annotations

import pytest
from thespian.actors import ActorAddress

from messages.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from messages.apis.add_partitions_to_txn import AddPartitionsToTxnRequest
from messages.ask import Answer, Ask
from messages.cluster import TopicPartition
from messages.facts.record_values import (
    NOTHING,
    ExchangeValues,
    PartitionValues,
    RecordValues,
    TransactionValues,
    values_of,
)
from messages.network import ClientRequest, ClientRequests, ClientResponse, Forwarded, TransmitFailed
from messages.trace.codec import encode
from messages.trace.errors import BadPayload
from messages.trace.schema import NO_PAYLOAD, Payload
from messages.transactions import AddToTransaction, Marker, PartitionsMarked, SendMarkers
from messages.zookeeper.brokers import GetBrokers
from messages.zookeeper.controller import Elected
from spark.columns import ARROW, COLUMNS, EXCHANGE, STATE, TRANSACTION


def read(message: object) -> RecordValues:
    name, payload = encode(message)
    return values_of(name, Payload(payload))


def test_each_value_is_a_column() -> None:
    first = ARROW.get_field_index("request")
    assert list(RecordValues._fields) == [*list(COLUMNS)[first:], "error"]
    assert list(PartitionValues._fields) == [field.name for field in STATE]
    assert list(ExchangeValues._fields) == [field.name for field in EXCHANGE]
    assert list(TransactionValues._fields) == [field.name for field in TRANSACTION]


def test_a_message_inside_a_message_is_named_and_not_decoded_unless_it_has_values() -> None:
    assert read(Ask(7, GetBrokers())) == RecordValues(request="GetBrokers", correlation=7)
    assert read(Answer(7, Elected(3, 1))) == RecordValues(request="Elected", correlation=7, epoch=3)
    of_a_later_version = b'{"id":7,"question":["GetPlanets",{"moons":true}]}'
    assert values_of("Ask", Payload(of_a_later_version)) == RecordValues(request="GetPlanets", correlation=7)


def test_requests_of_clients_are_read_as_exchanges() -> None:
    requests = (ClientRequest(1, 5, "c", "L", GetBrokers()), ClientRequest(1, 6, "c", "L", GetBrokers()))
    exchanges = [ExchangeValues(1, 5, "GetBrokers"), ExchangeValues(1, 6, "GetBrokers")]
    assert read(ClientRequests(requests)).exchanges == exchanges
    assert read(ClientResponse(1, 5, GetBrokers())) == RecordValues(connection=1, correlation=5, request="GetBrokers")


def test_a_failed_request_has_its_reason_and_broker() -> None:
    assert read(TransmitFailed("controller-1-broker-2-7", 3, "refused")) == RecordValues(
        channel="controller-1-broker-2-7", broker=2, correlation=3, error="refused"
    )


def test_transactions_that_grow_and_end() -> None:
    place, actor = TopicPartition("t", 0), ActorAddress("TransactionsActor.7")
    for asked in (AddPartitionsToTxnRequest(3, "pay", 7, 2, (place,)), AddOffsetsToTxnRequest(3, "pay", 7, 2, "group")):
        forwarded = Forwarded(actor, ClientRequest(1, 5, "c", "L", asked))
        assert read(AddToTransaction(forwarded, (place,))) == RecordValues(
            items=1, transactions=[TransactionValues("pay", 7, 2)]
        )
    markers = [Marker(name, 7, 2, 0, name == "pay", (place, place), 3, actor) for name in ("pay", "undo")]
    assert read(SendMarkers(tuple(markers))) == RecordValues(
        items=4, transactions=[TransactionValues("pay", 7, 2, True), TransactionValues("undo", 7, 2, False)]
    )
    assert read(PartitionsMarked("pay", 7, 2, (place,))) == RecordValues(
        items=1, transactions=[TransactionValues("pay", 7, 2)]
    )


@pytest.mark.parametrize("name", ["GetBrokers", "NoSuchMessage", ""])
def test_messages_without_values_have_none(name: str) -> None:
    assert values_of(name, Payload(b"{}")) is NOTHING


def test_a_payload_that_the_record_omits_has_no_values() -> None:
    assert values_of("Ask", NO_PAYLOAD) is NOTHING


@pytest.mark.parametrize(
    "payload", [b'{"unencodable":"no form"}', b'{"id":"seven","question":["GetBrokers",{}]}', b"[]"]
)
def test_a_payload_of_another_class_is_refused_by_name(payload: bytes) -> None:
    with pytest.raises(BadPayload, match=r"^Ask: "):
        values_of("Ask", Payload(payload))
