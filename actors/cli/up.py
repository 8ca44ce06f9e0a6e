"""`kafka-actors up`: a cluster on this machine, in the foreground."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import click

from actors.cli.app import FAILED, PROGRAM, Failed
from actors.cli.display import console, table
from actors.cli.local_cluster import HOST, LocalCluster, busy, free_ports, how_it_ended
from actors.node.settings import zookeeper_places
from messages.conversation import AskFailed

WATCH_SECONDS = 0.2
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command("up")
@click.option("--brokers", type=click.IntRange(1, 1000), default=3, show_default=True, help="How many nodes.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False),
    help="Where data, logs and traces go; continued if it exists.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    metavar="BASE",
    help="Node i listens on BASE + i; 0 takes free ports.",
)
@click.option("--zookeeper", metavar="HOST:PORT[/CHROOT]", help="Use this ZooKeeper instead of an embedded one.")
@click.option("--json", "as_json", is_flag=True, help="When ready, print one line of JSON instead of a table.")
@click.option("--restart", is_flag=True, help="Start a node again that died.")
def command(brokers: int, directory: str | None, port: int, zookeeper: str | None, as_json: bool, restart: bool) -> int:
    """Run a cluster on this machine until it is interrupted: a ZooKeeper and a process for each node.

    Every node is a broker and a candidate for controller. All stop cleanly on Ctrl-C or SIGTERM.
    """
    if port + brokers - 1 > 65535:
        raise click.BadParameter(f"there are no {brokers} ports from {port} on", param_hint="--port")
    if zookeeper is not None and zookeeper_places(zookeeper.partition("/")[0]) is None:
        raise click.BadParameter(f"'{zookeeper}' should be host:port[/chroot]", param_hint="--zookeeper")
    ports = [port + number for number in range(brokers)] if port else free_ports(brokers)
    if taken := busy(ports):
        raise Failed(f"in use on {HOST}: port {', '.join(map(str, taken))}; choose others with --port")

    stopping = threading.Event()
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: stopping.set())
    place = Path(directory or tempfile.mkdtemp(prefix="kafka-actors-")).absolute()
    cluster = LocalCluster(place, ports, zookeeper)
    with cluster.running(stopping.is_set, _complain):
        if stopping.is_set():
            return 0
        if as_json:
            click.echo(json.dumps(cluster.description()))
        else:
            _show(cluster)
        return _watch(cluster, stopping, restart)


def _watch(cluster: LocalCluster, stopping: threading.Event, restart: bool) -> int:
    """Report what dies until told to stop; the exit code."""
    dead: set[int] = set()
    while not stopping.wait(WATCH_SECONDS):
        if cluster.server is not None and cluster.server.pid is None:
            _complain(f"ZooKeeper died; its log is {cluster.server.log_file}. Stopping.")
            return FAILED
        for node in cluster.nodes:
            code = node.ended
            if code is not None and node.id not in dead:
                dead.add(node.id)
                _complain(f"node {node.id} died ({how_it_ended(code)}); its log is {node.log}")
            if restart and code is not None and _gone(lambda node=node: cluster.registered(node)):  # type: ignore[misc]
                node.start()
                dead.discard(node.id)
                _complain(f"node {node.id} started again, process {node.pid}")
    return 0


def _gone(registered: Callable[[], bool]) -> bool:
    """Whether a dead node can start again: not before its registration has gone with its session."""
    try:
        return not registered()
    except AskFailed:
        return False


def _complain(text: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')} {text}", err=True)


def _show(cluster: LocalCluster) -> None:
    """The table of a ready cluster, and what to try."""
    out = console()
    rows = [(node.id, f"{HOST}:{node.port}", node.pid, node.log) for node in cluster.nodes]
    title = f"kafka-actors: {len(cluster.nodes)} nodes, ZooKeeper {cluster.zookeeper}"
    out.print(table(title, ("node", "address", "process", "log"), rows))
    first = cluster.nodes[0]
    us = sys.argv[0] if Path(sys.argv[0]).name == PROGRAM else f"{sys.executable} -m actors.cli"
    topics = f"{us} topics --zookeeper {cluster.zookeeper}"
    out.print(
        f"""Try, in another terminal:
  {topics} --create --topic first --partitions 6 --replication-factor {min(3, len(cluster.nodes))}
  {topics} --describe
  {us} status --zookeeper {cluster.zookeeper}
  kcat -b {HOST}:{first.port} -L
  kill -9 {first.pid}    (then look again)
Afterwards, or now: what every actor was told, and the proof that the record is complete
  {us} summary {cluster.directory}
  {us} replay {cluster.directory}
Ctrl-C stops everything."""
    )
