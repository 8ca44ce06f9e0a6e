"""Sections of a summary about topics and partitions over time: deletions and reassignments."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark.questions.controller import requests_sent


def deletions(delivered: DataFrame) -> DataFrame:
    """List deleted topics in order of time.

    Returns:
        topic, queued_at (when the deletion was requested), stopped_at (when a StopReplica request last named a replica
        of the topic), stops (how often StopReplica requests named its replicas), gone_at (when its znode was removed;
        null: not in the traces), seconds (from queued_at to gone_at).
    """
    asked = delivered.where(f.col("topics").isNotNull()).select("at", "type", f.explode("topics").alias("topic"))
    queued = asked.where(f.col("type") == "Ask").groupBy("topic").agg(f.min("at").alias("queued_at"))
    gone = asked.where(f.col("type") == "StoreWrite").groupBy("topic").agg(f.max("at").alias("gone_at"))
    ordered = requests_sent(delivered, "StopReplicaRequest").select("at", f.explode("states.topic").alias("topic"))
    stops = ordered.groupBy("topic").agg(f.max("at").alias("stopped_at"), f.count("*").alias("stops"))
    joined = queued.join(stops, "topic", "left").join(gone, "topic", "left")
    seconds = (f.col("gone_at") - f.col("queued_at")).alias("seconds")
    shown = joined.select(
        "topic", "queued_at", "stopped_at", f.coalesce("stops", f.lit(0)).alias("stops"), "gone_at", seconds
    )
    return shown.orderBy("queued_at", "topic")


def reassignments(delivered: DataFrame) -> DataFrame:
    """List reassigned partitions in order of time.

    Returns:
        topic, partition, began_at (the first request with replicas to add or remove), adding, removing, ended_at (the
        first request without such replicas; null: not in the trace), seconds, epochs (number of leader epochs).
    """
    orders = requests_sent(delivered, "LeaderAndIsrRequest").select("at", f.explode("states").alias("state"))
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
    still = each.where(~moving).select(*key, f.col("at").alias("notified_at"), "leader_epoch")
    after = began.join(still, list(key), "left").where(
        f.col("notified_at").isNull() | (f.col("notified_at") > f.col("moving_at"))
    )
    ended = after.groupBy(*key).agg(
        f.min("notified_at").alias("ended_at"), f.min_by("leader_epoch", "notified_at").alias("last_epoch")
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
