"""`kafka-actors topics` on an in-memory ZooKeeper: its writes, and Kafka 3.9.1's messages (from a real cluster)."""

# ruff: noqa: E501 - Kafka's sentences stay whole

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from click.testing import CliRunner

from actors.cli import topic_admin, topics
from actors.core.topic.replica_assignment import InvalidAssignment, assign, extend
from messages.ask import ZooKeeperRefused
from messages.store import CREATE, SET, WriteOp
from messages.zookeeper import GetTopicDeletions
from tests.cli.shell import Shell


class TopicShell(Shell):
    """Runs the `topics` command."""

    def fails(self, line: str) -> str:
        """Run a command that must fail, and return its error."""
        code, out = self.run(line)
        assert code == 1
        *_, last = out.splitlines()
        assert last.startswith("Error while executing topic command : ")
        return last.removeprefix("Error while executing topic command : ")

    def assignment(self, topic: str) -> bytes | None:
        return self.data(f"/brokers/topics/{topic}")


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> TopicShell:
    random.seed(7)
    return TopicShell(monkeypatch, topics)


def test_create_list_describe(shell: TopicShell) -> None:
    assert shell.run("--list") == (0, "")
    assert shell.run("--create --topic foo --replica-assignment 0:1:2,1:2:0") == (0, "Created topic foo.\n")
    assert shell.run("--create --topic bar --config retention.ms=1000 --config cleanup.policy=compact")[0] == 0
    assert shell.run("--list") == (0, "bar\nfoo\n")
    assert shell.run("--list --topic f.*") == (0, "foo\n")
    shell.lead("foo", 0, 0, (0, 1, 2))
    shell.lead("foo", 1, -1, (1,))
    expected = (
        "Topic: foo\tPartitionCount: 2\tReplicationFactor: 3\tConfigs: \n"
        "\tTopic: foo\tPartition: 0\tLeader: 0\tReplicas: 0,1,2\tIsr: 0,1,2\tElr: N/A\tLastKnownElr: N/A\n"
        "\tTopic: foo\tPartition: 1\tLeader: none\tReplicas: 1,2,0\tIsr: 1\tElr: N/A\tLastKnownElr: N/A\n"
    )
    assert shell.run("--describe --topic foo") == (0, expected)
    partition_1 = expected.splitlines(keepends=True)[2]
    assert shell.run("--describe --topic foo --unavailable-partitions") == (0, partition_1)
    assert shell.run("--describe --topic foo --under-replicated-partitions") == (0, partition_1)
    assert shell.run("--describe --topic foo --at-min-isr-partitions") == (0, partition_1)
    assert shell.run("--describe --topic foo --under-min-isr-partitions") == (0, "")
    overrides = (
        "Topic: bar\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: cleanup.policy=compact,retention.ms=1000\n"
    )
    assert shell.run("--describe --topics-with-overrides") == (0, overrides)


def test_default_assignment_spreads_over_the_brokers(shell: TopicShell) -> None:
    shell.run("--create --topic foo --partitions 6 --replication-factor 3")
    code, out = shell.run("--describe --topic foo")
    replicas = [line.split("\t")[4].removeprefix("Replicas: ").split(",") for line in out.splitlines()[1:]]
    assert code == 0
    assert len(replicas) == 6
    assert all(sorted(ids) == ["0", "1", "2"] for ids in replicas)
    assert sorted(ids[0] for ids in replicas) == ["0", "0", "1", "1", "2", "2"]
    shell.run("--alter --topic foo --partitions 9")
    assert len(shell.run("--describe --topic foo")[1].splitlines()) == 10


def test_delete_marks(shell: TopicShell) -> None:
    for topic in ("bar", "bar2", "foo"):
        shell.run(f"--create --topic {topic}")
    assert shell.run("--delete --topic bar.*") == (0, "")
    assert shell.client.ask(GetTopicDeletions(watch=False)).topics == ("bar", "bar2")
    assert shell.run("--delete --topic bar") == (0, "")
    assert shell.run("--describe --topic bar")[1].splitlines()[0].endswith("\tMarkedForDeletion: true")


def test_a_topic_that_is_too_large_for_a_znode_is_named(shell: TopicShell) -> None:
    with pytest.raises(
        ZooKeeperRefused, match=r"/brokers/topics/huge would have 2,.* bytes, more than ZooKeeper accepts"
    ):
        shell.run("--create --topic huge --partitions 200000")


def test_internal_topics_can_be_left_out(shell: TopicShell) -> None:
    code, out = shell.run("--create --topic __consumer_offsets")
    assert code == 0
    assert out.startswith("WARNING: Due to limitations in metric names")
    assert shell.run("--list --exclude-internal") == (0, "")
    assert shell.run("--describe --exclude-internal") == (0, "")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--create --topic foo", "Topic 'foo' already exists."),
        ("--create --topic bad/name", "Topic name is invalid: 'bad/name' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("--create --topic .", "Topic name is invalid: '.' is not allowed"),
        ("--create --topic=", "The given topic name '' cannot be represented in a request."),
        (f"--create --topic {'a' * 250}", f"Topic name is invalid: the length of '{'a' * 250}' is longer than the max allowed length 249"),
        ("--create --topic a_b", "Topic 'a_b' collides with existing topics: a.b"),
        ("--create --topic t --partitions 0", "The partitions must be greater than 0"),
        ("--create --topic t --replication-factor 0", "The replication factor must be between 1 and 32767 inclusive"),
        ("--create --topic t --replication-factor 4", "Replication factor: 4 larger than available brokers: 3."),
        ("--create --topic t --replica-assignment 0:1,1", "Partition 1 has different replication factor: [1]"),
        ("--create --topic t --replica-assignment 0:0", "Partition replica lists may not contain duplicate entries: 0"),
        ("--create --topic t --replica-assignment 0:x", 'For input string: "x"'),
        ("--create --topic t --config bad.config=1", "Unknown topic config name: bad.config"),
        ("--create --topic t --config retention.ms", 'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'),
        ("--create --topic t --config retention.ms=x", "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ("--create --topic t --config retention.ms=-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ("--create --topic t --config segment.bytes=3000000000", "Invalid value 3000000000 for configuration segment.bytes: Not a number of type INT"),
        ("--create --topic t --config cleanup.policy=zzz", "Invalid value zzz for configuration cleanup.policy: String must be one of: compact, delete"),
        ("--create --topic t --config preallocate=x", "Invalid value x for configuration preallocate: Expected value to be either true or false"),
        ("--create --topic t --config min.cleanable.dirty.ratio=2", "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"),
        ("--create --topic t --config compression.gzip.level=0", "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"),
        ("--create --topic t --config message.format.version=9", "Invalid value 9 for configuration message.format.version: Version 9 is not a valid version"),
        ("--create --topic t --config follower.replication.throttled.replicas=x", "Invalid value [x] for configuration follower.replication.throttled.replicas: follower.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."),
        ("--describe --topic nosuch", "Topic 'Optional[nosuch]' does not exist as expected"),
        ("--delete --topic nosuch", "Topic 'Optional[nosuch]' does not exist as expected"),
        ("--delete --topic __.*", "Topic __consumer_offsets is a kafka internal topic and is not allowed to be marked for deletion."),
        ("--list --topic [a", "[a is an invalid regex: unterminated character set at position 0"),
        ("--alter --topic nosuch --partitions 3", "Topic 'Optional[nosuch]' does not exist as expected"),
        ("--alter --topic foo --partitions 3", "Topic already has 3 partitions."),
        ("--alter --topic foo --partitions 2", "Topic currently has 3 partitions, which is higher than the requested 2."),
        ("--alter --topic foo --partitions 5 --replica-assignment 0,1,2,0:1,1:2", "Partition 3 has different replication factor: [0,1]"),
        ("--alter --topic foo --partitions 5 --replica-assignment 0:1,1:2,2:0,0:1,2:1", "Inconsistent replication factor between partitions, partition 0 has 1 while partitions [3, 4] have replication factors [2, 2], respectively."),
        ("--alter --topic foo --partitions 5 --replica-assignment 0,1,2", "Increasing the number of partitions by 2 but 0 assignments provided."),
        ("--alter --topic foo --partitions 4 --replica-assignment 0,1,2,9", "Unknown broker(s) in replica assignment: 9."),
    ],
)  # fmt: skip
def test_what_cannot_be_done(shell: TopicShell, line: str, words: str) -> None:
    shell.run("--create --topic foo --partitions 3")
    shell.run("--create --topic a.b")
    shell.run("--create --topic __consumer_offsets")
    before = dict(shell.tree.walk())
    assert shell.fails(line) == words
    assert dict(shell.tree.walk()) == before


@pytest.mark.parametrize(
    "line",
    ["--create --topic foo --if-not-exists", "--delete --topic x --if-exists", "--describe --topic x --if-exists"],
)
def test_conditions_make_it_no_error(shell: TopicShell, line: str) -> None:
    shell.run("--create --topic foo")
    assert shell.run(line) == (0, "")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "Command must include exactly one action: --list, --describe, --create, --alter or --delete"),
        ("--create --list", "Command must include exactly one action: --list, --describe, --create, --alter or --delete"),
        ("--list", "--zookeeper must be specified (or --dir, the folder of `kafka-actors up`)"),
        ("--zookeeper h --dir d --list", "--zookeeper and --dir exclude each other"),
        ("--zookeeper h --create", 'Missing required argument "[topic]"'),
        ("--zookeeper h --delete", 'Missing required argument "[topic]"'),
        ("--zookeeper h --alter --topic t", 'Missing required argument "[partitions]"'),
        ("--zookeeper h --alter --topic t --config a=b", 'Option combination "[[zookeeper], [config]]" can\'t be used with option "[alter]" (the kafka-configs CLI supports altering topic configs with a --bootstrap-server option)'),
        ("--zookeeper h --describe --if-exists", "--topic is required to describe a topic"),
        ("--zookeeper h --create --topic t --partitions x", "Cannot parse argument 'x' of option partitions"),
        ("--zookeeper h --list --partitions 3", 'Option "[partitions]" can\'t be used with option "[list]"'),
        ("--zookeeper h --create --topic t --if-exists", 'Option "[if-exists]" can\'t be used with option "[create]"'),
        ("--zookeeper h --create --topic t --replica-assignment 0 --partitions 1", 'Option "[replica-assignment]" can\'t be used with option "[partitions]"'),
        ("--zookeeper h --describe --topics-with-overrides --unavailable-partitions", 'Option "[unavailable-partitions]" can\'t be used with option "[topics-with-overrides]"'),
    ],
)  # fmt: skip
def test_wrong_use(line: str, words: str) -> None:
    result = CliRunner().invoke(topics.command, line.split())
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == f"Error: {words}"


def test_replica_assignment_as_apache_makes_it() -> None:
    """These are some of the 110 cases that were compared with Kafka's AdminUtils."""
    assert assign(dict.fromkeys([0, 10, 20]), 4, 2, 1, 1, 0) == ((10, 0), (20, 10), (0, 20), (10, 20))
    brokers = dict.fromkeys([0, 10, 20, 30, 40])
    assert assign(brokers, 3, 5, 4, 4, 4) == ((30, 40, 0, 10, 20), (40, 10, 20, 30, 0), (0, 20, 30, 40, 10))
    assert extend(dict.fromkeys([0, 1, 2]), [1], 3, 2) == ((1,), (2,))
    with pytest.raises(InvalidAssignment, match="larger than available brokers: 0"):
        assign({}, 1, 1, 0, 0)


def test_a_topic_without_partitions_is_described_but_not_altered(shell: TopicShell) -> None:
    empty = b'{"version":2,"partitions":{},"adding_replicas":{},"removing_replicas":{}}'
    shell.tree.write((WriteOp(CREATE, "/brokers/topics/empty", empty),), 0)
    assert shell.run("--describe") == (0, "Topic: empty\tPartitionCount: 0\tReplicationFactor: 0\tConfigs: \n")
    assert shell.fails("--alter --topic empty --partitions 2") == (
        "Unexpected existing replica assignment for topic 'empty', partition id 0 is missing. Delete the"
        " topic and create it again."
    )
    assert shell.run("--delete --topic empty")[0] == 0


def test_alter_keeps_the_topic_id(shell: TopicShell) -> None:
    data = b'{"version":3,"topic_id":"kTl4kQ6RR2m3wKZ1zV6dPg","partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}'
    shell.tree.write((WriteOp(CREATE, "/brokers/topics/foo", data),), 0)
    assert shell.run("--alter --topic foo --partitions 2")[0] == 0
    written = json.loads(shell.assignment("foo") or b"")
    assert (written["version"], written.get("topic_id")) == (3, "kTl4kQ6RR2m3wKZ1zV6dPg")
    assert (written["partitions"]["0"], len(written["partitions"])) == ([1], 2)


def test_alter_does_not_overwrite_what_it_has_not_read(shell: TopicShell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the read and the write, a controller of Kafka 2.8 or later adds the topic id."""
    assert shell.run("--create --topic foo --replica-assignment 1")[0] == 0
    with_id = (shell.assignment("foo") or b"").replace(b'{"version":2', b'{"version":3,"topic_id":"kTl4"')
    plan = topic_admin.further_replicas

    def slowly(*arguments: Any) -> Any:
        shell.tree.write((WriteOp(SET, "/brokers/topics/foo", with_id),), 0)
        return plan(*arguments)

    monkeypatch.setattr(topic_admin, "further_replicas", slowly)
    with pytest.raises(ZooKeeperRefused, match="/brokers/topics/foo"):
        shell.run("--alter --topic foo --partitions 2")
    assert shell.assignment("foo") == with_id
