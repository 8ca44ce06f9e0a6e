"""Python's clients and our commands send the requests of producers, consumers and admins to three nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import ElectionType, KafkaException, Producer, TopicCollection
from confluent_kafka import TopicPartition as LibrdkafkaPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, OffsetSpec
from confluent_kafka.admin import NewTopic as LibrdkafkaTopic
from kafka import TopicPartition
from kafka.admin import ConfigResource as PythonResource
from kafka.admin import ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.errors import NoReassignmentInProgressError
from kazoo.exceptions import NoNodeError

from actors.cli.app import commands
from tests.clients import __main__ as clients
from tests.cluster.nodes import NODES, Nodes
from tests.waiting import until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    # The first automatic check, 5 s after the election, must not elect a preferred leader before a test does.
    settings = {"auto__leader__rebalance__enable": "false", "offsets__topic__num__partitions": 3}
    with Nodes.running(tmp_path_factory.mktemp("admin"), **settings) as made:
        for port in made.ports:  # librdkafka waits for minutes if its first metadata has no controller
            client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
            until(
                lambda client=client: client.list_topics(timeout=20),
                lambda reported: reported.controller_id in NODES and len(reported.brokers) == len(NODES),
                what=f"the node at {port} knows the cluster",
                timeout=30,
            )
        yield made


def replicas(cluster: Nodes, topic: str) -> dict[str, list[int]]:
    """Return the topic's assignment from its znode."""
    found: dict[str, list[int]] = cluster.zk.value(f"/brokers/topics/{topic}")["partitions"]
    return found


def overrides(cluster: Nodes, topic: str) -> dict[str, str]:
    """Return the topic's overrides from its config znode."""
    found: dict[str, str] = cluster.zk.value(f"/config/topics/{topic}")["config"]
    return found


def write(cluster: Nodes, topic: str, count: int) -> None:
    """Write this number of records to partition 0 with acks=all."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(30) == 0


def wait_for_partitions(cluster: Nodes, topic: str, count: int) -> None:
    """Wait until each node reports this number of partitions.

    The controller responds to a change before the other nodes receive its UpdateMetadata requests.
    """
    for port in cluster.ports:
        client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
        until(
            lambda client=client: client.list_topics(timeout=20).topics,
            lambda topics: topic in topics and len(topics[topic].partitions) == count,
            what=f"the node at {port} knows {count} partitions of {topic}",
            timeout=20,
        )


@pytest.mark.parametrize("name", ["confluent-kafka", "kafka-python", "aiokafka"])
def test_each_step_of_a_client_succeeds(cluster: Nodes, name: str) -> None:
    """`make clients` runs the same steps with clients of other languages too."""
    _, outcomes, _ = clients.run(cluster.bootstrap, name)
    assert [(step, text) for step, text in outcomes.items() if text.startswith("failed")] == []


def test_librdkafka_asks_for_leaders_describes_and_deletes_records(cluster: Nodes) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([LibrdkafkaTopic("more", 2, 3)], operation_timeout=20)["more"].result(30)
    wait_for_partitions(cluster, "more", 2)
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
    write(cluster, "more", 5)
    (deleted,) = admin.delete_records([LibrdkafkaPartition("more", 0, 3)]).values()
    assert deleted.result(30).low_watermark == 3
    (earliest,) = admin.list_offsets({first: OffsetSpec.earliest()}).values()
    assert earliest.result(30).offset == 3
    replaced = ConfigResource(ConfigResource.Type.TOPIC, "more", set_config={"flush.ms": "7"})
    (future,) = admin.alter_configs([replaced]).values()  # AlterConfigs replaces all overrides
    future.result(30)
    assert overrides(cluster, "more") == {"flush.ms": "7"}


def test_kafka_python_describes_grows_configures_and_deletes_records(cluster: Nodes) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    try:
        admin.create_topics([NewTopic("pym", 1, 3)], timeout_ms=20_000)
        admin.create_partitions({"pym": 3}, timeout_ms=20_000)
        wait_for_partitions(cluster, "pym", 3)
        (topic,) = admin.describe_topics(["pym"])
        assert [each["leader_id"] in NODES for each in topic["partitions"]] == [True] * 3
        described = admin.describe_cluster()
        assert sorted(each["broker_id"] for each in described["brokers"]) == [*NODES]
        for changes, incremental in (({"retention.ms": "777"}, True), ({"flush.ms": "5"}, False)):
            wanted = PythonResource(ConfigResourceType.TOPIC, "pym", configs=changes)
            assert admin.alter_configs([wanted], incremental=incremental) == {"topic": {"pym": "OK"}}
        assert overrides(cluster, "pym") == {"flush.ms": "5", "retention.ms": "777"}
        reported = admin.describe_configs([PythonResource(ConfigResourceType.TOPIC, "pym")])["topic"]["pym"]
        assert {name: each["value"] for name, each in reported.items()} == overrides(cluster, "pym")
        admin.reset_configs([PythonResource(ConfigResourceType.TOPIC, "pym", configs=["flush.ms"])])
        assert overrides(cluster, "pym") == {"retention.ms": "777"}
        unclean = PythonResource(ConfigResourceType.BROKER, "1", configs={"unclean.leader.election.enable": "false"})
        assert admin.alter_configs([unclean]) == {"broker": {"1": "OK"}}
        write(cluster, "pym", 5)
        partition = TopicPartition("pym", 0)
        assert admin.delete_records({partition: 3})[partition]["low_watermark"] == 3
        directories = admin.describe_log_dirs(["pym"])
        assert {each["broker"] for each in directories} == {*NODES}
        held = [topic["name"] for each in directories for log_dir in each["log_dirs"] for topic in log_dir["topics"]]
        assert held == ["pym"] * 3
    finally:
        admin.close()


def test_kafka_python_moves_replicas_and_elects_their_preferred_leaders(cluster: Nodes) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    partition = TopicPartition("moved", 0)
    try:
        admin.create_topics([NewTopic("moved", replica_assignments={0: [0, 1]})], timeout_ms=20_000)
        write(cluster, "moved", 3)
        assert admin.alter_partition_reassignments({partition: [2, 1]}) == {partition: None}
        until(lambda: replicas(cluster, "moved") == {"0": [2, 1]}, what="moved", timeout=30)
        until(lambda: admin.list_partition_reassignments() == {}, what="nothing is on its way", timeout=30)
        assert admin.alter_partition_reassignments({partition: None}) == {partition: NoReassignmentInProgressError}
        assert admin.alter_partition_reassignments({partition: [1, 2]}) == {partition: None}
        until(lambda: replicas(cluster, "moved") == {"0": [1, 2]}, what="another order", timeout=30)
        assert cluster.zk.state_of("moved", 0)["leader"] == 2, "who leads goes on"
        response = admin.elect_leaders(0, {"moved": [0]})
        assert [each.error_code for each in response.replica_election_results[0].partition_result] == [0]
        assert cluster.zk.state_of("moved", 0)["leader"] == 1
    finally:
        admin.close()


def test_a_broker_receives_its_address(cluster: Nodes) -> None:
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


def test_our_commands_move_replicas_and_cancel_impossible_moves(cluster: Nodes, tmp_path: Path) -> None:
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
    until(lambda: cluster.zk.state_of("taken", 0)["leader"] == 0, what="led", timeout=30, ignore=(NoNodeError,))
    assert run("reassign-partitions", "--execute", *plan(2, 1))[0] == 0
    until(lambda: replicas(cluster, "taken") == {"0": [2, 1]}, what="moved", timeout=30)
    until_settled()
    verified = lambda: run("reassign-partitions", "--verify", *plan(2, 1))[1]  # noqa: E731
    until(verified, lambda out: "taken-0 is completed." in out, "the brokers know it", timeout=30)
    nowhere = {"version": 1, "partitions": [{"topic": "taken", "partition": 0, "replicas": [9]}]}
    cluster.zk.create("/admin/reassign_partitions", json.dumps(nowhere).encode())
    until(lambda: replicas(cluster, "taken") == {"0": [9, 2, 1]}, what="on its way", timeout=30)
    assert "taken-0: replicas: 9,2,1. adding: 9. removing: 2,1." in run("reassign-partitions", "--list")[1]
    taken_back = "Successfully cancelled partition reassignment for: taken-0"
    assert taken_back in run("reassign-partitions", "--cancel", *plan(9))[1]
    until(lambda: replicas(cluster, "taken") == {"0": [2, 1]}, what="as before", timeout=30)
    until_settled()
    assert run("reassign-partitions", "--execute", *plan(1, 2))[0] == 0
    until(lambda: replicas(cluster, "taken") == {"0": [1, 2]}, what="another order", timeout=30)
    until_settled()
    elected = run("leader-election", "--election-type", "preferred", "--topic", "taken", "--partition", "0")
    assert elected == (0, "Successfully completed leader election (PREFERRED) for partitions taken-0\n")
    assert cluster.zk.state_of("taken", 0)["leader"] == 1
