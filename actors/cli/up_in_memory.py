"""`kafka-actors up --zookeeper memory`: run all nodes in one process with an in-memory ZooKeeper, without Java.

The rules of `actors.cli.local_cluster` about folders apply, with one exception: a folder cannot be used again. The
in-memory ZooKeeper, and with it the cluster's state, ends with the process.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from actors.cli.app import CommandFailed
from actors.cli.cluster_file import IN_MEMORY, write_cluster
from actors.cli.local_cluster import SESSION_TIMEOUT_MS, only_user_of
from actors.cli.node_log import CLUSTER_LOG, logging_to
from actors.node.cluster_security import ClusterSecurity
from actors.node.free_ports import HOST
from actors.node.memory_cluster import MemoryCluster
from actors.public.operations import ClusterError


def run_in_memory(
    directory: Path,
    ports: Sequence[int],
    overrides: Mapping[str, str],
    stop_signals: Iterable[signal.Signals],
    ready: Callable[[dict[str, Any]], None],
    host: str = HOST,
    advertised_host: str | None = None,
    security: ClusterSecurity | None = None,
    page: tuple[str, int] | None = None,
) -> int:
    """Run a cluster in `directory` until a signal stops it, and return the exit code.

    Args:
        security: The security of the listeners; None if they are PLAINTEXT.
        ready: Function that receives the content of cluster.json when the cluster is ready.
        host: Address on which nodes listen for clients.
        advertised_host: Name or address by which clients reach them; None means `host`.
        page: Host and port of the page; None if there is none.

    Raises:
        CommandFailed: The cluster cannot start.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with only_user_of(directory):
        with logging_to(directory / CLUSTER_LOG):
            try:
                seconds = SESSION_TIMEOUT_MS / 1000
                cluster = MemoryCluster(directory, ports, overrides, seconds, host, advertised_host, security=security)
                asyncio.run(_run(cluster, stop_signals, ready, page))
            except ClusterError as error:
                raise CommandFailed(str(error)) from error
    return 0


async def _run(
    cluster: MemoryCluster,
    stop_signals: Iterable[signal.Signals],
    ready: Callable[[dict[str, Any]], None],
    page: tuple[str, int] | None,
) -> None:
    stopping = asyncio.Event()
    for number in stop_signals:
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    started, served = False, None
    try:
        await cluster.start()
        started, description = True, _description(cluster, os.getpid())
        if page is not None:
            from actors.page.controls import MemoryControls
            from actors.page.live import LivePage

            served = LivePage(str(cluster.directory), [cluster.trace_dir], MemoryControls(cluster), *page)
            description["ui"] = served.url
        write_cluster(cluster.directory, description)
        ready(description)
        await stopping.wait()
    finally:
        if served is not None:
            await asyncio.to_thread(served.stop)
        await cluster.stop()
        if started:  # otherwise keep the cluster.json of an earlier cluster in this folder
            write_cluster(cluster.directory, _description(cluster, None))


def _description(cluster: MemoryCluster, pid: int | None) -> dict[str, Any]:
    """Return the content of cluster.json; all nodes have the same process id."""
    brokers = [{**node, "pid": pid} for node in cluster.nodes]
    return {"zookeeper": IN_MEMORY, "dir": str(cluster.directory), "pid": pid, "brokers": brokers}
