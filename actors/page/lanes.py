"""Choose what a stretch of a trace shows: a lane for each actor, messages as arrows, and how busy each node was.

Rule 1: what is drawn is a number of deliveries around a moment, not a length of time: it is never too much. Deliveries
        of a subject are searched among the nearest MOST_SEARCHED on each side that contain its texts.
        If there are more than MOST_READ others between them, only causes among what is drawn are found.
Rule 2: an interest is a text: "" for everything, or a kind and a name, such as "partition:orders-0", "group:readers",
        "broker:1", "actor:ControllerActor" or "message:BrokerChange". An actor belongs to a subject if its first
        message says so (`TraceSurvey.owners`); a message does if its fields name the subject.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from actors.page.recorded_trace import Interest, Position, RecordedTrace, Stretch
from actors.page.survey import Activity, TraceSurvey
from actors.trace.delivery_text import calls, title
from actors.trace.filters import BROKER_KEYS, names_broker, names_partition, names_topic
from actors.trace.reader import TraceDelivery
from messages.cluster import partition_named
from messages.trace.errors import TraceError
from messages.trace.schema import OUTSIDE, TIMER

MOST_READ = 3_000
MOST_SEARCHED = 3_000
"""Number of deliveries, before and after a moment, among which those of a subject are searched."""
STRIP_BINS = 240
"""Number of parts of a stretch for which it is shown how busy a node was."""
LOG = "outside:log"
"""The address of the lane of a node's log, to which no message is sent."""
UNINTERESTING = frozenset(("outside:metrics", "outside:clock"))
"""Endpoints whose messages are drawn only if they are chosen."""


def interest_of(text: str, recorded: RecordedTrace, survey: TraceSurvey) -> Interest:
    """Return the deliveries that concern an interest (rule 2).

    Raises:
        TraceError: The text is no interest.
    """
    kind, colon, name = text.partition(":")
    if not text:
        return Interest(lambda each: each.receiver not in UNINTERESTING)
    if text == "controller":
        actor = "ControllerActor."
        return Interest(
            lambda each: each.receiver.startswith(actor) or each.sender.startswith(actor), (f'"{actor}'.encode(),)
        )
    if not colon or not name:
        raise TraceError(f"{text} is no subject such as partition:orders-0, group:readers or actor:ControllerActor")
    word = json.dumps(name, ensure_ascii=False)
    owners = {address for (_, address), subject in [*survey.owners.items()] if subject == text}

    def of_subject(names: Callable[[Any], bool], *texts: str, hint: re.Pattern[bytes] | None = None) -> Interest:
        wanted = tuple(each.encode() for each in (*texts, *(f'"{address}"' for address in sorted(owners))))

        def concerns(each: TraceDelivery) -> bool:
            place = recorded.id_of(each).run
            if text in (survey.owners.get((place, each.receiver)), survey.owners.get((place, each.sender))):
                return True
            payload = bytes(each.record.payload)
            may_name = any(needle in payload for needle in wanted) if hint is None else hint.search(payload) is not None
            return may_name and names(each.payload)

        return Interest(concerns, wanted)

    match kind:
        case "partition":
            partition = partition_named(name)
            if partition is None:
                raise TraceError(f"{name} is no partition such as orders-0")
            topic, number = partition
            texts = f'"{topic}",{number}', f"/topics/{topic}/partitions/{number}", f':"{topic}"'
            return of_subject(lambda value: names_partition(value, partition), *texts)
        case "topic":
            return of_subject(lambda value: names_topic(value, name), word, f"/topics/{name}")
        case "broker" if name.isdigit():
            # a hundred times faster than to search all of a payload for a small number
            keys = "|".join(sorted(BROKER_KEYS))
            hint = rf'"(?:{keys})":[][\d,nul-]*\b{name}\b|/brokers/ids/{name}\b|brokers":'.encode()
            found = of_subject(lambda value: names_broker(value, int(name)), hint=re.compile(hint))
            return Interest(found.concerns)
        case "actor":
            return Interest(
                lambda each: name in (each.receiver, each.sender, each.actor, each.sender.rpartition(".")[0]),
                (json.dumps(name)[:-1].encode(),),
            )
        case "message":
            return Interest(lambda each: each.message == name, (word.encode(),))
        case "group" | "transaction" | "client" | "text":
            return of_subject(lambda value: True, name if kind == "text" else word)
    raise TraceError(f"{kind} is not a subject that can be shown")


def lanes(
    recorded: RecordedTrace, survey: TraceSurvey, position: Position, interest: Interest, most: int
) -> dict[str, Any]:
    """Return what is to be drawn around a position: the nearest deliveries of an interest, half of them before it.

    The delivery at the position is one of them.
    """
    at, place, seq = position
    earlier = list(islice(recorded.deliveries_before(position, interest, MOST_SEARCHED), most // 2))
    later = list(islice(recorded.deliveries_after((at, place, seq - 1), interest, MOST_SEARCHED), most - len(earlier)))
    chosen = [*earlier[::-1], *later]
    start, end = (chosen[0].at, chosen[-1].at) if chosen else (at, at)
    count = recorded.count(start, math.nextafter(end, math.inf))
    if count <= MOST_READ:
        stretch = recorded.stretch(start, math.nextafter(end, math.inf), MOST_READ)
        activities = [Activity(start, end, STRIP_BINS) for _ in recorded.runs]
        for each in stretch.read.values():
            activities[recorded.id_of(each).run].take(each.record, each.run.clock_offset)
        strips = [_strip(activity) for activity in activities]
    else:
        stretch = recorded.linked(chosen)
        strips = [strip_of(survey, run.place, start, end) for run in recorded.runs]
    return {
        "start": start,
        "end": end,
        "count": count,
        "first": len(earlier) < most // 2,
        "last": len(later) < most - len(earlier),
        "lanes": lanes_of(recorded, chosen),
        "deliveries": [drawn(recorded, stretch, each) for each in chosen],
        "strips": strips,
    }


def lanes_of(recorded: RecordedTrace, deliveries: Iterable[TraceDelivery]) -> list[dict[str, Any]]:
    """Return the receivers of these deliveries by run, which are in the order of nodes; external endpoints first."""
    found = {(recorded.id_of(each).run, each.receiver) for each in deliveries}
    return [
        {"run": place, "node": recorded.runs[place].run.node, "address": address}
        for place, address in sorted(found, key=lambda each: (each[0], not each[1].startswith("outside:"), each[1]))
    ]


def with_log_lanes(recorded: RecordedTrace, found: list[dict[str, Any]], runs: set[int]) -> list[dict[str, Any]]:
    """Return lanes with one for the log of each of these runs, above the run's others."""
    logs = [{"run": place, "node": recorded.runs[place].run.node, "address": LOG} for place in sorted(runs)]
    return sorted([*logs, *found], key=lambda lane: lane["run"])


def drawn(recorded: RecordedTrace, stretch: Stretch, each: TraceDelivery) -> dict[str, Any]:
    """Return a delivery as the lanes draw it, with the id of its cause and how it came."""
    here = recorded.id_of(each)
    link = stretch.links.get(here)
    found: dict[str, Any] = {
        "run": here.run,
        "seq": each.seq,
        "at": each.at,
        "took": each.took_ms,
        "to": each.receiver,
        "title": title(each.record),
        "kind": each.kind,
        "look": look_of(each),
    }
    if link is not None:
        found["cause"] = list(link.cause)
        found["crossed"] = link.crossed
    if each.effects:
        found["calls"] = calls(each)
    if each.error:
        found["error"] = each.error
    return found


def look_of(delivery: TraceDelivery) -> str:
    """Return the class of a delivery for its look: "write" to ZooKeeper, "timer", "outside", "error" or ""."""
    if delivery.error is not None:
        return "error"
    if delivery.message == "StoreWrite" and delivery.actor == "":
        return "write"
    return {TIMER: "timer", OUTSIDE: "outside"}.get(delivery.kind, "")


def strip_of(survey: TraceSurvey, place: int, start: float, end: float) -> dict[str, Any]:
    """Return how busy a run was in a part of the trace's time, from the survey."""
    activity = survey.activities[place]
    bins = len(activity.handled)
    first = min(max(int((start - activity.start) / activity.width), 0), bins - 1)
    last = min(max(int((end - activity.start) / activity.width) + 1, first + 1), bins)
    return _strip(activity, first, last)


def _strip(activity: Activity, first: int = 0, last: int | None = None) -> dict[str, Any]:
    width = activity.width
    part = slice(first, last)
    return {
        "start": activity.start + first * width,
        "width": width,
        "busy": [round(min(each / width, 1.0), 4) for each in activity.busy[part]],
        "queue": [round(each / width, 3) for each in activity.queued[part]],
        "handled": activity.handled[part],
    }
