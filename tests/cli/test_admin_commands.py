"""`topics`, `configs`, `status`, `reassign-partitions` and `leader-election` on a cluster of three brokers in memory."""

# ruff: noqa: E501 - Kafka's sentences stay whole

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.cli.app import run
from actors.cli.configs import parse_added
from actors.cli.reassignment_plan import MOVE_RATE, move_progress
from actors.public import KafkaCluster
from messages.cluster import TopicPartition

Tool = Callable[..., list[str]]
UNCLEAN, RATE = "unclean.leader.election.enable", "leader.replication.throttled.rate"


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """Yield a cluster with the topics foo (3 partitions) and a.b."""
    with KafkaCluster(3, log_dirs=2) as cluster:
        cluster.create_topic("foo", partitions=3, replication_factor=1)
        cluster.create_topic("a.b", replication_factor=1)
        yield cluster


@pytest.fixture
def tool(cluster: KafkaCluster, capsys: pytest.CaptureFixture[str]) -> Tool:
    """Return a function that runs a command on the cluster and returns its lines."""

    def call(line: str, *arguments: str, code: int = 0) -> list[str]:
        name, *options = line.split()
        assert run([name, "--bootstrap-server", cluster.bootstrap_servers, *options, *arguments]) == code
        said = capsys.readouterr()
        return (said.out + said.err).splitlines()

    return call


def fields(line: str) -> dict[str, str]:
    """Return the fields of a line of --describe."""
    return dict(part.split(": ", 1) if ": " in part else (part.rstrip(":"), "") for part in line.strip().split("\t"))


def test_the_status_is_that_of_the_brokers_metadata(cluster: KafkaCluster, tool: Tool) -> None:
    status = json.loads(tool("status --json")[0])
    assert (status["health"], status["controller"], status["epoch"]) == ("good", cluster.controller_id, None)
    assert [broker["id"] for broker in status["brokers"]] == [0, 1, 2] and status["nodes"] == []
    assert (status["topics"], status["partitions"]["online"]) == (2, 4)


def test_a_topic_is_created_grown_described_and_deleted(cluster: KafkaCluster, tool: Tool) -> None:
    sizes = "--partitions 2 --replication-factor 2"
    assert tool(f"topics --create --topic t {sizes} --config retention.ms=1000") == ["Created topic t."]
    assert "already exists" in tool("topics --create --topic t", code=1)[0]
    assert tool("topics --create --topic t --if-not-exists") == []
    assert tool("topics --list --topic t,x.*") == ["t"]
    cluster.wait_for(lambda: len(cluster.isr_of("t", 1)) == 2)
    assert tool("topics --alter --topic t --partitions 3") == []
    cluster.wait_for_leader("t", 2)
    cluster.wait_for(lambda: len(tool("topics --describe --topic t")) == 4)
    topic, *partitions = map(fields, tool("topics --describe --topic t"))
    assert (topic["PartitionCount"], topic["ReplicationFactor"], topic["Configs"]) == ("3", "2", "retention.ms=1000")
    assert [(int(each["Partition"]), int(each["Leader"])) for each in partitions] == [
        (number, cluster.leader_of("t", number)) for number in range(3)
    ]
    assert tool("topics --describe --topics-with-overrides")[0].startswith("Topic: t\t")
    assert tool("topics --describe --unavailable-partitions") == []
    assert len(tool("topics --describe --at-min-isr-partitions --topic foo")) == 3
    assert tool("topics --delete --topic t") == []
    cluster.wait_for(lambda: "t" not in cluster.topics)
    assert "does not exist" in tool("topics --describe --topic t", code=1)[0]
    assert tool("topics --delete --topic t --if-exists") == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--create --topic foo", "Topic 'foo' already exists."),
        ("--create --topic bad/name", "Topic name is invalid: 'bad/name' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        (f"--create --topic {'a' * 250}", f"Topic name is invalid: the length of '{'a' * 250}' is longer than the max allowed length 249"),
        ("--create --topic a_b", "Topic 'a_b' collides with existing topics: a.b"),
        ("--create --topic t --replication-factor 4", "Replication factor: 4 larger than available brokers: 3."),
        ("--create --topic t --config bad.config=1", "Unknown topic config name: bad.config"),
        ("--create --topic t --config retention.ms=x", "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ("--create --topic t --config retention.ms=-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ("--create --topic t --config segment.bytes=3000000000", "Invalid value 3000000000 for configuration segment.bytes: Not a number of type INT"),
        ("--create --topic t --config cleanup.policy=zzz", "Invalid value zzz for configuration cleanup.policy: String must be one of: compact, delete"),
        ("--create --topic t --config preallocate=x", "Invalid value x for configuration preallocate: Expected value to be either true or false"),
        ("--create --topic t --config min.cleanable.dirty.ratio=2", "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"),
        ("--create --topic t --config compression.gzip.level=0", "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"),
        ("--create --topic t --config message.format.version=9", "Invalid value 9 for configuration message.format.version: Version 9 is not a valid version"),
        ("--create --topic t --config follower.replication.throttled.replicas=x", "Invalid value [x] for configuration follower.replication.throttled.replicas: follower.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."),
        ("--describe --topic nosuch", "Topic 'nosuch' does not exist"),
        ("--list --topic [a", "[a is an invalid regex: unterminated character set at position 0"),
        ("--alter --topic foo --partitions 3", "Topic already has 3 partitions."),
        ("--alter --topic foo --partitions 2", "Topic currently has 3 partitions, which is higher than the requested 2."),
        ("--alter --topic foo --partitions 5 --replica-assignment 0,1,2,0:1,2:1", "Inconsistent replication factor between partitions, partition 0 has 1 while partitions [3, 4] have replication factors [2, 2], respectively."),
        ("--alter --topic foo --partitions 5 --replica-assignment 0,1,2", "Increasing the number of partitions by 2 but 0 assignments provided."),
        ("--alter --topic foo --partitions 4 --replica-assignment 0,1,2,9", "Unknown broker(s) in replica assignment: 9."),
    ],
)  # fmt: skip
def test_topics_that_the_controller_refuses(cluster: KafkaCluster, tool: Tool, line: str, words: str) -> None:
    assert tool(f"topics {line}", code=1)[-1] == f"Error: {words}"
    assert cluster.topics == ["a.b", "foo"] and len(tool("topics --describe --topic foo")) == 4


def test_client_quotas_are_set_described_and_deleted(tool: Tool) -> None:
    pair = "--entity-type users --entity-name u --entity-type clients --entity-default"
    for entity, done in (
        ("--client a", "config for client a"),
        (pair, "config for user u"),
        ("--client-defaults", "default config for clients in the cluster"),
    ):
        line = f"configs --alter {entity} --add-config producer_byte_rate=1000,request_percentage=50.5"
        assert tool(line) == [f"Completed updating {done}."]
    values = "are producer_byte_rate=1000.0, request_percentage=50.5"
    assert sorted(tool("configs --describe --entity-type clients")) == [
        f"Quota configs for client-id 'a' {values}",
        f"Quota configs for the default client-id {values}",
    ]
    assert tool(f"configs --describe {pair}") == [
        f"Quota configs for user-principal 'u', the default client-id {values}"
    ]
    for entity in ("--client a", pair, "--client-defaults"):
        tool(f"configs --alter {entity} --delete-config producer_byte_rate,request_percentage")
        assert tool(f"configs --describe {entity}") == []
    for change, words in (
        ("--add-config controller_mutation_rate=5", "Invalid configuration key controller_mutation_rate"),
        ("--delete-config consumer_byte_rate", "Invalid config(s): consumer_byte_rate"),
    ):
        assert tool(f"configs --alter --client a {change}", code=1)[-1] == f"Error: {words}"


def test_configs_are_set_described_and_deleted(cluster: KafkaCluster, tool: Tool) -> None:
    def described(entity: str) -> str:
        return "\n".join(tool(f"configs --describe {entity}"))

    done = ["Completed updating config for topic a.b."]
    assert tool("configs --alter --topic a.b --add-config cleanup.policy=[compact,delete],retention.ms=9") == done
    cluster.wait_for(lambda: "retention.ms=9" in described("--topic a.b"))
    assert described("--entity-type topics --entity-name a.b").splitlines() == [
        "Dynamic configs for topic a.b are:",
        "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}",
        "  retention.ms=9 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=9}",
    ]
    assert tool("configs --alter --topic a.b --delete-config cleanup.policy,retention.ms") == done
    cluster.wait_for(lambda: "retention.ms" not in described("--topic a.b"))
    for entity, value in (("--broker-defaults", "true"), ("--broker 0", "false")):
        tool(f"configs --alter {entity} --add-config {UNCLEAN}={value}")
        cluster.wait_for(lambda each=entity, to=value: f"  {UNCLEAN}={to} " in described(each))  # type: ignore[misc]
    places = f"DYNAMIC_BROKER_CONFIG:{UNCLEAN}=false, DYNAMIC_DEFAULT_BROKER_CONFIG:{UNCLEAN}=true"
    assert places in described("--entity-type brokers")
    for entity in ("--broker-defaults", "--broker 0"):
        tool(f"configs --alter {entity} --delete-config {UNCLEAN}")
        cluster.wait_for(lambda each=entity: UNCLEAN not in described(each))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--alter --topic foo --delete-config max.message.bytes,flush.ms", "Invalid config(s): flush.ms,max.message.bytes"),
        ("--alter --topic foo --add-config retention.ms=x", "Invalid config value for resource ConfigResource(type=TOPIC, name='foo'): Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ("--alter --topic foo --add-config no.such=1", "Unknown topic config name: no.such"),
        ("--describe --topic nope", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("--describe --broker 7", "broker 7 is not alive"),
        ("--alter --broker-defaults --add-config advertised.listeners=PLAINTEXT://h:1", "Cannot update these configs at default cluster level, broker id must be specified: Set(advertised.listeners)"),
        ("--alter --broker 0 --add-config broker.id=5", "Cannot update these configs dynamically: Set(broker.id)"),
        (f"--alter --broker 0 --add-config {RATE}=x", f"Invalid value x for configuration {RATE}: Not a number of type LONG"),
    ],
)  # fmt: skip
def test_configs_that_a_broker_refuses(tool: Tool, line: str, words: str) -> None:
    assert words in tool(f"configs {line}", code=1)[-1]


def test_a_plan_is_proposed_executed_with_throttles_and_verified(
    cluster: KafkaCluster, tool: Tool, tmp_path: Path
) -> None:
    topics, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    topics.write_text('{"version":1,"topics":[{"topic":"foo"}]}')
    leader = cluster.leader_of("foo", 0)
    target = (leader + 1) % 3
    _, current, _, _, proposed = tool(
        f"reassign-partitions --generate --topics-to-move-json-file {topics} --broker-list {target}"
    )
    assert json.loads(current)["partitions"][0]["replicas"] == [leader]
    assert {tuple(each["replicas"]) for each in json.loads(proposed)["partitions"]} == {(target,)}
    plan.write_text(proposed)
    said = tool(f"reassign-partitions --execute --throttle 1000000 --reassignment-json-file {plan}")
    assert said[-1] == "Successfully started partition reassignments for foo-0,foo-1,foo-2"
    assert f"{RATE}=1000000" in "\n".join(tool(f"configs --describe --broker {target}"))
    cluster.wait_for(
        lambda: tool(f"reassign-partitions --verify --preserve-throttles --reassignment-json-file {plan}").count(
            "Reassignment of partition foo-0 is completed."
        )
    )
    cluster.wait_for(lambda: tool("reassign-partitions --list") == ["No partition reassignments found."])
    tool(f"reassign-partitions --verify --reassignment-json-file {plan}")
    cluster.wait_for(lambda: RATE not in "\n".join(tool("configs --describe --entity-type brokers")))
    assert "throttled" not in "\n".join(tool("configs --describe --topic foo"))
    elected = tool("leader-election --election-type preferred --topic foo --partition 0")
    assert elected == ["Valid replica already elected for partitions foo-0"]


def test_a_plan_with_log_directories_is_executed_and_verified(
    cluster: KafkaCluster, tool: Tool, tmp_path: Path
) -> None:
    broker, plan = cluster.leader_of("foo", 1), tmp_path / "plan.json"
    home, other = sorted(cluster.log_dirs_of(broker), key=lambda place: not Path(place, "foo-1").is_dir())
    row = {"topic": "foo", "partition": 1, "replicas": [broker], "log_dirs": [other]}
    plan.write_text(json.dumps({"partitions": [row]}))
    verify = f"reassign-partitions --verify --reassignment-json-file {plan}"
    assert tool(verify)[2] == f"Partition foo-1 on broker {broker} is not being moved from log dir {home} to {other}."
    throttle = "--replica-alter-log-dirs-throttle 1000000"
    said = tool(f"reassign-partitions --execute {throttle} --reassignment-json-file {plan}")
    assert said[-1] == f"Successfully started moving log directory to {other} for replica foo-1 with broker {broker}"
    assert f"{MOVE_RATE}=1000000" in "\n".join(tool(f"configs --describe --broker {broker}"))
    cluster.wait_for(lambda: tool(verify)[2] == f"Reassignment of replica foo-1-{broker} completed successfully.")
    cluster.wait_for(lambda: MOVE_RATE not in "\n".join(tool("configs --describe --entity-type brokers")))
    assert Path(other, "foo-1").is_dir()
    cancelled = tool(f"reassign-partitions --cancel --reassignment-json-file {plan}")
    assert cancelled[1] == "None of the specified partition moves are active."


@pytest.mark.parametrize(
    ("current", "future", "words"),
    [("", "", "not found in any live log dir on broker 1"), ("/a", "/b", "still in progress"), ("/a", "/c", "is being moved to log dir /c instead of /b")],
)  # fmt: skip
def test_the_progress_of_a_move(current: str, future: str, words: str) -> None:
    assert words in move_progress(TopicPartition("t", 0), 1, "/b", current, future)


def test_an_impossible_reassignment_is_listed_and_cancelled(cluster: KafkaCluster, tool: Tool, tmp_path: Path) -> None:
    cluster.create_topic("stuck", replication_factor=1)
    leader = cluster.leader_of("stuck", 0)
    target, plan = (leader + 1) % 3, tmp_path / "plan.json"
    plan.write_text(json.dumps({"partitions": [{"topic": "stuck", "partition": 0, "replicas": [target]}]}))
    with cluster.partition_network(leader, target):
        tool(f"reassign-partitions --execute --reassignment-json-file {plan}")
        line = f"stuck-0: replicas: {target},{leader}. adding: {target}. removing: {leader}."
        assert tool("reassign-partitions --list") == ["Current partition reassignments:", line]
        assert "--additional" in tool(f"reassign-partitions --execute --reassignment-json-file {plan}", code=1)[-1]
        cancelled = tool(f"reassign-partitions --cancel --reassignment-json-file {plan}")
        assert cancelled[0] == "Successfully cancelled partition reassignment for: stuck-0"
        cluster.wait_for(lambda: tool("reassign-partitions --list") == ["No partition reassignments found."])
    cluster.delete_topic("stuck")


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ('{"version":1,"partitions":[]}', "Partition reassignment list cannot be empty"),
        ('{"version":2,"partitions":[]}', "Not supported version field value 2"),
        ("{nojson", "The input string is not a valid JSON"),
        ('{"partitions":[{"topic":"foo","partition":0,"replicas":[]}]}', "Partition replica list cannot be empty"),
        ('{"partitions":[{"topic":"foo","partition":0,"replicas":[0,0]}]}', "Partition replica lists may not contain duplicate entries: foo-0 contains multiple entries for 0"),
        ('{"partitions":[{"topic":"foo","partition":0,"replicas":[0]},{"topic":"foo","partition":0,"replicas":[1]}]}', "Partition reassignment contains duplicate topic partitions: foo-0"),
        ('{"partitions":[{"topic":"foo","partition":0,"replicas":[7]}]}', "Unknown broker id 7"),
        ('{"partitions":[{"topic":"foo","partition":9,"replicas":[0]}]}', "Unable to find partition: foo-9"),
        ('{"partitions":[{"topic":"foo","partition":0,"replicas":[0],"log_dirs":["a"]}]}', "foo-0: the log directory \"a\" is neither an absolute path nor 'any'"),
        ('{"partitions":[7]}', "7 has no valid field 'topic'"),
    ],
)  # fmt: skip
def test_plans_that_cannot_be_executed(tool: Tool, tmp_path: Path, plan: str, words: str) -> None:
    (tmp_path / "plan").write_text(plan)
    assert (
        tool(f"reassign-partitions --execute --reassignment-json-file {tmp_path / 'plan'}", code=1)[-1]
        == f"Error: {words}"
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("topics", "exactly one action"),
        ("topics --create --list", "exactly one action"),
        ("topics --create", 'Missing required argument "[topic]"'),
        ("topics --alter --topic t", 'Missing required argument "[partitions]"'),
        ("topics --alter --topic t --partitions 3 --config a=b", 'Option "[config]" can\'t be used with action "[alter]"'),
        ("topics --list --partitions 3", 'Option "[partitions]" can\'t be used with action "[list]"'),
        ("topics --create --topic t --partitions 0", "must be greater than 0"),
        ("topics --create --topic t --replica-assignment 0:x", "expected broker ids"),
        ("topics --create --topic t --config retention.ms", "expected name=value"),
        ("topics --list --zookeeper h:1", "Exactly one of --bootstrap-server, --dir and --zookeeper"),
        ("configs --topic foo", "exactly one action"),
        ("configs --alter --topic foo", "At least one of --add-config or --delete-config"),
        ("configs --alter --topic foo --add-config bad", "expected name=value"),
        ("configs --describe", "must be specified"),
        ("configs --describe --topic foo --broker 1", "must be specified"),
        ("configs --describe --entity-name a", "must be specified"),
        ("configs --alter --client a --add-config producer_byte_rate=x", "Cannot parse quota configuration value"),
        ("configs --describe --broker x", "must be a valid integer broker id, but it is: x"),
        ("configs --alter --entity-type topics --add-config a=b", "an entity name must be specified"),
        ("reassign-partitions --list --verify", "exactly one action"),
        ("reassign-partitions --execute", 'Missing required argument "[reassignment-json-file]"'),
        ("reassign-partitions --list --throttle 5", 'Option "[throttle]" can\'t be used with action "[list]"'),
        ("leader-election --all-topic-partitions", "Missing option '--election-type'"),
        ("leader-election --election-type preferred", "One and only one of the following options"),
        ("leader-election --election-type preferred --topic t", "require each other"),
    ],
)  # fmt: skip
def test_wrong_arguments_exit_with_code_2_and_a_reason(tool: Tool, line: str, words: str) -> None:
    assert words in "".join(tool(line, code=2))


def test_a_file_of_partitions_is_checked(tool: Tool, tmp_path: Path) -> None:
    file = tmp_path / "f"
    row = '{"topic":"foo","partition":0}'
    line = f"leader-election --election-type preferred --path-to-json-file {file}"
    for data in (
        b"\xff\xfe{}",
        b"{",
        b'{"version":1}',
        b'{"partitions":[{"topic":"t"}]}',
        f'{{"partitions":[{row},{row}]}}'.encode(),
    ):
        file.write_bytes(data)
        assert "Error: " in tool(line, code=1)[-1]
    file.write_text(f'{{"partitions":[{row}]}}')
    assert tool(line) == ["Valid replica already elected for partitions foo-0"]
    assert (
        "missing-3: UNKNOWN_TOPIC_OR_PARTITION"
        in tool("leader-election --election-type preferred --topic missing --partition 3", code=1)[0]
    )


def test_the_folder_of_a_cluster_names_its_brokers(
    cluster: KafkaCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = (server.split(":") for server in cluster.bootstrap_servers.split(","))
    brokers = [{"host": host, "port": int(port), "internal": int(port)} for host, port in hosts]
    (tmp_path / "cluster.json").write_text(json.dumps({"zookeeper": "memory", "brokers": brokers}))
    for command in ("status", "topics --list", "get-offsets --topic foo", "consumer-groups --list"):
        name, *options = command.split()
        assert run([name, "--dir", str(tmp_path), *options]) == 0
    assert "foo:0:0" in capsys.readouterr().out


def test_brackets_keep_commas_together() -> None:
    assert parse_added("a=[1:2,3:4],b=2 , c = [] ,d=") == {"a": "1:2,3:4", "b": "2", "c": "", "d": ""}
