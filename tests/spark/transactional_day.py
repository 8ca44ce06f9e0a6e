"""The trace of a transaction coordinator: 24 deliveries, written by hand, so that a reader can count them.

`orders` commits one transaction, and aborts one whose markers a coordinator sends twice. It commits a third, of which
one partition has no marker when the trace ends. `refunds` begins one, and a request of a fenced producer is rejected.

A delivery comes a second after the one before.
"""

from __future__ import annotations

from pathlib import Path

from thespian.actors import ActorAddress

from messages.apis.add_partitions_to_txn import AddPartitionsToTxnRequest
from messages.apis.produce import ProducePartition
from messages.cluster import TopicPartition
from messages.network import ClientRequest, Forwarded
from messages.partition import FROM_COORDINATOR, AppendBatch, AppendBatches
from messages.records import BatchHeader, Records, body
from messages.transactions import AddToTransaction, Marker, PartitionsMarked, SendMarkers
from tests.spark.failover import Node

LISTENER, COORDINATOR = ActorAddress("outside:listener"), ActorAddress("TransactionCoordinatorActor.4")
IDS, MARKERS = ActorAddress("TransactionsActor.20"), ActorAddress("TransactionMarkersActor.5")
SENDER, LOG = ActorAddress("MarkerSenderActor.21"), ActorAddress("PartitionActor.22")
BOTH = TopicPartition("t", 0), TopicPartition("t", 1)


def _add(node: Node, id: str, epoch: int = 0, accepted: bool = True) -> None:
    """Deliver a producer's request to add both partitions, and the append that follows an accepted request."""
    request = ClientRequest(9, node.n, "c", "PLAINTEXT", AddPartitionsToTxnRequest(3, id, 7, epoch, BOTH))
    node.deliver(IDS, AddToTransaction(Forwarded(LISTENER, request), BOTH), COORDINATOR)
    if accepted:
        header = BatchHeader(0, 88, 0, 2, 1, 0, 0, 0, 0, -1, -1, -1, 1)
        part = ProducePartition(TopicPartition("__transaction_state", 3), Records((header,), body(bytes(100), 1)))
        node.deliver(LOG, AppendBatches((AppendBatch(1, 0, part, -1, 8, 30.0, FROM_COORDINATOR),)), IDS)


def _decide(node: Node, id: str, commit: bool) -> None:
    """Deliver markers to the actor that finds the leaders, and a second later to the actor that sends the markers."""
    sent = SendMarkers((Marker(id, 7, 0, 5, commit, BOTH, 3, IDS),))
    node.deliver(MARKERS, sent, IDS)
    node.deliver(SENDER, sent, MARKERS)


def _marked(node: Node, id: str, *partitions: TopicPartition) -> None:
    node.deliver(IDS, PartitionsMarked(id, 7, 0, partitions), SENDER)


def record(folder: Path) -> None:
    """Write the trace below `folder`."""
    node = Node(folder, 0)
    # 2 seconds until the decision, 3 more until both partitions have the marker
    _add(node, "orders")
    _decide(node, "orders", commit=True)
    _marked(node, "orders", BOTH[0])
    _marked(node, "orders", BOTH[1])
    # a request that is rejected, then 4 seconds until the decision
    _add(node, "orders", accepted=False)
    _add(node, "orders")
    _add(node, "orders")
    _decide(node, "orders", commit=False)
    # the coordinator has loaded the partition of __transaction_state again, and sends the same markers
    _decide(node, "orders", commit=False)
    _marked(node, "orders", *BOTH)
    # 2 seconds until the decision; one partition has no result
    _add(node, "orders")
    _decide(node, "orders", commit=True)
    _marked(node, "orders", BOTH[0])
    # an ongoing transaction, and a later request of a fenced producer
    _add(node, "refunds", epoch=1)
    _add(node, "refunds", epoch=0, accepted=False)
    node.recorder.close()
