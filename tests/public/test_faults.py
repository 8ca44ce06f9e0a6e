"""Request faults on real brokers, met by librdkafka, kafka-python and Java's client: hits, and the client's results."""

from __future__ import annotations

import json
import random
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from actors.public import ClusterError, KafkaCluster
from actors.public.console import command_line
from actors.public.fault_injection import InjectedFault, Trigger
from messages import cluster as places
from messages.apis.list_offsets import CONSUMER, ListOffsetsRequest, OffsetQuery
from messages.records import LATEST
from tests.cluster.java_tools import run_tool
from tests.cluster.processes import properties
from tests.public.replays import check_replay, replayed
from tests.wire_client import WireClient

MESSAGES = 4
"""Number of messages in each case. Each is one request, because clients do not retry."""
SEED = 3
_random = random.Random(SEED)
DRAWN = [_random.random() for _ in range(MESSAGES)]

TRIGGERS: dict[str, tuple[Callable[[Trigger[InjectedFault]], InjectedFault], set[int]]] = {
    "once": (lambda trigger: trigger.once(), {0}),
    "times": (lambda trigger: trigger.times(2), {0, 1}),
    "on_call": (lambda trigger: trigger.on_call(3), {2}),
    "every_time": (lambda trigger: trigger.every_time(), set(range(MESSAGES))),
    "with_probability": (
        lambda trigger: trigger.with_probability(0.5, SEED),
        {number for number, drawn in enumerate(DRAWN) if drawn < 0.5},
    ),
}
"""Trigger -> (function that sets it, numbers of the messages that meet the fault)."""

KINDS: dict[str, tuple[tuple[Any, ...], bool, bool]] = {
    "error": ((87,), False, False),
    "delay": ((0.05,), True, True),
    "disconnect": ((), False, False),
    "lose_response": ((), False, True),
    "blackhole": ((), False, False),
    "throttle": ((20,), True, True),
}
"""Kind of fault -> (its arguments, whether the message is acknowledged, whether the message is in the log)."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """Return a cluster of three brokers; after all tests, its traces must replay."""
    with replayed(KafkaCluster()) as cluster:
        yield cluster


def log_end_offset(cluster: KafkaCluster, topic: str) -> int:
    """Return the log end offset of partition 0: with one replica, it is equal to the high watermark."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), 20)
    consumer.close()
    return int(end)


def delivered(cluster: KafkaCluster, topic: str, count: int) -> list[bool]:
    """Send `count` messages, each after the outcome of the one before it, and return which were acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "acks": "1",
            "retries": 0,
            "linger.ms": 0,
            "request.timeout.ms": 200,
            "socket.timeout.ms": 300,
            "message.timeout.ms": 2000,
            "reconnect.backoff.ms": 1,
            "reconnect.backoff.max.ms": 10,
            "log_level": 0,
        }
    )
    outcomes: list[bool] = []
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=0, on_delivery=lambda e, _: outcomes.append(not e))
        producer.flush(20)
    return outcomes


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("kind", KINDS)
def test_exactly_the_chosen_requests_meet_the_fault(cluster: KafkaCluster, kind: str, trigger: str) -> None:
    topic = f"{kind}-{trigger}"
    cluster.create_topic(topic, replication_factor=1)
    leader = cluster.wait_for_leader(topic)
    value, acknowledged, written = KINDS[kind]
    choose, hit = TRIGGERS[trigger]
    with choose(getattr(cluster.faults, kind)("Produce", *value, topic=topic, partition=0, broker=leader)) as fault:
        outcomes = delivered(cluster, topic, MESSAGES)
        assert (fault.calls, fault.hits) == (MESSAGES, len(hit))
    assert outcomes == [acknowledged or number not in hit for number in range(MESSAGES)]
    assert log_end_offset(cluster, topic) == MESSAGES - (0 if written else len(hit))


def inject_one_after_the_other(cluster: KafkaCluster, **filters: str) -> list[InjectedFault]:
    """Inject a fault of each kind, so that each second request meets the next kind.

    A request that one fault hits does not count as a call of later faults.
    """
    return [
        getattr(cluster.faults, kind)("Produce", *value, **filters).on_call(2 + number)
        for number, (kind, (value, _, _)) in enumerate(KINDS.items())
    ]


ONE_BY_ONE = [True, *(part for _, acknowledged, _ in KINDS.values() for part in (acknowledged, True))]
"""Whether each message is acknowledged under `inject_one_after_the_other`."""
ALL_WRITTEN = len(ONE_BY_ONE) - sum(not written for _, _, written in KINDS.values())


def test_javas_client_meets_each_kind(cluster: KafkaCluster, apache_jars: Path, tmp_path: Path) -> None:
    cluster.create_topic("java-kinds", replication_factor=1)
    faults = inject_one_after_the_other(cluster, topic="java-kinds")
    config = properties(
        tmp_path / "producer.properties",
        enable__idempotence="false",
        linger__ms=100,  # the first two records are in one request, unless the machine is busy
        max__in__flight__requests__per__connection=1,
        reconnect__backoff__ms=1,
        request__timeout__ms=400,
        retries=0,
    )
    options = {
        "--bootstrap-server": cluster.bootstrap_servers,
        "--topic": "java-kinds",
        "--max-messages": str(1 + len(ONE_BY_ONE)),
        "--acks": "1",
        "--throughput": "2",  # one request for each record, except the first two
        "--producer.config": str(config),
    }
    words = [word for option in options.items() for word in option]
    done = run_tool(apache_jars, "org.apache.kafka.tools.VerifiableProducer", *words)
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    outcomes = {int(each["value"]): each["name"] == "producer_send_success" for each in events if "value" in each}
    assert [fault.hits for fault in faults] == [1] * len(KINDS), done.stdout + done.stderr
    acknowledged = [outcomes[number] for number in sorted(outcomes)]
    assert acknowledged.count(False) == ONE_BY_ONE.count(False), done.stdout + done.stderr
    assert all(each or following for each, following in pairwise(acknowledged)), done.stdout + done.stderr
    assert log_end_offset(cluster, "java-kinds") == 1 + ALL_WRITTEN
    cluster.faults.clear()


def test_filters_choose_topic_partition_broker_and_client(cluster: KafkaCluster) -> None:
    cluster.create_topic("filtered", partitions=2)
    follower = (cluster.wait_for_leader("filtered") + 1) % 3
    others: dict[str, Any] = {"topic": "other", "partition": 1, "broker": follower, "client_id": "another"}
    faults = [cluster.faults.error("Produce", 87, **{name: value}).every_time() for name, value in others.items()]
    assert delivered(cluster, "filtered", 1) == [True]
    assert [(fault.calls, fault.hits) for fault in faults] == [(0, 0)] * 4
    assert len(cluster.faults.never_met()) >= 4
    cluster.faults.clear()


@pytest.mark.parametrize("name", ["NOT_LEADER_OR_FOLLOWER", "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED"])
def test_an_error_may_be_given_by_its_name(cluster: KafkaCluster, name: str) -> None:
    cluster.create_topic(name, replication_factor=1)
    with cluster.faults.error("Produce", name, topic=name).once() as fault:
        delivered(cluster, name, 1)
        assert fault.hits == 1


def test_what_cannot_be_injected_is_named(cluster: KafkaCluster) -> None:
    for code, words in ((999, "unknown error code 999"), ("NOT_LEADER", "did you mean NOT_LEADER_OR_FOLLOWER")):
        with pytest.raises(ClusterError, match=words):
            cluster.faults.error("Produce", code).once()
    with pytest.raises(ClusterError, match=r"unknown API 'Producer'\. Use one of Add"):
        cluster.faults.error("Producer", 1).once()
    with pytest.raises(ClusterError, match="the cluster is not running"):
        KafkaCluster(1).faults.disconnect("Produce").once()


def test_hits_are_in_the_trace_and_in_why_and_what_was_never_met_is_reported() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cluster = KafkaCluster(1).start()
        cluster.keep = True
        cluster.create_topic("t")
        cluster.faults.error("Produce", 6).times(2)
        cluster.faults.blackhole("OffsetCommit").every_time()
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        producer.produce("t", b"retried")
        assert producer.flush(20) == 0
        cluster.stop()
    assert "these injected faults were never met: blackhole OffsetCommit (calls: 0)" in [str(w.message) for w in caught]
    said = subprocess.run(
        command_line("why", "cluster", str(cluster.trace_dir)), capture_output=True, text=True, check=True
    ).stdout
    assert said.count("an injected fault was met: error (6), Produce of client rdkafka") == 2, said
    assert "Produce: NOT_LEADER_OR_FOLLOWER 2 times" not in said, "no actor answered that"
    check_replay(cluster.trace_dir)


def test_the_journal_has_the_requests_of_clients_at_once(cluster: KafkaCluster) -> None:
    since = time.time()
    cluster.create_topic("seen")
    with cluster.faults.error("Produce", 87, topic="seen").once():
        assert delivered(cluster, "seen", 2) == [False, True]
    produced = cluster.requests("Produce", since=since)
    partitions = [entry for each in produced for entry in each.fields["partitions"]]
    assert [entry["partition"] for entry in partitions] == [{"topic": "seen", "partition": 0}] * 2
    assert [batch["record_count"] for entry in partitions for batch in entry["records"]["batches"]] == [1, 1]
    assert {each.broker for each in produced} == {cluster.leader_of("seen")}
    mine = cluster.requests(client_id="rdkafka", since=since)
    assert {"ApiVersions", "Metadata", "Produce"} <= {each.api for each in mine}
    assert {each.client_id for each in cluster.requests(since=since)} == {"rdkafka"}, "neither brokers nor the cluster"
    assert cluster.requests("Fetch", since=since) == cluster.requests("Produce", "another") == []


def test_a_response_is_scripted(cluster: KafkaCluster) -> None:
    cluster.create_topic("scripted")
    leader = cluster.leader_of("scripted")
    assert leader is not None
    host, port = cluster.bootstrap_servers.split(",")[leader].split(":")
    request: Any = ListOffsetsRequest(5, CONSUMER, (OffsetQuery(places.TopicPartition("scripted", 0), LATEST),))
    with (
        WireClient(host, int(port)) as client,
        cluster.faults.respond("ListOffsets", {"partitions": {"offset": 17}}, topic="scripted") as fault,
    ):
        answers: list[Any] = [client.call(request) for _ in range(2)]
        assert [[(each.error_code, each.offset) for each in answer.partitions] for answer in answers] == [
            [(0, 17)],
            [(0, 0)],
        ]
        assert fault.hits == 1
    for name, value, words in (
        ("offset", 17, "must have fields of ListOffsetsResponse"),
        ("partitions", [{"offset": 17}], "partitions: .* missing"),
        ("partitions", {"offset": "x"}, "offset='x' must be of the type int"),
        ("throttle_time_ms", 2**31, "ListOffsets v"),
    ):
        with pytest.raises(ClusterError, match=words):
            cluster.faults.respond("ListOffsets", {name: value})
