"""`kafka-actors up`: run a cluster on this machine in the foreground, or in the background with --detach."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import shlex
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from actors.cli.app import FAILED, PROGRAM, CommandFailed
from actors.cli.broker import metrics_host_option, of_metrics, override_option, ui_options, ui_warning
from actors.cli.cluster_file import CLIENT_PROPERTIES, IN_MEMORY
from actors.cli.display import console, table
from actors.cli.extras import need
from actors.cli.local_cluster import COMMAND, OWN_SETTINGS, LocalCluster, exit_reason
from actors.cli.node_log import CLUSTER_LOG
from actors.cli.up_in_memory import run_in_memory
from actors.node.cluster_security import BROKER, DEFAULT_MECHANISM, ClusterSecurity
from actors.node.free_ports import HOST, free_ports, refusal
from actors.node.properties import write_properties
from actors.node.settings import ANY_ADDRESS, settings_of, zookeeper_places
from actors.public.operations import MECHANISMS, PROTOCOLS, ClusterError
from messages.ask import AskFailed
from messages.client_quotas import sanitize
from messages.cluster import in_url
from zk_bridge.embedded import jar_sources

WATCH_SECONDS = 0.2
CHECKS_PER_TRACE = 25
"""Number of process checks between two checks of the recordings."""
COLUMNS = ("node", "address", "process", "log")
WITHOUT_JARS = (
    "Or, on Debian and Ubuntu: apt-get install --no-install-recommends libzookeeper-java\n"
    "Or run the cluster without Java, all nodes in one process: kafka-actors up --zookeeper memory\n"
    "Or name a ZooKeeper that runs: kafka-actors up --zookeeper HOST:PORT"
)
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command("up")
@click.option("--brokers", type=click.IntRange(1, 1000), default=3, show_default=True, help="Number of nodes.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False),
    help="The folder for data, logs and traces; an existing cluster continues with its data.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    metavar="BASE",
    help="Base port: node N listens on this port plus N; 0 selects free ports.",
)
@click.option(
    "--zookeeper",
    metavar="HOST:PORT[/CHROOT]",
    help="Use this ZooKeeper instead of an embedded one; `memory`: simulate ZooKeeper, without Java, and run all nodes"
    " in this process.",
)
@click.option(
    "--host",
    metavar="HOST",
    default=HOST,
    show_default=True,
    help="The address on which nodes listen for clients; 0.0.0.0 for containers and other machines.",
)
@click.option(
    "--advertised-host", metavar="HOST", help="Name or address by which clients reach the nodes; by default --host."
)
@click.option(
    "--protocol",
    metavar="VERSION",
    help="inter.broker.protocol.version of every node: 2.6, 2.7 or 2.8. By default 2.8 for a new folder; an existing"
    " one keeps its version.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON when the cluster is ready.")
@click.option("--restart", is_flag=True, help="Restart nodes whose process ended.")
@click.option(
    "--security",
    type=click.Choice(PROTOCOLS),
    help="Security protocol of the listeners, with throw-away certificates. DIR/client.properties has the client"
    " settings of the administrator, DIR/NAME.properties those of each user.",
)
@click.option("--mechanism", type=click.Choice(MECHANISMS), help=f"SASL mechanism; {DEFAULT_MECHANISM} by default.")
@click.option("--user", "users", multiple=True, metavar="NAME", help="Create a user with a random password.")
@click.option("--authorize", is_flag=True, help="Demand ACLs; only the administrator may add the first.")
@metrics_host_option
@ui_options
@override_option("Set a Kafka setting in the server.properties of every node. May be repeated.")
@click.option(
    "--detach", is_flag=True, help="Return when the cluster is ready. Stop it with `kafka-actors down --dir DIR`."
)
def command(
    brokers: int,
    directory: str | None,
    port: int,
    zookeeper: str | None,
    host: str,
    advertised_host: str | None,
    protocol: str | None,
    as_json: bool,
    restart: bool,
    security: str | None,
    mechanism: str | None,
    users: tuple[str, ...],
    authorize: bool,
    metrics_host: str | None,
    ui: int | None,
    ui_host: str,
    overrides: dict[str, str],
    detach: bool,
) -> int:
    """Run a cluster on this machine until it is interrupted: one ZooKeeper, and one process for each node.

    Every node is a broker and a candidate for controller. Ctrl-C or SIGTERM stops all of them cleanly. To start a dead
    node again, use `kafka-actors start NODE --dir DIR`. With --zookeeper memory, the whole cluster runs in one process.
    """
    if port + brokers - 1 > 65535:
        raise click.BadParameter(
            f"{brokers} nodes need ports {port} to {port + brokers - 1}, but the highest possible port is 65535."
            " Choose a lower port.",
            param_hint="--port",
        )
    in_memory = zookeeper == IN_MEMORY
    if in_memory and restart:
        raise click.UsageError("--restart cannot be combined with --zookeeper memory: all nodes are in one process")
    if in_memory and metrics_host is not None:
        raise click.UsageError("--metrics-host cannot be combined with --zookeeper memory, which serves no metrics")
    if security is None and (mechanism or users or authorize):
        raise click.UsageError("--mechanism, --user and --authorize need --security")
    if zookeeper is not None and zookeeper_places(zookeeper.partition("/")[0]) is None:
        raise click.BadParameter(f"'{zookeeper}' does not have the form host:port[/chroot]", param_hint="--zookeeper")
    if host in ANY_ADDRESS and advertised_host is None:
        raise click.UsageError(
            f"clients cannot connect to --host {host}. Set --advertised-host to a name or address of this machine."
        )
    advertised_host = advertised_host or host
    overrides |= of_metrics(metrics_host)
    if protocol is not None:
        overrides["inter.broker.protocol.version"] = protocol
    _check(overrides)
    if zookeeper is None and not jar_sources():
        need("zookeeper", "An embedded ZooKeeper", WITHOUT_JARS)
    ports = [port + number for number in range(brokers)] if port else free_ports(brokers)
    if reason := refusal(ports):
        raise CommandFailed(f"{reason}. Choose other ports with --port.")
    place = Path(directory or tempfile.mkdtemp(prefix="kafka-actors-")).absolute()
    if security is None and (place / CLIENT_PROPERTIES).exists():
        raise CommandFailed(f"{place} is the folder of a secured cluster: give --security, or choose another folder")
    secured = None
    if security is not None:
        passwords = {user: secrets.token_urlsafe(16) for user in users}
        try:
            acls: list[dict[str, Any]] | None = [] if authorize else None
            secured = ClusterSecurity(place, security, mechanism, passwords, acls, (host, advertised_host))
        except ClusterError as error:
            raise CommandFailed(str(error)) from error
        address = in_url(advertised_host)
        _write_client_properties(place, ",".join(f"{address}:{port}" for port in ports), secured)
    if detach:
        line = _in_background(place / "up.log")
        if line is not None:
            click.echo(line, nl=False) if as_json else _show(json.loads(line), detached=True)
            return 0

    def ready(description: dict[str, Any]) -> None:
        if as_json or detach:
            click.echo(json.dumps(description))
        else:
            _show(description)

    if ui is not None and (warning := ui_warning(ui_host, "see the cluster, and break it")):
        _complain(warning)
    page = None if ui is None else (ui_host, ui)
    if in_memory:
        run_in_memory(place, ports, overrides, STOP_SIGNALS, ready, host, advertised_host, secured, page)
        _complain(f"stopped {brokers} nodes; data is in {place}/node-*/data, traces in {place}/trace")
        return 0
    cluster = LocalCluster(place, ports, zookeeper, overrides, host, advertised_host, secured)
    stopping = threading.Event()
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: stopping.set())
    code = 0
    with cluster.running(stopping.is_set, _complain):
        if not stopping.is_set():
            with cluster.page(page):
                ready(cluster.description(os.getpid()))
                code = _watch(cluster, stopping, restart)
        _complain("stopping")
    what = f"{brokers} nodes" if cluster.server is None else f"{brokers} nodes and ZooKeeper"
    traces = overrides.get("trace.dir", f"{place}/node-*/data.trace")
    _complain(f"stopped {what}; data is in {place}/node-*/data, traces in {traces}; `up` on this folder continues it")
    return code


def _write_client_properties(place: Path, servers: str, security: ClusterSecurity) -> None:
    """Write the properties of clients into the cluster's folder: those of the administrator, and of each user."""
    place.mkdir(parents=True, exist_ok=True)
    for user in security.users:
        file = place / (CLIENT_PROPERTIES if user == BROKER else f"{sanitize(user)}.properties")
        write_properties(file, security.client_config(user, "java", servers))


def _check(overrides: dict[str, str]) -> None:
    """Check the overrides before the start, and print warnings; raise SettingsError or click.BadParameter."""
    for name in OWN_SETTINGS:
        if name in overrides:
            raise click.BadParameter(
                f"{name} cannot be overridden: `up` sets it for each node. Remove this override.",
                param_hint="--override",
            )
    own = {"broker.id": "0", "zookeeper.connect": HOST, "listeners": f"PLAINTEXT://{HOST}:1"}
    for warning in settings_of({**own, **overrides}).warnings:
        _complain(warning)


def _watch(cluster: LocalCluster, stopping: threading.Event, restart: bool) -> int:
    """Report dead nodes and ended recordings until a signal; return the exit code."""
    dead: set[int] = set()
    not_recording: dict[int, str] = {}
    for check in itertools.count():
        if stopping.wait(WATCH_SECONDS if check else 0):
            return 0
        if cluster.server is not None and cluster.server.pid is None:
            _complain(f"ZooKeeper died; its log is {cluster.server.log_file}. Stopping.")
            return FAILED
        for node in cluster.nodes:
            code = node.ended
            if code is not None and node.id not in dead:
                dead.add(node.id)
                cluster.write_down(os.getpid())
                _complain(f"node {node.id} died ({exit_reason(code)}); its log is {node.log}")
            wanted = code is not None and (restart or node.request.exists())
            if wanted and _can_restart(lambda node=node: cluster.is_registered(node)):  # type: ignore[misc]
                node.start()
                dead.discard(node.id)
                cluster.write_down(os.getpid())
                _complain(f"node {node.id} started again, process {node.pid}")
        if check % CHECKS_PER_TRACE == 0:
            for id, reason in (found := cluster.not_recording()).items():
                if id not in not_recording:
                    _complain(f"node {id}: {reason}")
            not_recording = found
    return 0


def _can_restart(registered: Callable[[], bool]) -> bool:
    """Return whether a dead node can start again: its registration must have expired with its session."""
    try:
        return not registered()
    except AskFailed:
        return False


def _complain(text: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')} {text}", err=True)


def _show(description: dict[str, Any], detached: bool = False) -> None:
    """Print the table of a ready cluster and commands that the user may try next.

    `description` is the content of cluster.json.
    """
    out = console()
    place, nodes = Path(description["dir"]), description["brokers"]
    in_memory = description["zookeeper"] == IN_MEMORY
    logs = [CLUSTER_LOG if in_memory else f"node-{n['id']}/node.log" for n in nodes]
    rows = [(n["id"], f"{n['host']}:{n['port']}", n["pid"], log) for n, log in zip(nodes, logs, strict=True)]
    out.print(table(f"kafka-actors: {len(nodes)} nodes, all of it in {place}", COLUMNS, rows))
    if "ui" in description:
        out.print(f"Look at it: {description['ui']}")
    script = Path(sys.argv[0] if Path(sys.argv[0]).name == PROGRAM else sys.executable).absolute().with_name(PROGRAM)
    path = f'export PATH={shlex.quote(str(script.parent))}:"$PATH"\n  ' if script.exists() else ""
    us = PROGRAM if path else shlex.join(COMMAND)
    first, factor = nodes[0], min(3, len(nodes))
    properties = place / CLIENT_PROPERTIES
    kcat = f"kcat -b {first['host']}:{first['port']} -L"
    if properties.exists():
        kcat = f'{us} acls --dir "$CLUSTER" --list'
        out.print(f"Client properties of the administrator, in {properties}:\n{properties.read_text('iso-8859-1')}")
    end = f'{us} down --dir "$CLUSTER"    (stops everything)' if detached else ""
    again = (
        ""
        if in_memory
        else f'''
  kill -9 {first["pid"]}    (then look again)
  {us} start {first["id"]} --dir "$CLUSTER"'''
    )
    out.print(
        f"""Try, in {"this" if detached else "another"} terminal:
  {path}export CLUSTER={shlex.quote(str(place))}
  {us} topics --dir "$CLUSTER" --create --topic first \\
    --partitions 6 --replication-factor {factor}
  {us} topics --dir "$CLUSTER" --describe
  {us} status --dir "$CLUSTER"
  {kcat}{again}
At any time, summarise the trace, or replay and verify it:
  {us} summary "$CLUSTER"
  {us} replay "$CLUSTER"
{end or "Ctrl-C stops everything."}"""
    )


def _in_background(log: Path) -> str | None:
    """Fork. In the child, return None; in the parent, return the first line that the child prints.

    The child has its own session and no input, and writes errors to `log`. If this process is interrupted while it
    waits, it ends the child.

    Raises:
        CommandFailed: The child ended before it printed a line; the error text is the child's output in `log`.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    complaints = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    before = os.fstat(complaints).st_size
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        for number, stream in enumerate((os.open(os.devnull, os.O_RDONLY), writer, complaints)):
            os.dup2(stream, number)
        return None
    os.close(writer)
    os.close(complaints)
    try:
        with os.fdopen(reader) as lines:
            line = lines.readline()
    except BaseException:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
        raise
    if line:
        return line
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    words = log.read_bytes()[before:].decode(errors="replace").strip()
    raise CommandFailed(words.rpartition("Error: ")[2] or f"it ended with {code} before it was ready; its log is {log}")
