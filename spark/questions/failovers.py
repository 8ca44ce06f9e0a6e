"""Sections of a summary about failovers: failed nodes, their detection, new leaders, and the time without a leader.

Rule 1: a broker is gone from the time when a controller's list of brokers lacks it, if an earlier list of that
        controller or of the previous controller had it. The broker is gone until a list has it again. The broker's last
        run is the run that registered last before the broker was gone. A process whose registration was refused,
        because another broker had its id, does not count. The broker counts as dead from the time of the last run's
        last record. In three cases, the broker counts as dead only from the time when the list lacked it. (a) The last
        run continues, because only its session had expired. (b) The recording of the last run ended, but its process
        did not. (c) The broker has no run.
Rule 2: a leader changes when a request with another leader is first sent; a new epoch alone is no change.
Rule 3: a partition has no leader from the failure of its leader until the controller first sends the next leader or the
        deletion of the topic to brokers. A topic that is created again has new partitions.
Rule 4: an election is clean if the new leader was in the ISR that the election's write to ZooKeeper replaced. This is
        the ISR that the same controller last read or wrote, because a write succeeds only if the znode still has the
        version that the controller knows.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from spark.questions import INTERNAL
from spark.questions.controller import CONTROLLER, sent

BEING_DELETED = -2
"""The leader in an UpdateMetadata of a topic that is being deleted."""
NO_LEADER = -1
EXAMPLES = 5
"""Maximum number of partitions named in a group."""
ENDS = ("killed", "stopped")
"""Endings of runs that are the end of their process, too."""


def registered(runs: DataFrame, delivered: DataFrame) -> DataFrame:
    """Select the runs that were brokers (rule 1).

    Returns:
        The columns of `runs`, with `first_at` as the time of the first registration in ZooKeeper, or of the first
            record if the start of the run is not recorded.
    """
    named = delivered.where((f.col("request") == "BrokerRegistered") | (f.col("type") == "StartNode"))
    seen = named.groupBy("run").agg(
        f.min(f.when(f.col("request") == "BrokerRegistered", f.col("at"))).alias("registered_at"),
        f.count_if(f.col("type") == "StartNode").alias("starts"),
    )
    joined = runs.join(seen, "run", "left")
    alive = f.when(f.coalesce("starts", f.lit(0)) > 0, f.col("registered_at")).otherwise(f.col("first_at"))
    found = joined.withColumn("first_at", alive).where(f.col("first_at").isNotNull())
    return found.select(*runs.columns)


def sent_states(delivered: DataFrame) -> DataFrame:
    """Find each leadership in LeaderAndIsr and UpdateMetadata requests, and the time when it was first sent.

    Args:
        delivered: Deliveries of all nodes, as `spark.columns` has them.

    Returns:
        at, node, topic, partition, leader (-1: none, -2: being deleted), leader_epoch, controller_epoch, isr. Only
        UpdateMetadata names partitions without a live replica.
    """
    requests = sent(delivered, "LeaderAndIsrRequest", "UpdateMetadataRequest")
    key = ("topic", "partition", "leader", "leader_epoch", "controller_epoch")
    each = requests.select("at", "node", f.explode("states").alias("state")).select("at", "node", "state.*")
    first = each.groupBy(*key).agg(f.min(f.struct("at", "node", "isr")).alias("first"))
    return first.select("first.at", "first.node", *key, "first.isr")


def changes(sent_states: DataFrame) -> DataFrame:
    """Select the real changes of leadership (rule 2).

    Args:
        sent_states: As `sent_states` returns them.

    Returns:
        The columns of `sent_states`, and before (the former leader; null for the first), led_at (when the partition had
        a leader again; null: never), deleted_at (when its deletion was first sent to brokers; null: never).
    """
    named = Window.partitionBy("topic", "partition").orderBy("at", "leader_epoch")
    deleted_before = f.count_if(f.col("leader") == BEING_DELETED).over(named.rowsBetween(Window.unboundedPreceding, -1))
    incarnated = sent_states.withColumn("incarnation", deleted_before)
    partition = Window.partitionBy("topic", "partition", "incarnation").orderBy("at", "leader_epoch")
    onwards = partition.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    compared = incarnated.withColumn("before", f.lag("leader").over(partition))
    changed = compared.where(f.col("before").isNull() | (f.col("before") != f.col("leader")))
    changed = changed.where(f.col("before").isNotNull() | (f.col("leader") != BEING_DELETED))
    led_at = f.min(f.when(f.col("leader") >= 0, f.col("at"))).over(onwards)
    deleted_at = f.min(f.when(f.col("leader") == BEING_DELETED, f.col("at"))).over(onwards)
    return changed.withColumn("led_at", led_at).withColumn("deleted_at", deleted_at).drop("incarnation")


def known(delivered: DataFrame) -> DataFrame:
    """List the states of partitions that a controller read from ZooKeeper or wrote.

    Args:
        delivered: Deliveries of all nodes, as `spark.columns` has them.

    Returns:
        run, node, n, at, updated (true: the state was overwritten; false: it was read or created), topic, partition,
        leader, leader_epoch, isr.
    """
    mail = delivered.where((f.col("actor") == CONTROLLER) & (f.col("type") == "Answer"))
    answered = mail.select(
        *("run", "node", "n", "at", "request", "correlation"),
        f.col("receiver").alias("asker"),
        f.explode("states").alias("state"),
    )
    columns = ("run", "node", "n", "at")
    fields = ("topic", "partition", "leader", "leader_epoch", "isr")
    read = answered.where(f.col("request") == "PartitionStates").select(
        *columns, f.lit(False).alias("updated"), *(f"state.{field}" for field in fields)
    )
    asked = delivered.where((f.col("type") == "Ask") & f.col("request").endswith("PartitionStates"))
    asked = asked.select(
        "run",
        f.col("sender").alias("asker"),
        "correlation",
        (f.col("request") == "UpdatePartitionStates").alias("updated"),
        f.explode("states").alias("state"),
    ).select("run", "asker", "correlation", "updated", *(f"state.{field}" for field in fields))
    taken = answered.where(f.col("request") == "WriteResults").select(
        *columns, "asker", "correlation", "state.topic", "state.partition"
    )
    key = ["run", "asker", "correlation", "topic", "partition"]
    written = taken.join(asked, key).select(*columns, "updated", *fields)
    return read.unionByName(written)


def replaced(known: DataFrame) -> DataFrame:
    """Add the values that each state of `known` replaced: leader_before, isr_before (null: not known; rule 4)."""
    partition = Window.partitionBy("run", "topic", "partition").orderBy("n", "at")
    before = {f"{name}_before": f.lag(name).over(partition) for name in ("leader", "isr")}
    return known.withColumns(before)


def deaths(delivered: DataFrame, node_runs: DataFrame) -> DataFrame:
    """List the brokers that were gone (rule 1).

    Args:
        delivered: Deliveries of all nodes, as `spark.columns` has them.
        node_runs: Runs of brokers: node, first_at, last_at (null if unknown), ending.

    Returns:
        broker, seen_at, seen_by (node), after (the event: BrokerChange or Elected), until (when it was back; null:
        never), died_at, ending (how the broker's last run ended; null if the run continues, if only its recording
        ended, or if no run exists), was_controller.
    """
    controllers = delivered.where(f.col("actor") == CONTROLLER)
    marks = controllers.where((f.col("type") == "BrokerChange") | f.col("request").isin("Elected", "Brokers"))
    mine, all_rows = Window.partitionBy("run").orderBy("n"), Window.partitionBy(f.lit(0)).orderBy("at")
    cause = f.when(f.col("type") == "BrokerChange", f.col("type")).when(f.col("request") == "Elected", f.lit("Elected"))
    won = f.when(f.col("request") == "Elected", f.struct(f.col("at").alias("won_at"), f.col("node").alias("winner")))
    reigns = f.collect_list(won).over(all_rows)
    caused = marks.withColumn("after", f.last(cause, ignorenulls=True).over(mine)).withColumn("reigns", reigns)
    lists = caused.where(f.col("brokers").isNotNull())
    compared = lists.withColumn("before", f.lag("brokers").over(all_rows))
    gone, back = f.array_except("before", "brokers"), f.array_except("brokers", "before")
    broker = f.explode(f.concat(gone, back)).alias("broker")
    turns = compared.select("at", "node", "after", "reigns", gone.alias("gone"), broker)
    turns = turns.withColumn("until", f.lead("at").over(Window.partitionBy("broker").orderBy("at")))
    seen = turns.where(f.array_contains("gone", f.col("broker"))).select(
        "broker", f.col("at").alias("seen_at"), f.col("node").alias("seen_by"), "after", "until", "reigns"
    )

    before = f.when(f.col("first_at") < f.col("seen_at"), f.col("first_at"))
    last = (
        seen.join(node_runs.select(f.col("node").alias("broker"), "first_at", "last_at", "ending"), "broker", "left")
        .groupBy(*seen.columns)
        .agg(f.max_by(f.struct("last_at", "ending"), before).alias("node_run"))
    )
    over = f.coalesce(f.col("node_run.ending").isin(*ENDS), f.lit(True))
    ended = over & (f.col("until").isNull() | (f.col("node_run.last_at") < f.col("until")))
    died_at = f.coalesce(f.when(ended, f.least("node_run.last_at", "seen_at")), "seen_at")
    reigned = f.filter("reigns", lambda reign: reign.won_at <= died_at)
    ruled = f.coalesce(f.get(reigned, f.size(reigned) - 1).winner == f.col("broker"), f.lit(False))
    return last.select(
        *(name for name in seen.columns if name != "reigns"),
        died_at.alias("died_at"),
        f.when(ended, f.col("node_run.ending")).alias("ending"),
        ruled.alias("was_controller"),
    )


def outages(deaths: DataFrame, changes: DataFrame) -> DataFrame:
    """List the partitions that had no leader (rule 3).

    Args:
        deaths: As `deaths` returns them.
        changes: As `changes` returns them.

    Returns:
        The columns of `deaths`, and topic, partition, led_at, next_leader, over_at (when the partition had a leader
        again or was being deleted; null: neither). If the leader did not fail, died_at is the time when the partition
        lost it, and the other columns of `deaths` are null.
    """
    touched = (
        (f.col("before") == f.col("broker"))
        & (f.col("at") >= f.col("died_at"))
        & (f.col("until").isNull() | (f.col("at") < f.col("until")))
    )
    over_at = f.least("led_at", "deleted_at").alias("over_at")
    moved = changes.select(
        "topic", "partition", "before", "at", "led_at", f.col("leader").alias("next_leader"), over_at
    )
    columns = ("topic", "partition", "led_at", "next_leader", "over_at")
    failed = deaths.join(moved, touched).select(*deaths.columns, *columns)
    alone = moved.where(f.col("next_leader") == NO_LEADER).join(deaths, touched, "left_anti")
    return failed.unionByName(alone.select(f.col("at").alias("died_at"), *columns), allowMissingColumns=True)


def leaderless(outages: DataFrame) -> DataFrame:
    """Group the intervals without a leader by failed broker, start and end, in order of time.

    The intervals of a group start in the same tenth of a second, and end in the same tenth of a second.

    Args:
        outages: As `outages` returns them.

    Returns:
        broker (the failed leader; null: no broker failed), lost_at (the earliest start in the group), over_at (the
        latest end in the group; null: not over), partitions (their number), topics (their number), examples (names of
        partitions).
    """
    together = ("broker", _moment("died_at").alias("lost"), _moment("over_at").alias("over"))
    grouped = outages.groupBy(*together).agg(
        f.min("died_at").alias("lost_at"),
        f.max("over_at").alias("over_at"),
        f.count("*").alias("partitions"),
        f.count_distinct("topic").alias("topics"),
        examples(),
    )
    return grouped.drop("lost", "over").orderBy("lost_at", "over_at", "broker")


def out_of_isr(states: DataFrame, changes: DataFrame, delivered: DataFrame) -> DataFrame:
    """List the intervals in which replicas were out of the ISR.

    Each row groups replicas of one broker with the same `by`. Their intervals begin in the same tenth of a second, and
    end in the same tenth of a second.

    The intervals are taken from the states that controllers read or wrote. A replica that leaves the ISR and returns
    before the next controller event is therefore not listed. Replicas that a reassignment removed are not listed
    either.

    Args:
        states: As `replaced` returns them.
        changes: As `changes` returns them.
        delivered: Deliveries of all nodes, as `spark.columns` has them.

    Returns:
        broker (of the replicas), left_at, back_at (when the last of the replicas was back, or when the topic was being
        deleted; null: not back), by (the writer of the ISR: controller or leader), partitions (their number), examples
        (names of partitions). Rows are in order of time.
    """
    key = ["topic", "partition"]
    partition = Window.partitionBy(*key).orderBy("at", "n")
    earlier = partition.rowsBetween(Window.unboundedPreceding, -1)
    compared = states.withColumn("before", f.last("isr", ignorenulls=True).over(earlier))
    left, joined = f.array_except("before", "isr"), f.array_except("isr", "before")
    broker = f.explode(f.concat(left, joined)).alias("broker")
    turns = compared.select(*key, "at", "updated", left.alias("left"), broker)
    turns = turns.withColumn("back_at", f.lead("at").over(Window.partitionBy(*key, "broker").orderBy("at")))
    history = f.sort_array(f.collect_list(f.struct("at", "leader"))).alias("history")
    deleted = f.count_if(f.col("leader") == BEING_DELETED).alias("deleted")
    of_deleted = changes.groupBy(*key).agg(history, deleted).where(f.col("deleted") > 0).drop("deleted")
    orders = sent(delivered, "LeaderAndIsrRequest").select(f.explode("states").alias("state")).select("state.*")
    removed = orders.select(*key, f.explode("removing").alias("broker")).distinct()
    out = turns.where(f.array_contains("left", f.col("broker"))).join(of_deleted, key, "left")
    past = f.filter("history", lambda change: change.at < f.col("at"))
    end = f.filter("history", lambda change: (change.at > f.col("at")) & (change.leader == BEING_DELETED))
    known = out.where(f.coalesce(f.get(past, f.size(past) - 1).leader != BEING_DELETED, f.lit(True)))
    known = known.withColumn("back_at", f.least("back_at", f.get(end, f.lit(0)).at))
    known = known.join(removed, [*key, "broker"], "left_anti")
    by = f.when(f.col("updated"), "controller").otherwise("leader").alias("by")
    grouped = known.groupBy("broker", by, _moment("at").alias("left"), _moment("back_at").alias("back")).agg(
        f.min("at").alias("left_at"), f.max("back_at").alias("back_at"), f.count("*").alias("partitions"), examples()
    )
    columns = ("broker", "left_at", "back_at", "by", "partitions", "examples")
    return grouped.select(*columns).orderBy("left_at", "broker", "back_at")


def examples() -> Column:
    """Return the names of a group's first EXAMPLES partitions; internal topics are last."""
    name = f.concat_ws("-", "topic", "partition").alias("name")
    named = f.slice(f.sort_array(f.collect_set(f.struct(is_internal().alias("internal"), name))), 1, EXAMPLES)
    return f.array_join(named.getField("name"), ", ").alias("examples")


def is_internal() -> Column:
    """Return whether the topic is one of Kafka's own."""
    return f.col("topic").startswith(INTERNAL)


def _moment(column: str) -> Column:
    """Return times in tenths of a second, rounded down, so that rows of nearly the same time are grouped."""
    return f.floor(f.col(column) * 10)


def episodes(deaths: DataFrame, outages: DataFrame) -> DataFrame:
    """Summarise each death, in order of time.

    Args:
        deaths: As `deaths` returns them.
        outages: As `outages` returns them.

    Returns:
        broker, died_at, ending (of the broker's last run; null: the run is not in these traces, or continues), seen_s
        (from the death until a controller noticed it), seen_by (that controller), `after` (the class of the event by
        which the controller noticed it), was_controller, partitions (number that the broker led), led_again_s (from the
        death until the last of these partitions had a leader again), still_leaderless (number of these partitions
        without a leader at the end of the traces), p50_s and p99_s (time without a leader), partition_seconds (total
        time without a leader), back_at (when a controller first saw the broker again; null: never), topics (number of
        the partitions' topics).
    """
    without = f.col("over_at") - f.col("died_at")
    sums = outages.groupBy("broker", "seen_at").agg(
        f.count("*").alias("partitions"),
        f.count_distinct("topic").alias("topics"),
        f.count_if(f.col("over_at").isNull()).alias("still_leaderless"),
        f.max("led_at").alias("last_led_at"),
        f.percentile(without, f.lit(0.5)).alias("p50_s"),
        f.percentile(without, f.lit(0.99)).alias("p99_s"),
        f.sum(without).alias("partition_seconds"),
    )
    joined = deaths.join(f.broadcast(sums), ["broker", "seen_at"], "left")  # `sums` has at most one row per death
    sent_states = joined.fillna(0, ["partitions", "topics", "still_leaderless"]).select(
        "broker",
        "died_at",
        "ending",
        (f.col("seen_at") - f.col("died_at")).alias("seen_s"),
        *("seen_by", "after", "was_controller", "partitions"),
        (f.col("last_led_at") - f.col("died_at")).alias("led_again_s"),
        *("still_leaderless", "p50_s", "p99_s", "partition_seconds"),
        f.col("until").alias("back_at"),
        "topics",
    )
    return sent_states.orderBy(f.col("died_at") + f.col("seen_s"), "broker")


def leadership(changes: DataFrame) -> DataFrame:
    """List the real changes of leadership in order.

    Args:
        changes: As `changes` returns them.

    Returns:
        at, topic, partition, before (null if unknown), leader, leader_epoch, node (of the controller),
        controller_epoch.
    """
    columns = ("at", "topic", "partition", "before", "leader", "leader_epoch", "node", "controller_epoch")
    return changes.select(*columns).orderBy("at", "topic", "partition", "leader_epoch")


def unavailable(outages: DataFrame) -> DataFrame:
    """List the partitions that had no leader at some time.

    Internal topics come last. Of the others, partitions that still have no leader come first. Within each group, the
    order is `seconds`, descending.

    Args:
        outages: As `outages` returns them.

    Returns:
        topic, partition, windows (number of periods without a leader), seconds (total length of the ended periods),
        longest_s (length of the longest ended period), still_leaderless (at the end of the traces), since_at (when the
        partition lost its leader; null: it has a leader).
    """
    without = f.col("over_at") - f.col("died_at")
    return (
        outages.groupBy("topic", "partition")
        .agg(
            f.count("*").alias("windows"),
            f.coalesce(f.sum(without), f.lit(0.0)).alias("seconds"),
            f.coalesce(f.max(without), f.lit(0.0)).alias("longest_s"),
            f.max(f.col("over_at").isNull()).alias("still_leaderless"),
            f.min(f.when(f.col("over_at").isNull(), f.col("died_at"))).alias("since_at"),
        )
        .orderBy(is_internal(), f.desc("still_leaderless"), f.desc("seconds"), "topic", "partition")
    )
