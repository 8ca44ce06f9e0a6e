"""Questions about failovers: failed nodes, when others noticed, their leaders, and time without a leader.

Rule 1: a broker is gone when a controller reads the list of brokers and misses one that it, or the controller before
        it, had read before; until it is back in a list. It died when its process last did anything, as its own trace
        says: the end of its last run. Where that run goes on when it is back (its session alone had ended), or there is
        none, it counts from when it was seen.
Rule 2: a leader changes when a request with another leader is first sent; a new epoch alone is no change.
Rule 3: a partition has no leader from its leader's failure until the controller first sends the next one.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from spark.questions.controller import CONTROLLER, sent


def told(delivered: DataFrame) -> DataFrame:
    """Each leadership when it was first sent to brokers: at, node, topic, partition, leader (-1: none, -2: being
    deleted), leader_epoch, controller_epoch, isr.

    From LeaderAndIsr and UpdateMetadata requests: of a partition without any live replica only the latter speaks.
    """
    requests = sent(delivered, "LeaderAndIsrRequest", "UpdateMetadataRequest")
    key = ("topic", "partition", "leader", "leader_epoch", "controller_epoch")
    each = requests.select("at", "node", f.explode("states").alias("state")).select("at", "node", "state.*")
    first = each.groupBy(*key).agg(f.min(f.struct("at", "node", "isr")).alias("first"))
    return first.select("first.at", "first.node", *key, "first.isr")


def changes(told: DataFrame) -> DataFrame:
    """The real changes of leadership (rule 2): the columns of `told`, `before` (the leader before, null for the first),
    and `led_at`, from when on the partition had a leader again (null: never)."""
    partition = Window.partitionBy("topic", "partition").orderBy("at", "leader_epoch")
    onwards = partition.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    compared = told.withColumn("before", f.lag("leader").over(partition))
    changed = compared.where(f.col("before").isNull() | (f.col("before") != f.col("leader")))
    return changed.withColumn("led_at", f.min(f.when(f.col("leader") >= 0, f.col("at"))).over(onwards))


def deaths(delivered: DataFrame, lives: DataFrame) -> DataFrame:
    """Who was gone (rule 1): broker, seen_at, seen_by (node), after (the event that led to it: BrokerChange, or
    Elected), until (it was back; null: never), died_at, ending (how its last run did; null: none that ended),
    was_controller. `lives` are the brokers' runs: node, first_at, last_at (null: that is not known), ending."""
    controllers = delivered.where(f.col("actor") == CONTROLLER)
    marks = controllers.where((f.col("type") == "BrokerChange") | f.col("request").isin("Elected", "Brokers"))
    mine, everybody = Window.partitionBy("run").orderBy("n"), Window.partitionBy(f.lit(0)).orderBy("at")
    cause = f.when(f.col("type") == "BrokerChange", f.col("type")).when(f.col("request") == "Elected", f.lit("Elected"))
    won = f.when(f.col("request") == "Elected", f.struct(f.col("at").alias("won_at"), f.col("node").alias("winner")))
    reigns = f.collect_list(won).over(everybody)
    caused = marks.withColumn("after", f.last(cause, ignorenulls=True).over(mine)).withColumn("reigns", reigns)
    lists = caused.where(f.col("brokers").isNotNull())
    compared = lists.withColumn("before", f.lag("brokers").over(everybody))
    gone, back = f.array_except("before", "brokers"), f.array_except("brokers", "before")
    broker = f.explode(f.concat(gone, back)).alias("broker")
    turns = compared.select("at", "node", "after", "reigns", gone.alias("gone"), broker)
    turns = turns.withColumn("until", f.lead("at").over(Window.partitionBy("broker").orderBy("at")))
    seen = turns.where(f.array_contains("gone", f.col("broker"))).select(
        "broker", f.col("at").alias("seen_at"), f.col("node").alias("seen_by"), "after", "until", "reigns"
    )

    before = f.when(f.col("first_at") < f.col("seen_at"), f.col("first_at"))
    last = (
        seen.join(lives.select(f.col("node").alias("broker"), "first_at", "last_at", "ending"), "broker", "left")
        .groupBy(*seen.columns)
        .agg(f.max_by(f.struct("last_at", "ending"), before).alias("life"))
    )
    ended = f.col("until").isNull() | (f.col("life.last_at") < f.col("until"))
    died_at = f.coalesce(f.when(ended, f.least("life.last_at", "seen_at")), "seen_at")
    reigned = f.filter("reigns", lambda reign: reign.won_at <= died_at)
    ruled = f.coalesce(f.get(reigned, f.size(reigned) - 1).winner == f.col("broker"), f.lit(False))
    return last.select(
        *(name for name in seen.columns if name != "reigns"),
        died_at.alias("died_at"),
        f.when(ended, f.col("life.ending")).alias("ending"),
        ruled.alias("was_controller"),
    )


def outages(deaths: DataFrame, changes: DataFrame) -> DataFrame:
    """What each death left without a leader (rule 3): `deaths`, and topic, partition, led_at, next_leader."""
    touched = (
        (f.col("before") == f.col("broker"))
        & (f.col("at") >= f.col("died_at"))
        & (f.col("until").isNull() | (f.col("at") < f.col("until")))
    )
    moved = changes.select("topic", "partition", "before", "at", "led_at", f.col("leader").alias("next_leader"))
    return deaths.join(moved, touched).select(*deaths.columns, "topic", "partition", "led_at", "next_leader")


def episodes(deaths: DataFrame, outages: DataFrame) -> DataFrame:
    """One row per death, in order of time: broker, died_at, ending (how its last run did; null: not in these traces, or
    it goes on), seen_s (after its death), seen_by, after, was_controller, partitions (how many it led), led_again_s
    (the last of them, after the death), still_leaderless (of those, when the traces end), p50_s and p99_s (without a
    leader), partition_seconds (in total)."""
    without = f.col("led_at") - f.col("died_at")
    sums = outages.groupBy("broker", "seen_at").agg(
        f.count("*").alias("partitions"),
        f.count_if(f.col("led_at").isNull()).alias("still_leaderless"),
        f.max("led_at").alias("last_led_at"),
        f.percentile(without, f.lit(0.5)).alias("p50_s"),
        f.percentile(without, f.lit(0.99)).alias("p99_s"),
        f.sum(without).alias("partition_seconds"),
    )
    joined = deaths.join(f.broadcast(sums), ["broker", "seen_at"], "left")  # one row per death at most
    told = joined.fillna(0, ["partitions", "still_leaderless"]).select(
        "broker",
        "died_at",
        "ending",
        (f.col("seen_at") - f.col("died_at")).alias("seen_s"),
        *("seen_by", "after", "was_controller", "partitions"),
        (f.col("last_led_at") - f.col("died_at")).alias("led_again_s"),
        *("still_leaderless", "p50_s", "p99_s", "partition_seconds"),
    )
    return told.orderBy(f.col("died_at") + f.col("seen_s"), "broker")


def leadership(changes: DataFrame) -> DataFrame:
    """The real changes of leadership in order: at, topic, partition, before (null: not known), leader, leader_epoch,
    node (of the controller), controller_epoch."""
    columns = ("at", "topic", "partition", "before", "leader", "leader_epoch", "node", "controller_epoch")
    return changes.select(*columns).orderBy("at", "topic", "partition", "leader_epoch")


def unavailability(outages: DataFrame) -> DataFrame:
    """The partitions that had no leader, those longest without first: topic, partition, windows, seconds (in total),
    longest_s, still_leaderless (without one when the traces end)."""
    without = f.col("led_at") - f.col("died_at")
    return (
        outages.groupBy("topic", "partition")
        .agg(
            f.count("*").alias("windows"),
            f.coalesce(f.sum(without), f.lit(0.0)).alias("seconds"),
            f.coalesce(f.max(without), f.lit(0.0)).alias("longest_s"),
            f.max(f.col("led_at").isNull()).alias("still_leaderless"),
        )
        .orderBy(f.desc("still_leaderless"), f.desc("seconds"), "topic", "partition")
    )
