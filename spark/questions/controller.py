"""Sections of a summary about controllers: events, requests to brokers, deletions, reassignments, and their times.

Rule: a request counts when the channel sends it to the network. If the channel sends the request again after a failure,
this is a retransmission and is counted separately (controller.md 5: the channel resends until it gets a response).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from spark.questions.handling import percentile

CONTROLLER = "ControllerActor"
CHANNEL = "BrokerChannelActor"
CONTROLLED_SHUTDOWN = "ControlledShutdown"
"""The event that arrives as a forwarded client request."""
REQUESTS = ("LeaderAndIsrRequest", "StopReplicaRequest", "UpdateMetadataRequest")
"""Message types of a controller's requests to brokers."""


def requests_sent(delivered: DataFrame, *requests: str) -> DataFrame:
    """Return the deliveries to the network gateway that contain such a controller request, or a part of one."""
    return delivered.where(f.col("type").isin("Transmit", "ChannelPart") & f.col("request").isin(*requests))


def events(delivered: DataFrame, events: Sequence[str]) -> DataFrame:
    """Count and time controller events by node and type.

    Returns:
        node, type, count, handled (number of completed events). The other columns cover the completed events only:
        seconds (in total), p50_ms, p99_ms, longest_ms, queue_p99_ms (waiting for earlier events), zookeeper (number of
        requests to ZooKeeper; null if not recorded).
    """
    asked = (f.col("type") == "Forwarded") & (f.col("request") == f"{CONTROLLED_SHUTDOWN}Request")
    type_ = f.when(asked, CONTROLLED_SHUTDOWN).otherwise(f.col("type"))
    # Events that a timer starts have no message of their own: only the metrics sent at their end show them.
    over = f.col("event_ms").isNotNull()
    of = f.when(f.col("subject") == f"{CONTROLLED_SHUTDOWN}Request", CONTROLLED_SHUTDOWN).otherwise(f.col("subject"))
    matching = delivered.where(over | (f.col("actor") == CONTROLLER)).withColumn(
        "type", f.when(over, of).otherwise(type_)
    )
    grouped = (
        matching.where(f.col("type").isin(*events, CONTROLLED_SHUTDOWN))
        .groupBy("node", "type")
        .agg(
            f.count_if(~over).alias("came"),
            f.count("event_ms").alias("handled"),
            (f.sum("event_ms") / 1000).alias("seconds"),
            percentile("event_ms", 0.5).alias("p50_ms"),
            percentile("event_ms", 0.99).alias("p99_ms"),
            f.max("event_ms").alias("longest_ms"),
            percentile("event_queue_ms", 0.99).alias("queue_p99_ms"),
            f.sum(f.when(over, f.col("items"))).alias("zookeeper"),
        )
    )
    came, handled = f.nullif("came", f.lit(0)), f.nullif("handled", f.lit(0))
    figures = ("seconds", "p50_ms", "p99_ms", "longest_ms", "queue_p99_ms", "zookeeper")
    counts = (f.coalesce(came, handled).alias("count"), handled.alias("handled"))
    return grouped.select("node", "type", *counts, *figures).orderBy("node", "type")


def events_handled(delivered: DataFrame) -> DataFrame:
    """List the controller events that were handled to their end, in order of time.

    Returns:
        at (when the event began), node, event, ms, queue_ms, zookeeper (number of requests to ZooKeeper).
    """
    over = delivered.where(f.col("event_ms").isNotNull())
    began = f.col("at") - f.col("waited") - f.col("event_ms") / 1000
    shown = over.select(
        began.alias("at"),
        "node",
        f.col("subject").alias("event"),
        f.col("event_ms").alias("ms"),
        f.col("event_queue_ms").alias("queue_ms"),
        f.col("items").alias("zookeeper"),
    )
    return shown.orderBy("at", "node")


def requests(delivered: DataFrame) -> DataFrame:
    """Count a controller's requests.

    Returns:
        node, broker, type, count, partitions (summed over all these requests), retransmissions.
    """
    channel = Window.partitionBy("run", "channel").orderBy("n").rowsBetween(Window.unboundedPreceding, -1)
    outcome = f.when(f.col("type").isin("TransmitFailed", "Received"), f.col("type"))
    mail = delivered.where(f.col("broker").isNotNull() & f.col("channel").isNotNull()).withColumn(
        "again", f.coalesce(f.last(outcome, ignorenulls=True).over(channel) == "TransmitFailed", f.lit(False))
    )
    whole, again = f.col("type") == "Transmit", f.col("again")
    grouped = (
        requests_sent(mail, *REQUESTS)
        .groupBy("node", "broker", f.col("request").alias("type"))
        .agg(
            f.count_if(whole & ~again).alias("count"),
            f.sum(f.when(again, 0).otherwise(f.size("states"))).alias("partitions"),
            f.count_if(whole & again).alias("retransmissions"),
        )
    )
    return grouped.orderBy("node", "broker", "type")


def flights(delivered: DataFrame) -> DataFrame:
    """List the controllers' requests that brokers answered.

    Returns:
        run, node, broker, request, ms (from the request's arrival at the network gateway to the response).
    """
    back = delivered.where((f.col("type") == "Received") & f.col("broker").isNotNull())
    gone = requests_sent(delivered, *REQUESTS).where(f.col("type") == "Transmit")
    gone = gone.select("run", "node", "broker", "channel", "correlation", "request", f.col("at").alias("sent_at"))
    back = back.select("run", "channel", "correlation", (f.col("at") - f.col("waited")).alias("back_at"))
    flight = ((f.col("back_at") - f.col("sent_at")) * 1000).alias("ms")
    return gone.join(back, ["run", "channel", "correlation"]).select("run", "node", "broker", "request", flight)


def round_trips(flights: DataFrame, answers: DataFrame) -> DataFrame:
    """Time a controller's requests by node, broker and type.

    Returns:
        node, broker, type, count, flight_p50_ms, flight_p99_ms, flight_longest_ms, handle_p50_ms and handle_p99_ms
        (the time in the broker, from the broker's own trace; null without that trace).
    """
    flown = flights.groupBy("node", "broker", "request").agg(
        f.count("*").alias("count"),
        percentile("ms", 0.5).alias("flight_p50_ms"),
        percentile("ms", 0.99).alias("flight_p99_ms"),
        f.max("ms").alias("flight_longest_ms"),
    )
    inside = answers.where(f.col("request").isin(*REQUESTS)).groupBy(f.col("node").alias("broker"), "request")
    handled = inside.agg(percentile("ms", 0.5).alias("handle_p50_ms"), percentile("ms", 0.99).alias("handle_p99_ms"))
    joined = flown.join(handled, ["broker", "request"], "left").withColumnRenamed("request", "type")
    figures = ("count", "flight_p50_ms", "flight_p99_ms", "flight_longest_ms", "handle_p50_ms", "handle_p99_ms")
    return joined.select("node", "broker", "type", *figures).orderBy("node", "broker", "type")


def answers(delivered: DataFrame) -> DataFrame:
    """List the requests that a node received and answered.

    Returns:
        run, node, request, correlation, epoch and broker_epochs (of a controller's request), at, ms (from its arrival
        to the response).
    """
    # A client may reuse a correlation id. So a request counts as answered only if the next message with its id, on the
    # same connection, is a response.
    columns = ("run", "node", "n", "at", "waited", "epoch", "broker_epochs")
    alone = delivered.where(f.col("type").isin("ClientRequest", "ClientResponse"))
    together = delivered.where(f.col("type").isin("ClientRequests", "ClientResponses"))
    each = together.select(*columns, f.rtrim("type", f.lit("s")).alias("type"), f.explode("exchanges").alias("each"))
    names = ("connection", "correlation", "request")
    mail = alone.select(*columns, "type", *names).unionAll(each.select(*columns, "type", *(f"each.{n}" for n in names)))
    following = Window.partitionBy("run", "connection", "correlation").orderBy("n")
    paired = mail.withColumn(
        "answered_at", f.lead(f.when(f.col("type") == "ClientResponse", f.col("at"))).over(following)
    )
    both = paired.where((f.col("type") == "ClientRequest") & f.col("answered_at").isNotNull())
    came = f.col("at") - f.col("waited")
    return both.select(
        *("run", "node", "request", "correlation", "epoch", "broker_epochs"),
        came.alias("at"),
        ((f.col("answered_at") - came) * 1000).alias("ms"),
    )


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
