"""Find the shutdown of the whole cluster at the end of a trace, such as the shutdown that ends a test.

Rule: a verdict describes the cluster before its shutdown. During a shutdown the brokers stop one after another, so
partitions lose their leaders. This is not a fault.
"""

from __future__ import annotations

from actors.explain.causes import last_before
from actors.explain.fact_gathering import TraceFacts
from messages.facts.declarations import NodeRun
from messages.trace.endings import KILLED
from messages.trace.schema import STOPPED

TOGETHER = 1.5
"""Seconds between the stops of two brokers of a cluster that is shut down."""


def shutdown_of(facts: TraceFacts) -> float | None:
    """Return when the shutdown of the whole cluster began, in seconds since 1970.

    Returns:
        None if no node stopped, or if the last run of a node has another ending than "stopped" or "killed". Also None
        if a node was killed after the shutdown began.
    """
    last = {node_run.place.node: node_run for node_run in sorted(facts.node_runs, key=lambda node_run: node_run.began)}
    if any(node_run.ending not in (STOPPED, KILLED) for node_run in last.values()):
        return None
    began = None
    for at in sorted(
        (_stopped(facts, node_run) for node_run in last.values() if node_run.ending == STOPPED), reverse=True
    ):
        if began is not None and began - at > TOGETHER:
            break
        began = at
    killed = [node_run.end for node_run in last.values() if node_run.ending == KILLED]
    return None if began is None or max(killed, default=began) > began else began


def _stopped(facts: TraceFacts, node_run: NodeRun) -> float:
    """Return when a broker began to stop, in seconds since 1970."""
    asked = last_before(facts.stops, node_run.place, node_run.place.run)
    return node_run.end if asked is None else asked.place.at
