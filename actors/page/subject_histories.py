"""What a trace shows of one partition's offsets, and of one consumer group's members and lag, over time.

Rule 1: offsets are those of the messages `LogMoved`, which a replica sends when one changes, and of its answers to
        fetches; the leader's knowledge of a follower is the offset in the follower's fetch. Only lines that contain the
        topic's name are decoded.
Rule 2: a group's lag is the log end offset minus the offset that a coordinator accepted last.
Rule 3: a line has at most MOST_POINTS points: of more, every n-th one is shown, and the last.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from actors.explain.causes import cause_of
from actors.explain.step_texts import text_of
from actors.page.recorded_trace import RecordedRun, RecordedTrace
from actors.trace.reader import TraceDelivery
from messages.cluster import TopicPartition
from messages.errors import NONE
from messages.facts import declarations
from messages.facts.histories import state_history
from messages.facts.open_requests import REQUESTS, RESPONSES
from messages.facts.trace_facts import TraceFacts

MOST_POINTS = 1_500
MOST_READ = 60_000
"""Number of deliveries of a run that are read: if there are more, of several frames one is read."""
MOST_OPEN = 10_000
"""Number of commits without a response that are kept."""
LOG_STATES = ("LogMoved", "LogRead")
"""The messages of a partition that have the state of its log."""
_TYPES = (b'"LogMoved"', b'"ReadLog"', b'"LogRead"')


def partition_history(
    recorded: RecordedTrace, facts: TraceFacts, partition: TopicPartition, start: float, end: float
) -> dict[str, Any]:
    """Return a partition's offsets by node, and its states."""
    lines: dict[int, dict[str, list[list[float]]]] = {}
    for each in _mentions(recorded, partition, start, end):
        node, at, payload = each.node, each.at, each.payload
        of_node = lines.setdefault(node, {"end": [], "high_watermark": [], "fetched": []})
        match each.message:
            case "LogMoved" if payload["partition"] == [*partition]:
                state = payload["state"]
                _extend(of_node["end"], at, state[5])
                _extend(of_node["high_watermark"], at, state[3])
            case "ReadLog" if payload["part"]["partition"] == [*partition] and payload["replica_id"] >= 0:
                follower = lines.setdefault(payload["replica_id"], {"end": [], "high_watermark": [], "fetched": []})
                if payload["replica_id"] != node:
                    _extend(follower["fetched"], at, payload["part"]["fetch_offset"])
            case "LogRead" if (
                payload["result"]["partition"] == [*partition] and payload["result"]["error_code"] == NONE
            ):
                _extend(of_node["high_watermark"], at, payload["result"]["high_watermark"])
    states = [
        {"at": state.taken, "leader": state.leader, "isr": state.isr, "epoch": state.epoch, "by": state.by,
         "run": state.place.run, "seq": state.place.n}
        for state in state_history(facts, partition)
    ]  # fmt: skip
    return {
        "partition": str(partition),
        "start": start,
        "end": end,
        "nodes": [
            {"node": node, **{name: _thin(points) for name, points in of_node.items()}}
            for node, of_node in sorted(lines.items())
        ],
        "states": states,
    }


def _mentions(recorded: RecordedTrace, partition: TopicPartition, start: float, end: float) -> Iterator[TraceDelivery]:
    """Yield the deliveries of the types that this module reads and whose text contains the topic, run by run."""
    name = json.dumps(partition.topic, ensure_ascii=False).encode()

    def is_wanted(line: bytes) -> bool:
        return name in line and any(each in line for each in _TYPES)

    for run in recorded.runs:
        first, last = run.number_before(start), run.number_before(end)
        for each in run.containing(is_wanted, first, (last - first) // MOST_READ + 1):
            if each.seq > last:
                break
            if not each.receiver.startswith("outside:"):
                yield each


def _extend(points: list[list[float]], at: float, value: float) -> None:
    if not points or points[-1][1] != value:
        points.append([at, value])


def _thin(points: list[list[float]]) -> list[list[float]]:
    step = len(points) // MOST_POINTS + 1
    return points if step == 1 else [*points[:-1:step], points[-1]]


class GroupOffsets:
    """The offsets that consumer groups committed, from the requests of clients and the responses of coordinators."""

    def __init__(self) -> None:
        self.committed: dict[str, dict[TopicPartition, tuple[float, int, TraceDelivery]]] = {}
        """Group -> partition -> (time, offset, response)."""
        self._open: dict[tuple[str, int, int], tuple[str, Any]] = {}

    def take(self, delivery: TraceDelivery) -> None:
        """Note what a delivery shows."""
        if delivery.message not in REQUESTS | RESPONSES or b'"OffsetCommitRe' not in bytes(delivery.record.payload):
            return
        payload = delivery.payload
        for exchange in payload.get("requests") or payload.get("responses") or (payload,):
            key = delivery.run.name, exchange["connection"], exchange["correlation_id"]
            kind, content = exchange.get("request") or exchange["response"]
            if kind == "OffsetCommitRequest":
                self._open[key] = content["group_id"], content["partitions"]
                if len(self._open) > MOST_OPEN:
                    del self._open[next(iter(self._open))]
            elif kind == "OffsetCommitResponse" and key in self._open:
                accepted = [each["partition"] for each in content["partitions"] if each["error_code"] == NONE]
                group, parts = self._open.pop(key)
                of_group = self.committed.setdefault(group, {})
                for part in parts:
                    partition = TopicPartition(*part["partition"])
                    if part["partition"] in accepted and of_group.get(partition, (0.0,))[0] <= delivery.at:
                        of_group[partition] = delivery.at, part["committed_offset"], delivery

    def lags(self, group: str, log_end: Callable[[TopicPartition], int | None]) -> list[dict[str, Any]]:
        """Return what a group committed of each partition, and how far the log end is ahead of it."""
        found = []
        for partition, (at, offset, each) in sorted(self.committed.get(group, {}).items()):
            end = log_end(partition)
            lag = None if end is None else max(end - offset, 0)
            place = {"at": at, "run": each.run.name, "seq": each.seq}
            found.append({**place, "partition": str(partition), "committed": offset, "end": end, "lag": lag})
        return found


class LiveLags:
    """The lag of consumer groups, from the deliveries of traces that grow."""

    def __init__(self) -> None:
        self._offsets = GroupOffsets()
        self._states: dict[tuple[str, str], TraceDelivery] = {}
        """The last message about its log end of each partition's actor, by run and address."""

    def take(self, delivery: TraceDelivery) -> None:
        """Note what a delivery shows."""
        if delivery.message in LOG_STATES:
            self._states[delivery.run.name, delivery.sender] = delivery
        else:
            self._offsets.take(delivery)

    def of(self, group: str) -> list[dict[str, Any]]:
        """Return the lag of a group."""
        ends: dict[TopicPartition, int] = {}
        for each in self._states.values():
            partition, end = _log_end_in(each)
            ends[partition] = max(ends.get(partition, 0), end)
        return self._offsets.lags(group, ends.get)


def group_lags(recorded: RecordedTrace, group: str, until: float) -> list[dict[str, Any]]:
    """Return what a group has committed up to a time, and how far the log end of each of these partitions is ahead."""
    name = json.dumps(group, ensure_ascii=False).encode()

    def is_wanted(line: bytes) -> bool:
        return (b'"OffsetCommitRequest"' in line and name in line) or b'"OffsetCommitResponse"' in line

    offsets = GroupOffsets()
    last = {run.place: run.number_before(until, inclusive=True) for run in recorded.runs}
    for run in recorded.runs:
        for each in run.containing(is_wanted):
            if each.seq > last[run.place]:
                break
            offsets.take(each)

    def log_end(partition: TopicPartition) -> int | None:
        ends = (_log_end(run, partition, last[run.place]) for run in recorded.runs)
        return max((end for end in ends if end is not None), default=None)

    return offsets.lags(group, log_end)


def _log_end(run: RecordedRun, partition: TopicPartition, last: int) -> int | None:
    """Return the log end offset of a node's replica after a delivery, as far as the run shows it."""
    text = f'"partition":[{json.dumps(partition.topic)},{partition.partition}]'.encode()
    for each in run.backwards(last + 1, (text,)):
        if each.message in LOG_STATES:
            found, end = _log_end_in(each)
            if found == partition:
                return end
    return None


def _log_end_in(delivery: TraceDelivery) -> tuple[TopicPartition, int]:
    """Return the partition and the log end offset of a message in LOG_STATES."""
    payload = delivery.payload
    partition = payload["partition"] if delivery.message == "LogMoved" else payload["result"]["partition"]
    return TopicPartition(*partition), payload["state"][5]


def group_history(facts: TraceFacts, group: str) -> dict[str, Any]:
    """Return a group's members over time, and its states with what caused them."""
    members: dict[str, dict[str, Any]] = {}
    closed: list[dict[str, Any]] = []
    for action in facts.select(declarations.GroupMemberAction, group=group):
        known = next((key for key in (action.member, action.client_id) if key in members), "")
        if action.action == declarations.JOINED:  # a new member joins without an id first
            bar = members.pop(known, {"client": action.client_id, "from": action.place.at, "joins": []})
            bar["joins"].append([action.place.at, action.place.run, action.place.n])
            members[action.member or action.client_id] = bar
        elif known:
            ended = {"to": action.place.at, "ended": action.action}
            closed.append({"member": known, **members.pop(known), **ended})
    states, generation = [], 0
    for changed in facts.select(declarations.GroupStateChanged, group=group):
        generation += changed.state == "CompletingRebalance"
        cause = cause_of(facts, changed)
        states.append(
            {
                "at": changed.place.at,
                "run": changed.place.run,
                "seq": changed.place.n,
                "state": changed.state,
                "generation": generation,
                "why": "" if cause is None else text_of(cause),
            }
        )
    hosted = [
        {"at": each.place.at, "node": each.place.node, "run": each.place.run, "seq": each.place.n}
        for each in facts.select(declarations.GroupHosted, group=group)
    ]
    return {
        "group": group,
        "members": [*closed, *({"member": member, **bar} for member, bar in members.items())],
        "states": states,
        "hosted": hosted,
    }
