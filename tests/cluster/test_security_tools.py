"""Kafka's tools for users, ACLs and delegation tokens work unmodified, and our commands print the same as they do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.cli.app import run
from actors.node.properties import write_properties
from actors.public import KafkaCluster
from tests.cluster.java_tools import run_tool

pytestmark = [pytest.mark.soak, pytest.mark.long]


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    settings = {"delegation.token.secret.key": "key", "password.encoder.secret": "secret"}
    users = {"alice": "alice-pw"}
    with KafkaCluster(1, security="SASL_PLAINTEXT", users=users, acls=[], settings=settings) as cluster:
        yield cluster


@pytest.fixture
def properties(cluster: KafkaCluster, tmp_path: Path) -> Callable[[str], list[str]]:
    """Return a function that returns the options with which a user connects."""

    def options(user: str) -> list[str]:
        file = tmp_path / f"{user}.properties"
        write_properties(file, cluster.client_config(user, "java"))
        return ["--bootstrap-server", cluster.bootstrap_servers, "--command-config", str(file)]

    return options


@pytest.fixture
def both(
    apache_jars: Path, properties: Callable[[str], list[str]], capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[str, str]]:
    """Return a function that runs Kafka's tool and our command, and returns what they print."""

    def call(tool: str, ours: str, line: str) -> tuple[str, str]:
        done = run_tool(apache_jars, tool, *properties("broker"), *line.split())
        assert done.returncode == 0, done.stderr
        capsys.readouterr()
        assert run([ours, *properties("broker"), *line.split()]) == 0
        return done.stdout, capsys.readouterr().out

    return call


def words(text: str) -> list[str]:
    """Return what is printed, without white space and in any order."""
    return sorted(re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip())


@pytest.mark.parametrize(
    "line",
    [
        "--add --allow-principal User:alice --operation Read --operation Describe --topic orders --group g",
        "--add --deny-principal User:b --deny-host 10.0.0.1 --operation All --topic o --resource-pattern-type prefixed",
        "--add --allow-principal User:carol --producer --idempotent --topic t --transactional-id x",
        "--add --allow-principal User:carol --consumer --topic t --group g",
        "--add --allow-principal User:dave --operation Alter --cluster",
        "--list",
        "--list --topic orders",
        "--list --principal User:carol",
        "--list --topic orders --resource-pattern-type match",
        "--remove --force --allow-principal User:alice --operation Read --topic orders",
        "--remove --force --topic t",
        "--list",
    ],
)
def test_acls_are_changed_and_printed_as_by_kafkas_tool(both: Callable[..., tuple[str, str]], line: str) -> None:
    theirs, ours = both("kafka.admin.AclCommand", "acls", line)
    assert words(theirs) == words(ours)


def test_scram_users_are_changed_and_printed_as_by_kafkas_tool(both: Callable[..., tuple[str, str]]) -> None:
    add = "--alter --entity-type users --entity-name erin --add-config SCRAM-SHA-256=[iterations=8192,password=pw]"
    theirs, ours = both("kafka.admin.ConfigCommand", "configs", add)
    assert words(theirs) == words(ours) == ["Completed updating config for user erin."]
    theirs, ours = both("kafka.admin.ConfigCommand", "configs", "--describe --entity-type users --entity-name erin")
    assert words(theirs) == words(ours) != []


def test_kafkas_tool_creates_renews_describes_and_expires_delegation_tokens(
    apache_jars: Path, properties: Callable[[str], list[str]]
) -> None:
    def tool(*arguments: str) -> str:
        name = "org.apache.kafka.tools.DelegationTokenCommand"
        done = run_tool(apache_jars, name, *properties("alice"), *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    made = tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    found = re.search(r"^(?P<id>[A-Za-z0-9_-]{22})\s+(?P<hmac>\S+)\s+User:alice", made, re.MULTILINE)
    assert found is not None, made
    assert found["id"] in tool("--describe", "--owner-principal", "User:alice")
    tool("--renew", "--renew-time-period", "-1", "--hmac", found["hmac"])
    tool("--expire", "--expiry-time-period", "-1", "--hmac", found["hmac"])
    assert found["id"] not in tool("--describe", "--owner-principal", "User:alice")
