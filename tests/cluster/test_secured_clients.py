"""Clients connect to secured clusters by every mechanism, with the settings of `client_config` as they are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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


def of_librdkafka(settings: dict[str, Any]) -> list[str]:
    return [*confluent_kafka.admin.AdminClient(settings).list_topics(timeout=30).topics]


def of_kafka_python(settings: dict[str, Any]) -> list[str]:
    with contextlib.closing(kafka.KafkaAdminClient(**settings)) as client:
        return [*client.list_topics()]


def of_aiokafka(settings: dict[str, Any]) -> list[str]:
    async def topics() -> list[str]:
        client = aiokafka.admin.AIOKafkaAdminClient(**settings)
        await client.start()
        try:
            return [*await client.list_topics()]
        finally:
            await client.close()

    return asyncio.run(topics())


CLIENTS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "librdkafka": of_librdkafka,
    "kafka-python": of_kafka_python,
    "aiokafka": of_aiokafka,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_lists_only_permitted_topics(cluster: KafkaCluster, client: str) -> None:
    for user, topics in (("alice", ["orders"]), ("bob", [])):
        settings = cluster.client_config(user, client)
        if settings.get("sasl_mechanism") == "OAUTHBEARER":
            pytest.skip(f"{client} takes a provider of tokens")
        assert CLIENTS[client](settings) == topics


def test_users_of_a_running_cluster(cluster: KafkaCluster) -> None:
    if cluster.client_config("alice").get("sasl.mechanisms") == "PLAIN":
        with pytest.raises(ClusterError, match="users of PLAIN are settings"):
            cluster.add_user("dora", "d")
        return
    cluster.add_user("dora", "d")
    cluster.add_acls([{**ACLS[0], "allow": "dora"}])
    assert of_librdkafka(cluster.client_config("dora")) == ["orders"]


def test_the_java_client_lists_only_permitted_topics(cluster: KafkaCluster, apache_jars: Path, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    write_properties(file, cluster.client_config("alice", "java"))
    where = ["--bootstrap-server", cluster.bootstrap_servers, "--command-config", str(file)]
    done = run_tool(apache_jars, "org.apache.kafka.tools.TopicCommand", *where, "--list")
    assert (done.returncode, done.stdout.split()) == (0, ["orders"]), done.stderr
