"""Sections of a summary about traffic: ZooKeeper requests, client requests, records, and latencies."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from spark.questions import INTERNAL
from spark.questions.handling import percentile

ASKED = ("StoreRead", "StoreWrite")


def replies(delivered: DataFrame) -> DataFrame:
    """List each request to ZooKeeper: run, node, type, items, ms (from the request to its answer; null: no answer)."""
    asked = delivered.where(f.col("type").isin(*ASKED))
    asked = asked.select("run", "node", "type", "correlation", "items", f.col("at").alias("asked_at"))
    back = delivered.where(f.col("type") == "StoreReply").groupBy("run", "correlation")
    answered = back.agg(f.min(f.col("at") - f.col("waited")).alias("answered_at"))
    took = ((f.col("answered_at") - f.col("asked_at")) * 1000).alias("ms")
    return asked.join(answered, ["run", "correlation"], "left").select("run", "node", "type", "items", took)


def zookeeper(replies: DataFrame) -> DataFrame:
    """Summarise the durations of requests to ZooKeeper by node and type.

    Returns:
        node, type (a StoreWrite is one transaction), count, items (operations, or paths read or watched), p50_ms,
        p99_ms, longest_ms.
    """
    return (
        replies.groupBy("node", "type")
        .agg(
            f.count("*").alias("count"),
            f.sum("items").alias("items"),
            percentile("ms", 0.5).alias("p50_ms"),
            percentile("ms", 0.99).alias("p99_ms"),
            f.max("ms").alias("longest_ms"),
        )
        .orderBy("node", "type")
    )


def latencies(durations: dict[str, tuple[DataFrame, str]]) -> DataFrame:
    """Return a histogram of the durations of each kind.

    Returns:
        kind, upto_ms (powers of two), count.
    """
    each = [frame.select(f.lit(kind).alias("kind"), "ms") for kind, (frame, _) in durations.items()]
    bucket = f.pow(f.lit(2.0), f.greatest(f.ceil(f.log2("ms")), f.lit(-4))).alias("upto_ms")
    counted = reduce(DataFrame.unionAll, each).where(f.col("ms") > 0).groupBy("kind", bucket)
    return counted.agg(f.count("*").alias("count")).orderBy("kind", "upto_ms")


def clients(answers: DataFrame) -> DataFrame:
    """Time the requests that nodes answered, by node and type.

    Returns:
        node, request, count, p50_ms, p99_ms, longest_ms (a fetch may wait for records on purpose).
    """
    grouped = answers.groupBy("node", f.regexp_replace("request", "Request$", "").alias("request")).agg(
        f.count("*").alias("count"),
        percentile("ms", 0.5).alias("p50_ms"),
        percentile("ms", 0.99).alias("p99_ms"),
        f.max("ms").alias("longest_ms"),
    )
    return grouped.orderBy("node", "request")


def records(delivered: DataFrame) -> DataFrame:
    """Count records by partition and by the node that led the partition at that time.

    Returns:
        topic, partition, node, batches, records, bytes (produced), read_bytes (to consumers and followers), share (of
        all bytes produced), seconds (from the first batch to the last), records_per_s; internal topics last, most bytes
        first, so that hot partitions and brokers come first.
    """
    moved = delivered.where(f.col("type").isin("AppendBatches", "LogRead"))
    state = f.element_at("states", 1)
    appended = f.col("type") == "AppendBatches"
    grouped = moved.groupBy(
        state.getField("topic").alias("topic"), state.getField("partition").alias("partition"), "node"
    ).agg(
        f.coalesce(f.sum("batches"), f.lit(0)).alias("batches"),
        f.coalesce(f.sum(f.when(appended, f.col("items"))), f.lit(0)).alias("records"),
        f.coalesce(f.sum(f.when(appended, f.col("bytes"))), f.lit(0)).alias("bytes"),
        f.coalesce(f.sum(f.when(~appended, f.col("bytes"))), f.lit(0)).alias("read_bytes"),
        (f.max(f.when(appended, f.col("at"))) - f.min(f.when(appended, f.col("at")))).alias("seconds"),
    )
    busy = grouped.where((f.col("bytes") > 0) | (f.col("read_bytes") > 0))
    share = f.try_divide("bytes", f.sum("bytes").over(Window.partitionBy(f.lit(0))))
    rate = f.when(f.col("seconds") > 0, f.col("records") / f.col("seconds"))
    shown = busy.withColumn("share", share).withColumn("records_per_s", rate)
    columns = ("topic", "partition", "node", "batches", "records", "bytes", "read_bytes", "share", "seconds")
    return shown.select(*columns, "records_per_s").orderBy(
        f.col("topic").startswith(INTERNAL), f.desc("bytes"), f.desc("read_bytes"), "topic", "partition"
    )
