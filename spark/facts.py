"""Spark data frames that several sections of a summary use; each is computed when it is first needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from messages.facts.trace_facts import TraceFacts
from spark.columns import DELIVERIES, MALFORMED
from spark.pack import Manifest
from spark.questions import comparison, controller, failovers, traffic


def _of_deliveries(find: Callable[[DataFrame], DataFrame]) -> cached_property[DataFrame]:
    """Return an attribute of `Facts`: what the function returns for the deliveries."""
    return cached_property(lambda facts: find(facts.delivered))


class Facts:
    """The records of the traces below a folder as Spark data frames, and their facts."""

    def __init__(
        self,
        records: DataFrame,
        manifest: Manifest,
        find: Callable[[], TraceFacts],
        before: Facts | None = None,
    ) -> None:
        self.records = records
        self.before = before
        """The records of the folder for comparison."""
        self.manifest = manifest
        self._find = find
        self.delivered = records.where(records.kind.isin(*DELIVERIES))
        """The deliveries of all nodes, as `spark.columns` has them."""
        self.events = tuple(dict.fromkeys(event for run in manifest.runs for event in run.events))
        """The names of the controller's event classes, from the headers of the traces."""

    @cached_property
    def runs(self) -> DataFrame:
        """One row for each run: node, run, deliveries (last delivery's number), first_at, last_at, ending, detail."""
        seen = self.records.where(self.records.kind != MALFORMED)
        grouped = seen.groupBy("node", "run").agg(
            f.max("n").alias("deliveries"), f.min("at").alias("first_at"), f.max("at").alias("last_at")
        )
        # Literals, because a data frame made from Python values would start Python workers, which takes longer.
        ending = _found("ending", {run.run: run.ending for run in self.manifest.runs})
        detail = _found("detail", {run.run: run.detail for run in self.manifest.runs})
        return grouped.select("*", ending, detail).orderBy("node", "first_at")

    def records_without_node(self) -> tuple[str, ...]:
        """Return which records belong to no known node; each record of a trace has its node."""
        return ()

    @cached_property
    def facts(self) -> TraceFacts:
        """The facts of all nodes, which this process keeps in memory."""
        return self._find()

    handled = _of_deliveries(controller.events_handled)
    answers = _of_deliveries(controller.answers)
    flights = _of_deliveries(controller.flights)
    replies = _of_deliveries(traffic.replies)
    """What these functions return for the deliveries, as their docstrings describe it."""

    @cached_property
    def durations(self) -> dict[str, tuple[DataFrame, str]]:
        """What is measured: kind -> (data frame with the column `ms`, name of the column that has each row's name)."""
        return {
            "controller events": (self.handled, "event"),
            "requests to brokers": (self.flights, "request"),
            "requests to ZooKeeper": (self.replies, "type"),
            "requests of clients": (self.answers, "request"),
        }

    @cached_property
    def samples(self) -> DataFrame:
        """The measured times, as `comparison.samples` returns them."""
        over = [each.seconds * 1000 for each in failovers.lost_leaders(self.facts) if each.over_at is not None]
        table = pa.table(
            {"name": pa.array(["partitions"] * len(over), pa.string()), "ms": pa.array(over, pa.float64())}
        )
        unled = self.records.sparkSession.createDataFrame(table), "name"
        return comparison.samples(self.durations | {"without a leader": unled}, self.delivered)

    @cached_property
    def compared(self) -> DataFrame:
        """The comparison of the earlier traces with these traces, as `comparison.compare` returns it.

        Without earlier traces, these traces are compared with themselves.
        """
        return comparison.compare((self.before or self).samples, self.samples)


def _found(name: str, by_run: dict[str, str]) -> Column:
    """Return a column `name` with the value that `by_run` has for the row's run."""
    pairs = [f.lit(word) for pair in by_run.items() for word in pair]
    return (f.create_map(*pairs)[f.col("run")] if pairs else f.lit(None)).alias(name)
