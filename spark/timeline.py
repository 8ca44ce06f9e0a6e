"""Draw the timeline of a cluster: incidents, controllers, partitions without a leader, brokers, and injected faults.

Rule: A broker's lane shows, from top to bottom: the number of partitions that the broker leads, its process and
ZooKeeper session, and the number of its replicas out of the ISR. The numbers are those that controllers announced. A
failed broker leads no partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from messages.facts.trace_facts import group_by
from spark import drawing
from spark.formatting import count_text, duration, moment
from spark.incidents import Incident
from spark.results import Summary

COLOURS = 8
"""Number of colours of brokers in the style sheet."""
MOST_BROKERS = 60
"""Maximum number of brokers' lanes: those that failed or changed first."""
LEGEND = (
    ("area", "partitions it leads (≤: at most)"),
    ("alive", "running"),
    ("held", "dead, session not expired"),
    ("bad", "gone; no leader"),
    ("warn", "replicas out of the ISR"),
)
Change = tuple[float, float]


def colour(broker: int) -> str:
    """Return the CSS class of a broker's colour."""
    return "none" if broker < 0 else f"c{broker % COLOURS}"


class Timeline:
    """The timeline of one summary: the constructor computes it, and `chart` draws any period of it."""

    def __init__(self, summary: Summary, incidents: Sequence[Incident], zone: tzinfo | None) -> None:
        self._summary = summary
        self._incidents = incidents
        self._zone = zone
        runs = list(summary["runs"])
        self.begin, self.end = summary.begin, summary.end
        self._gone = group_by(summary["episodes"], lambda row: row.broker)
        self._led = self._count_led()
        self._out: dict[int, list[Change]] = {}
        for row in summary["out_of_isr"]:
            self._out.setdefault(row.broker, []).extend(_changes(row.left_at, row.back_at, row.partitions))
        self._unled = [
            change for row in summary["leaderless"] for change in _changes(row.lost_at, row.over_at, row.partitions)
        ]
        self._runs = group_by(runs, lambda run: run.node)
        known = {*self._runs, *self._led, *self._gone}
        weight = {broker: (len(self._gone.get(broker, ())), len(self._out.get(broker, ()))) for broker in known}
        self._brokers = sorted(sorted(known, key=lambda broker: (weight[broker], -broker), reverse=True)[:MOST_BROKERS])
        self._left_out = len(known) - len(self._brokers)

    def chart(self, begin: float | None = None, end: float | None = None) -> drawing.Chart:
        """Draw the lanes between two times (seconds since 1970); None: the start or the end of the traces."""
        begin = self.begin if begin is None else max(begin, self.begin)
        end = self.end if end is None else min(end, self.end)
        lanes = [
            lane
            for lane in (self._incident_lane(), self._controllers(), self._without_leader(begin, end))
            if lane.marks
        ]
        most = max((_most(changes) for changes in self._led.values()), default=0)
        lanes += [self._broker(broker, most, begin, end) for broker in self._brokers]
        lanes += [self._faults()] if len(self._summary["faults"]) else []
        legend = [*LEGEND, ("none", f"not shown: {count_text(self._left_out, 'broker')}")] if self._left_out else LEGEND
        shown = f"from {self._clock(begin)} to {self._clock(end)}"
        return drawing.Chart(
            f"Timeline of the cluster {shown}",
            [_within(lane, begin, end) for lane in lanes],
            drawing.time_axis(begin, end, self._zone),
            legend,
        )

    # ------------------------------------------------------------------------------------------------------- lanes

    def _incident_lane(self) -> drawing.Lane:
        boxes = [
            drawing.Box(
                each.at,
                self.end if each.until is None else each.until,
                "bad" if each.until is None else "warn",
                f"{each.what} at {self._clock(each.at)}",
                label=str(number),
                link=f"incident-{number}",
            )
            for number, each in enumerate(self._incidents, 1)
        ]
        return drawing.Lane("incidents", boxes, 18)

    def _controllers(self) -> drawing.Lane:
        elections = list(self._summary["elections"])
        boxes = []
        for following, row in enumerate(elections, 1):
            until = elections[following].at if following < len(elections) else self.end
            died = [gone.died_at for gone in self._gone.get(row.node, ()) if row.at < gone.died_at < until]
            words = f"Broker {row.node} became the controller (epoch {row.epoch}) at {self._clock(row.at)}"
            boxes.append(
                drawing.Box(row.at, min([until, *died]), f"{colour(row.node)} soft", words, label=str(row.node))
            )
        return drawing.Lane("controller", boxes, 18)

    def _without_leader(self, begin: float, end: float) -> drawing.Lane:
        most = _most(self._unled)
        area = drawing.Area(
            drawing.running_total(self._unled, begin, end),
            most,
            "bad",
            f"at most {count_text(most, 'partition')} without a leader",
        )
        return drawing.Lane("no leader", [area] if most else [], 24, f"≤ {most:,}")

    def _broker(self, broker: int, most: int, begin: float, end: float) -> drawing.Lane:
        led = self._led.get(broker, [])
        marks: list[drawing.Box | drawing.Area] = []
        if led:
            words = f"Broker {broker} leads at most {count_text(_most(led), 'partition')}"
            marks.append(
                drawing.Area(drawing.running_total(led, begin, end), most, f"{colour(broker)} area", words, 0.0, 0.58)
            )
        for run in self._runs.get(broker, ()):
            words = f"Process of broker {broker}: {self._clock(run.first_at)} to {self._clock(run.last_at)}"
            marks.append(drawing.Box(run.first_at, run.last_at, "alive", words, 0.62, 0.8))
        for row in self._gone.get(broker, ()):
            seen, back = row.died_at + row.seen_s, self.end if row.back_at is None else row.back_at
            if row.seen_s > 0:
                words = f"Broker {broker} was dead and its session had not expired: {duration(row.seen_s)}"
                marks.append(drawing.Box(row.died_at, seen, "held", words, 0.62, 0.8))
            marks.append(
                drawing.Box(seen, back, "bad", f"Broker {broker} was gone: {duration(back - seen)}", 0.62, 0.8)
            )
        out = self._out.get(broker, [])
        if out:
            words = f"Broker {broker} was out of the ISR of at most {count_text(_most(out), 'partition')}"
            marks.append(
                drawing.Area(
                    [(at, min(1.0, value)) for at, value in drawing.running_total(out, begin, end)],
                    1.0,
                    "warn",
                    words,
                    0.84,
                    1.0,
                )
            )
        note = f"≤ {_most(led):,}" if led else ""
        return drawing.Lane(f"broker {broker}", marks, 34, note)

    def _faults(self) -> drawing.Lane:
        boxes = []
        for row in self._summary["faults"]:
            words = f"{row.fault} of node {row.node}, {count_text(row.count, 'record')}"
            boxes.append(drawing.Box(row.first_at, row.last_at, "fault", words))
        return drawing.Lane("faults", boxes, 14)

    # ------------------------------------------------------------------------------------------------------ counts

    def _count_led(self) -> dict[int, list[Change]]:
        """Return broker -> changes of the number of partitions that it leads."""
        changes: dict[int, list[Change]] = {}
        leaders: dict[tuple[str, int], int] = {}
        for row in self._summary["leadership"]:
            key = (row.topic, row.partition)
            before = leaders.get(key, -1)
            if before >= 0:
                lost = [
                    gone.died_at
                    for gone in self._gone.get(before, ())
                    if gone.died_at <= row.at and (gone.back_at is None or row.at < gone.back_at)
                ]
                changes.setdefault(before, []).append((lost[-1] if lost else row.at, -1.0))
            if row.leader >= 0:
                changes.setdefault(row.leader, []).append((row.at, 1.0))
            leaders[key] = row.leader
        return changes

    def _clock(self, at: float) -> str:
        return moment(at, self._zone, self.begin, self.end)


def _changes(begin: float, end: float | None, count: int) -> list[Change]:
    return [(begin, float(count)), *([] if end is None else [(end, -float(count))])]


def _most(changes: Sequence[Change]) -> int:
    total = most = 0.0
    for _, change in sorted(changes):
        total += change
        most = max(most, total)
    return int(most)


def _within(lane: drawing.Lane, begin: float, end: float) -> drawing.Lane:
    """Return the lane with all its areas, and with the boxes that overlap the time from `begin` to `end`."""
    marks = [mark for mark in lane.marks if isinstance(mark, drawing.Area) or (mark.begin <= end and mark.end >= begin)]
    return drawing.Lane(lane.label, marks, lane.height, lane.note)
