"""The costs of an idle cluster: bytes in its traces, and connections."""

from __future__ import annotations

from pathlib import Path

from actors.node.node import NodeActor
from actors.public.simulated import SimulatedCluster
from actors.runtime.trace.replayer import replay_directory
from messages.apis.produce import ACKS_ALL, ProducePartition, ProduceRequest
from messages.cluster import TopicPartition
from messages.errors import NONE
from messages.wire.record_batch import read_records
from tests.storage.batches import batch

QUARTER = 900.0
"""Seconds in a quarter of an hour; a task with Kafka's usual interval of five minutes runs three times in it."""


def trace_bytes(cluster: SimulatedCluster) -> list[int]:
    """Return the size of each node's traces in bytes, with all deliveries flushed."""
    for machine in cluster._cluster.machines.values():
        assert machine.node is not None
        machine.node.recorder.flush()
    folders = (cluster.directory / f"node-{id}" for id in range(cluster.brokers))
    return [sum(file.stat().st_size for file in folder.rglob("*.trace.zst")) for folder in folders]


def test_an_idle_hour_adds_less_than_a_third_of_a_megabyte_to_each_trace_and_replays(tmp_path: Path) -> None:
    """The cluster has 18 partitions with two followers each, and random message delays as in a real network."""
    with SimulatedCluster(3, directory=tmp_path) as cluster:
        for topic in "abc":
            cluster.create_topic(topic, partitions=6)
        cluster.run(60.0)
        before = trace_bytes(cluster)
        cluster.run(QUARTER)
        grown = [after - size for after, size in zip(trace_bytes(cluster), before, strict=True)]
        assert all(0 < 4 * each < 300_000 for each in grown), grown
        leader, now = cluster.leader_of("a"), cluster.now
        assert leader is not None
        part = ProducePartition(TopicPartition("a", 0), read_records(batch(b"x")))
        assert cluster.ask(leader, ProduceRequest(8, None, ACKS_ALL, 5000, (part,))).partitions[0].error_code == NONE
        assert cluster.now - now < 0.5, "followers that rest hear of a record at once"
        cluster.kill(next(id for id in range(3) if id != leader))
        cluster.wait_for(lambda: len(cluster.isr_of("a")) == 2)
    runs = replay_directory(tmp_path, (NodeActor,)).runs
    assert len(runs) == 3 and [run.divergence or run.problem for run in runs if not run.ok] == []


def test_idle_polls_are_not_simulated_and_a_disconnected_follower_is_still_detected() -> None:
    with SimulatedCluster(3, settings={"replica.lag.time.max.ms": 10_000}) as cluster:
        cluster.create_topic("a")
        cluster.run(60.0)
        network = cluster._cluster.network
        before = network.connections
        cluster.run(600.0)
        assert network.connections - before < 10, "three nodes polled some seven thousand times"
        leader = cluster.leader_of("a")
        assert leader is not None
        cut, left = (id for id in range(3) if id != leader)
        cluster.partition_network(leader, cut)
        cluster.run(1.0)
        part = ProducePartition(TopicPartition("a", 0), read_records(batch(b"x")))
        cluster.ask(leader, ProduceRequest(8, None, ACKS_ALL, 30_000, (part,)), 30.0)
        assert cluster.isr_of("a") == sorted((leader, left))
        cluster.heal_network()
        cluster.wait_for(lambda: len(cluster.isr_of("a")) == 3)
