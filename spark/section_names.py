"""The names of a summary's sections, which the command line imports without Spark."""

from __future__ import annotations

import os
from typing import NamedTuple

COMPARED = "compared"
"""The question that needs a second folder."""


class SummaryQuestion(NamedTuple):
    """The name and title of a section of a summary; each section answers one question.

    `brief`: the summary has the section if the user selects no sections. `of_logs`: the section can also be computed
    from the logs of Apache Kafka brokers.
    """

    name: str
    title: str
    brief: bool = False
    of_logs: bool = False


SECTIONS = (
    SummaryQuestion("runs", "Runs", brief=True, of_logs=True),
    SummaryQuestion("episodes", "Failed and stopped brokers", brief=True, of_logs=True),
    SummaryQuestion("unavailable", "Partitions without a leader", brief=True, of_logs=True),
    SummaryQuestion("messages", "Messages by actor and type", brief=True),
    SummaryQuestion("events", "Controller events", brief=True, of_logs=True),
    SummaryQuestion("requests", "Requests to brokers", brief=True),
    SummaryQuestion("elections", "Elections of a controller", brief=True, of_logs=True),
    SummaryQuestion("leadership", "Leaders over time", brief=True, of_logs=True),
    SummaryQuestion("leaderless", "Times without a leader", brief=True, of_logs=True),
    SummaryQuestion("out_of_isr", "Replicas out of the ISR", brief=True, of_logs=True),
    SummaryQuestion("round_trips", "Round trips to brokers"),
    SummaryQuestion("leader_elections", "Leader elections", of_logs=True),
    SummaryQuestion("isr_churn", "ISR changes", of_logs=True),
    SummaryQuestion("deletions", "Topics deleted", of_logs=True),
    SummaryQuestion("reassignments", "Partitions reassigned", of_logs=True),
    SummaryQuestion("zookeeper", "Requests to ZooKeeper"),
    SummaryQuestion("clients", "Requests of clients"),
    SummaryQuestion("records", "Records by partition"),
    SummaryQuestion("transactions", "Transactions"),
    SummaryQuestion("failures", "Failures", of_logs=True),
    SummaryQuestion("faults", "Injected faults"),
    SummaryQuestion("handled", "Controller events in order"),
    SummaryQuestion("queue", "Queues over time"),
    SummaryQuestion("latencies", "Latencies"),
    SummaryQuestion("fan_out", "Messages caused by a message"),
    SummaryQuestion("chains", "From an event to its last LeaderAndIsr"),
    SummaryQuestion("actors", "Messages between actors"),
    SummaryQuestion(COMPARED, "Against the other folder"),
)
"""The questions in their order. `spark.summary.QUESTIONS` has the function of each, which needs Spark."""

TITLES = {each.name: each.title for each in SECTIONS}
BRIEF = tuple(each.name for each in SECTIONS if each.brief)
LOGGED = tuple(each.name for each in SECTIONS if each.of_logs)

MASTER = "local[*]"
SUBMITTED = "spark-submit's"
"""The master of spark-submit, if it has started this process."""


def is_local(master: str) -> bool:
    """Return whether the master's workers run in the driver's own process."""
    return master.startswith("local[")


def default_master() -> str:
    """Return the default Spark master: SUBMITTED if spark-submit started this process, else MASTER."""
    return SUBMITTED if "PYSPARK_GATEWAY_PORT" in os.environ else MASTER
