"""The steps from a controller event to its requests to brokers, in a few deliveries written by hand.

A delivery comes a second after the one before, has waited half a second, and is handled in a quarter of a second.
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from thespian.actors import ActorAddress

from messages.apis.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from messages.cluster import Endpoint
from messages.network import ClientRequest, ClientResponse, Received, Transmit
from spark.results import Summary
from spark.summary import summarise
from tests.spark import working_day
from tests.spark.failover import CONTROLLER, NETWORK, Node, leader

FIRST, NAME = ActorAddress("BrokerChannelActor.11"), "controller-0-broker-1-1"
REPLICAS, LISTENER = ActorAddress("ReplicaManagerActor.9"), ActorAddress("outside:listener")


@pytest.fixture(scope="module")
def summary(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Summary:
    """Summarise a BrokerChange that took 5 seconds after 1 in the queue.

    It sent LeaderAndIsr to broker 1, then to broker 2.
    """
    folder = tmp_path_factory.mktemp("chains")
    node, other = Node(folder / "a", 0), Node(folder / "b", 1)
    request = LeaderAndIsrRequest(4, 0, 1, 5, (leader("t", 0, 1, 1, 1),), ())
    for broker in (1, 2):
        node.deliver(ActorAddress(f"BrokerChannelActor.{10 + broker}"), request, CONTROLLER)
    working_day.event(node, "BrokerChange", 5000.0, 1000.0, 3)
    node.event = 1  # the channels send the requests of this event
    node.transmit(1, request, "")
    correlation = node.n
    node.deliver(
        NETWORK, Transmit(NAME, Endpoint("PLAINTEXT", "localhost", 9093), correlation, "c", request, 30.0), FIRST
    )
    node.seconds += 1
    node.deliver(FIRST, Received(NAME, correlation, LeaderAndIsrResponse(0)), NETWORK)
    node.transmit(2, request, "-+")
    # the first request's round trip took 1.5 s, of which broker 1 had it for 1.25 s
    other.seconds = 1000 + 5.75 - 1
    other.deliver(REPLICAS, ClientRequest(3, correlation, "0", "PLAINTEXT", request), LISTENER)
    other.seconds -= 0.25
    other.deliver(LISTENER, ClientResponse(3, correlation, LeaderAndIsrResponse(0)), REPLICAS)
    for each in (node, other):
        each.recorder.close()
    return summarise(folder, session, only=("chains", "fan_out"))


def test_from_an_event_to_the_last_order(summary: Summary) -> None:
    last, first = summary["chains"]
    assert (last.event, last.broker, last.last, first.event, first.broker, first.last) == (
        *("BrokerChange", 2, True),
        *("BrokerChange", 1, False),
    )

    def parts(row: object) -> list[int | None]:
        names = ("queue_ms", "decide_ms", "channel_ms", "network_ms", "apply_ms", "total_ms")
        return [value if value is None else round(value) for value in (getattr(row, name) for name in names)]

    # The event ended at 2.5 s, so it began at -2.5 s and was queued at -3.5 s. Broker 1's request was given at 0.5 s,
    # handed to the network at 5 s (after the channel's start), and answered at 6.5 s.
    assert parts(first) == [1000, 3000, 4500, 250, 1250, 10_000]
    # Broker 2's was given at 1.5 s, handed over at 9 s, refused, handed over again at 11 s, and answered at 11.5 s.
    assert parts(last) == [1000, 4000, 9500, 500, None, 15_000]


def test_fan_out_counts_the_deliveries_that_each_one_causes(summary: Summary) -> None:
    """Each delivery of these traces causes the next one; the last of each trace causes none."""
    found = {(row.actor, row.type): (row.count, row.caused, row.most, row.idle) for row in summary["fan_out"]}
    assert found["BrokerChannelActor", "LeaderAndIsrRequest"] == (2, 2, 1, 0)
    assert found["BrokerChannelActor", "Received"] == (2, 1, 1, 1)
    assert found["outside:listener", "ClientResponse"] == (1, 0, 0, 1)
