"""SimulatedCluster does what KafkaCluster does, in virtual time; the same calls give the same run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from actors.node.node import NodeActor
from actors.public import ClusterError
from actors.public.simulated import SimulatedCluster
from actors.runtime.trace.replayer import replay_directory
from messages.apis.list_offsets import ListOffsetsRequest, OffsetQuery
from messages.apis.metadata import MetadataRequest
from messages.cluster import TopicPartition
from messages.errors import UNKNOWN_TOPIC_OR_PARTITION
from messages.records import LATEST


def topics(cluster: SimulatedCluster, broker_id: int) -> dict[str, int]:
    """Return the error codes of the topics t and u in a broker's Metadata response."""
    answer = cluster.ask(broker_id, MetadataRequest(8, ("t", "u"), False))
    return {topic.name: topic.error_code for topic in answer.topics}


def lives(directory: Path) -> list[float]:
    """Run a cluster with failures of all kinds, and return the virtual times in s at which they were over."""
    with SimulatedCluster(settings={"replica.lag.time.max.ms": 2000}, seed=7, directory=directory) as cluster:
        moments = [cluster.now]
        cluster.create_topic("t", partitions=3)
        dead = cluster.leader_of("t")
        assert dead is not None
        cluster.kill(dead)
        cluster.wait_for(lambda: cluster.leader_of("t") not in (None, dead))
        moments.append(cluster.now)
        assert dead not in cluster.live_brokers
        cluster.start_broker(dead)
        cluster.wait_for(lambda: len(cluster.isr_of("t")) == 3)
        moments.append(cluster.now)
        controller = cluster.controller_id
        assert controller is not None
        other = (controller + 1) % 3
        cluster.partition_network(controller, other)
        cluster.create_topic("u", replication_factor=1)
        cluster.run(5.0)
        assert topics(cluster, other) == {"t": 0, "u": UNKNOWN_TOPIC_OR_PARTITION}
        cluster.heal_network()
        cluster.wait_for(lambda: topics(cluster, other) == {"t": 0, "u": 0})
        moments.append(cluster.now)
        cluster.expire_session(other)
        leader = cluster.leader_of("t")
        assert leader is not None
        cluster.stop_broker(leader)
        assert cluster.leader_of("t") != leader
        cluster.run(300.0)
        moments.append(cluster.now)
        return moments


def test_a_run_in_virtual_time_is_repeatable_and_replays(tmp_path: Path) -> None:
    began = time.monotonic()
    one = lives(tmp_path / "one")
    assert one[1] - one[0] >= 6.0, "a session lasts six seconds"
    assert one[-1] > 300.0 > time.monotonic() - began
    assert lives(tmp_path / "two") == one
    runs = replay_directory(tmp_path / "one", (NodeActor,)).runs
    assert len(runs) == 4
    assert [run.divergence or run.problem for run in runs if not run.ok] == []


def test_invalid_operations_are_errors() -> None:
    with pytest.raises(ClusterError, match="brokers=0 must be an integer from 1"):
        SimulatedCluster(0)
    with pytest.raises(ClusterError, match="did you mean min"):
        SimulatedCluster(settings={"min.insync.replica": 2})
    with pytest.raises(ClusterError, match=r"broker\.id cannot be set here"):
        SimulatedCluster(settings={"broker.id": 2})
    with pytest.raises(ClusterError, match=r"num\.partitions=x is wrong"):
        SimulatedCluster(settings={"num.partitions": "x"})
    with SimulatedCluster(1) as cluster:
        with pytest.raises(ClusterError, match="larger than available brokers: 1"):
            cluster.create_topic("t", replication_factor=3)
        with pytest.raises(ClusterError, match="broker 4 is not running; running brokers: 0"):
            cluster.kill(4)
        with pytest.raises(ClusterError, match="broker 0 is already running"):
            cluster.start_broker(0)
        with pytest.raises(ClusterError, match="broker 1 does not exist; brokers: 0"):
            cluster.start_broker(1)
        with pytest.raises(ClusterError, match="broker 3 does not exist; brokers: 0"):
            cluster.partition_network(0, 3)
        with pytest.raises(ClusterError, match="cannot be partitioned from itself"):
            cluster.partition_network(0, 0)
        with pytest.raises(TimeoutError, match=r"not met within 5 s of virtual time; last value: \[\]"):
            cluster.wait_for(list, timeout=5)
        directory = cluster.trace_dir
    assert not directory.exists()


def test_requests_meet_faults_and_are_in_the_journal() -> None:
    ask = ListOffsetsRequest(5, -1, (OffsetQuery(TopicPartition("t", 0), LATEST),))
    with SimulatedCluster(1) as cluster:
        cluster.create_topic("t")
        since = cluster.now
        with cluster.faults.respond("ListOffsets", {"partitions": {"offset": 17}}) as fault:
            offsets = [cluster.ask(0, ask).partitions[0].offset for _ in range(2)]
        assert (offsets, fault.hits) == ([17, 0], 1)
        with cluster.faults.delay("ListOffsets", 5).once():
            before = cluster.now
            cluster.ask(0, ask)
            assert 5 <= cluster.now - before < 6
        for fault in (cluster.faults.throttle("ListOffsets", 9).once(), cluster.faults.error("ListOffsets", 3).once()):
            answer = cluster.ask(0, ask)
            assert (answer.throttle_time_ms, answer.partitions[0].error_code) in ((9, 0), (0, 3))
            assert fault.hits == 1
        for trigger in (cluster.faults.disconnect, cluster.faults.blackhole, cluster.faults.lose_response):
            trigger("ListOffsets").once()
            with pytest.raises(ClusterError, match="did not respond"):
                cluster.ask(0, ask, timeout=1)
        assert [each.broker for each in cluster.requests("ListOffsets", since=since)] == [0] * 8
        assert {each.api for each in cluster.requests(since=since)} == {"ListOffsets"}
        with pytest.raises(ClusterError, match="only faults of requests"):
            cluster.faults.slow_disk(0, 1)


def test_acls_of_a_cluster_in_virtual_time() -> None:
    settings = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
    request = MetadataRequest(8, ("t",), False)
    with SimulatedCluster(2, settings=settings) as cluster:
        cluster.create_topic("t")
        rights = [{"allow": "alice", "operation": "Describe", "topic": "t"}]
        for change, code in ((cluster.add_acls, 0), (cluster.remove_acls, 29)):
            change(rights)
            assert [cluster.ask(node, request, user="alice").topics[0].error_code for node in (0, 1)] == [code] * 2
        assert cluster.ask(0, request).topics[0].error_code == 0
