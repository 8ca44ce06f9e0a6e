"""Questions about partitions and topics over time: ISRs, elections, deletions, reassignments."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from spark.questions.chains import given
from spark.questions.controller import sent


def isr_churn(delivered: DataFrame) -> DataFrame:
    """How often leaders changed their ISR: topic, partition, shrunk, grown, first_at, last_at; most often first.

    Counted is what a leader set out to write; the controller's own changes (a broker that died) are leaderships.
    """
    asked = delivered.where(f.col("type") == "ChangeIsr")
    each = asked.select("at", "items", f.explode("states").alias("state")).select("at", "items", "state.*")
    grouped = each.groupBy("topic", "partition").agg(
        f.sum(f.when(f.col("items") < 0, 1).otherwise(0)).alias("shrunk"),
        f.sum(f.when(f.col("items") > 0, 1).otherwise(0)).alias("grown"),
        f.min("at").alias("first_at"),
        f.max("at").alias("last_at"),
    )
    return grouped.orderBy(f.desc("shrunk"), f.desc("grown"), "topic", "partition")


def leader_elections(changes: DataFrame, told: DataFrame, delivered: DataFrame) -> DataFrame:
    """Leaders that were elected, by the event in which that was ordered (null: not known): event, node, count, clean
    (the leader was in the ISR sent before), unclean. A partition's first leader is none."""
    before = Window.partitionBy("topic", "partition").orderBy("leader_epoch", "at")
    key = ["topic", "partition", "leader", "leader_epoch"]
    isrs = told.withColumn("isr_before", f.lag("isr").over(before)).groupBy(*key)
    isrs = isrs.agg(f.first("isr_before", ignorenulls=True).alias("isr_before"))
    chosen = changes.where(f.col("before").isNotNull() & (f.col("leader") >= 0)).join(isrs, key, "left")
    ordered = chosen.join(_orders(delivered), key, "left")
    clean = f.array_contains("isr_before", f.col("leader"))
    grouped = ordered.groupBy("event", "node").agg(
        f.count("*").alias("count"),
        f.sum(clean.cast("int")).alias("clean"),
        f.sum((~clean).cast("int")).alias("unclean"),
    )
    return grouped.orderBy(f.desc("count"), "event", "node")


def _orders(delivered: DataFrame) -> DataFrame:
    """Each leadership that a controller ordered, and the event in which it did."""
    each = given(delivered).select("n", "event", f.explode("states").alias("state")).select("n", "event", "state.*")
    return each.groupBy("topic", "partition", "leader", "leader_epoch").agg(f.min_by("event", "n").alias("event"))


def deletions(delivered: DataFrame) -> DataFrame:
    """Topics that were deleted, in order of time: topic, queued_at (the deletion was asked), stopped_at (the last of
    its replicas was ordered to stop), stops (such orders), gone_at (its znode was removed; null: not here), seconds."""
    asked = delivered.where(f.col("topics").isNotNull()).select("at", "type", f.explode("topics").alias("topic"))
    queued = asked.where(f.col("type") == "Ask").groupBy("topic").agg(f.min("at").alias("queued_at"))
    gone = asked.where(f.col("type") == "StoreWrite").groupBy("topic").agg(f.max("at").alias("gone_at"))
    ordered = sent(delivered, "StopReplicaRequest").select("at", f.explode("states.topic").alias("topic"))
    stops = ordered.groupBy("topic").agg(f.max("at").alias("stopped_at"), f.count("*").alias("stops"))
    joined = queued.join(stops, "topic", "left").join(gone, "topic", "left")
    seconds = (f.col("gone_at") - f.col("queued_at")).alias("seconds")
    shown = joined.select(
        "topic", "queued_at", "stopped_at", f.coalesce("stops", f.lit(0)).alias("stops"), "gone_at", seconds
    )
    return shown.orderBy("queued_at", "topic")


def reassignments(delivered: DataFrame) -> DataFrame:
    """Partitions that were moved, in order of time: topic, partition, began_at (a request first had replicas to
    be added or removed), adding, removing, ended_at (first request without; null: not in the trace), seconds, epochs
    (how many leader epochs that took)."""
    orders = sent(delivered, "LeaderAndIsrRequest").select("at", f.explode("states").alias("state"))
    each = orders.select("at", "state.*")
    moving = (f.size("adding") > 0) | (f.size("removing") > 0)
    key = ("topic", "partition")
    began = (
        each.where(moving)
        .groupBy(*key)
        .agg(
            f.min("at").alias("began_at"),
            f.min_by(f.struct("adding", "removing"), "at").alias("target"),
            f.max("at").alias("moving_at"),
            f.min("leader_epoch").alias("first_epoch"),
        )
    )
    still = each.where(~moving).select(*key, f.col("at").alias("told_at"), "leader_epoch")
    after = began.join(still, list(key), "left").where(
        f.col("told_at").isNull() | (f.col("told_at") > f.col("moving_at"))
    )
    ended = after.groupBy(*key).agg(
        f.min("told_at").alias("ended_at"), f.min_by("leader_epoch", "told_at").alias("last_epoch")
    )
    shown = began.join(ended, list(key), "left").select(
        *key,
        "began_at",
        f.array_join(f.col("target.adding"), ",").alias("adding"),
        f.array_join(f.col("target.removing"), ",").alias("removing"),
        "ended_at",
        (f.col("ended_at") - f.col("began_at")).alias("seconds"),
        (f.col("last_epoch") - f.col("first_epoch") + 1).alias("epochs"),
    )
    return shown.orderBy("began_at", *key)
