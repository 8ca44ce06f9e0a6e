"""Reassignment plans: parse their JSON, generate them, and report their progress (ReassignPartitionsCommand).

Rule 1: A plan contains each partition once, with at least one replica and no duplicates. If a plan contains log
        directories, there is one for each replica: an absolute path, or "any".
Rule 2: The sources of a move are the partition's replicas, except replicas that an unfinished reassignment is adding.
        The destinations of a move are the replicas in the plan that are not sources. Sources and destinations can be
        throttled per replica.
Rule 3: All output is sorted by topic and partition, as in the tool of Kafka 3.9.1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from actors.cli.app import CommandFailed
from actors.core.topic.replica_assignment import Racks, assign
from messages.cluster import ReplicaAssignment, TopicPartition

T = TypeVar("T")

Json: TypeAlias = Any  # type: ignore[explicit-any]
"""A value of JSON."""
Replicas = tuple[int, ...]
Plan = Mapping[TopicPartition, Replicas]
Directories = dict[tuple[TopicPartition, int], str]
"""(partition, broker) -> log directory, for the replicas that a plan moves to a certain directory."""
Assignments = Mapping[TopicPartition, ReplicaAssignment]

ANY = "any"
FORMAT_VERSION = 1
LEADER_THROTTLED, FOLLOWER_THROTTLED = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
"""Topic configs with the throttled leader replicas and follower replicas."""
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
"""Broker configs with the throttled rates, in bytes per second."""
MOVE_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


# --------------------------------------------------------------------------------------------------------------- JSON


def parse_plan(text: str) -> tuple[dict[TopicPartition, Replicas], Directories]:
    """Return the plan in a JSON file and its log directories, sorted by topic and partition.

    Raises:
        CommandFailed: The file is invalid (rule 1).
    """
    planned = [
        _read_row(row) for row in _list(_document(text), "partitions", "Partition reassignment list cannot be empty")
    ]
    rows = [(tp, replicas) for tp, replicas, _ in planned]
    if not rows:
        raise CommandFailed("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in rows):
        raise CommandFailed("Partition replica list cannot be empty")
    twice = _twice(partition for partition, _ in rows)
    if twice:
        raise CommandFailed(f"Partition reassignment contains duplicate topic partitions: {_join_values(twice)}")
    doubled = [(tp, _twice(replicas)) for tp, replicas in rows if _twice(replicas)]
    if doubled:
        entries = ". ".join(f"{tp} contains multiple entries for {_join_values(ids)}" for tp, ids in doubled)
        raise CommandFailed(f"Partition replica lists may not contain duplicate entries: {entries}")
    targets = {
        (tp, broker): directory
        for tp, replicas, directories in sorted(planned)
        for broker, directory in zip(replicas, directories, strict=True)
        if directory != ANY
    }
    return dict(sorted(rows)), targets


def format_plan(plan: Plan) -> str:
    """Return the plan as JSON, with the JSON keys in Kafka's order."""
    rows = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas), "log_dirs": [ANY] * len(replicas)}
        for tp, replicas in sorted(plan.items())
    ]
    return json.dumps({"version": FORMAT_VERSION, "partitions": rows}, separators=(",", ":"))


def parse_topics(text: str) -> list[str]:
    """Parse the content of a topics-to-move JSON file; return its topics in sorted order.

    Raises:
        CommandFailed: The file is invalid.
    """
    topics = [
        _member(row, "topic", str) for row in _list(_document(text), "topics", "the topics to move are not named")
    ]
    twice = _twice(topics)
    if twice:
        raise CommandFailed(f"List of topics to reassign contains duplicate entries: [{', '.join(twice)}]")
    return sorted(topics)


def parse_brokers(text: str) -> list[int]:
    """Return the broker ids in a list such as "0,1,2".

    Raises:
        CommandFailed: The list is invalid.
    """
    try:
        ids = [int(each) for each in text.split(",")]
    except ValueError:
        raise CommandFailed(
            f"'{text}' is not a list of broker ids: expected ids separated by commas, such as 0,1,2"
        ) from None
    twice = _twice(ids)
    if twice:
        raise CommandFailed(f"Broker list contains duplicate entries: [{', '.join(map(str, twice))}]")
    return ids


def _read_row(row: Json) -> tuple[TopicPartition, Replicas, Sequence[str]]:
    tp = TopicPartition(_member(row, "topic", str), _member(row, "partition", int))
    replicas = _member(row, "replicas", list)
    if not all(type(each) is int for each in replicas):
        raise CommandFailed(f"{tp}: replicas must be a list of broker ids")
    directories = row.get("log_dirs", [ANY] * len(replicas))
    if type(directories) is not list or len(directories) != len(replicas):
        raise CommandFailed(
            f"Size of replicas list {replicas} is different from size of log dirs list {directories} for partition {tp}"
        )
    wrong = [each for each in directories if type(each) is not str or not (each == ANY or each.startswith("/"))]
    if wrong:
        raise CommandFailed(f"{tp}: the log directory {json.dumps(wrong[0])} is neither an absolute path nor '{ANY}'")
    return tp, tuple(replicas), directories


def _document(text: str) -> dict[str, Json]:
    """Return the JSON object in a text, if it has the supported version."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise CommandFailed("The input string is not a valid JSON") from None
    if type(document) is not dict:
        raise CommandFailed("The input string is not a valid JSON")
    version = document.get("version", FORMAT_VERSION)
    if version != FORMAT_VERSION:
        raise CommandFailed(f"Not supported version field value {version}")
    return document


def _list(document: dict[str, Json], name: str, missing: str) -> list[Json]:
    found = document.get(name, [])
    if type(found) is not list:
        raise CommandFailed(missing)
    return found


def _member(row: Json, name: str, kind: type) -> Json:
    value = row.get(name) if type(row) is dict else None
    if type(value) is not kind:
        raise CommandFailed(f"{json.dumps(row)} has no valid field '{name}'")
    return value


def _twice(values: Iterable[T]) -> list[T]:
    """Return the duplicates among these values, each once."""
    seen: dict[T, int] = {}
    for value in values:
        seen[value] = seen.get(value, 0) + 1
    return [value for value, times in seen.items() if times > 1]


def _join_values(values: Iterable[object]) -> str:
    return ",".join(map(str, values))


# ------------------------------------------------------------------------------------------------------ proposed plans


def propose(current: Plan, racks: Racks, draw: Callable[[int], tuple[int, int]]) -> dict[TopicPartition, Replicas]:
    """Return a plan that distributes the partitions of `current` over the brokers in `racks`.

    Each topic has the replication factor of its first partition. Raises the errors of `replica_assignment.assign`.

    Args:
        draw: Function that takes the number of brokers and returns a topic's `start` and `shift`.
    """
    by_topic: dict[str, list[TopicPartition]] = {}
    for partition in sorted(current):
        by_topic.setdefault(partition.topic, []).append(partition)
    proposed: dict[TopicPartition, Replicas] = {}
    for partitions in by_topic.values():
        replicas = assign(racks, len(partitions), len(current[partitions[0]]), *draw(max(1, len(racks))))
        proposed.update(zip(partitions, replicas, strict=True))
    return proposed


# ---------------------------------------------------------------------------------------------------------- throttles


class Move(NamedTuple):
    """A reassignment of one partition: its source brokers and its destination brokers."""

    sources: Replicas
    destinations: Replicas


def moves(assignments: Assignments, plan: Plan) -> dict[TopicPartition, Move]:
    """Return the moves of a plan and of the ongoing reassignments (rule 2)."""
    found = {
        tp: Move(tuple(r for r in each.replicas if r not in each.adding), each.adding)
        for tp, each in assignments.items()
        if each.adding or each.removing
    }
    for tp, target in plan.items():
        sources = found[tp].sources if tp in found else assignments[tp].replicas
        found[tp] = Move(sources, tuple(r for r in target if r not in sources))
    return found


def topic_throttles(moved: Mapping[TopicPartition, Move]) -> dict[str, dict[str, str]]:
    """Return, for each topic, the overrides with its throttled replicas."""
    replicas: dict[str, dict[str, set[str]]] = {}
    for (topic, number), move in sorted(moved.items()):
        of_topic = replicas.setdefault(topic, {LEADER_THROTTLED: set(), FOLLOWER_THROTTLED: set()})
        of_topic[LEADER_THROTTLED].update(f"{number}:{broker}" for broker in move.sources)
        of_topic[FOLLOWER_THROTTLED].update(f"{number}:{broker}" for broker in move.destinations)
    return {topic: {name: ",".join(sorted(each)) for name, each in found.items()} for topic, found in replicas.items()}


def moving_brokers(moved: Mapping[TopicPartition, Move]) -> list[int]:
    """Return the brokers that send or receive records of these moves, sorted."""
    return sorted({broker for move in moved.values() for broker in (*move.sources, *move.destinations)})


# ----------------------------------------------------------------------------------------------------------- progress


def progress(partition: TopicPartition, target: Replicas, now: ReplicaAssignment | None) -> str:
    """Return the progress of one partition of a plan.

    Args:
        now: Current assignment; None for an unknown partition.
    """
    if now is not None and (now.adding or now.removing):
        return f"Reassignment of partition {partition} is still in progress."
    replicas = () if now is None else now.replicas
    if replicas == target:
        return f"Reassignment of partition {partition} is completed."
    return (
        f"There is no active reassignment of partition {partition},"
        f" but replica set is {_join_values(replicas)} rather than {_join_values(target)}."
    )


def move_progress(tp: TopicPartition, broker: int, target: str, current: str, future: str) -> str:
    """Return the progress of a replica's move to the log directory `target`.

    Args:
        tp: The partition.
        broker: The replica's broker.
        target: The log directory in the plan.
        current: The log directory of the replica, or "".
        future: The log directory to which the replica moves, or "".
    """
    if not current:
        return (
            f"Partition {tp} is not found in any live log dir on broker {broker}. There is likely an offline log"
            " directory on the broker."
        )
    if future == target:
        return f"Reassignment of replica {tp}-{broker} is still in progress."
    if future:
        return f"Partition {tp} on broker {broker} is being moved to log dir {future} instead of {target}."
    if current == target:
        return f"Reassignment of replica {tp}-{broker} completed successfully."
    return f"Partition {tp} on broker {broker} is not being moved from log dir {current} to {target}."


def ongoing(assignments: Assignments) -> list[str]:
    """Return a headline and one line per ongoing reassignment; a single line if no reassignment is active."""
    lines = []
    for tp, each in sorted(assignments.items()):
        if each.adding or each.removing:
            line = f"{tp}: replicas: {_join_values(each.replicas)}."
            line += f" adding: {_join_values(each.adding)}." if each.adding else ""
            lines.append(line + (f" removing: {_join_values(each.removing)}." if each.removing else ""))
    return ["Current partition reassignments:", *lines] if lines else ["No partition reassignments found."]


def names_of(partitions: Sequence[TopicPartition] | Iterable[TopicPartition]) -> tuple[str, str]:
    """Return the plural suffix ("s" or "") and the sorted partitions, joined by commas."""
    found = sorted(partitions)
    return "" if len(found) == 1 else "s", _join_values(found)
