"""Sections of a summary about effects: the messages that each message caused, and the requests that each event caused.

Rule 1: a trace names the cause of each delivery: the earlier delivery whose handler sent the message.
Rule 2: a chain of causes ends at an external endpoint or another node. From there on, requests are matched by their
        order. A channel sends its messages one by one, so the first LeaderAndIsr that its broker answered is the first
        that the channel received.
Rule 3: a controller handles one event at a time: everything that it sends until the end of an event belongs to this
        event.
Rule 4: a LeaderAndIsr is applied when the broker has responded.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from spark.questions.controller import CHANNEL, sent
from spark.questions.handling import who

ORDER = "LeaderAndIsrRequest"
APART_S = 1.0
"""Maximum difference between the clocks of nodes, in seconds."""


def fan_out(delivered: DataFrame) -> DataFrame:
    """Count the deliveries that messages caused, by the receiver's actor class and the message type.

    Args:
        delivered: Deliveries of all nodes, as `spark.columns` has them.

    Returns:
        actor, type, count (the number of messages), caused (the number of deliveries that these messages caused), most
        (the most deliveries that one message caused), idle (the number of messages that caused none). Rows are sorted
        by `caused`, the largest first.
    """
    children = delivered.where(f.col("cause") > 0).groupBy("run", f.col("cause").alias("n"))
    joined = delivered.join(children.agg(f.count("*").alias("children")), ["run", "n"], "left").fillna(0, ["children"])
    grouped = joined.groupBy(who().alias("actor"), "type").agg(
        f.count("*").alias("count"),
        f.sum("children").alias("caused"),
        f.max("children").alias("most"),
        f.count_if(f.col("children") == 0).alias("idle"),
    )
    return grouped.orderBy(f.desc("caused"), "actor", "type")


def given(delivered: DataFrame) -> DataFrame:
    """List the LeaderAndIsr requests (whole or in parts) that a controller passed to its channels, and their events.

    Rule 3 determines the event of a request.

    Args:
        delivered: Deliveries of all nodes, as `spark.columns` has them.

    Returns:
        run, n, cause, receiver, type, states, given_at (when the request entered the channel's queue), event (null if
        unknown), event_n (the delivery that reports the event's end).
    """
    orders = ("LeaderAndIsrRequest", "LeaderAndIsrPart")
    ours = delivered.where((f.col("actor") == CHANNEL) & f.col("type").isin(*orders) | f.col("event_ms").isNotNull())
    after = Window.partitionBy("run").orderBy("cause", "n").rowsBetween(Window.currentRow, Window.unboundedFollowing)

    def next_event(column: str) -> Column:
        return f.first(f.when(f.col("event_ms").isNotNull(), f.col(column)), ignorenulls=True).over(after)

    attributed = ours.withColumn("event", next_event("subject")).withColumn("event_n", next_event("n"))
    given_at = (f.col("at") - f.col("waited")).alias("given_at")
    columns = ("run", "n", "cause", "receiver", "type", "states")
    return attributed.where(f.col("actor") == CHANNEL).select(*columns, given_at, "event", "event_n")


def chains(delivered: DataFrame, answers: DataFrame) -> DataFrame:
    """Measure the steps from each controller event to its LeaderAndIsr requests that brokers answered.

    Args:
        delivered: Deliveries of all nodes, as `spark.columns` has them.
        answers: As `controller.answers` returns them.

    Returns:
        at (when the event was queued), node, event, broker, queue_ms (until the event began), decide_ms (until the
        channel got the request), channel_ms (until the network got the request), network_ms (both ways), apply_ms (in
        the broker, from the broker's own trace), total_ms, last (whether the response to this request was the last of
        its event). Without a trace of the broker, apply_ms is null, and network_ms includes the time in the broker.
    """
    numbered = Window.partitionBy("run", "receiver").orderBy("n")
    orders = given(delivered).where(f.col("type") == ORDER).withColumn("number", f.row_number().over(numbered))
    handed = sent(delivered, ORDER).where(f.col("type") == "Transmit")
    back = delivered.where((f.col("type") == "Received") & f.col("broker").isNotNull())
    flown = handed.select(
        "run", "n", "channel", "correlation", "broker", f.col("sender").alias("receiver"), f.col("at").alias("sent_at")
    ).join(
        back.select("run", "channel", "correlation", (f.col("at") - f.col("waited")).alias("back_at")),
        ["run", "channel", "correlation"],
    )
    flown = flown.withColumn("number", f.row_number().over(numbered)).drop("n")
    applied = answers.where(f.col("request") == ORDER).select(
        f.col("node").alias("broker"), "correlation", f.col("at").alias("came_at"), f.col("ms").alias("apply_ms")
    )
    near = (f.col("came_at") >= f.col("sent_at") - APART_S) & (f.col("came_at") <= f.col("back_at") + APART_S)
    answered = (
        flown.alias("flown")
        .join(
            applied.alias("applied"),
            (f.col("flown.broker") == f.col("applied.broker"))
            & (f.col("flown.correlation") == f.col("applied.correlation"))
            & near,
            "left",
        )
        .select("flown.*", "apply_ms")
    )
    over = delivered.where(f.col("event_ms").isNotNull())
    began = f.col("at") - f.col("waited") - f.col("event_ms") / 1000
    events = over.select("run", "node", f.col("n").alias("event_n"), began.alias("began_at"), "event_queue_ms")
    joined = orders.join(answered, ["run", "receiver", "number"]).join(events, ["run", "event_n"])
    came = f.col("began_at") - f.col("event_queue_ms") / 1000
    total = (f.col("back_at") - came) * 1000
    flight = (f.col("back_at") - f.col("sent_at")) * 1000
    shown = joined.select(
        came.alias("at"),
        *("node", "event", "broker"),
        f.col("event_queue_ms").alias("queue_ms"),
        ((f.col("given_at") - f.col("began_at")) * 1000).alias("decide_ms"),
        ((f.col("sent_at") - f.col("given_at")) * 1000).alias("channel_ms"),
        (flight - f.coalesce("apply_ms", f.lit(0.0))).alias("network_ms"),
        "apply_ms",
        total.alias("total_ms"),
        (total == f.max(total).over(Window.partitionBy("run", "event_n"))).alias("last"),
    )
    return shown.orderBy("at", "node", f.desc("total_ms"), "broker")
