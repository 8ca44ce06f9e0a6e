"""Read the trace of a cluster from Python: deliveries, facts, causes and states.

    from kafka_actors import trace

    recorded = trace.open("cluster.trace")
    for delivery in recorded.deliveries():
        print(delivery.time, delivery.node, delivery.message)
    recorded.at(4711, node=2).state("ControllerActor")

This module imports internal packages into this process, which `import kafka_actors` alone does not do.
"""

from __future__ import annotations

from pathlib import Path

from actors.trace.explanation import TraceAnswer, TraceExplanation, TraceFact, TraceLine
from actors.trace.moment import ActorNotFound, Moment, NotReplayable
from actors.trace.reader import MissingExtra, Trace, TraceDelivery, TraceRun, open_trace
from messages.trace.errors import TraceError
from messages.trace.files.errors import Damaged, NotATrace

__all__ = [
    "Damaged",
    "MissingExtra",
    "Moment",
    "ActorNotFound",
    "NotReplayable",
    "NotATrace",
    "Trace",
    "TraceAnswer",
    "TraceDelivery",
    "TraceError",
    "TraceExplanation",
    "TraceFact",
    "TraceLine",
    "TraceRun",
    "open",
]


def open(folder: str | Path) -> Trace:
    """Open all traces below a folder; the cluster may still be running.

    Args:
        folder: A node's `trace.dir`, or a folder that contains several of them, such as `KafkaCluster.trace_dir`.

    Returns:
        A `Trace` of all recorded runs, with methods that return deliveries, facts, states and explanations.

    Raises:
        NotATrace: The folder does not exist, is a file, or contains no recorded run.
    """
    return open_trace(folder)
