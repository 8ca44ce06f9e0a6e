"""The section of a summary about transactions: their states, and how long they and their markers took.

Rule 1: a transaction begins when the coordinator appends the first change that adds partitions. A request that the
        coordinator rejects begins no transaction. Examples are a request of a fenced producer, and a request that
        arrives while markers are being written.
Rule 2: a transaction is decided when the coordinator sends its markers. A coordinator that loads a decided transaction
        sends the markers again.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from spark.questions.handling import percentile

BEGUN, DECIDED, MARKED = "AddToTransaction", "SendMarkers", "PartitionsMarked"
COORDINATOR, MARKERS = "TransactionsActor", "TransactionMarkersActor"


def transactions(delivered: DataFrame) -> DataFrame:
    """Count and time transactions by transactional id.

    Returns:
        transactional_id, committed, aborted, ongoing (not decided when the trace ends), prepared (how many of the
        committed and aborted transactions still have partitions without the marker when the trace ends), p50_ms and
        longest_ms (from the first partition to the decision), markers_p50_ms, markers_p99_ms and markers_longest_ms
        (from the decision until all partitions have the marker), resent (how often a new coordinator sent markers
        again).
    """
    is_decided, is_marked = f.col("decided_at").isNotNull(), f.col("marked") >= f.col("partitions")
    ms = (f.col("decided_at") - f.col("began_at")) * 1000
    markers_ms = f.when(is_marked, (f.col("marked_at") - f.col("decided_at")) * 1000)
    grouped = (
        _each(delivered)
        .groupBy("transactional_id")
        .agg(
            f.count_if(is_decided & f.col("commit")).alias("committed"),
            f.count_if(is_decided & ~f.col("commit")).alias("aborted"),
            f.count_if(~is_decided).alias("ongoing"),
            f.count_if(is_decided & ~is_marked).alias("prepared"),
            percentile(ms, 0.5).alias("p50_ms"),
            f.max(ms).alias("longest_ms"),
            percentile(markers_ms, 0.5).alias("markers_p50_ms"),
            percentile(markers_ms, 0.99).alias("markers_p99_ms"),
            f.max(markers_ms).alias("markers_longest_ms"),
            f.sum(f.greatest(f.col("decisions") - 1, f.lit(0))).alias("resent"),
        )
    )
    return grouped.orderBy("transactional_id")


def _each(delivered: DataFrame) -> DataFrame:
    """List the transactions, each identified by its transactional id and its number within that id."""
    kind = f.col("type")
    appended = delivered.where((kind == "AppendBatches") & f.col("sender").startswith(COORDINATOR))
    accepted = appended.select("run", f.col("cause").alias("n"))
    # Requests that the coordinator rejects append nothing, and begin no transaction (rule 1).
    begun = delivered.where(kind == BEGUN).join(accepted, ["run", "n"], "left_semi")
    decided = delivered.where((kind == DECIDED) & (f.col("actor") == MARKERS))
    columns = ("at", "n", "type", "items", "transactions")
    steps = begun.select(*columns).unionAll(decided.select(*columns))
    steps = steps.unionAll(delivered.where(kind == MARKED).select(*columns))
    events = steps.select("at", "n", "type", "items", f.explode("transactions").alias("txn")).select("*", "txn.*")

    order = Window.partitionBy("transactional_id").orderBy("at", "n")
    earlier = order.rowsBetween(Window.unboundedPreceding, -1)
    before = f.last(f.when(kind != MARKED, kind), ignorenulls=True).over(earlier)
    is_new = (kind == BEGUN) & (f.coalesce(before, f.lit(DECIDED)) == DECIDED)
    numbered = events.withColumn("is_new", is_new).withColumn("number", f.count_if("is_new").over(order))

    def time_of(step: str) -> Column:
        return f.when(kind == step, f.col("at"))

    found = numbered.groupBy("transactional_id", "number").agg(
        f.min(time_of(BEGUN)).alias("began_at"),
        f.min(time_of(DECIDED)).alias("decided_at"),
        f.max(time_of(MARKED)).alias("marked_at"),
        f.max("commit").alias("commit"),
        f.count_if(kind == DECIDED).alias("decisions"),
        f.max(f.when(kind == DECIDED, f.col("items"))).alias("partitions"),
        f.coalesce(f.sum(f.when(kind == MARKED, f.col("items"))), f.lit(0)).alias("marked"),
    )
    return found.where(f.col("began_at").isNotNull() | f.col("decided_at").isNotNull())
