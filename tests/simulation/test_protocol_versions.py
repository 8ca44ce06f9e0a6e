"""Simulated clusters at newer inter-broker protocol versions, and rolling upgrades between them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from actors.public.simulated import SimulatedCluster
from actors.simulation.actions import FAULTS, invent
from actors.simulation.run import run
from messages import errors
from messages.apis.fetch import FetchPartition, FetchRequest
from messages.apis.metadata import MetadataRequest
from messages.cluster import TopicPartition
from messages.vocabulary import evolve

IDS = "2.8"
FEATURES = {"version": 1, "status": 1, "features": {}}
"""What Kafka's controller writes to /feature from 2.7 on; below, the status is 0."""


@pytest.mark.parametrize(("protocol", "seed"), [("2.7", 3), (IDS, 1), (IDS, 2)])
def test_no_invariant_is_violated(protocol: str, seed: int) -> None:
    """Leaders change ISRs through the controller, and followers truncate by what Fetch responses say."""
    drawn = invent(seed, 3, 4, 3, 3, 40.0, FAULTS, True, False)
    settings = (*drawn.settings, ("inter_broker_protocol_version", protocol))
    outcome = run(attrs.evolve(drawn, settings=settings), covered=True)
    assert outcome.violation is None
    assert outcome.reached["AlterPartition NONE"] > 0
    truncations = outcome.reached["a follower truncates where a fetch response shows that its log diverges"]
    assert 0 < truncations < 20, "a follower that does not get on would truncate again and again"


def znode(cluster: SimulatedCluster, path: str) -> dict[str, Any]:
    data = cluster._cluster.zookeeper.read(path).data
    found: dict[str, Any] = json.loads(data) if data else {}
    return found


def stored_ids(directory: Path) -> set[str]:
    """Return what the brokers' logs of topic t have as the topic's id."""
    return {path.read_text() for path in directory.rglob("t-0/partition.metadata")}


def upgrade(cluster: SimulatedCluster, protocol: str) -> None:
    """Restart the brokers one after the other, with another protocol version."""
    for broker, machine in cluster._cluster.machines.items():
        cluster.stop_broker(broker)
        machine.settings = evolve(machine.settings, inter_broker_protocol_version=protocol)
        cluster.start_broker(broker)
        cluster.wait_for(lambda: len(cluster.isr_of("t")) == 3)


def ids_by_name(cluster: SimulatedCluster) -> set[str]:
    """Return the id that each broker has for topic t."""
    topics = [cluster.ask(broker, MetadataRequest(12, ("t",), False)).topics[0] for broker in range(3)]
    return {topic.topic_id for topic in topics}


def test_topics_have_ids_from_the_znode_to_the_client(tmp_path: Path) -> None:
    settings = {"inter.broker.protocol.version": IDS}
    with SimulatedCluster(3, settings=settings, directory=tmp_path) as cluster:
        cluster.create_topic("t")
        topic_id = znode(cluster, "/brokers/topics/t")["topic_id"]
        cluster.wait_for(lambda: ids_by_name(cluster) == {topic_id})
        part = FetchPartition(TopicPartition(topic_id, 0), 0, 1 << 20)
        for wanted, code in ((part, errors.NONE), (evolve(part, partition=TopicPartition("A" * 22, 0)), 100)):
            fetched = cluster.ask(cluster.leader_of("t"), FetchRequest(13, -1, 0, 0, (wanted,)))
            assert [each.error_code for each in fetched.partitions] == [code]
        assert stored_ids(tmp_path) == {f"version: 0\ntopic_id: {topic_id}"}
        assert znode(cluster, "/feature") == FEATURES
        cluster.kill(cluster.leader_of("t"))
        cluster.wait_for(lambda: len(cluster.isr_of("t")) == 2)
        notifications = cluster._cluster.zookeeper.children("/isr_change_notification").names
        assert notifications == (), "the controller has changed the ISR"


def test_a_rolling_upgrade_gives_ids_and_a_downgrade_keeps_them(tmp_path: Path) -> None:
    with SimulatedCluster(3, directory=tmp_path) as cluster:
        cluster.create_topic("t")
        assert ids_by_name(cluster) == {""}
        assert znode(cluster, "/feature") == {**FEATURES, "status": 0}
        upgrade(cluster, IDS)
        cluster.wait_for(lambda: "topic_id" in znode(cluster, "/brokers/topics/t"))
        topic_id = znode(cluster, "/brokers/topics/t")["topic_id"]
        cluster.wait_for(lambda: ids_by_name(cluster) == {topic_id})
        assert znode(cluster, "/feature") == FEATURES
        assert stored_ids(tmp_path) == {f"version: 0\ntopic_id: {topic_id}"}
        upgrade(cluster, "2.6")
        assert znode(cluster, "/feature") == {**FEATURES, "status": 0}
        assert stored_ids(tmp_path) == set(), "a later upgrade would meet an old id"
        assert znode(cluster, "/brokers/topics/t")["topic_id"] == topic_id
        cluster.wait_for(lambda: ids_by_name(cluster) == {""})
        upgrade(cluster, IDS)
        cluster.wait_for(lambda: ids_by_name(cluster) == {topic_id})


def test_a_log_of_an_earlier_topic_refuses_a_role(tmp_path: Path) -> None:
    """The id in the znode was replaced while a broker was down (KAFKA-14190)."""
    with SimulatedCluster(3, settings={"inter.broker.protocol.version": IDS}, directory=tmp_path) as cluster:
        cluster.create_topic("t")
        follower = next(broker for broker in range(3) if broker != cluster.leader_of("t"))
        cluster.wait_for(lambda: len(list(tmp_path.rglob("t-0/partition.metadata"))) == 3)
        cluster.stop_broker(follower)
        (path,) = (tmp_path / f"node-{follower}").rglob("t-0/partition.metadata")
        path.write_text(f"version: 0\ntopic_id: {'A' * 22}")
        cluster.start_broker(follower)
        cluster.run(10.0)
        assert follower not in cluster.isr_of("t")
        assert path.read_text().endswith("A" * 22)
