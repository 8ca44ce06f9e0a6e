"""The critical path of a client's request: the deliveries that its response waited for, and how long each edge took.

Rule 1: the path is the chain of causes back from the response, as `CauseFinder` finds them. It ends at the request, or
        before the first delivery that is older than the request.
Rule 2: a chain that leads to older deliveries, such as a follower's fetch that was held when the request came, joins
        the effects of the request: by the id of the fetch session that an effect wakes, or else at the last effect
        that the chain does not precede (the append of a produce).
Rule 3: an edge has the milliseconds between two deliveries: until the message was queued, and in the queue.
Rule 4: what a node did in the longest edge is said from its recorded deliveries: it handled nothing, or was busy.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

from actors.page.recorded_trace import RecordedTrace, Stretch
from actors.trace import payloads
from actors.trace.delivery_text import clock, title
from actors.trace.links import DeliveryId, Link
from actors.trace.reader import TraceDelivery
from messages.facts.open_requests import BATCHES, RESPONSES
from messages.trace.errors import TraceError
from messages.trace.schema import TIMER

MOST_READ = 200_000
MARGIN = 0.000_001
SILENT, BUSY = 0.8, 0.5
"""From which part of an edge on a node "handled nothing", or "was busy"."""

APPEND, HELD, FOLLOWER, WATERMARK, ANSWER, HANDLING = (
    "append",
    "response held",
    "follower's fetch",
    "high watermark",
    "answer",
    "handling",
)
"""Stages of a request."""


class PathEdge(NamedTuple):
    """An edge of a critical path: from one delivery to the next.

    `ms` is the whole time, `queue_ms` the part in the queue of the receiver's node.
    """

    cause: DeliveryId
    effect: DeliveryId
    stage: str
    words: str
    start: float
    end: float
    ms: float
    queue_ms: float


class CriticalPath(NamedTuple):
    """The path of a request; `gap` is the index of its longest edge, and `reason` what the nodes did meanwhile."""

    edges: list[PathEdge]
    gap: int
    reason: str
    deliveries: list[TraceDelivery]
    stretch: Stretch


def critical_path(recorded: RecordedTrace, run: str, seq: int, connection: int, correlation_id: int) -> CriticalPath:
    """Return the path of the request that delivery `seq` of a run brought.

    Raises:
        TraceError: The delivery does not exist, or the trace has no response to the request.
    """
    asked = recorded.delivery(run, seq)
    answer = _answer(recorded, asked, connection, correlation_id)
    stretch = recorded.stretch(asked.at, answer.at + MARGIN, MOST_READ)
    if recorded.id_of(answer) not in stretch.read:
        raise TraceError(f"more than {MOST_READ:,} deliveries lie between the request and its response")
    path = _path(recorded, stretch, asked, answer)
    edges = [_edge(recorded, stretch, *pair) for pair in pairwise(path)]
    edges = _with_stages(path, edges)
    gap = max(range(len(edges)), key=lambda index: edges[index].ms)
    return CriticalPath(edges, gap, _reason(stretch, edges[gap], path[gap], path[gap + 1]), path, stretch)


def _answer(recorded: RecordedTrace, asked: TraceDelivery, connection: int, correlation_id: int) -> TraceDelivery:
    run = recorded.run_named(asked.run.name)
    for each in run.deliveries(asked.seq):
        if each.message in RESPONSES and each.actor == "":
            read = payloads.read(each.record.payload)
            for exchange in read.exchanges if read is not None else ():
                if (exchange.connection, exchange.correlation_id) == (connection, correlation_id):
                    return each
    raise TraceError(f"the trace has no response to request {correlation_id} of connection {connection}")


def _path(
    recorded: RecordedTrace, stretch: Stretch, asked: TraceDelivery, answer: TraceDelivery
) -> list[TraceDelivery]:
    begin, here = recorded.id_of(asked), recorded.id_of(answer)
    chain = [answer]
    while here != begin:
        link = stretch.links.get(here)
        cause = None if link is None else stretch.read.get(link.cause)
        if link is None or cause is None or recorded.position(cause) < recorded.position(asked):
            return _connect(recorded, stretch, asked, chain)
        here = link.cause
        chain.append(cause)
    return chain[::-1]


def _connect(
    recorded: RecordedTrace, stretch: Stretch, asked: TraceDelivery, chain: list[TraceDelivery]
) -> list[TraceDelivery]:
    """Connect the request with a chain (from the response back) that does not begin at the request (rule 2)."""
    own = _effects(recorded, stretch, asked, chain[0])
    for place in range(len(chain) - 1, -1, -1):
        sessions = _sessions(chain[place])
        for waker in own:
            if waker.message == "WakeFetchSessions" and sessions & set(waker.payload["session_ids"]):
                return [*_chain_between(recorded, stretch, asked, waker), *chain[place::-1]]
    appended = next((each for each in own if each.message == BATCHES), asked)
    later = [each for each in chain if recorded.position(each) > recorded.position(appended)]
    return [*_chain_between(recorded, stretch, asked, appended), *later[::-1]]


def _sessions(delivery: TraceDelivery) -> set[int]:
    """Return the ids of the fetch sessions whose requests a delivery brings."""
    if delivery.message not in ("ClientRequest", "ClientRequests") or not delivery.has_payload:
        return set()
    together = delivery.payload.get("requests") or [delivery.payload]
    return {each["request"][1].get("session_id", 0) for each in together} - {0}


def _effects(
    recorded: RecordedTrace, stretch: Stretch, asked: TraceDelivery, answer: TraceDelivery
) -> list[TraceDelivery]:
    """Return what the request caused in its run before the answer, without timers."""
    led = {recorded.id_of(asked)}
    found = []
    for each in stretch.deliveries:
        here = recorded.id_of(each)
        link = stretch.links.get(here)
        if link is not None and link.cause in led and each.run is asked.run and each.kind != TIMER:
            led.add(here)
            found.append(each)
        if each is answer:
            break
    return found


def _chain_between(
    recorded: RecordedTrace, stretch: Stretch, asked: TraceDelivery, last: TraceDelivery
) -> list[TraceDelivery]:
    """Return the chain from the request to one of its effects."""
    found = [last]
    while found[-1] is not asked:
        found.append(stretch.read[stretch.links[recorded.id_of(found[-1])].cause])
    return found[::-1]


def _edge(recorded: RecordedTrace, stretch: Stretch, cause: TraceDelivery, effect: TraceDelivery) -> PathEdge:
    here, there = recorded.id_of(cause), recorded.id_of(effect)
    link: Link | None = stretch.links.get(there)
    start, end = cause.at, effect.at
    linked = link is not None and link.cause == here
    queue = effect.waited_ms if linked else min(effect.waited_ms, (end - start) * 1000)
    return PathEdge(here, there, "", _words(cause, effect, linked), start, end, (end - start) * 1000, queue)


def _words(cause: TraceDelivery, effect: TraceDelivery, linked: bool) -> str:
    what = title(effect.record)
    if not linked:
        return f"node {effect.node}: {what} to {_name(effect)}, which was already under way"
    if effect.node != cause.node:
        return f"node {cause.node} to node {effect.node}: {what} to {_name(effect)}"
    if effect.kind == TIMER:
        return f"node {effect.node}: a timer of {_name(effect)} was over ({what})"
    return f"node {effect.node}: {what} to {_name(effect)}"


def _name(delivery: TraceDelivery) -> str:
    return delivery.receiver.removeprefix("outside:")


def _with_stages(path: list[TraceDelivery], edges: list[PathEdge]) -> list[PathEdge]:
    """Return the edges with their stages; `path` has the deliveries between them."""
    appended = next((place for place, each in enumerate(path) if each.message == BATCHES), None)
    if appended is None:
        return [each._replace(stage=HANDLING) for each in edges[:-1]] + [
            each._replace(stage=ANSWER) for each in edges[-1:]
        ]
    marked = next((place for place, each in enumerate(path) if each.message == "BatchesAppended"), len(path) - 1)
    leader, found = path[0].node, []
    for place, edge in enumerate(edges, 1):
        if place <= appended:
            stage = APPEND
        elif place < marked:
            elsewhere = path[place].node != leader or path[place - 1].node != leader
            fetch = elsewhere or path[place].message in ("ClientRequest", "ClientRequests", "ReadLog", "LogRead")
            stage = FOLLOWER if fetch else HELD
        else:
            stage = WATERMARK if place == marked else ANSWER
        found.append(edge._replace(stage=stage))
    return found


def _reason(stretch: Stretch, edge: PathEdge, cause: TraceDelivery, effect: TraceDelivery) -> str:
    """Say what the nodes of an edge did while it lasted (rule 4)."""
    lasted = effect.at - cause.at
    if lasted <= 0:
        return ""
    for node in dict.fromkeys((effect.node, cause.node)):
        begin, end = _longest_silence(_of_node(stretch, node, cause.at, effect.at), cause.at, effect.at)
        if end - begin >= SILENT * lasted:
            return f"node {node} handled nothing from {clock(begin)[:-4]} to {clock(end)[:-4]}"
    for node in dict.fromkeys((effect.node, cause.node)):
        handled = _of_node(stretch, node, cause.at, effect.at)
        busy = sum(each.took_ms for each in handled) / 1000
        if busy >= BUSY * lasted:
            longest = max(handled, key=lambda each: each.took_ms)
            return (
                f"node {node} was busy for {busy * 1000:,.1f} of {lasted * 1000:,.1f} ms with {len(handled):,}"
                f" deliveries, the longest {title(longest.record)} to {_name(longest)} ({longest.took_ms:,.1f} ms)"
            )
    if edge.queue_ms >= BUSY * edge.ms:
        return f"the message waited in the queue of node {effect.node}"
    if cause.node != effect.node:
        return f"the message was under way from node {cause.node} to node {effect.node}"
    return f"node {effect.node} waited for {title(effect.record)}"


def _of_node(stretch: Stretch, node: int, start: float, end: float) -> list[TraceDelivery]:
    return [each for each in stretch.deliveries if each.node == node and start < each.at < end]


def _longest_silence(handled: Iterable[TraceDelivery], start: float, end: float) -> tuple[float, float]:
    """Return the longest time in which none of these deliveries was handled."""
    found, last = (start, start), start
    for each in handled:
        found = max(found, (last, each.at), key=_length)
        last = max(last, each.record.finished_at + each.run.clock_offset)
    return max(found, (last, end), key=_length)


def _length(interval: tuple[float, float]) -> float:
    return interval[1] - interval[0]


def as_json(path: CriticalPath, recorded: RecordedTrace) -> dict[str, Any]:
    """Return a path as plain values."""
    runs = [run.run.name for run in recorded.runs]
    return {
        "edges": [
            {
                **edge._asdict(),
                "cause": list(edge.cause),
                "effect": list(edge.effect),
                "run": runs[edge.effect.run],
                "node": recorded.runs[edge.effect.run].run.node,
            }
            for edge in path.edges
        ],
        "gap": path.gap,
        "reason": path.reason,
        "ms": sum(edge.ms for edge in path.edges),
    }
