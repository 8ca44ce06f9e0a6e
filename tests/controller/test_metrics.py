"""The controller's metrics (controller.md 8; EV1-EV5) have the names that dashboards for Kafka query."""

from __future__ import annotations

import logging

import pytest

from actors.controller.controller import SLOW_SECONDS
from actors.core.controller.gauges import EVENT_QUEUE_TIME, EVENT_REQUESTS, EVENT_TIME, EVENT_WAIT, TIMER
from messages.events import EVENTS, ControllerState, TopicChange
from messages.metrics import Sample
from messages.store import DELETE, SET, WriteOp
from tests.controller.test_leader_balance import led_by_second
from tests.controller.world import Node, World
from zk_bridge import paths

TIMERS = (
    "AutoLeaderBalance ControlledShutdown ControllerChange ControllerShutdown IsrChange LeaderAndIsrResponseReceived"
    " LeaderElection ListPartitionReassignment LogDirChange ManualLeaderBalance PartitionReassignment TopicChange"
    " TopicDeletion TopicUncleanLeaderElectionEnable UncleanLeaderElectionEnable"
)
"""Kafka's timers, without the suffix RateAndTimeMs (controller.md 8)."""

STRIMZI = {
    "dashboard, Brokers Online: count": "kafka_server_replicamanager_leadercount",
    "dashboard, Active Controllers: sum": "kafka_controller_kafkacontroller_activecontrollercount",
    "dashboard, Unclean Leader Election Rate: sum": "kafka_controller_controllerstats_uncleanleaderelections_total",
    "dashboard, Online Replicas: sum": "kafka_server_replicamanager_partitioncount",
    "dashboard, Under Replicated Partitions: sum": "kafka_server_replicamanager_underreplicatedpartitions",
    "dashboard, Partitions at minimum ISR: sum": "kafka_cluster_partition_atminisr",
    "dashboard, Partitions under minimum ISR: sum": "kafka_cluster_partition_underminisr",
    "dashboard, Offline Partitions Count: sum": "kafka_controller_kafkacontroller_offlinepartitionscount",
    "alert, UnderReplicatedPartitions: > 0": "kafka_server_replicamanager_underreplicatedpartitions",
    "alert, AbnormalControllerState: sum != 1": "kafka_controller_kafkacontroller_activecontrollercount",
    "alert, OfflinePartitions: sum > 0": "kafka_controller_kafkacontroller_offlinepartitionscount",
    "alert, UnderMinIsrPartitionCount: > 0": "kafka_server_replicamanager_underminisrpartitioncount",
    "alert, OfflineLogDirectoryCount: > 0": "kafka_log_logmanager_offlinelogdirectorycount",
}
"""Query of Strimzi's Kafka dashboard and alerts about controller and replication -> the series that it reads."""

KIN = (
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
    "kafka_controller_kafkacontroller_globalpartitioncount",
    "kafka_controller_kafkacontroller_globaltopiccount",
    "kafka_controller_kafkacontroller_topicstodeletecount",
    "kafka_controller_kafkacontroller_replicastodeletecount",
    "kafka_controller_kafkacontroller_controllerstate",
    "kafka_controller_controllereventmanager_eventqueuesize",
    "kafka_controller_controllerchannelmanager_queuesize",
)
"""Further series of Kafka's controller."""


def of(node: Node, name: str, event: str | None = None) -> list[Sample]:
    """Return the node's samples of this summary, for this event if one is given."""
    labels = () if event is None else (("event", event),)
    return [sample for sample in node.samples if (sample.name, sample.labels) == (name, labels)]


def test_every_state_has_kafkas_timer() -> None:
    names = {state.timer for state in ControllerState if state.timer is not None}
    assert names == {f"{name}RateAndTimeMs" for name in TIMERS.split()}
    assert {event.state for event in EVENTS} <= set(ControllerState)


def test_dashboards_find_their_series(world: World) -> None:
    node = world.node(1)
    world.broker(2)
    world.topic("t", (2, 1))
    world.lose(2)
    world.broker(2)
    assert {name for name, _ in node.gauges} >= {*STRIMZI.values(), *KIN}
    assert of(node, TIMER.format("leaderelectionrateandtimems"))
    assert of(node, "kafka_controller_controllerchannelmanager_requestrateandqueuetimems") == []
    queued = [sample.labels for sample in node.samples if sample.name.endswith("requestrateandqueuetimems")]
    assert (("broker_id", "2"),) in queued


def test_ev1_the_metrics_of_the_queue_exist_as_long_as_the_process(world: World) -> None:
    """The metrics exist as long as the process, not only during a term."""
    node = world.node(1)
    other = world.node(2)
    for each in (node, other):
        assert each.gauge("activecontrollercount") == (each is node)
        assert each.gauges["kafka_controller_controllereventmanager_eventqueuesize", ()] == 0
        assert of(each, EVENT_QUEUE_TIME)
    world.stop(other)
    assert other.gauges["kafka_controller_controllereventmanager_eventqueuesize", ()] == 0


def test_ev4_an_event_is_timed_under_its_state_and_its_own_name(world: World) -> None:
    node = world.node(1)
    node.samples.clear()
    world.topic("t", (1,))
    assert len(of(node, TIMER.format("topicchangerateandtimems"))) == 1
    for name in (EVENT_TIME, EVENT_WAIT, EVENT_REQUESTS):
        assert len(of(node, name, "TopicChange")) == 1
    (requests,) = of(node, EVENT_REQUESTS, "TopicChange")
    assert requests.value >= 3, "topics listed, assignments read, parents and states written"
    assert node.gauge("controllerstate") == ControllerState.IDLE


def test_ev2_an_event_whose_state_has_no_timer_is_counted(world: World) -> None:
    node = world.node(1)
    node.samples.clear()
    world.topic("t", (1,))
    assert of(node, EVENT_TIME, "UpdateMetadataResponseReceived")
    assert not [sample for sample in node.samples if "updatemetadata" in sample.name]


def test_ev5_a_failed_event_is_timed_and_the_next_event_is_handled(world: World) -> None:
    node = world.node(1)
    node.samples.clear()
    world.expected_failures = 1
    world.zk.write((WriteOp(SET, "/controller_epoch", b"9"),), 0)
    world.topic("t", (1,))
    assert len(of(node, TIMER.format("topicchangerateandtimems"))) == 1
    assert node.gauge("controllerstate") == ControllerState.IDLE


def test_ev3_queue_time_is_measured(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """ZooKeeper is disconnected in the middle of an event, while another event waits.

    One log line has the duration and the queue time of the slow event.
    """
    node = world.node(1)
    node.samples.clear()
    node.store.disconnect()
    node.send(TopicChange())
    world.base.inject(node.controller, TopicChange())
    world.run(SLOW_SECONDS + 0.5)
    with caplog.at_level(logging.WARNING, "kafka.controller"):
        node.store.reconnect()
        world.run()
    waits = [sample.value for sample in of(node, EVENT_QUEUE_TIME)]
    assert min(waits) == 0 and max(waits) == pytest.approx(1000 * (SLOW_SECONDS + 0.5))
    (slow,) = [record.getMessage() for record in caplog.records if "in the queue" in record.getMessage()]
    assert "Event TopicChange took 3.5 s" in slow


def test_imbalance_counts_what_its_preferred_replica_does_not_lead(world: World) -> None:
    node = world.node(1, auto_leader_rebalance_enable=False)
    partition = led_by_second(world)
    world.topic("fine", (9, 8))
    assert node.gauge("preferredreplicaimbalancecount") == 1
    world.answers[9] = lambda request: ConnectionError("gone")
    world.delete(partition.topic)
    assert node.gauge("preferredreplicaimbalancecount") == 0, "its topic is queued for deletion"


def test_counters_survive_a_resignation_and_gauges_of_the_term_are_zero_then(world: World) -> None:
    node = world.node(1, unclean_leader_election_enable=True)
    partition = led_by_second(world)
    world.write_isr(partition, 9)
    world.lose(9)
    unclean = "kafka_controller_controllerstats_uncleanleaderelections_total"
    assert node.gauges[unclean, ()] == 1
    timed = len(of(node, TIMER.format("leaderelectionrateandtimems")))
    world.node(2)
    world.zk.write((WriteOp(DELETE, paths.CONTROLLER),), 0)
    world.run()
    node.send(TopicChange())
    assert node.gauges[unclean, ()] == 1
    assert len(of(node, TIMER.format("leaderelectionrateandtimems"))) >= timed > 0
