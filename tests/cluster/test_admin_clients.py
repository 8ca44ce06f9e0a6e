"""Admin clients of several makes against three real nodes: topics made, enlarged, deleted, and refused."""

from __future__ import annotations

import json
from collections.abc import Iterator

import attrs
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions
from confluent_kafka.admin import NewTopic as LibrdkafkaTopic
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import InvalidReplicationFactorError, TopicAlreadyExistsError
from kazoo.client import KazooClient

from tests.cluster.processes import OurNode, free_ports
from tests.waiting import until
from zk_bridge.embedded import EmbeddedZooKeeper

NODES = (0, 1, 2)


@attrs.frozen
class Cluster:
    """Three nodes, and their ZooKeeper."""

    ports: list[int]
    zk: KazooClient

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def replicas(self, topic: str) -> dict[str, list[int]]:
        """The topic's assignment as its znode says."""
        return json.loads(self.zk.get(f"/brokers/topics/{topic}")[0])["partitions"]  # type: ignore[no-any-return]

    def config(self, topic: str) -> dict[str, str]:
        """The topic's overrides as their znode says."""
        return json.loads(self.zk.get(f"/config/topics/{topic}")[0])["config"]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    place = tmp_path_factory.mktemp("admin")
    server = EmbeddedZooKeeper(place / "zookeeper")
    server.start()
    connect = f"127.0.0.1:{server.port}"
    zk = KazooClient(connect)
    zk.start(20)
    ports = free_ports(len(NODES))
    nodes: list[OurNode] = []
    try:
        for node in NODES:
            nodes.append(OurNode(place / f"{node}", node, ports[node], connect))
        for node in NODES:
            until(lambda node=node: zk.exists(f"/brokers/ids/{node}"), what=f"node {node} registered", timeout=30)
        yield Cluster(ports, zk)
    finally:
        for running in nodes:
            running.kill()
        zk.stop()
        zk.close()
        server.stop()


def test_librdkafka_makes_enlarges_and_deletes_topics(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wanted = [
        LibrdkafkaTopic("lib", 3, 3, config={"retention.ms": "12345"}),
        LibrdkafkaTopic("lib-given", 2, replica_assignment=[[2, 1], [0, 2]]),
    ]
    for future in admin.create_topics(wanted, operation_timeout=20).values():
        future.result(30)
    described = admin.list_topics(timeout=20).topics
    assert all(part.leader in NODES for name in ("lib", "lib-given") for part in described[name].partitions.values())
    assert cluster.replicas("lib-given") == {"0": [2, 1], "1": [0, 2]}
    assert cluster.config("lib") == {"retention.ms": "12345"}
    with pytest.raises(KafkaException, match="Topic 'lib' already exists"):
        admin.create_topics([LibrdkafkaTopic("lib", 1, 1)])["lib"].result(30)
    admin.create_partitions([NewPartitions("lib", 5)], operation_timeout=20)["lib"].result(30)
    assert len(cluster.replicas("lib")) == 5
    for future in admin.delete_topics(["lib", "lib-given"], operation_timeout=20).values():
        future.result(30)
    until(lambda: not cluster.zk.exists("/brokers/topics/lib"), what="lib is gone", timeout=30)


def test_librdkafka_describes_and_changes_configurations(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([LibrdkafkaTopic("set", 1, 1)], operation_timeout=20)["set"].result(30)
    everywhere = [AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}) for port in cluster.ports]

    def described(client: AdminClient, kind: ConfigResource.Type, name: str) -> dict[str, str]:
        (future,) = client.describe_configs([ConfigResource(kind, name)]).values()
        return {each.name: each.value for each in future.result(30).values()}

    change = ConfigEntry("retention.ms", "777", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "set", incremental_configs=[change])
    until(lambda: "set" in everywhere[2].list_topics(timeout=20).topics, what="known to the third node", timeout=20)
    (future,) = everywhere[2].incremental_alter_configs([resource]).values()
    future.result(30)
    assert cluster.config("set") == {"retention.ms": "777"}
    for client in everywhere:
        assert described(client, ConfigResource.Type.TOPIC, "set")["retention.ms"] == "777"
    assert described(admin, ConfigResource.Type.BROKER, "1")["broker.id"] == "1"


def test_kafka_python_makes_and_deletes_topics(cluster: Cluster) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    try:
        admin.create_topics([NewTopic("py", 2, 2)], timeout_ms=20_000)
        assert "py" in admin.list_topics()
        with pytest.raises(TopicAlreadyExistsError):
            admin.create_topics([NewTopic("py", 2, 2)])
        with pytest.raises(InvalidReplicationFactorError):
            admin.create_topics([NewTopic("large", 1, 9)])
        admin.create_topics([NewTopic("only-asked", 1, 1)], validate_only=True)
        assert not cluster.zk.exists("/brokers/topics/only-asked")
        admin.delete_topics(["py"], timeout_ms=20_000)
        until(lambda: not cluster.zk.exists("/brokers/topics/py"), what="py is gone", timeout=30)
    finally:
        admin.close()
