"""Run one of our brokers and one of Apache's, each with its own ZooKeeper, and compare their responses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from messages.apis.alter_client_quotas import AlterClientQuotasResponse
from messages.apis.create_topics import CreateTopicsResponse
from messages.apis.describe_client_quotas import DescribeClientQuotasResponse
from messages.apis.describe_configs import DescribeConfigsResponse
from messages.apis.elect_leaders import ElectLeadersResponse
from messages.apis.metadata import MetadataRequest
from tests.cluster.java_tools import run_tool
from tests.cluster.processes import ApacheBroker, OurNode, free_ports
from tests.waiting import until
from tests.wire_client import WireClient
from tests.zookeeper_client import PatientZooKeeperClient
from zk_bridge.embedded import EmbeddedZooKeeper

SERVER = "{server}"
"""Placeholder for the broker's address in a tool's arguments."""
FETCH_MAX_BYTES = 50_000
"""`fetch.max.bytes` of the brokers that several files share."""


@attrs.frozen
class Both:
    """Apache's broker and ours: their ports and the addresses of their ZooKeepers, each with Apache's first."""

    jars: Path
    ports: tuple[int, int]
    zookeepers: tuple[str, str]
    apaches_log: Path

    def answers(self, request: Any) -> list[Any]:
        """Return the response of each broker to the request, Apache's first, with unordered lists sorted."""
        found = []
        for port in self.ports:
            with WireClient("127.0.0.1", port) as client:
                found.append(_sorted(client.call(request)))
        return found

    def say(self, tool: str, *arguments: str) -> list[tuple[int, str]]:
        """Run Kafka's tool against each broker, and return its exit codes and standard outputs, Apache's first.

        The tool receives the address as --bootstrap-server, unless an argument contains SERVER.
        """
        return [self._run(port, tool, *arguments) for port in self.ports]

    def theirs(self, tool: str, *arguments: str) -> tuple[int, str]:
        """Run Kafka's tool against Apache's broker, and return its exit code and standard output."""
        return self._run(self.ports[0], tool, *arguments)

    def _run(self, port: int, tool: str, *arguments: str) -> tuple[int, str]:
        if not any(SERVER in argument for argument in arguments):
            arguments = ("--bootstrap-server", SERVER, *arguments)
        done = run_tool(self.jars, tool, *(each.replace(SERVER, f"127.0.0.1:{port}") for each in arguments))
        return done.returncode, done.stdout


def _sorted(response: Any) -> Any:
    """Return the response with its settings or elections sorted: Apache's broker sends them in a hash map's order."""
    match response:
        case CreateTopicsResponse(topics):
            lists = [attrs.evolve(each, configs=_by_name(each.configs)) for each in topics]
            return attrs.evolve(response, topics=tuple(lists))
        case ElectLeadersResponse(topics):
            found = ((topic.name, tuple(sorted(topic.partitions, key=str))) for topic in topics)
            return attrs.evolve(response, topics=tuple(sorted(found)))
        case AlterClientQuotasResponse(entries):
            altered = tuple(attrs.evolve(each, entity=_by_text(each.entity)) for each in entries)
            return attrs.evolve(response, entries=altered)
        case DescribeClientQuotasResponse(entries=(*entries,)):
            quotas = (
                attrs.evolve(each, entity=_by_text(each.entity), values=_by_text(each.values)) for each in entries
            )
            return attrs.evolve(response, entries=_by_text(quotas))
        case DescribeConfigsResponse(results):
            lists = [attrs.evolve(each, configs=_by_name(each.configs)) for each in results]
            return attrs.evolve(response, results=tuple(lists))
    return response


def _by_text(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(sorted(values, key=str))


def _by_name(configs: tuple[Any, ...] | None) -> tuple[Any, ...]:
    return tuple(sorted(configs or (), key=lambda config: config.name))


@contextmanager
def both_running(place: Path, apache_jars: Path, **settings: object) -> Iterator[Both]:
    """Run both brokers with these settings while the context is open."""
    servers = [EmbeddedZooKeeper(place / f"zookeeper-{name}", force_sync=False) for name in ("apache", "ours")]
    for server in servers:
        server.start()
    theirs, ours = (f"127.0.0.1:{server.port}" for server in servers)
    ports = tuple(free_ports(2))
    running = [
        ApacheBroker(apache_jars, place / "apache", 0, ports[0], theirs, **settings),
        OurNode(place / "ours", 0, ports[1], ours, **settings),
    ]
    try:
        for connect in (theirs, ours):
            with PatientZooKeeperClient.opened(connect) as zk:
                until(lambda zk=zk: zk.exists("/brokers/ids/0") and zk.exists("/controller"), what="up", timeout=90)
        made = Both(apache_jars, (ports[0], ports[1]), (theirs, ours), running[0].log)
        known = MetadataRequest(8, ())  # until the first UpdateMetadata, both refuse requests
        until(
            lambda: [(answer.controller_id, len(answer.brokers)) for answer in made.answers(known)],
            lambda reported: reported == [(0, 1)] * 2,
            what="both know their cluster",
            timeout=60,
            ignore=(OSError,),
        )
        yield made
    finally:
        for process in running:
            process.kill()
        for server in servers:
            server.stop()
