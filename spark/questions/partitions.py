"""Sections of a summary about partitions and topics over time: ISRs, elections, deletions, reassignments."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark.questions.chains import given
from spark.questions.controller import sent
from spark.questions.failovers import is_internal


def isr_churn(states: DataFrame, delivered: DataFrame) -> DataFrame:
    """Count changes of ISRs by partition.

    Args:
        states: As `failovers.replaced` returns them.
        delivered: Deliveries of all nodes. The deliveries of a leader show the ISRs that the leader requested. The
            deliveries of a controller show the ISRs that ZooKeeper stored.

    Returns:
        topic, partition, shrunk, grown, shrunk_by_controller (because a broker died or left, or a reassignment removed
        a replica), first_at, last_at; internal topics last, most changes first.
    """
    led = delivered.where(f.col("type") == "ChangeIsr")
    by_leader = led.select("at", "items", f.explode("states").alias("state")).select(
        *("state.topic", "state.partition", "at"),
        (f.col("items") < 0).cast("int").alias("shrunk"),
        (f.col("items") > 0).cast("int").alias("grown"),
        f.lit(0).alias("by_controller"),
    )
    changed = states.where(f.col("updated") & f.col("isr_before").isNotNull())
    shrunk = f.size(f.array_except("isr_before", "isr")) > 0
    by_controller = changed.select(
        *("topic", "partition", "at"),
        shrunk.cast("int").alias("shrunk"),
        (f.size(f.array_except("isr", "isr_before")) > 0).cast("int").alias("grown"),
        shrunk.cast("int").alias("by_controller"),
    ).where((f.col("shrunk") > 0) | (f.col("grown") > 0))
    grouped = (
        by_leader.unionByName(by_controller)
        .groupBy("topic", "partition")
        .agg(
            f.sum("shrunk").alias("shrunk"),
            f.sum("grown").alias("grown"),
            f.sum("by_controller").alias("shrunk_by_controller"),
            f.min("at").alias("first_at"),
            f.max("at").alias("last_at"),
        )
    )
    return grouped.orderBy(is_internal(), f.desc("shrunk"), f.desc("grown"), "topic", "partition")


def leader_elections(states: DataFrame, delivered: DataFrame) -> DataFrame:
    """Count elected leaders by the event that elected them.

    Args:
        states: As `failovers.replaced` returns them.
        delivered: Deliveries of all nodes.

    Returns:
        event (null if unknown), node, count, clean (the leader was in the replaced ISR), unclean. If `states` come from
        logs of brokers, a replaced ISR may be unknown. Such an election is in `count`, but not in `clean` or `unclean`.
        A partition's first leader is not counted.
    """
    key = ["topic", "partition", "leader", "leader_epoch"]
    chosen = states.where(f.col("updated") & (f.col("leader") >= 0) & (f.col("leader_before") != f.col("leader")))
    ordered = chosen.join(_orders(delivered), key, "left")
    clean = f.array_contains("isr_before", f.col("leader"))
    grouped = ordered.groupBy("event", "node").agg(
        f.count("*").alias("count"),
        f.count_if(clean).alias("clean"),
        f.count_if(~clean).alias("unclean"),
    )
    return grouped.orderBy(f.desc("count"), "event", "node")


def _orders(delivered: DataFrame) -> DataFrame:
    """List each leadership that a controller sent in LeaderAndIsr requests, and the event that caused it."""
    each = given(delivered).select("n", "event", f.explode("states").alias("state")).select("n", "event", "state.*")
    return each.groupBy("topic", "partition", "leader", "leader_epoch").agg(f.min_by("event", "n").alias("event"))


def deletions(delivered: DataFrame) -> DataFrame:
    """List deleted topics in order of time.

    Args:
        delivered: Deliveries of all nodes, as `spark.columns` has them.

    Returns:
        topic, queued_at (when the deletion was requested), stopped_at (when a StopReplica request last named a replica
        of the topic), stops (how often StopReplica requests named its replicas), gone_at (when its znode was removed;
        null: not in the traces), seconds (from queued_at to gone_at).
    """
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
    """List reassigned partitions in order of time.

    Args:
        delivered: Deliveries of all nodes, as `spark.columns` has them.

    Returns:
        topic, partition, began_at (the first request with replicas to add or remove), adding, removing, ended_at (the
        first request without such replicas; null: not in the trace), seconds, epochs (number of leader epochs).
    """
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
