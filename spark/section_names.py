"""The sections of a summary, which the command line imports without Spark."""

from __future__ import annotations

import os
from typing import NamedTuple

COMPARED = "compared"
"""The question that needs a second folder."""


class SummaryQuestion(NamedTuple):
    """A section of a summary, which answers one question, with its title.

    `module`: the file in `spark/questions` with the function `name`, which takes those attributes of `Facts` that
    its parameters name, and whose docstring describes the columns; "" if `Facts` itself has the answer.
    `brief`: the summary has the section if the user selects no sections. `of_logs`: the section can also be computed
    from the logs of Apache Kafka brokers.
    """

    name: str
    module: str
    title: str
    brief: bool = False
    of_logs: bool = False


SECTIONS = (
    SummaryQuestion("runs", "", "Runs", brief=True, of_logs=True),
    SummaryQuestion("episodes", "failovers", "Failed and stopped brokers", brief=True, of_logs=True),
    SummaryQuestion("unavailable", "failovers", "Partitions without a leader", brief=True, of_logs=True),
    SummaryQuestion("messages", "handling", "Messages by actor and type", brief=True),
    SummaryQuestion("events", "controller", "Controller events", brief=True, of_logs=True),
    SummaryQuestion("requests", "controller", "Requests to brokers", brief=True),
    SummaryQuestion("elections", "failovers", "Elections of a controller", brief=True, of_logs=True),
    SummaryQuestion("leadership", "failovers", "Leaders over time", brief=True, of_logs=True),
    SummaryQuestion("leaderless", "failovers", "Times without a leader", brief=True, of_logs=True),
    SummaryQuestion("out_of_isr", "failovers", "Replicas out of the ISR", brief=True, of_logs=True),
    SummaryQuestion("round_trips", "controller", "Round trips to brokers"),
    SummaryQuestion("leader_elections", "failovers", "Leader elections", of_logs=True),
    SummaryQuestion("isr_churn", "failovers", "ISR changes", of_logs=True),
    SummaryQuestion("deletions", "controller", "Topics deleted", of_logs=True),
    SummaryQuestion("reassignments", "controller", "Partitions reassigned", of_logs=True),
    SummaryQuestion("zookeeper", "traffic", "Requests to ZooKeeper"),
    SummaryQuestion("clients", "traffic", "Requests of clients"),
    SummaryQuestion("records", "traffic", "Records by partition"),
    SummaryQuestion("transactions", "transactions", "Transactions"),
    SummaryQuestion("authentications", "housekeeping", "Failed authentications"),
    SummaryQuestion("cleanings", "housekeeping", "Records that brokers removed"),
    SummaryQuestion("throttles", "housekeeping", "Throttled clients"),
    SummaryQuestion("failures", "handling", "Failures", of_logs=True),
    SummaryQuestion("faults", "handling", "Injected faults"),
    SummaryQuestion("handled", "", "Controller events in order"),
    SummaryQuestion("queue", "handling", "Queues over time"),
    SummaryQuestion("latencies", "traffic", "Latencies"),
    SummaryQuestion("fan_out", "chains", "Messages caused by a message"),
    SummaryQuestion("chains", "chains", "From an event to its last LeaderAndIsr"),
    SummaryQuestion("actors", "handling", "Messages between actors"),
    SummaryQuestion(COMPARED, "", "Against the other folder"),
)
"""The questions in their order."""

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
