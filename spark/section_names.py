"""The names of a summary's sections, which the command line imports without Spark."""

from __future__ import annotations

import os

COMPARED = "compared"
"""The question for which there must be another folder."""

TITLES = {
    "runs": "Runs",
    "episodes": "Failed and stopped brokers",
    "unavailable": "Partitions without a leader",
    "messages": "Messages by actor and type",
    "events": "Controller events",
    "requests": "Requests to brokers",
    "elections": "Elections of a controller",
    "leadership": "Leaders over time",
    "round_trips": "Round trips to brokers",
    "leader_elections": "Leader elections",
    "isr_churn": "ISR changes",
    "deletions": "Topics deleted",
    "reassignments": "Partitions reassigned",
    "zookeeper": "Requests to ZooKeeper",
    "clients": "Requests of clients",
    "records": "Records by partition",
    "failures": "Failures",
    "handled": "Controller events in order",
    "queue": "Queues over time",
    "latencies": "Latencies",
    "fan_out": "Messages caused by a message",
    "chains": "From an event to its last LeaderAndIsr",
    "actors": "Messages between actors",
    COMPARED: "Against the other folder",
}
"""The questions by name, in their order, each with the title of its answer; `spark.summary` has the questions."""

BRIEF = ("runs", "episodes", "unavailable", "messages", "events", "requests", "elections", "leadership")
"""What is asked where nothing is chosen."""

LOGGED = (
    *("runs", "episodes", "unavailable", "events", "elections", "leadership", "leader_elections", "isr_churn"),
    *("deletions", "reassignments", "failures"),
)
"""What logs can be asked."""

MASTER = "local[*]"
SUBMITTED = "spark-submit's"
"""The master that spark-submit was given, where that has started us."""


def is_local(master: str) -> bool:
    """Whether the master's workers are this machine's, in the driver's own process."""
    return master.startswith("local[")


def default_master() -> str:
    """The master where none is named."""
    return SUBMITTED if "PYSPARK_GATEWAY_PORT" in os.environ else MASTER
