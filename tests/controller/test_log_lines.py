"""The controller logs in Kafka's words, so that `summary --logs` finds the same lines as in Kafka's log."""

from __future__ import annotations

import logging
import re

import pytest

from actors.core.controller import log_text
from messages.cluster import LeaderIsrAndControllerEpoch, ReplicaAssignment
from spark.logs import LINES
from tests.controller.world import World

KAFKAS = [
    "successfully elected as the controller. Epoch incremented to 1 and epoch zk version is now 1",
    "Currently active brokers in the cluster: Set(1)",
    "Ready to serve as the new controller with epoch 1",
    "Newly added brokers: 2, deleted brokers: , bounced brokers: , all live brokers: 1,2",
    "New broker startup callback for 2",
    "New topics: [Set(t)], deleted topics: [Set()], new partition replica assignment "
    "[Map(t-0 -> ReplicaAssignment(replicas=2,1, addingReplicas=, removingReplicas="
    "), t-1 -> ReplicaAssignment(replicas=1,2, addingReplicas=, removingReplicas=))]",
    "Changed partition t-0 state from NonExistentPartition to NewPartition with assigned replicas 2,1",
    "Changed partition t-0 from NewPartition to OnlinePartition with state LeaderAndIsr(leader=2, leaderEpoch=0,"
    " isrWithBrokerEpoch=List(BrokerState(brokerId=2, brokerEpoch=-1), BrokerState(brokerId=1, brokerEpoch=-1)),"
    " leaderRecoveryState=RECOVERED, partitionEpoch=0)",
    "Newly added brokers: , deleted brokers: 2, bounced brokers: , all live brokers: 1",
    "Broker failure callback for 2",
    "Changed partition t-0 from OfflinePartition to OnlinePartition with state LeaderAndIsr(leader=1, leaderEpoch=1,"
    " isrWithBrokerEpoch=List(BrokerState(brokerId=1, brokerEpoch=-1)), leaderRecoveryState=RECOVERED,"
    " partitionEpoch=1)",
    "Partition t-1 state changed to (Leader:1,ISR:1,LeaderRecoveryState:RECOVERED,LeaderEpoch:1,ZkVersion:1,"
    "ControllerEpoch:1) after removing replica 2 from the ISR as part of transition to OfflineReplica",
    "Delete topics listener fired for topics t to be deleted",
    "Starting topic deletion for topics t",
    "Deletion of topic t successfully completed",
]
"""Lines that Kafka 3.9.1 logs for the same events; Kafka's LeaderAndIsr has broker epochs from 3.5 on."""


def test_a_controllers_term_is_logged_in_kafkas_words(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("kafka.controller", "state.change.logger"):
        caplog.set_level(logging.DEBUG, name)
    world.node(1)
    world.broker(2)
    world.topic("t", (2, 1), (1, 2))
    world.lose(2)
    world.broker(2)
    world.delete("t")
    world.run(30.0)
    said = [record.getMessage() for record in caplog.records]
    assert [line for line in KAFKAS if not any(line in each for each in said)] == []
    kinds = [line.pattern for line in LINES if any(re.search(line.pattern, each) for each in said)]
    assert len(kinds) == 10, kinds
    assert any(each.startswith("[Topic Deletion Manager 1] Deletion of topic t ") for each in said)
    assert not [each for each in said if re.search(r"\[\d+, |\['|targetBrokerId", each)], "lists are Scala's"


def test_long_lists_are_cut() -> None:
    assert log_text.scala_collection(range(102)) == f"Set({', '.join(map(str, range(100)))}, ... and 2 more)"


def test_values_in_kafkas_form() -> None:
    assert (
        log_text.assignment(ReplicaAssignment((1, 2), (2,), (3,)))
        == "ReplicaAssignment(replicas=1,2, addingReplicas=2, removingReplicas=3)"
    )
    assert "isrWithBrokerEpoch=List()" in log_text.leader_and_isr(LeaderIsrAndControllerEpoch(1, 0, (), 1))
