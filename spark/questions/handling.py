"""Sections of a summary: the messages that each actor handled, how long they waited, and how long handling took."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

MOMENTS = 240
"""Maximum number of intervals in a figure over time; each lasts at least a second."""
PRECISE = 1000
"""The accuracy of percentiles: the error is at most a thousandth of the rows."""


def percentile(column: str | Column, share: float) -> Column:
    """Return an approximate percentile of a column, for example the median for `share` 0.5, in bounded memory."""
    return f.percentile_approx(column, share, PRECISE)


def who() -> Column:
    """Return a column with the receiver's actor class, or the address of an external endpoint.

    Each request from outside the actors has its own address, which contains a number. The numbers are removed, so that
    these addresses count as one endpoint.
    """
    actor = f.when(f.col("actor") == "", f.col("receiver")).otherwise(f.col("actor"))
    return _without_number(actor)


def _without_number(address: Column) -> Column:
    return f.regexp_replace(address, r"^(outside:request(er)?)\.\d+$", "$1")


def messages(delivered: DataFrame) -> DataFrame:
    """Measure the handling times of deliveries by actor class and message type.

    Returns:
        actor, type, count, failed, seconds (of handling), longest_ms and p99_ms (of one delivery), waited_s (in the
        queue, summed), waited_p99_ms; most handling time first.
    """
    grouped = delivered.groupBy(who().alias("actor"), "type").agg(
        f.count("*").alias("count"),
        f.count_if("failed").alias("failed"),
        f.sum("took").alias("seconds"),
        (f.max("took") * 1000).alias("longest_ms"),
        (percentile("took", 0.99) * 1000).alias("p99_ms"),
        f.sum("waited").alias("waited_s"),
        (percentile("waited", 0.99) * 1000).alias("waited_p99_ms"),
    )
    return grouped.orderBy(f.desc("seconds"), "actor", "type")


def actors(delivered: DataFrame) -> DataFrame:
    """Count the messages between actors of each two classes.

    Returns:
        sender, receiver (classes of actors), count. The largest count is first.
    """
    sender = _without_number(f.regexp_replace("sender", r"^(\w+)\.\d+$", "$1"))
    counted = delivered.where(f.col("sender") != "").groupBy(sender.alias("sender"), who().alias("receiver"))
    return counted.agg(f.count("*").alias("count")).orderBy(f.desc("count"), "sender", "receiver")


def queue(delivered: DataFrame) -> DataFrame:
    """Measure a node's queue over time.

    Returns:
        at (begin of an interval), node, depth (the largest number of waiting messages), waited_ms (the longest wait of
        one message).
    """
    span = delivered.agg(f.min("at").alias("first"), f.max("at").alias("last"))
    width = f.greatest(f.lit(1.0), (f.col("last") - f.col("first")) / MOMENTS)
    came = delivered.select(
        "run", "node", (f.col("at") - f.col("waited")).alias("at"), f.lit(1).alias("step"), "waited"
    )
    went = delivered.select("run", "node", "at", f.lit(-1).alias("step"), "waited")
    in_time = Window.partitionBy("run").orderBy("at", "step")
    now = f.sum("step").over(in_time)
    depths = came.unionAll(went).withColumn("depth", f.greatest(now, now - f.col("step")))
    moment = f.col("first") + f.floor((f.col("at") - f.col("first")) / width) * width
    cut = depths.crossJoin(f.broadcast(span)).select("node", moment.alias("at"), "depth", "waited")
    grouped = cut.groupBy("at", "node").agg(f.max("depth").alias("depth"), (f.max("waited") * 1000).alias("waited_ms"))
    return grouped.orderBy("at", "node")


def failures(delivered: DataFrame) -> DataFrame:
    """Count failed transmissions and exceptions of handlers.

    Returns:
        node, actor, type, error, count, first_at, last_at.
    """
    failed = delivered.where(f.col("error").isNotNull())
    grouped = failed.groupBy("node", who().alias("actor"), "type", f.substring("error", 1, 200).alias("error")).agg(
        f.count("*").alias("count"), f.min("at").alias("first_at"), f.max("at").alias("last_at")
    )
    return grouped.orderBy(f.desc("count"), "node", "actor", "type", "error")


def faults(delivered: DataFrame) -> DataFrame:
    """List faults that tests injected, in order of time: node, fault, count (of records), first_at, last_at."""
    injected = delivered.where(f.col("type").isin("FaultInjected", "NodeFaultInjected"))
    grouped = injected.groupBy("node", f.col("subject").alias("fault")).agg(
        f.count("*").alias("count"), f.min("at").alias("first_at"), f.max("at").alias("last_at")
    )
    return grouped.orderBy("first_at", "node", "fault")
