"""`kafka-actors start NODE --dir DIR`: start a stopped node of a running cluster."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import click

from actors.cli.app import CommandFailed
from actors.cli.cluster_file import read_cluster
from actors.cli.local_cluster import LOOK_SECONDS, START_SECONDS, BrokerProcess, of_cluster, runner
from actors.node.memory_cluster import NodePorts

NOTICED_SECONDS = 2.0
"""Seconds within which `up` detects that a node has died."""


@click.command("start")
@click.argument("node", type=int)
@of_cluster
def command(node: int, directory: Path) -> int:
    """Restart a stopped node of a running `kafka-actors up` cluster.

    The node starts as soon as its previous ZooKeeper session has expired.
    """
    if runner(directory) is None:
        raise CommandFailed(f"no cluster is running in {directory}. Start it with `kafka-actors up --dir {directory}`.")
    if not _wait(lambda: _process(directory, node) is None, NOTICED_SECONDS):
        raise CommandFailed(f"node {node} is already running (process {_process(directory, node)})")
    entry = BrokerProcess(node, NodePorts(0, 0), directory / f"node-{node}")
    entry.request.touch()
    if not _wait(lambda: _process(directory, node) is not None, START_SECONDS):
        entry.request.unlink(missing_ok=True)
        raise CommandFailed(f"node {node} was not started within {START_SECONDS:.0f} s; its log is {entry.log}")
    click.echo(f"node {node} started again, process {_process(directory, node)}; its log is {entry.log}")
    return 0


def _process(directory: Path, node: int) -> int | None:
    """Return a node's process id in cluster.json, None for a dead node; raise CommandFailed for an unknown node."""
    processes: dict[int, int | None] = {each["id"]: each["pid"] for each in read_cluster(directory)["brokers"]}
    if node not in processes:
        raise CommandFailed(f"the cluster in {directory} has no node {node}; it has {', '.join(map(str, processes))}")
    return processes[node]


def _wait(done: Callable[[], bool], seconds: float) -> bool:
    """Wait at most `seconds` until `done` returns true; return whether it did."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_SECONDS)
    return True
