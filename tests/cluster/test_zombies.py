"""Zombies on a real ZooKeeper: a paused controller, its late requests, and a second process with a broker's id.

(controller.md 7.1-7.3, 2.5; test_zookeeper_faults tests a frozen controller that returns as a broker.)
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError

from messages.apis.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.cluster import TopicPartition
from messages.errors import NONE, STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH
from tests.cluster.nodes import Nodes
from tests.cluster.processes import OurNode, free_ports
from tests.waiting import until
from tests.wire_client import WireClient


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Run two nodes, each of which is a broker and can be the controller."""
    with Nodes.running(tmp_path_factory.mktemp("pair"), ids=(0, 1)) as made:
        yield made


def epoch_of(pair: Nodes) -> int:
    """Return the controller epoch."""
    return int(pair.zk.get("/controller_epoch")[0])


def registration_of(pair: Nodes, node: int) -> int:
    """Return the broker epoch. Raises AttributeError if the broker is not registered."""
    return int(pair.zk.exists(f"/brokers/ids/{node}").czxid)


def asked(pair: Nodes, node: int, request: Any) -> int:
    """Send a request to a node, and return the response's error code."""
    with WireClient("127.0.0.1", pair.ports[node]) as client:
        return int(client.call(request).error_code)


def versioned(pair: Nodes, topic: str) -> tuple[bytes, int]:
    """Return the state of partition 0 and the version of its znode."""
    data, stat = pair.zk.get(f"/brokers/topics/{topic}/partitions/0/state")
    return data, stat.version


def test_a_paused_controller_wakes_inactive_and_its_late_requests_are_refused(pair: Nodes) -> None:
    paused, other = pair.zk.controller, 1 - pair.zk.controller
    old_epoch, old_registration = epoch_of(pair), registration_of(pair, paused)
    pair.create("old", {0: [other, paused]})
    pair.nodes[paused].send(signal.SIGSTOP)
    until(lambda: pair.zk.controller == other, what="the other is elected", timeout=30, ignore=(NoNodeError,))
    pair.create("meanwhile", {0: [other]})
    assert pair.zk.state_of("meanwhile")["controller_epoch"] == old_epoch + 1
    before = versioned(pair, "meanwhile")
    pair.nodes[paused].send(signal.SIGCONT)
    until(
        lambda: registration_of(pair, paused) > old_registration,
        what="it registers anew",
        timeout=30,
        ignore=(AttributeError,),
    )
    until(lambda: pair.in_sync("old"), what="it follows again", timeout=30)
    assert (pair.zk.controller, epoch_of(pair)) == (other, old_epoch + 1)
    assert versioned(pair, "meanwhile") == before, "it wrote nothing of what it had not seen"
    assert pair.zk.state_of("old")["leader"] == other
    pair.create("afterwards", {0: [paused, other]})
    led = pair.zk.state_of("afterwards")
    assert (led["leader"], led["controller_epoch"], set(led["isr"])) == (paused, old_epoch + 1, {0, 1})

    # Late requests: with the old controller epoch, and with the broker epoch before a new registration.
    there = TopicPartition("old", 0)
    lead = LeaderAndIsrPartitionState(there, old_epoch, paused, 90, (paused,), 90, (paused, other))
    stop = StopReplicaPartitionState(there, 90, True)
    for node, epoch, registration, code in (
        (other, old_epoch, registration_of(pair, other), STALE_CONTROLLER_EPOCH),
        (paused, old_epoch + 1, old_registration, STALE_BROKER_EPOCH),
    ):
        for request in (
            LeaderAndIsrRequest(4, paused, epoch, registration, (lead,), ()),
            StopReplicaRequest(3, paused, epoch, registration, (stop,)),
            UpdateMetadataRequest(6, paused, epoch, registration, (), ()),
        ):
            assert asked(pair, node, request) == code, request
    good = UpdateMetadataRequest(6, other, old_epoch + 1, registration_of(pair, paused), (), ())
    assert asked(pair, paused, good) == NONE
    assert pair.zk.state_of("old")["leader"] == other


def test_a_brokers_double_is_turned_away_and_a_bounced_one_is_another(pair: Nodes) -> None:
    double = OurNode(pair.place / "double", 0, *free_ports(1), pair.connect)
    registration = registration_of(pair, 0)
    assert double.process.wait(60) != 0
    assert "another broker with this id runs" in double.output
    assert registration_of(pair, 0) == registration
    pair.create("t", {0: [0, 1]})
    assert pair.zk.state_of("t")["leader"] == 0

    pair.nodes[0].kill()
    pair.start(0)
    assert registration_of(pair, 0) > registration
    until(lambda: pair.in_sync("t"), what="t is whole again", timeout=60)
