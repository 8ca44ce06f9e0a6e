"""`kafka-actors status`: print the controller, the live brokers, the partitions by state, and the queue lengths.

Rule 1: The state of the cluster is read from ZooKeeper, also while no broker responds, and other values from the nodes'
        metrics. With --bootstrap-server, or if ZooKeeper is in memory, the state is the Metadata of a broker.
Rule 2: Any client that can write to ZooKeeper can register any metrics address. Metrics are therefore fetched only if
        the address has the host of a registered broker. Redirects are not followed, and the size of a response is
        limited.
Rule 3: The first line is `Health: good`, or `Health: bad` with all problems; bad health is exit code 1.
"""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import click
from prometheus_client.parser import text_string_to_metric_families

from actors.cli.admin_client import client_of, command_config_option
from actors.cli.broker import LOOPBACK
from actors.cli.cluster_file import IN_MEMORY, read_cluster
from actors.cli.display import console, printable, table
from actors.cli.zookeeper import cluster_options
from actors.cli.zookeeper import zookeeper as zookeeper_at
from actors.core.controller.gauges import FAILED_EVENTS
from actors.core.topic.topic_name import INTERNAL_TOPICS
from messages import zookeeper
from messages.apis.metadata import MetadataResponse
from messages.ask import Question
from messages.cluster import NO_LEADER, Broker, Endpoint, TopicPartition, in_url

TIMEOUT_SECONDS = 30.0
UNKNOWN_EPOCH = -1
"""The controller epoch, which no broker returns to a client."""
SCRAPE_SECONDS = 2.0
SCRAPE_BYTES = 1 << 22
SCRAPED_AT_ONCE = 16
MOST_NAMES = 20
"""Maximum number of partition names; the JSON has all."""
WATCH_SECONDS = 2.0
CLEAR = "\x1b[H\x1b[2J"

QUEUES = {
    "kafka_actors_mailbox_size": "mailboxes",
    "kafka_controller_controllereventmanager_eventqueuesize": "controller events",
    "kafka_controller_controllerchannelmanager_queuesize": "requests to broker",
}
"""Metric with a queue length -> its name in the output. A metric with labels is shown per label."""

TRACE_FAILED = "kafka_actors_trace_failed"
"""Metric that is 1 if a node has stopped recording; its label is the reason."""


class NodeMetrics(NamedTuple):
    """The metrics of a node that `status` prints: its queue lengths, and why tracing is off ("" if it is on).

    `failed_events` are the events that the node's controller failed to handle, each with its number of errors.
    `missing` is the reason why the metrics could not be read ("" if they were read).
    """

    queues: tuple[tuple[str, float], ...] = ()
    not_recording: str = ""
    failed_events: tuple[tuple[str, int], ...] = ()
    missing: str = ""


class PartitionStateCounts(NamedTuple):
    """The number of partitions in each state; an under-replicated partition also counts as online."""

    online: int
    offline: tuple[TopicPartition, ...]
    new: tuple[TopicPartition, ...]
    under_replicated: tuple[TopicPartition, ...]


class Status(NamedTuple):
    """The state of a cluster: the content of ZooKeeper, and the metrics by node id.

    `unreadable` are names of unreadable objects: "broker 1", "topic t", "node 2".
    """

    controller: int
    epoch: int
    brokers: tuple[Broker, ...]
    nodes: tuple[zookeeper.NodeRegistration, ...]
    topics: int
    topics_to_delete: int
    partitions: PartitionStateCounts
    unreadable: tuple[str, ...]
    scraped: dict[int, NodeMetrics]

    @property
    def problems(self) -> list[str]:
        """Problems of the cluster, worst first; empty if it is healthy."""
        partitions = self.partitions
        found = [
            (self.controller < 0, "no controller"),
            (len(partitions.offline), f"offline partitions: {len(partitions.offline)}"),
            (len(partitions.new), f"not yet led: {len(partitions.new)}"),
            (len(partitions.under_replicated), f"under-replicated: {len(partitions.under_replicated)}"),
            (len(self.unreadable), f"cannot be read: {', '.join(self.unreadable)}"),
        ]
        silent = [id for id, scraped in self.scraped.items() if scraped.not_recording]
        found += [(True, f"node {id}: {self.scraped[id].not_recording}") for id in silent]
        failing = [(id, *event) for id, scraped in self.scraped.items() for event in scraped.failed_events]
        found += [(True, f"node {id} cannot handle {event} (raised {times}x)") for id, event, times in failing]
        return [words for wrong, words in found if wrong]

    def as_dict(self) -> dict[str, Any]:
        """Return the status as plain values, for JSON."""
        return {
            "health": "bad" if self.problems else "good",
            "problems": self.problems,
            "controller": self.controller if self.controller >= 0 else None,
            "epoch": None if self.epoch == UNKNOWN_EPOCH else self.epoch,
            "topics": self.topics,
            "topics_to_delete": self.topics_to_delete,
            "partitions": {
                "online": self.partitions.online,
                **{name: _names(getattr(self.partitions, name)) for name in PartitionStateCounts._fields[1:]},
            },
            "brokers": [
                {"id": broker.id, "endpoints": _endpoints(broker), "rack": broker.rack, "epoch": broker.epoch}
                for broker in self.brokers
            ],
            "nodes": [
                {
                    "id": node.id,
                    "roles": list(node.roles),
                    "metrics": _metrics(node),
                    "queues": dict(self.scraped[node.id].queues),
                    "not_recording": self.scraped[node.id].not_recording or None,
                    "failed_events": dict(self.scraped[node.id].failed_events),
                    "missing": self.scraped[node.id].missing or None,
                }
                for node in self.nodes
            ],
        }


@click.command("status")
@cluster_options
@command_config_option
@click.option("--json", "as_json", is_flag=True, help="Print the status as one line of JSON.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if the cluster is unhealthy.")
@click.option(
    "--watch",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    is_flag=False,
    flag_value=WATCH_SECONDS,
    help=f"Repeat the status every SECONDS seconds ({WATCH_SECONDS:g} by default), until Ctrl-C.",
)
def command(
    address: str | None,
    directory: Path | None,
    bootstrap_server: str | None,
    as_json: bool,
    exit_zero: bool,
    watch: float | None,
    command_config: Path | None,
) -> int:
    """Show health, controller, brokers, partitions by state, and lengths of the actors' queues.

    If the cluster is unhealthy, the line that begins with Health names the problem, and the exit code is 1 (0 with
    --exit-zero).
    """
    client = client_of(bootstrap_server, directory, address, TIMEOUT_SECONDS, command_config)
    address = str(read_cluster(directory)["zookeeper"]) if directory is not None else address
    with closing(client), ExitStack() as stack:
        ask = None if address in (None, IN_MEMORY) else stack.enter_context(zookeeper_at(address))
        while True:
            status = status_of(client.metadata(None)) if ask is None else read_status(ask)
            if as_json:
                click.echo(json.dumps(status.as_dict()))
            else:
                if watch is not None and console().is_terminal:
                    click.echo(CLEAR, nl=False)
                _show(status)
            if watch is None:
                return int(bool(status.problems) and not exit_zero)
            time.sleep(watch)


def status_of(metadata: MetadataResponse) -> Status:
    """Return the state that a broker knows: it has neither the controller's epoch nor the nodes' metrics."""
    counts: dict[str, list[TopicPartition]] = {"online": [], "offline": [], "under_replicated": []}
    for topic in metadata.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition)
            counts["offline" if each.leader == NO_LEADER else "online"].append(partition)
            if each.leader != NO_LEADER and len(each.isr) < len(each.replicas):
                counts["under_replicated"].append(partition)
    offline, under_replicated = (
        tuple(sorted(counts[name], key=_user_topics_first)) for name in ("offline", "under_replicated")
    )
    brokers = [
        Broker(each.id, (Endpoint("PLAINTEXT", each.host, each.port),), rack=each.rack) for each in metadata.brokers
    ]
    return Status(
        metadata.controller_id,
        UNKNOWN_EPOCH,
        tuple(sorted(brokers, key=lambda broker: broker.id)),
        (),
        len(metadata.topics),
        0,
        PartitionStateCounts(len(counts["online"]), offline, (), under_replicated),
        (),
        {},
    )


def read_status(ask: Callable[[Question[Any]], Any]) -> Status:
    """Read the state from ZooKeeper, and the metrics from the nodes that are registered there.

    The result can be inconsistent if the cluster changes between the reads.
    """
    controller = ask(zookeeper.GetController(watch=False))
    brokers = ask(zookeeper.GetBrokers(watch=False))
    topics = ask(zookeeper.GetTopics(watch=False)).topics
    to_delete = ask(zookeeper.GetTopicDeletions(watch=False)).topics
    nodes = ask(zookeeper.GetNodes())
    partitions, torn = _partitions(ask, topics, {broker.id for broker in brokers.brokers})
    alive = tuple(sorted(brokers.brokers, key=lambda broker: broker.id))
    with ThreadPoolExecutor(SCRAPED_AT_ONCE) as threads:
        scraped = dict(zip((n.id for n in nodes.nodes), threads.map(lambda n: scrape(n, alive), nodes.nodes)))  # noqa: B905
    return Status(
        controller.broker_id,
        controller.epoch,
        alive,
        tuple(sorted(nodes.nodes, key=lambda node: node.id)),
        len(topics),
        len(to_delete),
        partitions,
        (
            *(f"broker {broker_id}" for broker_id in brokers.unreadable),
            *(f"topic {topic}" for topic in torn),
            *(f"node {name}" for name in nodes.unreadable),
        ),
        scraped,
    )


def _partitions(
    ask: Callable[[Question[Any]], Any], topics: tuple[str, ...], alive: set[int]
) -> tuple[PartitionStateCounts, tuple[str, ...]]:
    """Return the number of partitions in each state, and the unreadable topics."""
    if not topics:
        return PartitionStateCounts(0, (), (), ()), ()
    assignments = ask(zookeeper.GetAssignments(topics, watch=False))
    assigned = {
        TopicPartition(topic, number): assignment.replicas
        for topic, partitions, *_ in assignments.topics
        for number, assignment in partitions
    }
    online = 0
    offline, new, under_replicated = [], [], []
    for partition, state, _ in ask(zookeeper.GetPartitionStates(tuple(assigned))).states:
        if state is None:
            new.append(partition)
        elif state.leader == NO_LEADER or state.leader not in alive:
            offline.append(partition)
        else:
            online += 1
            if len(state.isr) < len(assigned[partition]):
                under_replicated.append(partition)
    named = (tuple(sorted(each, key=_user_topics_first)) for each in (offline, new, under_replicated))
    return PartitionStateCounts(online, *named), assignments.unreadable


def _user_topics_first(partition: TopicPartition) -> tuple[bool, TopicPartition]:
    return partition.topic in INTERNAL_TOPICS, partition


# ------------------------------------------------------------------------------------------------ metrics


def scrape(node: zookeeper.NodeRegistration, brokers: tuple[Broker, ...]) -> NodeMetrics:
    """Return the metrics of a node."""
    if not may_fetch_metrics(node, brokers):
        return NodeMetrics(missing=f"{node.metrics_host} is no registered broker's address, so it is not asked")
    try:
        with closing(http.client.HTTPConnection(node.metrics_host, node.metrics_port, SCRAPE_SECONDS)) as link:
            link.request("GET", "/metrics")
            answer = link.getresponse()
            if answer.status != http.HTTPStatus.OK:
                return NodeMetrics(missing=f"{_metrics(node)} answers {answer.status}")
            text = answer.read(SCRAPE_BYTES).decode()
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    except (http.client.HTTPException, OSError, ValueError) as error:
        return NodeMetrics(missing=f"{_metrics(node)} does not answer: {error}")
    failed = [sample.labels.get("reason") for sample in samples if sample.name == TRACE_FAILED and sample.value]
    events = [(sample.labels["event"], int(sample.value)) for sample in samples if sample.name == FAILED_EVENTS]
    return NodeMetrics(
        tuple(_queues(samples)), (failed[0] or "it records nothing, as its log says") if failed else "", tuple(events)
    )


def may_fetch_metrics(node: zookeeper.NodeRegistration, brokers: tuple[Broker, ...]) -> bool:
    """Return whether metrics may be fetched from this node: its metrics host must be a registered broker's host.

    A loopback address is also accepted if the broker of the same node is registered with an address of this machine.
    """
    if node.metrics_host in {endpoint.host for broker in brokers for endpoint in broker.endpoints}:
        return True
    own = [endpoint.host for broker in brokers if broker.id == node.id for endpoint in broker.endpoints]
    return node.metrics_host in LOOPBACK and any(_is_local(host) for host in own)


def _is_local(host: str) -> bool:
    """Return whether a host is an address of this machine: whether a socket can be bound to that address."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as trial:
            trial.bind(address)
        return True
    except OSError:
        return False


def _queues(samples: list[Any]) -> Iterator[tuple[str, float]]:
    for sample in samples:
        if sample.name in QUEUES:
            label = " ".join(value for _, value in sorted(sample.labels.items()))
            yield f"{QUEUES[sample.name]} {label}".strip(), sample.value


# ------------------------------------------------------------------------------------------------- output


def _show(status: Status) -> None:
    out = console()
    problems = printable("; ".join(status.problems))
    out.print(f"Health: {f'bad: {problems}' if problems else 'good'}")
    controller = "none" if status.controller < 0 else f"node {status.controller}"
    epoch = "" if status.epoch == UNKNOWN_EPOCH else f", controller epoch {status.epoch}"
    out.print(f"Controller: {controller}{epoch}")
    to_delete = f", {status.topics_to_delete} to delete" if status.topics_to_delete else ""
    out.print(f"Topics: {status.topics}{to_delete}")
    partitions = status.partitions
    new = f", not yet led {len(partitions.new)}" if partitions.new else ""
    out.print(
        f"Partitions: online {partitions.online}, offline {len(partitions.offline)},"
        f" under-replicated {len(partitions.under_replicated)}{new}"
    )
    for word, named in (("Offline", partitions.offline), ("Under-replicated", partitions.under_replicated)):
        if named:
            more = f" and {len(named) - MOST_NAMES} more" if len(named) > MOST_NAMES else ""
            out.print(f"{word}: {printable(', '.join(_names(named[:MOST_NAMES])))}{more}")
    brokers = [(b.id, ", ".join(_endpoints(b)), b.rack or "", b.epoch) for b in status.brokers]
    out.print(table("Brokers", ("id", "endpoints", "rack", "broker epoch"), brokers))
    nodes = [(n.id, ", ".join(n.roles), _metrics(n), _waiting(status.scraped[n.id])) for n in status.nodes]
    if nodes:
        out.print(table("Queues", ("node", "roles", "metrics", "waiting"), nodes))


def _names(partitions: tuple[TopicPartition, ...]) -> list[str]:
    return [f"{partition.topic}-{partition.partition}" for partition in partitions]


def _endpoints(broker: Broker) -> list[str]:
    return [f"{each.listener}://{each.host}:{each.port}" for each in broker.endpoints]


def _metrics(node: zookeeper.NodeRegistration) -> str:
    return f"http://{in_url(node.metrics_host)}:{node.metrics_port}/metrics"


def _waiting(scraped: NodeMetrics) -> str:
    return scraped.missing or ", ".join(f"{what}: {length:g}" for what, length in scraped.queues)
