"""`kafka-actors reassign-partitions` on an in-memory ZooKeeper: its writes and requests, and Kafka 3.9.1's messages."""

# ruff: noqa: E501 - Kafka's sentences stay whole

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from actors.cli import reassign_partitions
from actors.cli.app import CommandFailed
from actors.cli.reassignment_admin import IN_PROGRESS, RUN_VERIFY
from actors.core.admin.reassignment_plan import parse_plan
from messages.admin_requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from messages.cluster import PartitionAssignment, ReplicaAssignment, TopicPartition
from messages.errors import NO_REASSIGNMENT_IN_PROGRESS
from messages.zookeeper import CreateTopic, GetReassignments, RequestedReassignment, SetAssignments, TopicAssignment
from tests.cli.shell import Shell

FOO, BAR = TopicPartition("foo", 0), TopicPartition("bar", 0)


class ReassignShell(Shell):
    """Runs the command on topics foo (0:1, 1:2) and bar (2); `asked` has the requests to the controller."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
        super().__init__(monkeypatch, reassign_partitions)
        self.place = place
        self.asked: list[Any] = []
        self.answer = AlterPartitionReassignmentsResponse(0)

        @contextmanager
        def brokers(places: Sequence[tuple[str, int]], timeout: float) -> Iterator[ReassignShell]:
            assert places == [("127.0.0.1", 9092 + number) for number in range(3)]
            yield self

        monkeypatch.setattr(reassign_partitions, "brokers", brokers)
        self.assign("foo", (0, 1), (1, 2))
        self.assign("bar", (2,))

    def ask_controller(self, request: Any) -> Any:
        self.asked.append(request)
        return self.answer

    def assign(self, topic: str, *replicas: tuple[int, ...]) -> None:
        assigned = tuple(PartitionAssignment(n, ReplicaAssignment(each)) for n, each in enumerate(replicas))
        self.client.ask(CreateTopic(TopicAssignment(topic, assigned)))

    def reassigning(self, topic: str, *assigned: ReplicaAssignment) -> None:
        """Replace the topic's assignment in its znode, as the controller does."""
        partitions = tuple(PartitionAssignment(n, each) for n, each in enumerate(assigned))
        self.client.ask(SetAssignments((TopicAssignment(topic, partitions),), epoch_zk_version=None))

    def plan(self, *entries: tuple[TopicPartition, list[int]], **more: Any) -> str:
        rows = [{"topic": tp.topic, "partition": tp.partition, "replicas": ids} for tp, ids in entries]
        return self.file(json.dumps({"version": 1, "partitions": rows, **more}))

    def file(self, text: str) -> str:
        path = self.place / f"{len(list(self.place.iterdir()))}.json"
        path.write_text(text)
        return str(path)

    def config(self, path: str) -> Any:
        data = self.data(f"/config/{path}")
        return data and json.loads(data)["config"]


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ReassignShell:
    random.seed(7)
    return ReassignShell(monkeypatch, tmp_path)


CURRENT = '{"version":1,"partitions":[{"topic":"bar","partition":0,"replicas":[2],"log_dirs":["any"]},{"topic":"foo","partition":0,"replicas":[0,1],"log_dirs":["any","any"]}]}'


def test_generate_proposes_what_execute_takes(shell: ReassignShell) -> None:
    topics = shell.file('{"version":1,"topics":[{"topic":"foo"},{"topic":"bar"}]}')
    code, out = shell.run(f"--generate --topics-to-move-json-file {topics} --broker-list 0,1")
    now, current, empty, then, proposed = out.splitlines()
    assert (code, now, empty) == (0, "Current partition replica assignment", "")
    assert parse_plan(current) == {BAR: (2,), FOO: (0, 1), TopicPartition("foo", 1): (1, 2)}
    assert then == "Proposed partition reassignment configuration"
    plan = parse_plan(proposed)
    assert [(tp, len(replicas)) for tp, replicas in plan.items()] == [(BAR, 1), (FOO, 2), (TopicPartition("foo", 1), 2)]
    assert {replica for replicas in plan.values() for replica in replicas} <= {0, 1}
    assert shell.run(f"--execute --reassignment-json-file {shell.file(proposed)}")[0] == 0


def test_execute_writes_the_znode_and_throttles(shell: ReassignShell) -> None:
    code, out = shell.run(
        f"--execute --reassignment-json-file {shell.plan((FOO, [1, 2]), (BAR, [0]))} --throttle 500000"
    )
    assert (code, out.splitlines()) == (
        0,
        [
            "Current partition replica assignment", "", CURRENT, "",
            "Save this to use as the --reassignment-json-file option during rollback",
            RUN_VERIFY,
            "The inter-broker throttle limit was set to 500000 B/s",
            "Successfully started partition reassignments for bar-0,foo-0",
        ],
    )  # fmt: skip
    requested = shell.client.ask(GetReassignments(watch=False))
    assert requested.requested == (RequestedReassignment(BAR, (0,)), RequestedReassignment(FOO, (1, 2)))
    assert shell.config("topics/foo") == {
        "leader.replication.throttled.replicas": "0:0,0:1",
        "follower.replication.throttled.replicas": "0:2",
    }
    rates = dict.fromkeys(("leader.replication.throttled.rate", "follower.replication.throttled.rate"), "500000")
    assert [shell.config(f"brokers/{number}") for number in range(3)] == [rates] * 3
    assert shell.asked == []
    with pytest.raises(CommandFailed, match="existing partition assignment"):
        shell.run(f"--execute --reassignment-json-file {shell.plan((FOO, [0, 1]))}")


def test_verify_reports_progress_and_removes_the_throttles_at_the_end(shell: ReassignShell) -> None:
    plan = shell.plan((FOO, [1, 2]), (BAR, [0]), (TopicPartition("nope", 3), [0]))
    shell.run(f"--execute --reassignment-json-file {shell.plan((FOO, [1, 2]))} --throttle 1000")
    shell.reassigning("foo", ReplicaAssignment((1, 2, 0), (2,), (0,)), ReplicaAssignment((1, 2)))
    lines = [
        "Status of partition reassignment:",
        "There is no active reassignment of partition bar-0, but replica set is 2 rather than 0.",
        "Reassignment of partition foo-0 is still in progress.",
        "There is no active reassignment of partition nope-3, but replica set is  rather than 0.",
        "",
    ]
    verify = f"--verify --reassignment-json-file {shell.plan((FOO, [1, 2]), (BAR, [0]))}"
    assert shell.run(f"--verify --reassignment-json-file {plan}") == (0, "\n".join([*lines, ""]))
    assert shell.config("brokers/0") != {}
    shell.reassigning("foo", ReplicaAssignment((1, 2)), ReplicaAssignment((1, 2)))
    done = [lines[0], lines[1], "Reassignment of partition foo-0 is completed.", ""]
    assert shell.run(f"{verify} --preserve-throttles") == (0, "\n".join([*done, ""]))
    cleared = ["Clearing broker-level throttles on brokers 0,1,2", "Clearing topic-level throttles on topics bar,foo"]
    assert shell.run(verify) == (0, "\n".join([*done, *cleared, ""]))
    assert [shell.config(f"brokers/{number}") for number in range(3)] == [{}] * 3
    assert shell.config("topics/foo") == {}


def test_the_controller_cancels_and_lists_reassignments(shell: ReassignShell) -> None:
    assert shell.run("--list") == (0, "No partition reassignments found.\n")
    shell.reassigning("foo", ReplicaAssignment((2, 0, 1), (2,), (0, 1)), ReplicaAssignment((1, 2)))
    line = "Current partition reassignments:\nfoo-0: replicas: 2,0,1. adding: 2. removing: 0,1.\n"
    assert shell.run("--list") == (0, line)
    cancel = f"--cancel --preserve-throttles --reassignment-json-file {shell.plan((FOO, [2]), (BAR, [0]))}"
    assert shell.run(cancel) == (0, "Successfully cancelled partition reassignment for: foo-0\n")
    topics = (ReassignableTopic("foo", (ReassignablePartition(0, None),)),)
    assert shell.asked == [AlterPartitionReassignmentsRequest(0, 30_000, topics)]
    refused = ReassignablePartitionResponse(0, NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    shell.answer = AlterPartitionReassignmentsResponse(0, None, (ReassignableTopicResponse("foo", (refused,)),))
    with pytest.raises(CommandFailed) as failed:
        shell.run(cancel)
    assert failed.value.message == (
        "Error cancelling partition reassignment for:\nfoo-0: No partition reassignment is in progress."
    )
    shell.reassigning("foo", ReplicaAssignment((0, 1)), ReplicaAssignment((1, 2)))
    assert shell.run(cancel) == (0, "None of the specified partition reassignments are active.\n")


def test_an_additional_plan_is_the_controllers_to_take(shell: ReassignShell) -> None:
    shell.reassigning("bar", ReplicaAssignment((0, 2), (0,), (2,)))
    execute = f"--execute --reassignment-json-file {shell.plan((FOO, [0, 2]))}"
    with pytest.raises(CommandFailed) as failed:
        shell.run(execute)
    assert failed.value.message == IN_PROGRESS
    code, out = shell.run(f"{execute} --additional --throttle 7")
    assert (code, out.splitlines()[-1]) == (0, "Successfully started partition reassignment for foo-0")
    topics = (ReassignableTopic("foo", (ReassignablePartition(0, (0, 2)),)),)
    assert shell.asked == [AlterPartitionReassignmentsRequest(0, 30_000, topics)]
    assert shell.data("/admin/reassign_partitions") is None
    assert shell.config("topics/bar") == {
        "leader.replication.throttled.replicas": "0:2",
        "follower.replication.throttled.replicas": "0:0",
    }, "the throttle counts for what is on its way already, too"


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ('{"version":1,"partitions":[]}', "Partition reassignment list cannot be empty"),
        ('{"version":2,"partitions":[]}', "Not supported version field value 2"),
        ("{nojson", "The input string is not a valid JSON"),
        ("[]", "The input string is not a valid JSON"),
        ('{"partitions":[{"topic":"foo","partition":0,"replicas":[]}]}', "Partition replica list cannot be empty"),
        ('{"partitions":[{"topic":"foo","partition":0,"replicas":[0,0]}]}', "Partition replica lists may not contain duplicate entries: foo-0 contains multiple entries for 0"),
        ('{"partitions":[{"topic":"foo","partition":0,"replicas":[0]},{"topic":"foo","partition":0,"replicas":[1]}]}', "Partition reassignment contains duplicate topic partitions: foo-0"),
        ('{"partitions":[{"topic":"foo","partition":0,"replicas":[7]}]}', "Unknown broker id 7"),
        ('{"partitions":[{"topic":"foo","partition":9,"replicas":[0]}]}', "Unable to find partition: foo-9"),
        ('{"partitions":[{"topic":"nope","partition":0,"replicas":[0]}]}', "Topic nope not found."),
        ('{"partitions":[{"topic":"foo","partition":0,"replicas":[0,1],"log_dirs":["any"]}]}', "Size of replicas list [0, 1] is different from size of log dirs list ['any'] for partition foo-0"),
        ('{"partitions":[{"topic":"foo","partition":0,"replicas":[0],"log_dirs":["/a"]}]}', "foo-0: replicas cannot be moved between log directories, log_dirs should be 'any'"),
        ('{"partitions":[{"topic":"foo","partition":"0","replicas":[0]}]}', '{"topic": "foo", "partition": "0", "replicas": [0]} has no valid field \'partition\''),
        ('{"partitions":[7]}', "7 has no valid field 'topic'"),
    ],
)  # fmt: skip
def test_what_cannot_be_executed(shell: ReassignShell, plan: str, words: str) -> None:
    before = dict(shell.tree.walk())
    with pytest.raises(CommandFailed) as failed:
        shell.run(f"--execute --reassignment-json-file {shell.file(plan)}")
    assert failed.value.message == words
    assert dict(shell.tree.walk()) == before


@pytest.mark.parametrize(
    ("topics", "brokers", "words"),
    [
        ("foo", "0,1,1", "Broker list contains duplicate entries: [1]"),
        ("foo", "0,x", "'0,x' is not a list of broker ids: expected ids separated by commas, such as 0,1,2"),
        ("foo", "0", "Replication factor: 2 larger than available brokers: 1."),
        ("foo", "0,9", "Unknown broker id 9"),
        ("foo foo", "0,1", "List of topics to reassign contains duplicate entries: [foo]"),
        ("nope", "0,1", "Topic nope not found."),
    ],
)
def test_what_cannot_be_generated(shell: ReassignShell, topics: str, brokers: str, words: str) -> None:
    file = shell.file(json.dumps({"version": 1, "topics": [{"topic": topic} for topic in topics.split()]}))
    with pytest.raises(CommandFailed) as failed:
        shell.run(f"--generate --topics-to-move-json-file {file} --broker-list {brokers}")
    assert failed.value.message == words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "Command must include exactly one action: --cancel, --execute, --generate, --list, --verify"),
        ("--list --verify", "Command must include exactly one action: --cancel, --execute, --generate, --list, --verify"),
        ("--execute", 'Missing required argument "[reassignment-json-file]"'),
        ("--generate --broker-list 0", 'Missing required argument "[topics-to-move-json-file]"'),
        ("--list --throttle 5", 'Option "[throttle]" can\'t be used with action "[list]"'),
        ("--list", "--zookeeper must be specified (or --dir, the folder of `kafka-actors up`)"),
    ],
)  # fmt: skip
def test_wrong_use(line: str, words: str) -> None:
    result = CliRunner().invoke(reassign_partitions.command, line.split())
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == f"Error: {words}"
