"""Scripts are simulated clients, written as generators that yield requests and pauses.

Rule 1: a script yields (node, request) and receives the response, or None if no response arrives. To pause, it yields a
        number of seconds.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

from actors.simulation.simulated_cluster import Cluster

PATIENCE = 8.0
"""Seconds that a client waits for a response."""

Script = Generator[Any, Any, None]


def run_script(cluster: Cluster, script: Script, received: Any = None) -> None:
    """Run a script to its end; `received` is the response to its most recent request."""
    try:
        wanted = script.send(received)
    except StopIteration:
        return
    if isinstance(wanted, float):
        cluster.scheduler.call_later(wanted, partial(run_script, cluster, script))
    else:
        node, request = wanted
        cluster.ask(node, request, partial(run_script, cluster, script), PATIENCE)
