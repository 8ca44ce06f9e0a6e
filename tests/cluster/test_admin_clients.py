"""librdkafka, kafka-python and our commands send the admin requests of Kafka 2.6 to three nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner
from confluent_kafka import ElectionType, KafkaException, Producer, TopicCollection
from confluent_kafka import TopicPartition as LibrdkafkaPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, OffsetSpec
from confluent_kafka.admin import NewTopic as LibrdkafkaTopic
from kafka import TopicPartition
from kafka.admin import ConfigResource as PythonResource
from kafka.admin import ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.errors import InvalidReplicationFactorError, NoReassignmentInProgressError, TopicAlreadyExistsError
from kazoo.exceptions import NoNodeError

from actors.cli.app import commands
from tests.cluster.processes import OurNode, free_ports
from tests.waiting import until
from tests.zookeeper_client import PatientZooKeeperClient
from zk_bridge.embedded import EmbeddedZooKeeper

NODES = (0, 1, 2)


@attrs.frozen
class Cluster:
    """Three nodes and their ZooKeeper."""

    ports: list[int]
    zk: PatientZooKeeperClient
    connect: str

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def replicas(self, topic: str) -> dict[str, list[int]]:
        """Return the topic's assignment from its znode."""
        return json.loads(self.zk.get(f"/brokers/topics/{topic}")[0])["partitions"]  # type: ignore[no-any-return]

    def state(self, topic: str, partition: int) -> dict[str, Any]:
        """Return a partition's state from its znode."""
        return json.loads(self.zk.get(f"/brokers/topics/{topic}/partitions/{partition}/state")[0])  # type: ignore[no-any-return]

    def write(self, topic: str, count: int) -> None:
        """Write this number of records to partition 0 with acks=all."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"})
        for number in range(count):
            producer.produce(topic, b"%d" % number, partition=0)
        assert producer.flush(30) == 0

    def wait_for_partitions(self, topic: str, count: int) -> None:
        """Wait until each node reports this number of partitions.

        The controller responds to a change before the other nodes receive its UpdateMetadata requests.
        """
        for port in self.ports:
            client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
            until(
                lambda client=client: client.list_topics(timeout=20).topics,
                lambda topics: topic in topics and len(topics[topic].partitions) == count,
                what=f"the node at {port} knows {count} partitions of {topic}",
                timeout=20,
            )

    def config(self, topic: str) -> dict[str, str]:
        """Return the topic's overrides from its config znode."""
        return json.loads(self.zk.get(f"/config/topics/{topic}")[0])["config"]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    place = tmp_path_factory.mktemp("admin")
    server = EmbeddedZooKeeper(place / "zookeeper", force_sync=False)
    server.start()
    connect = f"127.0.0.1:{server.port}"
    zk = PatientZooKeeperClient(connect)
    zk.start(20)
    ports = free_ports(len(NODES))
    nodes: list[OurNode] = []
    try:
        for node in NODES:
            # The first automatic check, 5 s after the election, must not elect a preferred leader before a test does.
            settings = {"auto__leader__rebalance__enable": "false"}
            nodes.append(OurNode(place / f"{node}", node, ports[node], connect, **settings))
        for node in NODES:
            until(lambda node=node: zk.exists(f"/brokers/ids/{node}"), what=f"node {node} registered", timeout=30)
        for port in ports:  # librdkafka waits for minutes if its first metadata has no controller
            client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
            until(
                lambda client=client: client.list_topics(timeout=20),
                lambda reported: reported.controller_id in NODES and len(reported.brokers) == len(NODES),
                what=f"the node at {port} knows the cluster",
                timeout=30,
            )
        yield Cluster(ports, zk, connect)
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
    cluster.wait_for_partitions("lib", 3)
    cluster.wait_for_partitions("lib-given", 2)
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
    cluster.wait_for_partitions("set", 1)
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
        cluster.wait_for_partitions("py", 2)
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


def test_librdkafka_asks_for_leaders_describes_and_deletes_records(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([LibrdkafkaTopic("more", 2, 3)], operation_timeout=20)["more"].result(30)
    cluster.wait_for_partitions("more", 2)
    described = admin.describe_cluster().result(30)
    assert sorted(node.id for node in described.nodes) == [*NODES] and described.controller.id in NODES
    topic = admin.describe_topics(TopicCollection(["more"]))["more"].result(30)
    assert [sorted(replica.id for replica in each.replicas) for each in topic.partitions] == [[*NODES]] * 2
    first = LibrdkafkaPartition("more", 0)
    for election, partitions, codes in (
        (ElectionType.PREFERRED, [first], ["ELECTION_NOT_NEEDED"]),
        (ElectionType.UNCLEAN, [first], ["ELECTION_NOT_NEEDED"]),
        (ElectionType.PREFERRED, [LibrdkafkaPartition("missing", 0)], ["UNKNOWN_TOPIC_OR_PART"]),
        (ElectionType.PREFERRED, None, []),
    ):
        elected = admin.elect_leaders(election, partitions).result(30)
        assert [error.name() for error in elected.values()] == codes
    cluster.write("more", 5)
    (deleted,) = admin.delete_records([LibrdkafkaPartition("more", 0, 3)]).values()
    assert deleted.result(30).low_watermark == 3
    (earliest,) = admin.list_offsets({first: OffsetSpec.earliest()}).values()
    assert earliest.result(30).offset == 3
    replaced = ConfigResource(ConfigResource.Type.TOPIC, "more", set_config={"flush.ms": "7"})
    (future,) = admin.alter_configs([replaced]).values()  # AlterConfigs replaces all overrides
    future.result(30)
    assert cluster.config("more") == {"flush.ms": "7"}


def test_kafka_python_describes_grows_configures_and_deletes_records(cluster: Cluster) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    try:
        admin.create_topics([NewTopic("pym", 1, 3)], timeout_ms=20_000)
        admin.create_partitions({"pym": 3}, timeout_ms=20_000)
        cluster.wait_for_partitions("pym", 3)
        (topic,) = admin.describe_topics(["pym"])
        assert [each["leader_id"] in NODES for each in topic["partitions"]] == [True] * 3
        described = admin.describe_cluster()
        assert sorted(each["broker_id"] for each in described["brokers"]) == [*NODES]
        for changes, incremental in (({"retention.ms": "777"}, True), ({"flush.ms": "5"}, False)):
            wanted = PythonResource(ConfigResourceType.TOPIC, "pym", configs=changes)
            assert admin.alter_configs([wanted], incremental=incremental) == {"topic": {"pym": "OK"}}
        assert cluster.config("pym") == {"flush.ms": "5", "retention.ms": "777"}
        reported = admin.describe_configs([PythonResource(ConfigResourceType.TOPIC, "pym")])["topic"]["pym"]
        assert {name: each["value"] for name, each in reported.items()} == cluster.config("pym")
        admin.reset_configs([PythonResource(ConfigResourceType.TOPIC, "pym", configs=["flush.ms"])])
        assert cluster.config("pym") == {"retention.ms": "777"}
        unclean = PythonResource(ConfigResourceType.BROKER, "1", configs={"unclean.leader.election.enable": "false"})
        assert admin.alter_configs([unclean]) == {"broker": {"1": "OK"}}
        cluster.write("pym", 5)
        partition = TopicPartition("pym", 0)
        assert admin.delete_records({partition: 3})[partition]["low_watermark"] == 3
        directories = admin.describe_log_dirs(["pym"])
        assert {each["broker"] for each in directories} == {*NODES}
        held = [topic["name"] for each in directories for log_dir in each["log_dirs"] for topic in log_dir["topics"]]
        assert held == ["pym"] * 3
    finally:
        admin.close()


def test_kafka_python_moves_replicas_and_elects_their_preferred_leaders(cluster: Cluster) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    partition = TopicPartition("moved", 0)
    try:
        admin.create_topics([NewTopic("moved", replica_assignments={0: [0, 1]})], timeout_ms=20_000)
        cluster.write("moved", 3)
        assert admin.alter_partition_reassignments({partition: [2, 1]}) == {partition: None}
        until(lambda: cluster.replicas("moved") == {"0": [2, 1]}, what="moved", timeout=30)
        until(lambda: admin.list_partition_reassignments() == {}, what="nothing is on its way", timeout=30)
        assert admin.alter_partition_reassignments({partition: None}) == {partition: NoReassignmentInProgressError}
        assert admin.alter_partition_reassignments({partition: [1, 2]}) == {partition: None}
        until(lambda: cluster.replicas("moved") == {"0": [1, 2]}, what="another order", timeout=30)
        assert cluster.state("moved", 0)["leader"] == 2, "who leads goes on"
        response = admin.elect_leaders(0, {"moved": [0]})
        assert [each.error_code for each in response.replica_election_results[0].partition_result] == [0]
        assert cluster.state("moved", 0)["leader"] == 1
    finally:
        admin.close()


def test_a_broker_receives_its_address(cluster: Cluster) -> None:
    """Other brokers send clients a changed advertised.listeners, and clients connect to the new address."""
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{cluster.ports[0]}"})

    def advertise(operation: AlterConfigOpType, value: str | None = None) -> None:
        entry = ConfigEntry("advertised.listeners", value, incremental_operation=operation)
        resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(30)

    def known() -> str:
        return admin.list_topics(timeout=20).brokers[1].host

    assert known() == "127.0.0.1"
    with pytest.raises(KafkaException, match="Unable to parse nowhere to a broker endpoint"):
        advertise(AlterConfigOpType.SET, "nowhere")
    advertise(AlterConfigOpType.SET, f"PLAINTEXT://localhost:{cluster.ports[1]}")
    until(known, lambda host: host == "localhost", "it is reached by another name", timeout=30)
    advertise(AlterConfigOpType.DELETE)
    until(known, lambda host: host == "127.0.0.1", "it is reached as before", timeout=30)


def test_our_commands_move_replicas_and_cancel_impossible_moves(cluster: Cluster, tmp_path: Path) -> None:
    def run(command: str, *arguments: str) -> tuple[int, str]:
        wanted = [command, "--zookeeper", cluster.connect, *arguments]
        result = CliRunner().invoke(commands, wanted, standalone_mode=False)
        assert result.exception is None
        return result.return_value, result.stdout

    def plan(*replicas: int) -> tuple[str, str]:
        rows = [{"topic": "taken", "partition": 0, "replicas": replicas}]
        (tmp_path / "plan.json").write_text(json.dumps({"version": 1, "partitions": rows}))
        return "--reassignment-json-file", str(tmp_path / "plan.json")

    def until_settled() -> None:
        """Wait until the request's znode is deleted.

        The controller changes the topic's znode before that, and the request's znode accepts one plan at a time.
        """
        until(lambda: not cluster.zk.exists("/admin/reassign_partitions"), what="the request is settled", timeout=30)

    run("topics", "--create", "--topic", "taken", "--replica-assignment", "0:1")
    until(lambda: cluster.state("taken", 0)["leader"] == 0, what="led", timeout=30, ignore=(NoNodeError,))
    assert run("reassign-partitions", "--execute", *plan(2, 1))[0] == 0
    until(lambda: cluster.replicas("taken") == {"0": [2, 1]}, what="moved", timeout=30)
    until_settled()
    verified = lambda: run("reassign-partitions", "--verify", *plan(2, 1))[1]  # noqa: E731
    until(verified, lambda out: "taken-0 is completed." in out, "the brokers know it", timeout=30)
    nowhere = {"version": 1, "partitions": [{"topic": "taken", "partition": 0, "replicas": [9]}]}
    cluster.zk.create("/admin/reassign_partitions", json.dumps(nowhere).encode())
    until(lambda: cluster.replicas("taken") == {"0": [9, 2, 1]}, what="on its way", timeout=30)
    assert "taken-0: replicas: 9,2,1. adding: 9. removing: 2,1." in run("reassign-partitions", "--list")[1]
    taken_back = "Successfully cancelled partition reassignment for: taken-0"
    assert taken_back in run("reassign-partitions", "--cancel", *plan(9))[1]
    until(lambda: cluster.replicas("taken") == {"0": [2, 1]}, what="as before", timeout=30)
    until_settled()
    assert run("reassign-partitions", "--execute", *plan(1, 2))[0] == 0
    until(lambda: cluster.replicas("taken") == {"0": [1, 2]}, what="another order", timeout=30)
    until_settled()
    elected = run("leader-election", "--election-type", "preferred", "--topic", "taken", "--partition", "0")
    assert elected == (0, "Successfully completed leader election (PREFERRED) for partitions taken-0\n")
    assert cluster.state("taken", 0)["leader"] == 1
