"""Reassignment plans: parse their JSON, generate them, and report their progress (ReassignPartitionsCommand).

Rule 1: a plan names each partition once, with at least one replica and none of them twice. Log directories may be named
        for each replica, but only "any": moves between the directories of a broker are not supported.
Rule 2: a plan moves a partition from where it is - without those an unfinished reassignment is only adding - to the
        replicas of the plan that are not there yet. Who sends and who receives may be throttled, replica by replica.
Rule 3: everything printed is sorted by topic and partition, as the tool of Kafka 3.9.1 prints it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from actors.core.refusal import Refused
from actors.core.replica_assignment import Racks, assign
from messages.cluster import ReplicaAssignment, TopicPartition

Replicas = tuple[int, ...]
Plan = Mapping[TopicPartition, Replicas]
Assignments = Mapping[TopicPartition, ReplicaAssignment]

ANY = "any"
FORMAT_VERSION = 1
LEADER_THROTTLED, FOLLOWER_THROTTLED = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
"""Of a topic: which replicas send, and which receive, no more than their broker's rate."""
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
"""Of a broker: bytes per second."""


# --------------------------------------------------------------------------------------------------------------- JSON


def parse_plan(text: str) -> dict[TopicPartition, Replicas]:
    """The plan of a file, by topic and partition. Raises Refused."""
    rows = [
        _planned(row) for row in _list(_document(text), "partitions", "Partition reassignment list cannot be empty")
    ]
    if not rows:
        raise Refused("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in rows):
        raise Refused("Partition replica list cannot be empty")
    twice = _twice(partition for partition, _ in rows)
    if twice:
        raise Refused(f"Partition reassignment contains duplicate topic partitions: {_joined(twice)}")
    doubled = [(tp, _twice(replicas)) for tp, replicas in rows if _twice(replicas)]
    if doubled:
        entries = ". ".join(f"{tp} contains multiple entries for {_joined(ids)}" for tp, ids in doubled)
        raise Refused(f"Partition replica lists may not contain duplicate entries: {entries}")
    return dict(sorted(rows))


def format_plan(plan: Plan) -> str:
    """The same as text, in Kafka's order of members."""
    rows = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas), "log_dirs": [ANY] * len(replicas)}
        for tp, replicas in sorted(plan.items())
    ]
    return json.dumps({"version": FORMAT_VERSION, "partitions": rows}, separators=(",", ":"))


def parse_topics(text: str) -> list[str]:
    """The topics of a file of those to be moved, sorted. Raises Refused."""
    topics = [
        _member(row, "topic", str) for row in _list(_document(text), "topics", "the topics to move are not named")
    ]
    twice = _twice(topics)
    if twice:
        raise Refused(f"List of topics to reassign contains duplicate entries: [{', '.join(twice)}]")
    return sorted(topics)


def parse_brokers(text: str) -> list[int]:
    """The brokers of "0,1,2". Raises Refused."""
    try:
        ids = [int(each) for each in text.split(",")]
    except ValueError:
        raise Refused(f"'{text}' is not a list of brokers: expected 0,1,2") from None
    twice = _twice(ids)
    if twice:
        raise Refused(f"Broker list contains duplicate entries: [{', '.join(map(str, twice))}]")
    return ids


def _planned(row: Any) -> tuple[TopicPartition, Replicas]:
    tp = TopicPartition(_member(row, "topic", str), _member(row, "partition", int))
    replicas = _member(row, "replicas", list)
    if not all(type(each) is int for each in replicas):
        raise Refused(f"{tp}: replicas must be a list of broker ids")
    directories = row.get("log_dirs", [ANY] * len(replicas))
    if type(directories) is not list or len(directories) != len(replicas):
        raise Refused(
            f"Size of replicas list {replicas} is different from size of log dirs list {directories} for partition {tp}"
        )
    if directories != [ANY] * len(replicas):
        raise Refused(f"{tp}: replicas cannot be moved between log directories, log_dirs should be '{ANY}'")
    return tp, tuple(replicas)


def _document(text: str) -> dict[str, Any]:
    """The JSON object of a file, in the one version there is."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise Refused("The input string is not a valid JSON") from None
    if type(document) is not dict:
        raise Refused("The input string is not a valid JSON")
    version = document.get("version", FORMAT_VERSION)
    if version != FORMAT_VERSION:
        raise Refused(f"Not supported version field value {version}")
    return document


def _list(document: dict[str, Any], name: str, missing: str) -> list[Any]:
    found = document.get(name, [])
    if type(found) is not list:
        raise Refused(missing)
    return found


def _member(row: Any, name: str, kind: type) -> Any:
    value = row.get(name) if type(row) is dict else None
    if type(value) is not kind:
        raise Refused(f"{json.dumps(row)} has no valid field '{name}'")
    return value


def _twice(values: Iterable[Any]) -> list[Any]:
    """Those that come more than once, each once."""
    seen: dict[Any, int] = {}
    for value in values:
        seen[value] = seen.get(value, 0) + 1
    return [value for value, times in seen.items() if times > 1]


def _joined(values: Iterable[object]) -> str:
    return ",".join(map(str, values))


# ----------------------------------------------------------------------------------------------------------- proposing


def propose(current: Plan, racks: Racks, draw: Callable[[int], tuple[int, int]]) -> dict[TopicPartition, Replicas]:
    """The partitions of these topics spread anew over these brokers, as many replicas as each topic's first has.

    `draw(n)` gives where a topic begins among n brokers, and at which distance. Raises as `replica_assignment.assign`.
    """
    by_topic: dict[str, list[TopicPartition]] = {}
    for partition in sorted(current):
        by_topic.setdefault(partition.topic, []).append(partition)
    proposed: dict[TopicPartition, Replicas] = {}
    for partitions in by_topic.values():
        replicas = assign(racks, len(partitions), len(current[partitions[0]]), *draw(max(1, len(racks))))
        proposed.update(zip(partitions, replicas, strict=True))
    return proposed


# --------------------------------------------------------------------------------------------------------- throttling


class Move(NamedTuple):
    """A reassignment of one partition: the brokers that it moves from, and those that it moves to."""

    sources: Replicas
    destinations: Replicas


def moves(assignments: Assignments, plan: Plan) -> dict[TopicPartition, Move]:
    """What a plan moves, together with what is being moved already (rule 2)."""
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
    """Of each topic: the overrides that say which replicas are to be throttled."""
    replicas: dict[str, dict[str, set[str]]] = {}
    for (topic, number), move in sorted(moved.items()):
        of_topic = replicas.setdefault(topic, {LEADER_THROTTLED: set(), FOLLOWER_THROTTLED: set()})
        of_topic[LEADER_THROTTLED].update(f"{number}:{broker}" for broker in move.sources)
        of_topic[FOLLOWER_THROTTLED].update(f"{number}:{broker}" for broker in move.destinations)
    return {topic: {name: ",".join(sorted(each)) for name, each in found.items()} for topic, found in replicas.items()}


def moving_brokers(moved: Mapping[TopicPartition, Move]) -> list[int]:
    """The brokers between which records go."""
    return sorted({broker for move in moved.values() for broker in (*move.sources, *move.destinations)})


# ------------------------------------------------------------------------------------------------------------ how far


def progress(partition: TopicPartition, target: Replicas, now: ReplicaAssignment | None) -> str:
    """How far one partition of a plan is; `now` None: the partition is unknown."""
    if now is not None and (now.adding or now.removing):
        return f"Reassignment of partition {partition} is still in progress."
    replicas = () if now is None else now.replicas
    if replicas == target:
        return f"Reassignment of partition {partition} is completed."
    return (
        f"There is no active reassignment of partition {partition}, but replica set is {_joined(replicas)} rather than"
        f" {_joined(target)}."
    )


def ongoing(assignments: Assignments) -> list[str]:
    """A line for each partition that is being reassigned, and the headline; or that there are none."""
    lines = []
    for tp, each in sorted(assignments.items()):
        if each.adding or each.removing:
            line = f"{tp}: replicas: {_joined(each.replicas)}."
            line += f" adding: {_joined(each.adding)}." if each.adding else ""
            lines.append(line + (f" removing: {_joined(each.removing)}." if each.removing else ""))
    return ["Current partition reassignments:", *lines] if lines else ["No partition reassignments found."]


def named(partitions: Sequence[TopicPartition] | Iterable[TopicPartition]) -> tuple[str, str]:
    """("s" where there are several, the partitions in order) for a line about them."""
    found = sorted(partitions)
    return "" if len(found) == 1 else "s", _joined(found)
