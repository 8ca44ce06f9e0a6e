"""A recorded run of three whole nodes on virtual time, with many faults, for tests of `why` and of the debugger.

With this seed, broker 2 is the controller after broker 0 has lost its session. The run has rejected requests, a
cancelled reassignment, an unreachable broker, and lost records.
"""

from __future__ import annotations

from pathlib import Path

from actors.public.simulated import SimulatedCluster
from messages.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from messages.apis.controlled_shutdown import ControlledShutdownRequest
from messages.apis.create_topics import CreatableAssignment, CreatableConfig, CreatableTopic, CreateTopicsRequest
from messages.apis.produce import ProducePartition, ProduceRequest
from messages.cluster import TopicPartition
from messages.errors import INVALID_REPLICATION_FACTOR, NONE, NOT_CONTROLLER
from messages.store import CREATE, WriteOp
from messages.wire.record_batch import read_records
from messages.zookeeper import RequestedReassignment
from tests.storage.batches import batch
from zk_bridge import paths
from zk_bridge.reassignments import encode_reassignments

CONTROLLER, FIRST, SECOND = 2, 0, 1
SEED = 1


def live(folder: Path) -> None:
    """Run it, and record it below `folder`."""
    with SimulatedCluster(3, seed=SEED, directory=folder, settings={"replica.lag.time.max.ms": 1000}) as cluster:
        too_many = CreateTopicsRequest(5, (CreatableTopic("large", 1, 5),), 1000)
        assert cluster.ask(CONTROLLER, too_many).topics[0].error_code == NOT_CONTROLLER
        cluster.expire_session(0)
        cluster.wait_for(lambda: cluster.controller_id == CONTROLLER)
        cluster.run(1.0)
        _topic(cluster, "pair", FIRST, SECOND)
        _topic(cluster, "moved", CONTROLLER)
        _topic(cluster, "unclean", FIRST, CONTROLLER, config=("unclean.leader.election.enable", "true"))
        assert cluster.ask(CONTROLLER, too_many).topics[0].error_code == INVALID_REPLICATION_FACTOR
        _reassign(cluster, (CONTROLLER, 7))
        hopeless = encode_reassignments([RequestedReassignment(TopicPartition("moved", 0), (CONTROLLER, CONTROLLER))])
        cluster._cluster.zookeeper.write((WriteOp(CREATE, paths.REASSIGNMENTS, hopeless),), 0)
        cluster.run(1.0)
        _take_back_a_reassignment(cluster)
        _lose_records(cluster)
        _stand_alone(cluster)
        _die(cluster)


def _topic(cluster: SimulatedCluster, name: str, *replicas: int, config: tuple[str, str] | None = None) -> None:
    configs = (CreatableConfig(*config),) if config is not None else ()
    topic = CreatableTopic(name, assignments=(CreatableAssignment(0, replicas),), configs=configs)
    assert cluster.ask(CONTROLLER, CreateTopicsRequest(5, (topic,), 30_000)).topics[0].error_code == NONE
    cluster.wait_for(lambda: cluster.leader_of(name) == replicas[0])


def _reassign(cluster: SimulatedCluster, replicas: tuple[int, ...] | None) -> None:
    """Request these replicas for "moved"; None cancels the reassignment."""
    wanted = ReassignableTopic("moved", (ReassignablePartition(0, replicas),))
    cluster.ask(CONTROLLER, AlterPartitionReassignmentsRequest(0, 30_000, (wanted,)))


def _take_back_a_reassignment(cluster: SimulatedCluster) -> None:
    """Request a reassignment whose new replica cannot reach the leader, and cancel it."""
    cluster.partition_network(CONTROLLER, SECOND)
    _reassign(cluster, (CONTROLLER, SECOND))
    cluster.run(2.0)
    _reassign(cluster, None)
    cluster.heal_network()
    cluster.run(2.0)


def _lose_records(cluster: SimulatedCluster) -> None:
    """Kill a leader that is alone in its ISR. The next leader lacks the records that only the former one had."""
    cluster.partition_network(CONTROLLER, FIRST)
    _produce(cluster, FIRST, 3)
    cluster.wait_for(lambda: cluster.isr_of("unclean") == [FIRST])
    cluster.run(1.0)
    cluster.kill(FIRST)
    cluster.wait_for(lambda: cluster.leader_of("unclean") == CONTROLLER)
    cluster.heal_network()
    cluster.run(1.0)
    _produce(cluster, CONTROLLER, 1)
    cluster.start_broker(FIRST)
    cluster.wait_for(lambda: len(cluster.isr_of("unclean")) == 2)


def _produce(cluster: SimulatedCluster, leader: int, records: int) -> None:
    for _ in range(records):
        part = ProducePartition(TopicPartition("unclean", 0), read_records(batch(b"x")))
        assert cluster.ask(leader, ProduceRequest(8, None, 1, 5000, (part,))).partitions[0].error_code == NONE


def _stand_alone(cluster: SimulatedCluster) -> None:
    """Request a controlled shutdown of broker 1 while it is alone in the ISR of "pair"; it is refused."""
    cluster.kill(FIRST)
    cluster.wait_for(lambda: cluster.isr_of("pair") == [SECOND])
    refused = cluster.ask(CONTROLLER, ControlledShutdownRequest(3, SECOND, -1))
    assert TopicPartition("pair", 0) in refused.remaining_partitions
    cluster.start_broker(FIRST)
    cluster.wait_for(lambda: len(cluster.isr_of("pair")) == 2)


def _die(cluster: SimulatedCluster) -> None:
    """Kill broker 1 while the controller cannot reach broker 0, the next leader of "pair"."""
    cluster.partition_network(CONTROLLER, FIRST)
    cluster.kill(SECOND)
    cluster.wait_for(lambda: cluster.leader_of("pair") == FIRST)
    cluster.run(35.0)
