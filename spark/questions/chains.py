"""Sections of a summary about effects: the messages that each message caused, and the requests that each event caused.

Rule 1: a trace names the cause of each delivery: the earlier delivery whose handler sent the message.
Rule 2: what a controller sends for an event has the event's id (`event_id`), also in its channels.
Rule 3: a request and the same request in the broker's own trace have the same controller epoch, broker epoch and
        correlation id.
Rule 4: a LeaderAndIsr is applied when the broker has responded.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from spark.questions.controller import CHANNEL, requests_sent
from spark.questions.handling import who

ORDER = "LeaderAndIsrRequest"


def fan_out(delivered: DataFrame) -> DataFrame:
    """Count the deliveries that messages caused, by the receiver's actor class and the message type.

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


def chains(delivered: DataFrame, answers: DataFrame) -> DataFrame:
    """Measure the steps from each controller event to the last LeaderAndIsr request that it caused for each broker.

    Returns:
        at (when the event was queued), node, event, broker, queue_ms (until the event began), decide_ms (until the
        channel got the request), channel_ms (until the network got the request), network_ms (both ways), apply_ms (in
        the broker, from the broker's own trace), total_ms, last (whether the response to this request was the last of
        its event). Without a trace of the broker, apply_ms is null, and network_ms includes the time in the broker.
        Requests without a response are left out.
    """
    of_event = ["run", "event_id", "receiver"]
    given = delivered.where((f.col("actor") == CHANNEL) & (f.col("type") == ORDER))
    orders = given.groupBy(*of_event).agg(f.max(f.col("at") - f.col("waited")).alias("given_at"))
    handed = requests_sent(delivered, ORDER).where(f.col("type") == "Transmit").drop("receiver")
    handed = handed.withColumnRenamed("sender", "receiver")
    request = f.struct("channel", "correlation", "broker", "epoch", "broker_epochs", f.col("at").alias("sent_at"))
    last = handed.groupBy(*of_event).agg(f.max_by(request, "n").alias("request")).select(*of_event, "request.*")
    back = delivered.where((f.col("type") == "Received") & f.col("broker").isNotNull())
    back = back.select("run", "channel", "correlation", (f.col("at") - f.col("waited")).alias("back_at"))
    same = ["broker", "correlation", "epoch", "broker_epochs"]
    applied = answers.where(f.col("request") == ORDER).select(
        f.col("node").alias("broker"), *same[1:], f.col("ms").alias("apply_ms")
    )
    over = delivered.where(f.col("event_ms").isNotNull())
    began = f.col("at") - f.col("waited") - f.col("event_ms") / 1000
    events = over.select(
        *("run", "node", "event_id"), f.col("subject").alias("event"), began.alias("began_at"), "event_queue_ms"
    )
    joined = orders.join(last, of_event).join(back, ["run", "channel", "correlation"])
    joined = joined.join(applied, same, "left").join(events, ["run", "event_id"])
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
        (total == f.max(total).over(Window.partitionBy("run", "event_id"))).alias("last"),
    )
    return shown.orderBy("at", "node", f.desc("total_ms"), "broker")
