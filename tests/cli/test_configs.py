"""`kafka-actors configs` on an in-memory ZooKeeper: its writes, and Kafka 3.9.1's messages."""

# ruff: noqa: E501 - Kafka's sentences stay whole

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from actors.cli import configs
from actors.cli.app import CommandFailed
from actors.core.admin.config_admin import parse_added
from actors.core.refusal import Refused
from messages.cluster import PartitionAssignment, ReplicaAssignment
from messages.store import SET, WriteOp
from messages.zookeeper import CreateTopic, GetConfigChanges, TopicAssignment
from tests.cli.shell import Shell


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Shell:
    made = Shell(monkeypatch, configs)
    for topic in ("foo", "bar"):
        made.client.ask(CreateTopic(TopicAssignment(topic, (PartitionAssignment(0, ReplicaAssignment((0,))),))))
    return made


def test_a_topics_overrides_are_set_described_and_removed(shell: Shell) -> None:
    changed = "Completed updating config for topic foo.\n"
    assert shell.run("--alter --topic foo --add-config retention.ms=1000,cleanup.policy=[compact,delete]") == (
        0,
        changed,
    )
    assert json.loads(shell.data("/config/topics/foo") or b"")["config"] == {
        "cleanup.policy": "compact,delete",
        "retention.ms": "1000",
    }
    reported = (
        "Dynamic configs for topic foo are:\n"
        "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}\n"
        "  retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000}\n"
    )
    assert shell.run("--describe --entity-type topics --entity-name foo") == (0, reported)
    assert shell.run("--describe --entity-type topics") == (0, "Dynamic configs for topic bar are:\n" + reported)
    assert shell.run("--alter --topic foo --delete-config cleanup.policy --add-config flush.ms=5")[0] == 0
    assert json.loads(shell.data("/config/topics/foo") or b"")["config"] == {"flush.ms": "5", "retention.ms": "1000"}
    notified = shell.client.ask(GetConfigChanges(-1)).changes
    assert [change.entity_path for change in notified] == ["topics/foo", "topics/foo"], "every node hears of it"


def test_brokers_overrides_their_own_and_those_of_all(shell: Shell) -> None:
    rate, unclean = "leader.replication.throttled.rate", "unclean.leader.election.enable"
    own = "--entity-type brokers --entity-name 0"
    assert shell.run(f"--alter {own} --add-config {rate}=1000") == (0, "Completed updating config for broker 0.\n")
    changed = "Completed updating default config for brokers in the cluster.\n"
    assert shell.run(f"--alter --broker-defaults --add-config {unclean}=true") == (0, changed)
    assert shell.run("--describe --entity-type brokers") == (
        0,
        "Dynamic configs for broker 0 are:\n"
        f"  {rate}=1000 sensitive=false synonyms={{DYNAMIC_BROKER_CONFIG:{rate}=1000}}\n"
        "Dynamic configs for broker 1 are:\n"
        "Dynamic configs for broker 2 are:\n"
        "Default configs for brokers in the cluster are:\n"
        f"  {unclean}=true sensitive=false synonyms={{DYNAMIC_DEFAULT_BROKER_CONFIG:{unclean}=true}}\n",
    )
    assert shell.run(f"--alter {own} --add-config {unclean}=false")[0] == 0
    places = f"DYNAMIC_BROKER_CONFIG:{unclean}=false, DYNAMIC_DEFAULT_BROKER_CONFIG:{unclean}=true, DEFAULT_CONFIG:{unclean}=false"
    reported = shell.run("--describe --broker 0")[1].splitlines()
    assert reported[2] == f"  {unclean}=false sensitive=false synonyms={{{places}}}"
    for setting, default in (
        ("log.segment.bytes", "log.segment.bytes=1073741824"),
        ("log.roll.ms", "log.roll.hours=168"),
    ):
        assert shell.run(f"--alter {own} --add-config {setting}=20000")[0] == 0
        assert (
            f"synonyms={{DYNAMIC_BROKER_CONFIG:{setting}=20000, DEFAULT_CONFIG:{default}}}"
            in shell.run("--describe --broker 0")[1]
        )
        assert shell.run(f"--alter {own} --delete-config {setting}")[0] == 0
    assert shell.run(f"--alter {own} --delete-config {rate},{unclean}")[0] == 0
    assert shell.run("--describe --broker 0") == (0, "Dynamic configs for broker 0 are:\n")
    assert shell.run("--describe --entity-type brokers --entity-default")[1].startswith("Default configs for brokers")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--alter --topic foo --delete-config max.message.bytes,flush.ms", "Invalid config(s): max.message.bytes,flush.ms"),
        ("--alter --topic foo --add-config retention.ms=x", "Invalid config value for resource ConfigResource(type=TOPIC, name='foo'): Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ("--alter --topic foo --add-config no.such=1", "Unknown topic config name: no.such"),
        ("--alter --topic foo --add-config bad", 'requirement failed: Invalid entity config: all configs to be added must be in the format "key=val".'),
        ("--alter --topic foo --add-config a@b=1", "Invalid character found for config key: a@b"),
        ("--alter --topic nope --add-config flush.ms=1", "The topic 'nope' does not exist."),
        ("--describe --topic nope", "The topic 'nope' does not exist."),
        ("--alter --broker 0 --add-config advertised.listeners=PLAINTEXT://h:1", "advertised.listeners can only be altered through a broker, not in ZooKeeper. Use Kafka's kafka-configs with --bootstrap-server."),
        ("--alter --broker-defaults --add-config advertised.listeners=PLAINTEXT://h:1", "Cannot update these configs at default cluster level, broker id must be specified: Set(advertised.listeners)"),
        ("--alter --broker 0 --add-config broker.id=5", "Cannot update these configs dynamically: Set(broker.id)"),
        ("--alter --broker 0 --add-config leader.replication.throttled.rate=x", "Invalid value x for configuration leader.replication.throttled.rate: Not a number of type LONG"),
    ],
)  # fmt: skip
def test_what_cannot_be_done(shell: Shell, line: str, words: str) -> None:
    before = dict(shell.tree.walk())
    with pytest.raises(CommandFailed) as failed:
        shell.run(line)
    assert failed.value.message == words
    assert dict(shell.tree.walk()) == before


def test_torn_overrides_are_not_overwritten(shell: Shell) -> None:
    shell.tree.write((WriteOp(SET, "/config/topics/foo", b"{torn"),), 0)
    with pytest.raises(CommandFailed, match="the overrides of topic foo cannot be read"):
        shell.run("--alter --topic foo --add-config flush.ms=1")
    assert shell.data("/config/topics/foo") == b"{torn"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--topic foo", "Command must include exactly one action: --describe, --alter"),
        ("--alter --topic foo", "At least one of --add-config or --delete-config must be specified with --alter"),
        ("--describe", "At least one entity type must be specified"),
        ("--describe --entity-type users", "Invalid entity type users, the entity type must be one of topics, brokers"),
        ("--alter --entity-type topics --add-config a=b", "an entity name must be specified with --alter of topics"),
        ("--describe --topic foo --add-config a=b", 'Option "[add-config]" can\'t be used with action "[describe]"'),
        ("--describe --topic foo --entity-type topics", "--entity-{type,name,default} should not be used in conjunction with specific entity flags"),
        ("--describe --topic foo --broker 1", "Only one of --topic, --broker, --broker-defaults can be specified"),
        ("--describe --broker x", "The entity name for brokers must be a valid integer broker id, but it is: x"),
        ("--describe --entity-type topics --entity-default", "an entity name must be specified with --entity-type topics"),
    ],
)  # fmt: skip
def test_wrong_use(line: str, words: str) -> None:
    result = CliRunner().invoke(configs.command, ["--zookeeper", "h:1", *line.split()])
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == f"Error: {words}"


def test_brackets_keep_commas_together() -> None:
    added = parse_added("a=[1:2,3:4],b=2 , c = [] ,d=")
    assert added == {"a": "1:2,3:4", "b": "2", "c": "", "d": ""}
    with pytest.raises(Refused):
        parse_added("a=1=2")
