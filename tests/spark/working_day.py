"""The trace of one node on an ordinary day: about 40 deliveries, written by hand, so that a reader can count them.

The node sends four requests to ZooKeeper, answers clients, and leads t-0. Follower 2 of t-0 leaves the ISR and joins it
again. The node deletes topic u, moves t-1 from broker 2 to 3, and elects another leader for t-0 in a BrokerChange.

A delivery comes a second after the one before, and waited half a second. Each request is answered in the next delivery,
unless a comment says otherwise.
"""

from __future__ import annotations

from pathlib import Path

from thespian.actors import ActorAddress

from messages.apis.fetch import FetchedPartition
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from messages.apis.metadata import MetadataRequest, MetadataResponse
from messages.apis.produce import ProducePartition, ProduceRequest, ProduceResponse
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest
from messages.ask import Answer, Ask
from messages.cluster import LeaderIsrAndControllerEpoch, Leadership, PartitionReplica, TopicPartition
from messages.metrics import EVENT_REQUESTS, EVENT_TIME, EVENT_WAIT, Sample, Samples
from messages.network import ClientRequest, ClientRequests, ClientResponse, ClientResponses
from messages.partition import AppendBatch, AppendBatches, ChangeIsr, LogRead, LogState
from messages.records import BatchHeader, Records, body
from messages.store import StoreRead, StoreReply, StoreWrite, Watches, WriteOp
from messages.topic_deletion import DeletingTopic, QueueDeletions
from messages.zookeeper import PartitionStateRead, PartitionStates, UpdatePartitionStates, WriteResult, WriteResults
from tests.spark.failover import BRIDGE, CONTROLLER, NETWORK, STORE, Node, leader

LISTENER, METRICS = ActorAddress("outside:listener"), ActorAddress("outside:metrics")
PARTITION, HANDLER = ActorAddress("PartitionActor.20"), ActorAddress("RequestHandlerActor.4")
KEEPER, READERS = ActorAddress("IsrKeeperActor.5"), ActorAddress("PartitionRequestsActor.6")
DELETION, CHANNEL = ActorAddress("TopicDeletionActor.7"), ActorAddress("BrokerChannelActor.11")
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def event(node: Node, name: str, ms: float, waited: float, requests: int) -> None:
    """Deliver the controller's report of an event's end: its duration, queue time and number of ZooKeeper requests."""
    labels = (("event", name),)
    values = (
        Sample(EVENT_TIME, ms, labels),
        Sample(EVENT_WAIT, waited, labels),
        Sample(EVENT_REQUESTS, requests, labels),
    )
    node.deliver(METRICS, Samples(values), CONTROLLER)


def _moving(epoch: int, adding: tuple[int, ...], removing: tuple[int, ...]) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(SECOND, 1, 1, epoch, (1,), 0, (1, 2, 3), adding, removing)


def _order(node: Node, *states: LeaderAndIsrPartitionState) -> None:
    request = LeaderAndIsrRequest(4, 0, 1, 5, states, ())
    node.deliver(CHANNEL, request, CONTROLLER)
    node.transmit(1, request)


def _write(node: Node, *states: LeaderAndIsrPartitionState, isr_before: tuple[int, ...]) -> None:
    """Deliver the controller's read and update of these partitions' states.

    Broker 0 led them with the ISR `isr_before`.
    """
    before = [LeaderIsrAndControllerEpoch(0, state.leader_epoch - 1, isr_before, 1, 3) for state in states]
    read = PartitionStates(
        tuple(PartitionStateRead(state.partition, old) for state, old in zip(states, before, strict=True))
    )
    node.deliver(CONTROLLER, Answer(8, read))
    new = tuple(
        Leadership(state.partition, LeaderIsrAndControllerEpoch(state.leader, state.leader_epoch, state.isr, 1, 3))
        for state in states
    )
    node.deliver(BRIDGE, Ask(9, UpdatePartitionStates(new, 0)), CONTROLLER)
    node.deliver(CONTROLLER, Answer(9, WriteResults(tuple(WriteResult(state.partition, 0, 4) for state in states))))


def _append(node: Node, partition: TopicPartition, count: int, size: int) -> None:
    header = BatchHeader(0, size - 12, 0, 2, 1, 0, count - 1, 0, 0, -1, -1, -1, count)
    part = ProducePartition(partition, Records((header,), body(bytes(size), 1)))
    node.deliver(PARTITION, AppendBatches((AppendBatch(1, 0, part, -1, 8, 30.0),)), READERS)


def record(folder: Path) -> int:
    """Write the trace below `folder` and return its number of deliveries."""
    node = Node(folder, 0)
    # ZooKeeper: reads of 2 znodes and of 1, and a watch; the second read is answered two seconds later
    node.deliver(STORE, StoreRead(1, ("/a", "/b"), ()), BRIDGE)
    node.deliver(BRIDGE, StoreReply(1), STORE)
    node.deliver(STORE, StoreRead(2, (), ("/c",)), BRIDGE)
    node.deliver(STORE, StoreRead(3, watches=Watches(data=("/a",))), BRIDGE)
    node.deliver(BRIDGE, StoreReply(2), STORE)
    node.deliver(BRIDGE, StoreReply(3), STORE)
    # a client that uses its correlation id twice; then two produces, of which one is never answered
    for _ in range(2):
        node.deliver(HANDLER, ClientRequest(9, 1, "c", "PLAINTEXT", MetadataRequest(9, None)), LISTENER)
        node.deliver(LISTENER, ClientResponse(9, 1, MetadataResponse((), None, 0, ())), HANDLER)
    # both produces arrive together
    produces = (ProduceRequest(8, None, 0, 1000, ()), ProduceRequest(8, None, 1, 1000, ()))
    requests = tuple(ClientRequest(9, 2 + number, "c", "PLAINTEXT", each) for number, each in enumerate(produces))
    node.deliver(READERS, ClientRequests(requests), LISTENER)
    node.deliver(LISTENER, ClientResponses((ClientResponse(9, 3, ProduceResponse(())),)), READERS)
    # records: 10 in 1000 bytes and 20 in 2000 to t-0, 1 in 1000 to t-1; 500 bytes read
    _append(node, FIRST, 10, 1000)
    _append(node, FIRST, 20, 2000)
    _append(node, SECOND, 1, 1000)
    node.deliver(
        READERS,
        LogRead(1, FetchedPartition(FIRST, 0, body=body(bytes(500), 1)), LogState(0, True, 0, 30, 30, 30)),
        PARTITION,
    )
    # the ISR of t-0 shrinks and expands
    node.deliver(KEEPER, ChangeIsr(FIRST, 1, 0, 0, 1, (0, 1), 0, grows=False), PARTITION)
    node.deliver(KEEPER, ChangeIsr(FIRST, 2, 0, 0, 1, (0, 1, 2), 1), PARTITION)
    # topic u is deleted, v is queued and stays
    replica = PartitionReplica(TopicPartition("u", 0), 0)
    asked = QueueDeletions((DeletingTopic("u", (replica,)), DeletingTopic("v", (replica,))), ())
    node.deliver(DELETION, Ask(1, asked), CONTROLLER)
    node.transmit(
        1, StopReplicaRequest(3, 0, 1, 5, (StopReplicaPartitionState(TopicPartition("u", 0), delete_partition=True),))
    )
    removed = (WriteOp("delete", "/brokers/topics/u/partitions"), WriteOp("delete", "/brokers/topics/u"))
    node.deliver(STORE, StoreWrite(4, removed), BRIDGE)
    # t-1 moves, in two epochs
    _order(node, _moving(3, (3,), (2,)))
    event(node, "ZkPartitionReassignment", 40.0, 1.0, 4)
    _order(node, _moving(4, (), ()))
    event(node, "ZkPartitionReassignment", 20.0, 3.0, 2)
    # broker 0 led t-0 and w-0; t-0's new leader 1 was in the ISR, w-0's new leader 2 was not
    _order(node, leader("t", 0, 0, 5, 1), leader("w", 0, 0, 5, 1))
    event(node, "TopicChange", 10.0, 0.0, 1)
    changed = LeaderAndIsrPartitionState(FIRST, 1, 1, 6, (1,), 0, (0, 1))
    lost = LeaderAndIsrPartitionState(TopicPartition("w", 0), 1, 2, 6, (2,), 0, (0, 2))
    _write(node, changed, lost, isr_before=(0, 1))
    _order(node, changed, lost)
    event(node, "BrokerChange", 30.0, 2.0, 3)
    node.deliver(NETWORK, MetadataRequest(9, None), CONTROLLER, error="ValueError: what is this")
    node.recorder.close()
    return node.n
