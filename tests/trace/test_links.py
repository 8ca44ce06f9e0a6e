"""Causes of deliveries across nodes: a kill leads to the new leader, and a request to the actions of another node."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.public.simulated import SimulatedCluster
from actors.trace.filters import causes, linked_effects
from actors.trace.links import CauseFinder, DeliveryId
from actors.trace.reader import Trace, TraceDelivery, open_trace
from tests.trace import cluster_life


@pytest.fixture(scope="module")
def life(lived: Path) -> Trace:
    return open_trace(lived)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, int, int]:
    """Return a trace, the broker that was killed, and the controller."""
    folder: Path = tmp_path_factory.mktemp("killed")
    with SimulatedCluster(3, seed=3, directory=folder) as cluster:
        controller = cluster.controller_id
        assert controller is not None
        cluster.create_topic("t", partitions=6, replication_factor=3)
        dead = next(broker for broker in range(3) if broker != controller)
        cluster.kill(dead)
        cluster.wait_for(lambda: all(cluster.leader_of("t", number) != dead for number in range(6)))
        cluster.run(2.0)
    return open_trace(folder), dead, controller


def place(trace: Trace, delivery: TraceDelivery) -> DeliveryId:
    return DeliveryId(trace.runs.index(delivery.run), delivery.seq)


def role_taken(delivery: TraceDelivery) -> bool:
    return delivery.message == "Answer" and delivery.payload["result"][0] == "RoleTaken"


def test_a_cause_comes_before_its_effect(life: Trace) -> None:
    links = CauseFinder(life.runs)
    seen: dict[DeliveryId, TraceDelivery] = {}
    crossed = 0
    for delivery in life.deliveries():
        link = links.link(delivery)
        if link is not None:
            cause = seen[link.cause]
            assert cause.at <= delivery.at
            assert link.crossed == (cause.run is not delivery.run)
            crossed += link.crossed
        seen[place(life, delivery)] = delivery
    assert crossed > 100


def test_requests_are_linked_to_the_node_that_received_them(life: Trace) -> None:
    links = CauseFinder(life.runs)
    seen: dict[DeliveryId, TraceDelivery] = {}
    linked = 0
    for delivery in life.deliveries():
        link = links.link(delivery)
        seen[place(life, delivery)] = delivery
        if delivery.message == "ClientRequest" and link is not None:
            sent = seen[link.cause].payload
            assert sent["endpoint"]["host"] == f"node-{delivery.node}"
            repeated = delivery.payload["correlation_id"] - sent["correlation_id"]  # the network repeats idle polls
            assert sent["request"] == delivery.payload["request"] or (repeated > 0 and sent["again"])
            linked += 1
        if delivery.message == "Received":
            assert link is not None
            cause = seen[link.cause]
            if link.crossed:
                assert cause.payload["response"] == delivery.payload["response"]
        if delivery.message == "StoreReply":
            assert link is not None and seen[link.cause].payload["id"] == delivery.payload["id"]
    assert linked > 40


def test_a_kill_leads_to_the_last_role_taken_on_another_node(killed: tuple[Trace, int, int]) -> None:
    trace, dead, controller = killed
    ended = max(each.at for each in trace.deliveries() if each.node == dead)
    later = [each for each in trace.deliveries() if each.at > ended and each.node != dead]
    session_end = next(
        each
        for each in later
        if each.message == "WatchEvent" and each.node == controller and each.payload["path"] == "/brokers/ids"
    )
    taken = [each for each in later if role_taken(each) and each.at > session_end.at]
    other = [each for each in taken if each.node != controller]
    assert other
    led_to = {place(trace, each) for each, _ in linked_effects(trace, [place(trace, session_end)])}
    assert {place(trace, each) for each in taken} <= led_to
    chain = causes(trace, place(trace, other[-1]))
    assert place(trace, chain[0]) == place(trace, session_end), "no recorded write ended the session"
    assert chain[-1].node != controller
    assert [each.at for each in chain] == sorted(each.at for each in chain)


def test_a_registration_is_the_cause_of_the_broker_change(life: Trace) -> None:
    registered = [
        chain
        for each in life.deliveries()
        if each.message == "BrokerChange" and each.node == cluster_life.CONTROLLER
        for chain in [causes(life, place(life, each))]
        if any("RegisterBroker" in str(step.payload) for step in chain)
    ]
    assert registered
    assert all(chain[0].message in ("SessionState", "StartNode") for chain in registered)


def test_an_event_ends_with_its_requests(life: Trace) -> None:
    found = [each for each, _ in linked_effects(life, [], event="BrokerChange")]
    assert {each.node for each in found} == {0, 1, 2}
    assert any(role_taken(each) for each in found)
    timers = {each.receiver.partition(".")[0] for each in found if each.kind == "timer"}
    assert timers <= {"BrokerChannelActor"}, "a channel sends a request again that a dying broker has not answered"
    assert len(found) < len(list(life.deliveries())) / 2
