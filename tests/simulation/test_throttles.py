"""Replication throttles in a whole simulated cluster: a replica that was down catches up at the configured rate."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from actors.node.node import NodeActor
from actors.public.simulated import SimulatedCluster
from actors.runtime.trace.replayer import replay_directory
from messages.apis.produce import ProducePartition, ProduceRequest
from messages.cluster import ConfigEntry, TopicPartition
from messages.errors import NONE
from messages.wire.record_batch import read_records
from messages.zookeeper import SetBrokerConfig, SetTopicConfig
from tests.storage.batches import batch

MB = 1_000_000
AWAY_MB = 6
"""Megabytes of each topic that are written while the replica is down."""


def produce(cluster: SimulatedCluster, topic: str) -> None:
    leader = cluster.leader_of(topic)
    assert leader is not None
    for _ in range(20 * AWAY_MB):
        part = ProducePartition(TopicPartition(topic, 0), read_records(batch(b"x" * (MB // 20))))
        [answer] = cluster.ask(leader, ProduceRequest(8, None, 1, 5000, (part,))).partitions
        assert answer.error_code == NONE


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_that_was_away_catches_up_at_its_rate_and_no_other_is_held_up(side: str, tmp_path: Path) -> None:
    """The rate is 1 MB/s. The bounds allow for a burst of 2 MB, and for batches resent after a response cut them."""
    settings = {
        "replica.lag.time.max.ms": 2000,
        "replica.fetch.max.bytes": MB,
        "replica.fetch.response.max.bytes": MB,
        "replica.fetch.wait.max.ms": 20,
    }
    with SimulatedCluster(2, settings=settings, directory=tmp_path) as cluster:
        took = {}
        for topic in ("slow", "free"):
            cluster.create_topic(topic)
        away = 1
        cluster.kill(away)
        cluster.wait_for(lambda: all(cluster.isr_of(topic) == [0] for topic in ("slow", "free")))
        for topic in ("slow", "free"):
            produce(cluster, topic)
        admin = cluster._cluster.admin
        broker = 0 if side == "leader" else away
        admin.ask(SetTopicConfig("slow", (ConfigEntry(f"{side}.replication.throttled.replicas", f"0:{broker}"),)))
        admin.ask(SetBrokerConfig(str(broker), (ConfigEntry(f"{side}.replication.throttled.rate", str(MB)),)))
        cluster.start_broker(away)
        began = cluster.now
        for topic in ("free", "slow"):
            cluster.wait_for(partial(lambda topic: len(cluster.isr_of(topic)) == 2, topic))
            took[topic] = cluster.now - began
        assert took["free"] < 5 and AWAY_MB - 3 < took["slow"] - took["free"] < AWAY_MB + 3, took
        before = cluster.now
        produce(cluster, "slow")
        cluster.run(1.0)
        assert cluster.now - before < 4 and len(cluster.isr_of("slow")) == 2, "who is in sync is not held up"
    runs = replay_directory(tmp_path, (NodeActor,)).runs
    assert [run.divergence or run.problem for run in runs if not run.ok] == []
