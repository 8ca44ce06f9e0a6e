"""Table of the transaction requests that `client_requests` sends; simulated producers send the other ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from actors.core.topic.topic_name import GROUP_METADATA
from actors.simulation import request_target
from actors.simulation.data_client_requests import batch_with
from actors.simulation.group_client_requests import as_member, commit_as_in_transaction
from actors.simulation.members import instance_of
from messages.apis import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_producers,
    describe_transactions,
    end_txn,
    list_transactions,
    txn_offset_commit,
    write_txn_markers,
)
from messages.apis.init_producer_id import InitProducerIdRequest
from messages.apis.offset_commit import CommittedPartition
from messages.apis.produce import ACKS_ALL, ProducePartition, ProduceRequest
from messages.cluster import TopicPartition
from messages.records import TRANSACTION_BIT, Records
from messages.vocabulary import AnyMessage, Message
from zk_bridge import paths
from zk_bridge.znodes.topics import decode_topic

STRAY_ID = "stray"
"""A transactional id without an open transaction."""

MARKED = TopicPartition("x", 2)
"""The partition for markers without a transaction: the readers of its topic skip markers."""

MARKED_PRODUCER = 901


def _of_producer(make: Callable[[str, int, int], Message]) -> request_target.Make:
    """Return a function that makes a request whose producer epoch is the newest epoch minus 1."""

    def made(about: request_target.RequestTarget) -> AnyMessage | None:
        known = about.cluster.newest_producers
        id = sorted(known)[about.number % len(known)] if known else request_target.UNKNOWN_ID
        producer_id, epoch = known.get(id, (0, 0))
        return make(id, producer_id, epoch - 1) if epoch else None

    return made


def _add(id: str, *partitions: TopicPartition) -> request_target.Make:
    return lambda about: add_partitions_to_txn.AddPartitionsToTxnRequest(1, id, 5, 0, partitions or (about.partition,))


def _in_transaction(id: str | None, *producers: int) -> request_target.Make:
    """Return a function that makes a Produce request of an unknown transaction, with one batch for each producer id."""

    def make(about: request_target.RequestTarget) -> Message:
        parts = [
            ProducePartition(TopicPartition(about.topic, about.number + place), _batch_in_transaction(about, producer))
            for place, producer in enumerate(producers)
        ]
        return ProduceRequest(8, id, ACKS_ALL, request_target.TIMEOUT_MS, tuple(parts))

    return make


def _batch_in_transaction(about: request_target.RequestTarget, producer: int) -> Records:
    return batch_with(about, attributes=TRANSACTION_BIT, producer_id=producer, producer_epoch=0, base_sequence=0)


def _mark(*epochs: tuple[int, int]) -> request_target.Wanted:
    """Return a function that makes one WriteTxnMarkers request for each (producer epoch, coordinator epoch)."""
    return lambda about: [
        write_txn_markers.WriteTxnMarkersRequest(
            0, (write_txn_markers.WritableTxnMarker(MARKED_PRODUCER, producer, False, (MARKED,), coordinator),)
        )
        for producer, coordinator in epochs
    ]


def _offsets_partitions(about: request_target.RequestTarget) -> Iterator[TopicPartition]:
    """Yield the partitions of __consumer_offsets."""
    data = about.cluster.zookeeper.read(paths.topic(GROUP_METADATA)).data
    for each in () if data is None else decode_topic("", data).partitions:
        yield TopicPartition(GROUP_METADATA, each.partition)


def verification(about: request_target.RequestTarget, producer_id: int = 5, producer_epoch: int = 0) -> Message:
    """Return a leader's verification request for a transaction that has not begun."""
    asked = add_partitions_to_txn.AddPartitionsToTxnTransaction(
        STRAY_ID, producer_id, producer_epoch, True, (about.partition,)
    )
    return add_partitions_to_txn.AddPartitionsToTxnRequest(4, transactions=(asked,))


TRANSACTIONS: Mapping[str, request_target.Wanted] = {
    "init-half-pair": lambda about: InitProducerIdRequest(3, STRAY_ID, 60_000, 5, -1),
    "init-nameless": lambda about: InitProducerIdRequest(3, "", 60_000),
    "init-long": lambda about: InitProducerIdRequest(3, STRAY_ID, 1 << 30),
    "init-stray": lambda about: InitProducerIdRequest(3, STRAY_ID, 60_000),
    "init-stale": _of_producer(lambda id, producer, epoch: InitProducerIdRequest(3, id, 60_000, producer, epoch)),
    "init-stale-new": _of_producer(lambda id, producer, epoch: InitProducerIdRequest(4, id, 60_000, producer, epoch)),
    "add-nameless": _add(""),
    "add-unknown": _add(request_target.UNKNOWN_ID),
    "add-internal": lambda about: add_partitions_to_txn.AddPartitionsToTxnRequest(
        1, request_target.UNKNOWN_ID, 5, 0, (request_target.internal(about), MARKED)
    ),
    "add-absent": _add(request_target.UNKNOWN_ID, TopicPartition(request_target.ABSENT_TOPIC, 0)),
    "add-stale": _of_producer(
        lambda id, producer, epoch: add_partitions_to_txn.AddPartitionsToTxnRequest(2, id, producer, epoch, (MARKED,))
    ),
    "add-stale-old": _of_producer(
        lambda id, producer, epoch: add_partitions_to_txn.AddPartitionsToTxnRequest(1, id, producer, epoch, (MARKED,))
    ),
    "verify": verification,
    "add-offsets-nameless": lambda about: add_offsets_to_txn.AddOffsetsToTxnRequest(
        1, "", 5, 0, request_target.OWN_GROUP
    ),
    "add-offsets-unknown": lambda about: add_offsets_to_txn.AddOffsetsToTxnRequest(
        1, request_target.UNKNOWN_ID, 5, 0, request_target.OWN_GROUP
    ),
    "add-offsets-stale": _of_producer(
        lambda id, producer, epoch: add_offsets_to_txn.AddOffsetsToTxnRequest(
            2, id, producer, epoch, request_target.OWN_GROUP
        )
    ),
    "add-offsets-stale-old": _of_producer(
        lambda id, producer, epoch: add_offsets_to_txn.AddOffsetsToTxnRequest(
            1, id, producer, epoch, request_target.OWN_GROUP
        )
    ),
    "end-nameless": lambda about: end_txn.EndTxnRequest(1, "", 5, 0, True),
    "end-unknown": lambda about: end_txn.EndTxnRequest(1, request_target.UNKNOWN_ID, 5, 0, True),
    "end-stale": _of_producer(lambda id, producer, epoch: end_txn.EndTxnRequest(2, id, producer, epoch, True)),
    "end-stale-old": _of_producer(lambda id, producer, epoch: end_txn.EndTxnRequest(1, id, producer, epoch, True)),
    "describe-producers": lambda about: describe_producers.DescribeProducersRequest(
        0, (about.partition, request_target.absent(about), TopicPartition(request_target.BAD_NAME, 0))
    ),
    "describe-transactions": lambda about: describe_transactions.DescribeTransactionsRequest(
        0, ("id0", "id1", "worker", STRAY_ID, request_target.UNKNOWN_ID, "")
    ),
    "list-transactions": lambda about: list_transactions.ListTransactionsRequest(0),
    "produce-without-id": _in_transaction(None, 5),
    "produce-of-unknown": _in_transaction(request_target.UNKNOWN_ID, 5),
    "produce-of-two": _in_transaction(request_target.UNKNOWN_ID, 5, 6),
    "commit-of-unknown": lambda about: txn_offset_commit.TxnOffsetCommitRequest(
        3, request_target.UNKNOWN_ID, request_target.OWN_GROUP, 5, 0, (CommittedPartition(about.partition, 1),)
    ),
    "commit-in-transaction-of-member": as_member(commit_as_in_transaction),
    "commit-in-transaction-of-old": as_member(
        lambda about, member, generation: commit_as_in_transaction(about, member, generation - 1)
    ),
    "commit-in-transaction-fenced": lambda about: commit_as_in_transaction(
        about, "stranger", 1, instance_of(about.group)
    ),
    "mark-of-old-coordinator": _mark((1, 5), (1, 4)),
    "mark-of-old-producer": _mark((1, 5), (0, 5)),
    "mark-without-epoch": _mark((-1, 5)),
    "mark-offsets": lambda about: write_txn_markers.WriteTxnMarkersRequest(
        0, (write_txn_markers.WritableTxnMarker(MARKED_PRODUCER, 1, False, tuple(_offsets_partitions(about)), 5),)
    ),
}
"""Requests of transactions: they describe, are refused, or use ids of their own."""
