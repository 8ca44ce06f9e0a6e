"""Our broker and Apache's give the same responses to admin requests, and Kafka's tools print the same for both."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner
from kazoo.exceptions import NoNodeError

from actors.cli.app import commands
from messages.apis.alter_client_quotas import AlterClientQuotasRequest, QuotaAlteration, QuotaChange
from messages.apis.alter_configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    AlterConfigsRequest,
    ChangedResource,
    ConfigChange,
)
from messages.apis.create_partitions import CreatePartitionsRequest, GrowingTopic, WantedReplicas
from messages.apis.create_topics import CreatableAssignment, CreatableConfig, CreatableTopic, CreateTopicsRequest
from messages.apis.delete_topics import DeleteTopicsRequest
from messages.apis.describe_client_quotas import DescribeClientQuotasRequest, QuotaFilter, QuotaName
from messages.apis.describe_configs import BROKER, TOPIC, DescribeConfigsRequest, DescribeConfigsResource
from messages.apis.elect_leaders import ElectableTopic, ElectLeadersRequest
from messages.apis.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.cluster.both import Both, both_running
from tests.waiting import until
from tests.zookeeper_client import PatientZooKeeperClient

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, apache_jars: Path) -> Iterator[Both]:
    with both_running(tmp_path_factory.mktemp("both"), apache_jars) as made:
        yield made


def create(*topics: CreatableTopic, timeout_ms: int = 20_000, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(5, topics, timeout_ms, validate_only)


def grow(*topics: GrowingTopic, validate_only: bool = False) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(2, topics, 20_000, validate_only)


def given(*assignments: tuple[int, ...], first: int = 0) -> CreatableTopic:
    wanted = tuple(CreatableAssignment(number, ids) for number, ids in enumerate(assignments, first))
    return CreatableTopic("x", assignments=wanted)


def configured(name: str, value: str | None) -> CreatableTopic:
    return CreatableTopic("x", 1, 1, configs=(CreatableConfig(name, value),))


def topic(*changes: ConfigChange, name: str = "t") -> tuple[ChangedResource, ...]:
    return (ChangedResource(TOPIC, name, changes),)


def change(name: str, value: str | None, operation: int = SET) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(1, topic(ConfigChange(name, value, operation)))


ADVERTISED = "advertised.listeners"
OVERRIDES = "log.segment.bytes=20000,log.roll.ms=60000,log.retention.ms=70000"
THROTTLE, UNCLEAN = "leader.replication.throttled.rate", "unclean.leader.election.enable"


DEFAULTS = (
    *("log.segment.bytes", "log.retention.ms", "message.max.bytes", "log.roll.ms", "min.insync.replicas"),
    *("log.cleanup.policy", "log.message.timestamp.type"),
)


QUOTA_ENTITIES = [
    tuple(QuotaName(kind, name) for kind in kinds)
    for kinds in (("user",), ("client-id",), ("client-id", "user"), ("host",))
    for name in ("a b", None, "")
] + [()]
QUOTA_CHANGES = [
    QuotaChange("producer_byte_rate", 1000.0),
    QuotaChange("producer_byte_rate", 0.5),
    QuotaChange("consumer_byte_rate", -1.0),
    QuotaChange("request_percentage", 12.5),
    QuotaChange("producer_byte_rate", 0.0, True),
    QuotaChange("no.such", 0.0, True),
    QuotaChange("no.such", 5.0),
]


def of_broker(name: str, *changes: ConfigChange) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(1, (ChangedResource(BROKER, name, changes),))


def elect(version: int, kind: int) -> ElectLeadersRequest:
    topics = (ElectableTopic("t", (0, 5)), ElectableTopic("offline", (0,)), ElectableTopic("missing", (0,)))
    return ElectLeadersRequest(version, topics, 500, kind)


described_address = DescribeConfigsRequest(3, (DescribeConfigsResource(BROKER, "0", (ADVERTISED,)),), True)

SCRIPT: list[Any] = [
    create(CreatableTopic("t", 1, 1, configs=(CreatableConfig("retention.ms", "1000"),))),
    create(CreatableTopic("t", 1, 1)),
    create(CreatableTopic("..", 1, 1), CreatableTopic("", 1, 1)),
    create(CreatableTopic("x", 0, 1), CreatableTopic("y", 1, 0), CreatableTopic("z", 1, 3)),
    create(CreatableTopic("x", -5, 1), CreatableTopic("y", 1, -5)),
    create(attrs.evolve(given((0,)), num_partitions=1)),
    create(given((0,), (0, 1))),
    create(given((0,), first=1)),
    create(configured("a", None)),
    create(configured("no.such", "1")),
    create(configured("retention.ms", "x")),
    create(CreatableTopic("x", 1, 1), CreatableTopic("x", 1, 1)),
    create(CreatableTopic("a.b", 1, 1)),
    create(CreatableTopic("a_b", 1, 1)),
    create(CreatableTopic("d", 2, 1), validate_only=True),
    create(CreatableTopic("unwaited", 1, 1), timeout_ms=0),
    create(attrs.evolve(given((77,)), name="unled"), timeout_ms=500),
    create(attrs.evolve(given((77, 0)), name="offline")),
    *(elect(version, kind) for version, kind in ((0, 0), (1, 0), (2, 0), (1, 1), (2, 1))),
    ElectLeadersRequest(2, None, 500, 0),
    ElectLeadersRequest(2, None, 500, 1),
    ElectLeadersRequest(2, (), 500, 0),
    ElectLeadersRequest(2, (ElectableTopic("t", (0,)),), 500, 7),
    grow(GrowingTopic("t", 1)),
    grow(GrowingTopic("t", 0)),
    grow(GrowingTopic("missing", 2)),
    grow(GrowingTopic("t", 3, (WantedReplicas((0,)),))),
    grow(GrowingTopic("t", 3, (WantedReplicas((7,)),))),
    grow(GrowingTopic("t", 2, (WantedReplicas((0, 0)),))),
    grow(GrowingTopic("t", 2, (WantedReplicas(()),))),
    grow(GrowingTopic("t", 2), GrowingTopic("t", 3)),
    grow(GrowingTopic("t", 2), validate_only=True),
    grow(GrowingTopic("t", 2)),
    DeleteTopicsRequest(4, ("missing", "d", "a.b", "a.b"), 20_000),
    DeleteTopicsRequest(4, ("unwaited",), 0),
    *(
        request
        for kind in (AlterConfigsRequest, IncrementalAlterConfigsRequest)
        for request in (
            kind(0, topic(ConfigChange("retention.ms", "5"), ConfigChange("cleanup.policy", "compact"))),
            kind(0, topic(ConfigChange("retention.ms", "5"), name="missing")),
            kind(0, topic(ConfigChange("retention.ms", "5"), name="")),
            kind(0, topic(ConfigChange("retention.ms", None))),
            kind(0, topic(ConfigChange("retention.ms", "x"))),
            kind(0, topic(ConfigChange("no.such", "x"))),
            kind(0, topic(ConfigChange("a", "x"), ConfigChange("a", "y"))),
            kind(0, (ChangedResource(BROKER, "7", (ConfigChange("num.io.threads", "8"),)),)),
            kind(0, (ChangedResource(3, "7", (ConfigChange("num.io.threads", "8"),)),)),
            kind(0, topic()),
            kind(0, topic(ConfigChange("cleanup.policy", "delete")), validate_only=True),
        )
    ),
    change("cleanup.policy", "delete", APPEND),
    change("cleanup.policy", "compact", SUBTRACT),
    change("retention.ms", "9", APPEND),
    change("retention.ms", "9", SUBTRACT),
    change("retention.ms", None, DELETE),
    change("no.such", None, DELETE),
    change("leader.replication.throttled.replicas", "0:1", APPEND),
    *(
        of_broker(name, ConfigChange(setting, value, operation))
        for name in ("0", "")
        for setting, value, operation in (
            (THROTTLE, "1000", SET),
            (THROTTLE, "x", SET),
            (THROTTLE, "-5", SET),
            ("num.partitions", "3", SET),
            ("unclean.leader.election.enable", "x", SET),
            ("unclean.leader.election.enable", "true", SET),
            ("no.such", None, DELETE),
        )
    ),
    *(
        DescribeConfigsRequest(3, (DescribeConfigsResource(BROKER, name, (UNCLEAN, THROTTLE)),), synonyms)
        for name in ("0", "")
        for synonyms in (True, False)
    ),
    *(
        of_broker(name, ConfigChange(ADVERTISED, value, operation))
        for name, value, operation in (
            ("", "PLAINTEXT://localhost:0", SET),
            ("0", "", SET),
            ("0", "x", SET),
            ("0", "CLIENTS://localhost:0", SET),
            ("0", "SSL://localhost:0", SET),
            ("0", "PLAINTEXT://localhost:0,SSL://localhost:1", SET),
            ("0", "PLAINTEXT://localhost:0,PLAINTEXT://localhost:1", SET),
            ("0", "PLAINTEXT://0.0.0.0:0", SET),
            ("0", "PLAINTEXT://localhost:0", APPEND),
        )
    ),
    *(
        of_broker(name, ConfigChange(setting, value))
        for name, last in (("", "17"), ("0", "23"))
        for setting in DEFAULTS[:5]
        for value in ("x", "-7", "0", last)
    ),
    of_broker("0", ConfigChange("log.cleanup.policy", "compact")),
    of_broker("0", ConfigChange("log.cleanup.policy", "nothing")),
    of_broker("", ConfigChange("log.message.timestamp.type", "LogAppendTime")),
    of_broker("0", ConfigChange("num.io.threads", "4")),
    of_broker("0", ConfigChange("num.io.threads", "0")),
    of_broker("0", ConfigChange("num.partitions", "0")),
    *(
        DescribeConfigsRequest(3, (DescribeConfigsResource(*of),), True)
        for of in ((BROKER, "0", DEFAULTS), (BROKER, "", DEFAULTS), (TOPIC, "t"))
    ),
    *(
        of_broker(name, *(ConfigChange(setting, None, DELETE) for setting in (*DEFAULTS, "num.io.threads")))
        for name in ("0", "")
    ),
    DescribeConfigsRequest(3, (DescribeConfigsResource(TOPIC, "t"),), True),
    described_address,
    of_broker("0", ConfigChange(ADVERTISED, "PLAINTEXT://localhost:0", SET)),
    described_address,
    of_broker("0", ConfigChange(ADVERTISED, None, DELETE)),
    described_address,
    of_broker("0", ConfigChange(THROTTLE, None, DELETE), ConfigChange(UNCLEAN, None, DELETE)),
    DescribeConfigsRequest(3, (DescribeConfigsResource(BROKER, "0", (UNCLEAN,)),), True),
    of_broker("", ConfigChange(UNCLEAN, None, DELETE)),
    *(
        AlterClientQuotasRequest(version, (QuotaAlteration(entity, (change,)),), version == 1)
        for version in (1, 0)
        for entity in QUOTA_ENTITIES
        for change in QUOTA_CHANGES
    ),
    *(
        DescribeClientQuotasRequest(0, tuple(QuotaFilter(kind, *match) for kind in kinds), strict)
        for kinds in (("user",), ("client-id",), ("user", "client-id"), ("user", "user"), ("host",), ("",))
        for match in ((0, "a b"), (1, None), (2, None))
        for strict in (False, True)
    ),
    *(
        AlterClientQuotasRequest(0, (QuotaAlteration(entity, (QuotaChange("request_percentage", 0.0, True),)),))
        for entity in QUOTA_ENTITIES
    ),
    DescribeClientQuotasRequest(0),
    *(
        DescribeConfigsRequest(version, (DescribeConfigsResource(TOPIC, "t"),), synonyms)
        for version, synonyms in ((0, False), (2, True), (3, False), (3, True))
    ),
    *(
        DescribeConfigsRequest(3, (DescribeConfigsResource(*of),))
        for of in ((TOPIC, "missing"), (TOPIC, ""), (BROKER, "9"), (BROKER, "x"), (BROKER, ""))
    ),
]


def test_requests_are_answered_with_the_same_codes_words_and_settings(both: Both) -> None:
    for request in SCRIPT:
        # A broker receives a changed setting a moment after the change.
        if isinstance(request, DescribeConfigsRequest):
            until(lambda r=request: both.answers(r), lambda answers: answers[0] == answers[1], f"equal: {request}")  # type: ignore[misc]
        else:
            theirs, ours = both.answers(request)
            assert ours == theirs, request


def test_kafkas_tools_print_the_same(both: Both) -> None:
    for tool, *arguments in (
        (TOPICS, "--create", "--topic", "made", "--partitions", "2", "--config", "retention.ms=777000"),
        (TOPICS, "--create", "--topic", "made"),
        (TOPICS, "--create", "--topic", "by-hand", "--replica-assignment", "0,0,0"),
        (TOPICS, "--describe", "--topic", "made"),
        (TOPICS, "--alter", "--topic", "made", "--partitions", "3"),
        (TOPICS, "--describe", "--topic", "made"),
        (CONFIGS, "--alter", "--entity-type", "topics", "--entity-name", "made", "--add-config", "segment.ms=9"),
        (CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", "made"),
        (TOPICS, "--delete", "--topic", "made"),
        (TOPICS, "--describe", "--topic", "made"),
    ):
        theirs, ours = both.say(tool, *arguments)
        assert _without_times(ours) == _without_times(theirs), arguments
    for _, listed in both.say(TOPICS, "--list"):
        assert "by-hand" in listed.split() and "made" not in listed.split()


def test_kafkas_tools_for_replicas_and_leaders_print_the_same(both: Both, tmp_path: Path) -> None:
    """--execute sets throttles on the topic and the broker, and --verify removes them after completion."""
    asked, wanted, elected = (tmp_path / name for name in ("topics.json", "plan.json", "elected.json"))
    asked.write_text('{"version":1,"topics":[{"topic":"r"}]}')
    wanted.write_text('{"version":1,"partitions":[{"topic":"r","partition":0,"replicas":[0],"log_dirs":["any"]}]}')
    elected.write_text('{"partitions":[{"topic":"r","partition":0}]}')
    theirs, ours = both.answers(create(CreatableTopic("r", 1, 1)))
    assert theirs == ours
    for tool, *arguments in (
        (REASSIGN, "--generate", "--topics-to-move-json-file", str(asked), "--broker-list", "0"),
        (REASSIGN, "--execute", "--reassignment-json-file", str(wanted), "--throttle", "5000"),
        (REASSIGN, "--verify", "--reassignment-json-file", str(wanted)),
        (REASSIGN, "--list"),
        (ELECT, "--election-type", "preferred", "--path-to-json-file", str(elected)),
        (ELECT, "--election-type", "unclean", "--topic", "missing", "--partition", "0"),
        (CONFIGS, "--describe", "--entity-type", "brokers", "--entity-name", "0"),
    ):
        theirs, ours = both.say(tool, *arguments)
        assert _without_times(ours) == _without_times(theirs), arguments


def test_our_commands_print_what_kafkas_tools_print(both: Both, tmp_path: Path) -> None:
    """Our commands print the same as Kafka's tools.

    Kafka's tools use the topic `kafkas` of Apache's broker. Our commands use `kafiot` of Apache's broker and of ours.
    """
    create_both = create(CreatableTopic("kafkas", 1, 1), CreatableTopic("kafiot", 1, 1))
    theirs, ours = both.answers(create_both)
    assert theirs == ours
    files = {name: tmp_path / name for name in ("topics", "plan", "elected")}
    for topic in ("kafkas", "kafiot"):
        one = {"topic": topic, "partition": 0}
        for name, document in (
            ("topics", {"version": 1, "topics": [{"topic": topic}]}),
            ("plan", {"version": 1, "partitions": [{**one, "replicas": [0]}]}),
            ("elected", {"partitions": [one, {"topic": "missing", "partition": 3}]}),
        ):
            files[name].with_suffix(f".{topic}").write_text(json.dumps(document))
    plan = ("--reassignment-json-file", f"{files['plan']}.TOPIC")
    topics = ("--topics-to-move-json-file", f"{files['topics']}.TOPIC")
    elected = ("--path-to-json-file", f"{files['elected']}.TOPIC")
    of_topic = ("--entity-type", "topics", "--entity-name", "TOPIC")
    of_broker = ("--entity-type", "brokers", "--entity-name", "0")
    of_all = ("--entity-type", "brokers", "--entity-default")
    of_client = ("--entity-type", "users", "--entity-name", "TOPIC", "--entity-type", "clients", "--entity-default")
    for tool, command, *arguments in (
        (REASSIGN, "reassign-partitions", "--generate", "--broker-list", "0", *topics),
        (REASSIGN, "reassign-partitions", "--execute", *plan, "--throttle", "5000"),
        (REASSIGN, "reassign-partitions", "--verify", *plan),
        (ELECT, "leader-election", "--election-type", "preferred", *elected),
        (CONFIGS, "configs", "--alter", *of_topic, "--add-config", "cleanup.policy=[compact,delete],flush.ms=5"),
        (CONFIGS, "configs", "--describe", *of_topic),
        (CONFIGS, "configs", "--alter", *of_all, "--add-config", f"{UNCLEAN}=true,{THROTTLE}=7000"),
        (CONFIGS, "configs", "--alter", *of_broker, "--add-config", f"{UNCLEAN}=false,{THROTTLE}=5000,{OVERRIDES}"),
        (CONFIGS, "configs", "--describe", *of_broker),
        (CONFIGS, "configs", "--describe", *of_all),
        (CONFIGS, "configs", "--alter", *of_client, "--add-config", "producer_byte_rate=1000"),
        (CONFIGS, "configs", "--describe", *of_client),
        (CONFIGS, "configs", "--alter", *of_client, "--delete-config", "producer_byte_rate"),
    ):
        asked = [each.replace("TOPIC", "kafkas") for each in arguments]
        # A broker applies dynamic settings after it has answered; until then the tool prints their heading only.
        said = until(partial(both.theirs, tool, *asked), lambda found: not found[1].endswith("are:\n"), timeout=60.0)
        for zookeeper in both.zookeepers:
            wanted = [command, "--zookeeper", zookeeper, *(each.replace("TOPIC", "kafiot") for each in arguments)]
            result = CliRunner().invoke(commands, wanted, standalone_mode=False)
            assert _reported_output(result.return_value, result.stdout) == _reported_output(
                said[0], said[1].replace("kafkas", "kafiot")
            ), wanted


def test_t4_a_reelected_controller_finishes_the_deletion_here_and_not_in_apache(both: Both) -> None:
    """Our controller deletes the topic after trap T4; Apache's never does.

    A raised /controller_epoch makes the controller's next write fail; it resigns and is elected again. Apache's
    controller is unusable afterwards until its process restarts, so this test is the last one of the file.
    """
    opened = PatientZooKeeperClient.opened
    with opened(both.zookeepers[0]) as theirs, opened(both.zookeepers[1]) as ours:
        for zk in (theirs, ours):
            until(lambda zk=zk: zk.exists("/controller"), what="a controller", timeout=20)
            zk.create_topic("deleted", {0: [0]})
            until(lambda zk=zk: zk.states("deleted"), what="deleted is led", timeout=20, ignore=(NoNodeError,))
            raised = int(zk.get("/controller_epoch")[0]) + 1
            zk.set("/controller_epoch", str(raised).encode())
            zk.create("/admin/delete_topics/deleted", None)
        until(lambda: not ours.exists("/brokers/topics/deleted"), what="ours deletes it", timeout=30)
        until(lambda: "ControllerMovedException" in both.apaches_log.read_text(), what="theirs notices", timeout=30)
        theirs.delete("/controller")
        until(lambda: "batch is not empty" in both.apaches_log.read_text(), what="theirs stumbles", timeout=30)
        assert theirs.exists("/controller") and theirs.exists("/brokers/topics/deleted")


def _reported_output(code: int, output: str) -> tuple[int, list[str]]:
    """Return the exit code and the lines, without those that our commands do not print to standard output.

    These are stack traces and the summary of failed elections. The reason of a failed election is omitted, too.
    """
    lines = [line for line in output.splitlines() if not line.startswith(("\t", "org.apache."))]
    lines = [re.sub(r"(Error completing .* for partition: \S+:).*", r"\1", line) for line in lines]
    return code, [line for line in lines if "could not be elected" not in line]


def _without_times(said: tuple[int, str]) -> tuple[int, list[str]]:
    """Return the exit code and the lines, without log lines, which begin with a time, and without stack traces."""
    code, output = said
    return code, [line for line in output.splitlines() if not line.startswith(("[20", "\tat "))]
