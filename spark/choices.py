"""What a summary can be asked for, known without Spark, which takes seconds to import and to start."""

from __future__ import annotations

import os

COMPARED = "compared"
"""The question for which there must be another folder."""

TITLES = {
    "runs": "Runs",
    "episodes": "Brokers that were gone",
    "unavailable": "Partitions without a leader",
    "messages": "Messages by actor and type",
    "events": "Controller events",
    "requests": "Requests to brokers",
    "elections": "Elections of a controller",
    "leadership": "Leaderships",
    "round_trips": "Round trips to brokers",
    "leader_elections": "Leaders elected",
    "isr_churn": "Changes of ISRs",
    "deletions": "Topics deleted",
    "reassignments": "Partitions reassigned",
    "zookeeper": "Requests to ZooKeeper",
    "clients": "Requests of clients",
    "records": "Records by partition",
    "failures": "Failures",
    "handled": "Controller events in order",
    "queue": "Queues over time",
    "latencies": "How long things take",
    "fan_out": "What deliveries cause",
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
