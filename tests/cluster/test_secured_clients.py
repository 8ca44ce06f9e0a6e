"""Clients connect to secured clusters by every mechanism, with the settings of `client_config` as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiokafka.admin
import confluent_kafka.admin
import kafka
import pytest

from actors.node.properties import write_properties
from actors.public import ClusterError, KafkaCluster
from tests.cluster.java_tools import run_tool

pytestmark = [pytest.mark.soak, pytest.mark.long]

ACLS = [{"allow": "alice", "operation": "Describe", "topic": "orders"}]


@pytest.fixture(
    scope="module",
    params=[
        ("SASL_PLAINTEXT", "PLAIN"),
        ("SASL_SSL", "PLAIN"),
        ("SASL_SSL", "SCRAM-SHA-256"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-512"),
        ("SASL_SSL", "SCRAM-SHA-512"),
        ("SASL_PLAINTEXT", "OAUTHBEARER"),
        ("SSL", None),
    ],
    ids=lambda param: "-".join(filter(None, param)),
)
def cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    security, mechanism = request.param
    with KafkaCluster(
        2, security=security, mechanism=mechanism, users={"alice": 'a "pw"', "bob": "b"}, acls=ACLS
    ) as made:
        made.create_topic("orders")
        yield made


def test_librdkafka_lists_only_permitted_topics(cluster: KafkaCluster) -> None:
    for user, topics in (("alice", {"orders"}), ("bob", set())):
        client = confluent_kafka.admin.AdminClient(cluster.client_config(user))
        assert set(client.list_topics(timeout=30).topics) == topics


def test_users_of_a_running_cluster(cluster: KafkaCluster) -> None:
    if cluster.client_config("alice").get("sasl.mechanisms") == "PLAIN":
        with pytest.raises(ClusterError, match="users of PLAIN are settings"):
            cluster.add_user("dora", "d")
        return
    cluster.add_user("dora", "d")
    cluster.add_acls([{**ACLS[0], "allow": "dora"}])
    client = confluent_kafka.admin.AdminClient(cluster.client_config("dora"))
    assert set(client.list_topics(timeout=30).topics) == {"orders"}


def test_kafka_python_lists_only_permitted_topics(cluster: KafkaCluster) -> None:
    settings = cluster.client_config("alice", "kafka-python")
    if settings.get("sasl_mechanism") == "OAUTHBEARER":
        pytest.skip("kafka-python takes a provider of tokens")
    client = kafka.KafkaAdminClient(**settings)
    assert client.list_topics() == ["orders"]
    client.close()


def test_aiokafka_lists_only_permitted_topics(cluster: KafkaCluster) -> None:
    settings = cluster.client_config("alice", "aiokafka")
    if settings.get("sasl_mechanism") == "OAUTHBEARER":
        pytest.skip("aiokafka takes a provider of tokens")

    async def topics() -> list[str]:
        client = aiokafka.admin.AIOKafkaAdminClient(**settings)
        await client.start()
        try:
            return list(await client.list_topics())
        finally:
            await client.close()

    assert asyncio.run(topics()) == ["orders"]


def test_the_java_client_lists_only_permitted_topics(cluster: KafkaCluster, apache_jars: Path, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    write_properties(file, cluster.client_config("alice", "java"))
    where = ["--bootstrap-server", cluster.bootstrap_servers, "--command-config", str(file)]
    done = run_tool(apache_jars, "org.apache.kafka.tools.TopicCommand", *where, "--list")
    assert (done.returncode, done.stdout.split()) == (0, ["orders"]), done.stderr
