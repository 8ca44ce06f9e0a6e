"""A summary, made without Spark, of a cluster of any size whose broker 1, the controller, was killed."""

from __future__ import annotations

from spark.plots import STEPS
from spark.results import QueryResult, Summary, table

BEGIN = 1.7e9
TOPIC = "<b>t"
BROKERS = 3


def results(columns: str, *rows: tuple[object, ...]) -> QueryResult:
    return table(columns, rows)


def incident(partitions: int, still: int = 0) -> Summary:
    """Return a summary in which the killed broker led this number of partitions, as did each other broker.

    At the end, `still` partitions have no leader.
    """
    at, died, led = BEGIN, BEGIN + 9, partitions - still
    back = None if still else at + 40
    runs = (
        (0, "node0-x", 12, at, at + 60, "stopped", "full"),
        (1, "node1-x", 9, at, died, "killed", "full"),
        (2, "node2-x", 12, at, at + 60, "stopped", "full"),
    )
    names = ", ".join(f"{TOPIC}-{number}" for number in range(min(led, 5)))
    over = [(1, died, at + 15.25, led, 1, names)] if led else []
    if still:
        over.append((1, died, None, still, 1, f"{TOPIC}-{led}"))
    leaders = [
        (at + 1, TOPIC, number, None, (number // partitions + 1) % BROKERS, 0, 1, 1)
        for number in range(BROKERS * partitions)
    ]
    leaders += [(at + 15.25, TOPIC, number, 1, 0 if number < led else -1, 1, 0, 2) for number in range(partitions)]
    unled = [(TOPIC, number, 1, 0.0, 0.0, True, died) for number in range(led, partitions)]
    unled += [(TOPIC, number, 1, 6.25, 6.25, False, None) for number in range(led)]
    answers = {
        "runs": results("node run deliveries first_at last_at ending detail", *runs),
        "episodes": results(
            "broker died_at ending seen_s seen_by after was_controller partitions led_again_s still_leaderless p50_s"
            " p99_s partition_seconds back_at topics",
            (1, died, "killed", 6.0, 0, "Elected", True, partitions, 6.25, still, 6.25, 6.25, 6.25 * led, back, 1),
        ),
        "leadership": results("at topic partition before leader leader_epoch node controller_epoch", *leaders),
        "leaderless": results("broker lost_at over_at partitions topics examples", *over),
        "out_of_isr": results(
            "broker left_at back_at by partitions examples",
            (1, at + 15.25, back and back + 2, "controller", partitions, f"{TOPIC}-0"),
            (2, at + 3, at + 5, "leader", 1, f"{TOPIC}-1"),
        ),
        "unavailable": results("topic partition windows seconds longest_s still_leaderless since_at", *unled),
        "faults": results("node fault count first_at last_at", (1, "disk-full", 3, at + 4, at + 6)),
        "handled": results("at node event ms queue_ms", (at + 15, 0, "BrokerChange", 31.0, 0.5)),
        "elections": results("at node epoch", (at, 1, 1), (at + 14, 0, 2)),
        "queue": results("at node depth waited_ms", (at, 0, 3, 5.0), (at + 1, 0, 30, 50.0)),
        "latencies": results("kind upto_ms count", ("requests to ZooKeeper", 4.0, 17)),
        "deletions": results(
            "topic queued_at stopped_at stops gone_at seconds", ("u", at + 20, at + 21, 3, at + 22, 2.0)
        ),
        "reassignments": results(
            "topic partition began_at adding removing ended_at seconds epochs",
            (TOPIC, 0, at + 30, "2", "1", at + 33, 3.0, 3),
        ),
        "chains": results(
            " ".join(("at node event broker", *STEPS, "total_ms last")),
            (at + 15, 0, "BrokerChange", 2, 0.5, 20.0, 0.25, 3.0, 9.0, 32.75, True),
            (at + 15, 0, "BrokerChange", 0, 0.5, 20.0, 0.25, 2.0, None, 22.75, False),
        ),
        "records": results("topic partition node bytes share", (TOPIC, 0, 0, 1000, 1.0)),
        "actors": results("sender receiver count", ("ControllerActor", "BrokerChannelActor", 12)),
    }
    return Summary(answers, malformed=1, unreadable=("torn.zst: torn",))
