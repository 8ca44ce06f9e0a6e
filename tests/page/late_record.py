"""A recorded run for the page's tests and tutorial: a record is late, because the process of a follower is held up.

Later the follower is killed, so that `single-0` has no leader; a producer is fenced, and a member's session expires.
"""

from __future__ import annotations

from pathlib import Path

from actors.public.simulated import SimulatedCluster
from messages.apis.create_topics import CreatableAssignment, CreatableTopic, CreateTopicsRequest
from messages.apis.end_txn import EndTxnRequest
from messages.apis.init_producer_id import InitProducerIdRequest
from messages.apis.join_group import JoinGroupRequest, JoinGroupResponse, JoinProtocol
from messages.apis.offset_commit import CommittedPartition, OffsetCommitRequest
from messages.apis.produce import ProducePartition, ProduceRequest
from messages.apis.sync_group import MemberAssignment, SyncGroupRequest
from messages.cluster import TopicPartition
from messages.errors import INVALID_PRODUCER_EPOCH, NONE
from messages.wire.record_batch import read_records
from tests.cli.test_why_verdicts import coordinator_of
from tests.storage.batches import batch

ORDERS = TopicPartition("orders", 0)
STALLED = 3.5
SETTINGS = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
GROUP, TRANSACTION = 0, 1


def live(folder: Path) -> int:
    """Run it, and record it below `folder`. Return the follower that was held up."""
    with SimulatedCluster(3, seed=5, directory=folder, settings=SETTINGS) as cluster:
        return play(cluster)


def play(cluster: SimulatedCluster) -> int:
    """Let it happen in a new cluster. Return the follower that was held up."""
    cluster.create_topic("orders", partitions=2, replication_factor=3)
    leader = cluster.wait_for_leader("orders")
    follower = next(broker for broker in range(3) if broker not in (leader, cluster.controller_id))
    single = CreatableTopic("single", assignments=(CreatableAssignment(0, (follower,)),))
    assert cluster.controller_id is not None
    cluster.ask(cluster.controller_id, CreateTopicsRequest(5, (single,), 30_000))
    for kind in (GROUP, TRANSACTION):
        coordinator_of(cluster, "readers", kind)
    cluster.run(1.0)
    for _ in range(3):
        produce(cluster, leader)
    cluster._cluster.stall(follower, STALLED)
    produce(cluster, leader)
    cluster.run(1.0)
    cluster.kill(follower)
    cluster.wait_for(lambda: follower not in cluster.isr_of("orders"))
    produce(cluster, leader)
    _fence(cluster)
    _rebalance(cluster)
    return follower


def produce(cluster: SimulatedCluster, leader: int) -> None:
    """Send a record with acks=all."""
    part = ProducePartition(ORDERS, read_records(batch(b"x")))
    answer = cluster.ask(leader, ProduceRequest(8, None, -1, 20_000, (part,)))
    assert answer.partitions[0].error_code == NONE


def _fence(cluster: SimulatedCluster) -> None:
    """Let a second producer begin with the transactional id of the first one."""
    coordinator = coordinator_of(cluster, "pay", TRANSACTION)
    given = cluster.ask(coordinator, InitProducerIdRequest(1, "pay", 5000, -1, -1))
    while given.error_code != NONE:
        cluster.run(0.5)
        given = cluster.ask(coordinator, InitProducerIdRequest(1, "pay", 5000, -1, -1))
    old = given.producer_id, given.producer_epoch
    assert cluster.ask(coordinator, InitProducerIdRequest(1, "pay", 5000, -1, -1)).error_code == NONE
    assert cluster.ask(coordinator, EndTxnRequest(1, "pay", *old, True)).error_code == INVALID_PRODUCER_EPOCH


def _rebalance(cluster: SimulatedCluster) -> None:
    """Let a member join the group "readers", and then send no heartbeat."""
    coordinator = coordinator_of(cluster, "readers", GROUP)
    joined = _join(cluster, coordinator, "")
    while joined.error_code != NONE:
        cluster.run(0.5)
        joined = _join(cluster, coordinator, joined.member_id)
    assigned = (MemberAssignment(joined.member_id, b""),)
    sync = SyncGroupRequest(3, "readers", joined.generation_id, joined.member_id, assigned)
    assert cluster.ask(coordinator, sync).error_code == NONE
    offsets = (CommittedPartition(ORDERS, 2),)
    commit = OffsetCommitRequest(5, "readers", joined.generation_id, joined.member_id, offsets)
    assert [each.error_code for each in cluster.ask(coordinator, commit).partitions] == [NONE]
    cluster.run(8.0)


def _join(cluster: SimulatedCluster, coordinator: int, member: str) -> JoinGroupResponse:
    protocols = (JoinProtocol("range", b""),)
    found: JoinGroupResponse = cluster.ask(
        coordinator, JoinGroupRequest(5, "readers", 6_000, member, "consumer", protocols, 6_000)
    )
    return found
