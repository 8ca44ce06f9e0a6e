"""What a transaction coordinator does in some twenty deliveries, written by hand; who reads it can count.

`orders` commits one transaction, aborts one whose markers a coordinator sends again, and commits one of which a
partition has no marker when the trace ends. `refunds` begins one, and a fenced producer's request is rejected. A
delivery comes a second after the last.
"""

from __future__ import annotations

from pathlib import Path

from thespian.actors import ActorAddress

from messages.broker import Forwarded
from messages.cluster import TopicPartition
from messages.data_requests import ProducePartition
from messages.network import ClientRequest
from messages.partition import FROM_COORDINATOR, AppendBatch, AppendBatches
from messages.records import BatchHeader, Records, body
from messages.transaction_requests import AddPartitionsToTxnRequest
from messages.transactions import AddToTransaction, Marker, PartitionsMarked, SendMarkers
from tests.spark.failover import Node

LISTENER, COORDINATOR = ActorAddress("outside:listener"), ActorAddress("TransactionCoordinatorActor.4")
IDS, MARKERS = ActorAddress("TransactionsActor.20"), ActorAddress("TransactionMarkersActor.5")
SENDER, LOG = ActorAddress("MarkerSenderActor.21"), ActorAddress("PartitionActor.22")
BOTH = TopicPartition("t", 0), TopicPartition("t", 1)


def _add(node: Node, id: str, epoch: int = 0, accepted: bool = True) -> None:
    """A producer adds both partitions; an accepted request is followed by an append."""
    request = ClientRequest(9, node.n, "c", "PLAINTEXT", AddPartitionsToTxnRequest(3, id, 7, epoch, BOTH))
    node.deliver(IDS, AddToTransaction(Forwarded(LISTENER, request), BOTH), COORDINATOR)
    if accepted:
        header = BatchHeader(0, 88, 0, 2, 1, 0, 0, 0, 0, -1, -1, -1, 1)
        part = ProducePartition(TopicPartition("__transaction_state", 3), Records((header,), body(bytes(100), 1)))
        node.deliver(LOG, AppendBatches((AppendBatch(1, 0, part, -1, 8, 30.0, FROM_COORDINATOR),)), IDS)


def _decide(node: Node, id: str, commit: bool) -> None:
    """The markers reach the actor that finds the leaders, and a second later the one that sends them."""
    sent = SendMarkers((Marker(id, 7, 0, 5, commit, BOTH, 3, IDS),))
    node.deliver(MARKERS, sent, IDS)
    node.deliver(SENDER, sent, MARKERS)


def _marked(node: Node, id: str, *partitions: TopicPartition) -> None:
    node.deliver(IDS, PartitionsMarked(id, 7, 0, partitions), SENDER)


def record(folder: Path) -> None:
    """The trace, below `folder`."""
    node = Node(folder, 0)
    # 2 seconds to the decision, 3 more until both partitions have the marker
    _add(node, "orders")
    _decide(node, "orders", commit=True)
    _marked(node, "orders", BOTH[0])
    _marked(node, "orders", BOTH[1])
    # a request that is rejected, then 4 seconds to the decision
    _add(node, "orders", accepted=False)
    _add(node, "orders")
    _add(node, "orders")
    _decide(node, "orders", commit=False)
    # the partition of __transaction_state is loaded again, and decides the same
    _decide(node, "orders", commit=False)
    _marked(node, "orders", *BOTH)
    # 2 seconds to the decision; of one partition there is no result
    _add(node, "orders")
    _decide(node, "orders", commit=True)
    _marked(node, "orders", BOTH[0])
    # one that goes on, and a later request of a fenced producer
    _add(node, "refunds", epoch=1)
    _add(node, "refunds", epoch=0, accepted=False)
    node.recorder.close()
