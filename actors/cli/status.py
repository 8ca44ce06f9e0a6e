"""`kafka-actors status`: who is controller, which brokers live, how the partitions are, how long the queues are."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import click
from prometheus_client.parser import text_string_to_metric_families

from actors.cli.display import console, table
from actors.cli.zookeeper import zookeeper
from messages.cluster import NO_LEADER, Broker, TopicPartition
from messages.vocabulary import Message
from messages.zookeeper import (
    GetAssignments,
    GetBrokers,
    GetController,
    GetNodes,
    GetPartitionStates,
    GetTopicDeletions,
    GetTopics,
    NodeRegistration,
)

SCRAPE_SECONDS = 2.0

QUEUES = {
    "kafka_actors_mailbox_size": "mailboxes",
    "kafka_controller_controllereventmanager_eventqueuesize": "controller events",
    "kafka_controller_controllerchannelmanager_queuesize": "requests to broker",
}
"""The figures that are lengths of queues, and what waits there. One that has labels is shown for each."""


class Partitions(NamedTuple):
    """How many partitions are in which state. Under-replicated ones are online as well."""

    online: int = 0
    offline: int = 0
    unborn: int = 0
    under_replicated: int = 0


class Status(NamedTuple):
    """A cluster as ZooKeeper tells it."""

    controller: int
    epoch: int
    brokers: tuple[Broker, ...]
    nodes: tuple[NodeRegistration, ...]
    topics: int
    topics_to_delete: int
    partitions: Partitions


@click.command("status")
@click.option(
    "--zookeeper", "address", metavar="HOST:PORT[/CHROOT]", required=True, help="The ZooKeeper of the cluster."
)
def command(address: str) -> int:
    """Show controller, brokers, partitions by state and lengths of queues."""
    with zookeeper(address) as ask:
        status = look(ask)
    queues = {node.id: scrape(node) for node in status.nodes}
    _show(status, queues)
    return 0


def look(ask: Callable[[Message], Any]) -> Status:
    """Ask ZooKeeper everything at once; what changes meanwhile may be seen half."""
    controller = ask(GetController(watch=False))
    brokers = ask(GetBrokers(watch=False)).brokers
    topics = ask(GetTopics(watch=False)).topics
    to_delete = ask(GetTopicDeletions(watch=False)).topics
    nodes = ask(GetNodes()).nodes
    return Status(
        controller.broker_id,
        controller.epoch,
        tuple(sorted(brokers, key=lambda broker: broker.id)),
        tuple(sorted(nodes, key=lambda node: node.id)),
        len(topics),
        len(to_delete),
        _partitions(ask, topics, {broker.id for broker in brokers}),
    )


def _partitions(ask: Callable[[Message], Any], topics: tuple[str, ...], alive: set[int]) -> Partitions:
    if not topics:
        return Partitions()
    assigned = {
        TopicPartition(topic, number): assignment.replicas
        for topic, partitions in ask(GetAssignments(topics, watch=False)).topics
        for number, assignment in partitions
    }
    counts: Counter[str] = Counter()
    for partition, state, _ in ask(GetPartitionStates(tuple(assigned))).states:
        if state is None:
            counts["unborn"] += 1
        elif state.leader == NO_LEADER or state.leader not in alive:
            counts["offline"] += 1
        else:
            counts["online"] += 1
            counts["under_replicated"] += len(state.isr) < len(assigned[partition])
    return Partitions(**counts)


def scrape(node: NodeRegistration) -> tuple[tuple[str, float], ...] | str:
    """Lengths of the node's queues, by what waits there; or, in words, why they cannot be had."""
    url = f"http://{node.metrics_host}:{node.metrics_port}/metrics"
    try:
        with urllib.request.urlopen(url, timeout=SCRAPE_SECONDS) as answer:
            return tuple(_queues(answer.read().decode()))
    except (urllib.error.URLError, OSError, ValueError) as error:
        return f"{url} does not answer: {getattr(error, 'reason', error)}"


def _queues(text: str) -> Iterator[tuple[str, float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in QUEUES:
                label = " ".join(value for _, value in sorted(sample.labels.items()))
                yield f"{QUEUES[sample.name]} {label}".strip(), sample.value


def _show(status: Status, queues: dict[int, tuple[tuple[str, float], ...] | str]) -> None:
    out = console()
    controller = "none" if status.controller < 0 else f"node {status.controller}"
    out.print(f"Controller: {controller}, epoch {status.epoch}")
    to_delete = f", {status.topics_to_delete} to delete" if status.topics_to_delete else ""
    out.print(f"Topics: {status.topics}{to_delete}")
    partitions = status.partitions
    unborn = f", not yet led {partitions.unborn}" if partitions.unborn else ""
    out.print(
        f"Partitions: online {partitions.online}, offline {partitions.offline},"
        f" under-replicated {partitions.under_replicated}{unborn}"
    )
    brokers = [
        (
            broker.id,
            ", ".join(f"{each.listener}://{each.host}:{each.port}" for each in broker.endpoints),
            broker.rack or "",
            broker.epoch,
        )
        for broker in status.brokers
    ]
    out.print(table("Brokers", ("id", "endpoints", "rack", "epoch"), brokers))
    nodes = [
        (node.id, ", ".join(node.roles), f"{node.metrics_host}:{node.metrics_port}", _waiting(queues[node.id]))
        for node in status.nodes
    ]
    if nodes:
        out.print(table("Queues", ("node", "roles", "metrics", "waiting"), nodes))


def _waiting(found: tuple[tuple[str, float], ...] | str) -> str:
    return found if isinstance(found, str) else ", ".join(f"{what}: {length:g}" for what, length in found)
