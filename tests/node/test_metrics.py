"""Test the metrics of a whole node: their declarations, initial values and samples."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from actors.broker.isr_keeper import COUNTERS as ISR_COUNTERS
from actors.coordinator.transaction_verifier import FAILURES as VERIFICATION_FAILURES
from actors.core.broker.topic_stats import OF_ALL_TOPICS, metric
from actors.gateway.metric_table import COUNTERS, METRICS
from actors.node.assembly import HANDLER_IDLE
from actors.runtime.kernel.turns import Turns
from messages.cluster import TopicPartition
from messages.errors import KAFKA_STORAGE_ERROR, NONE
from messages.zookeeper import RequestTopicDeletion
from tests.broker.harness import Broker, known, order
from tests.broker.test_records import batch, produce
from tests.node.test_assembly import ASSIGNMENT, World, controller, create_topic, leaders
from zk_bridge.client import Client
from zk_bridge.memory_store import MemoryStore


def families(world: World, node: int) -> dict[str, Any]:
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/metrics", "QUERY_STRING": ""}
    text = b"".join(world.nodes[node].metrics.page(environ, lambda status, headers: None)).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_every_metric_has_a_help_text_and_counters_begin_at_0(tmp_path: Path) -> None:
    world = World.of(tmp_path)
    at_first = families(world, 0)
    assert {*map(metric, OF_ALL_TOPICS), *ISR_COUNTERS, VERIFICATION_FAILURES} <= set(COUNTERS)
    for name in COUNTERS:
        [sample] = [each for each in at_first[name.removesuffix("_total")].samples if not each.labels]
        assert sample.value == 0
    for name in ("process_cpu_seconds", "process_resident_memory_bytes", "process_open_fds", HANDLER_IDLE):
        assert at_first[name].samples
    world.until(lambda: all(node.ready for node in world.nodes) and controller(world.zookeeper) >= 0)
    create_topic(world.zookeeper)
    world.until(lambda: len(leaders(world.zookeeper)) == 3)
    world.scheduler.run(3.0)
    for node in range(3):
        for name, family in families(world, node).items():
            if not name.startswith("process_"):
                declared = METRICS[f"{name}_total" if family.type == "counter" else name]
                assert (family.type, family.documentation) == declared[:2], name
                assert {label for each in family.samples for label in each.labels} <= {*declared.labels, "quantile"}, (
                    name
                )
    world.stop(0, 1, 2)


def test_dashboards_find_the_metrics_that_fill_their_variables(tmp_path: Path) -> None:
    world = World.of(tmp_path)

    def values(name: str) -> list[list[tuple[dict[str, str], float]]]:
        found = [families(world, node)[name].samples for node in range(3)]
        return [[(sample.labels, sample.value) for sample in samples] for samples in found]

    def states() -> set[float]:
        return {value for [(_, value)] in values("kafka_server_kafkaserver_brokerstate")}

    def replicas(node: int) -> list[tuple[dict[str, str], float]]:
        return [
            ({"topic": "t", "partition": str(number)}, 3.0 if assigned[0] == node else 0.0)
            for number, assigned in ASSIGNMENT.items()
        ]

    world.until(lambda: all(node.ready for node in world.nodes))
    assert states() == {3.0}
    create_topic(world.zookeeper)
    hosted = [replicas(node) for node in range(3)]
    name = "kafka_cluster_partition_replicascount"
    world.until(lambda: [sorted(rows, key=str) for rows in values(name)] == hosted)
    for node in world.nodes:
        node.base.loop.turns.add(15.0, node.base.clock.now())
    for idle in ("kafka_network_socketserver_networkprocessoravgidle_percent", HANDLER_IDLE):
        assert all(0.5 < value <= 0.75 for [(_, value)] in values(idle)), "15 of 60 seconds were busy"
    with Client(MemoryStore(world.zookeeper)) as admin:
        admin.ask(RequestTopicDeletion("t"))
    world.until(lambda: values(name) == [[], [], []])
    world.stop(0, 1, 2)
    assert states() == {7.0}


def test_logs_in_a_failed_directory_have_no_gauges(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    broker = Broker(one, other)
    broker.run()
    broker.update(known("t"), known("t", 1))
    broker.lead(order("t"), order("t", 1))
    assert broker.replicas == {TopicPartition("t", 0): 1, TopicPartition("t", 1): 1}
    broker.lead(order("t", epoch=1, replicas=(0, 1)), order("t", 1, epoch=1, zk_version=-1, replicas=(0, 1)))
    assert broker.replicas == {TopicPartition("t", 0): 2, TopicPartition("t", 1): 1}, "the second order is older"
    for number in (0, 1):
        assert produce(broker, batch(b"a"), partition=TopicPartition("t", number)).error_code == NONE
    assert {labels for labels, _ in broker.logs.log_metrics()} == {("t", "0"), ("t", "1")}
    broker.logs.faults[str(one)] = errno.EIO
    codes = [produce(broker, batch(b"a"), partition=TopicPartition("t", number)).error_code for number in (0, 1)]
    assert sorted(codes) == [NONE, KAFKA_STORAGE_ERROR]
    alive = ("t", str(codes.index(NONE)))
    assert [labels for labels, _ in broker.logs.log_metrics()] == [alive]
    assert broker.replicas[TopicPartition("t", codes.index(KAFKA_STORAGE_ERROR))] is None
    broker.end()


def test_the_busy_time_of_the_last_minute() -> None:
    turns = Turns()
    for second in range(100):
        turns.add(0.25, second)
        turns.add(0.25, second + 0.5)
    assert turns.busy(99.5) == 60 * 0.5
    assert turns.busy(130.0) == 29 * 0.5
    assert turns.busy(1000.0) == 0
