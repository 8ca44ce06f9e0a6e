"""Commands with --bootstrap-server, and with the folder of a cluster whose ZooKeeper is in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.cli.app import run
from actors.public import KafkaCluster

Tool = Callable[..., list[str]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(2) as cluster:
        yield cluster


@pytest.fixture
def tool(cluster: KafkaCluster, capsys: pytest.CaptureFixture[str]) -> Tool:
    """Return a function that runs a command on the cluster and returns its lines."""

    def call(name: str, *arguments: str, code: int = 0) -> list[str]:
        assert run([name, "--bootstrap-server", cluster.bootstrap_servers, *arguments]) == code
        said = capsys.readouterr()
        return (said.out + said.err).splitlines()

    return call


def fields(line: str) -> dict[str, str]:
    """Return the fields of a line of --describe."""
    return dict(part.split(": ", 1) if ": " in part else (part.rstrip(":"), "") for part in line.strip().split("\t"))


def test_the_status_is_that_of_the_brokers_metadata(cluster: KafkaCluster, tool: Tool) -> None:
    cluster.create_topic("shown", partitions=3, replication_factor=2)
    [line] = tool("status", "--json")
    status = json.loads(line)
    assert (status["health"], status["controller"], status["epoch"]) == ("good", cluster.controller_id, None)
    assert [broker["id"] for broker in status["brokers"]] == [0, 1] and status["nodes"] == []
    assert status["topics"] >= 1 and status["partitions"]["online"] >= 3
    cluster.delete_topic("shown")


def test_a_topic_is_created_grown_described_and_deleted(cluster: KafkaCluster, tool: Tool) -> None:
    sizes = ("--partitions", "2", "--replication-factor", "2")
    assert tool("topics", "--create", "--topic", "t", *sizes, "--config", "retention.ms=1000") == ["Created topic t."]
    assert "already exists" in tool("topics", "--create", "--topic", "t", code=1)[0]
    assert tool("topics", "--create", "--topic", "t", "--if-not-exists") == []
    assert tool("topics", "--list") == ["t"]
    cluster.wait_for(lambda: len(cluster.isr_of("t", 1)) == 2)
    assert tool("topics", "--alter", "--topic", "t", "--partitions", "3") == []
    cluster.wait_for_leader("t", 2)
    cluster.wait_for(lambda: len(tool("topics", "--describe", "--topic", "t")) == 4)
    topic, *partitions = map(fields, tool("topics", "--describe", "--topic", "t"))
    assert (topic["PartitionCount"], topic["ReplicationFactor"], topic["Configs"]) == ("3", "2", "retention.ms=1000")
    assert [(int(each["Partition"]), int(each["Leader"])) for each in partitions] == [
        (number, cluster.leader_of("t", number)) for number in range(3)
    ]
    assert tool("topics", "--delete", "--topic", "t") == []
    cluster.wait_for(lambda: cluster.topics == [])
    assert "does not exist" in tool("topics", "--describe", "--topic", "t", code=1)[0]


def test_configs_are_set_changed_and_deleted(cluster: KafkaCluster, tool: Tool) -> None:
    cluster.create_topic("c", config={"retention.ms": 1000, "segment.bytes": 100_000})

    def described(*entity: str) -> str:
        return "\n".join(tool("configs", "--describe", *entity))

    tool("configs", "--alter", "--topic", "c", "--add-config", "retention.ms=2000", "--delete-config", "segment.bytes")
    cluster.wait_for(lambda: "retention.ms=2000" in described("--topic", "c"))
    assert "segment.bytes" not in described("--topic", "c")
    for entity in (("--broker", "0"), ("--broker-defaults",)):
        tool("configs", "--alter", *entity, "--add-config", "message.max.bytes=100000")
        cluster.wait_for(lambda entity=entity: "message.max.bytes=100000" in described(*entity))  # type: ignore[misc]
        tool("configs", "--alter", *entity, "--delete-config", "message.max.bytes")
        cluster.wait_for(lambda entity=entity: "message.max.bytes" not in described(*entity))  # type: ignore[misc]
    assert "does not exist" in tool("configs", "--describe", "--topic", "none", code=1)[0]


def test_the_folder_of_a_cluster_in_memory_names_its_brokers(
    cluster: KafkaCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    brokers = [
        {"host": host, "port": port} for host, port in (b.split(":") for b in cluster.bootstrap_servers.split(","))
    ]
    (tmp_path / "cluster.json").write_text(json.dumps({"zookeeper": "memory", "brokers": brokers}))
    cluster.create_topic("here")
    assert run(["topics", "--dir", str(tmp_path), "--list", "--topic", "here"]) == 0
    assert capsys.readouterr().out == "here\n"


def test_addresses_exclude_each_other(cluster: KafkaCluster, tool: Tool) -> None:
    assert "exclude each other" in tool("topics", "--zookeeper", "h:1", "--list", code=2)[-1]
    assert "is not the address" in "".join(tool("topics", "--bootstrap-server", "nowhere", "--list", code=2))
