"""Describe each incident in a summary: what broke and why, what was affected and for how long, and the state now.

Rule 1: an incident is a broker that was gone, partitions that lost their leader though no broker failed, a running
        broker that left an ISR, or a controller that was replaced though its broker was not gone.
Rule 2: "now" is the end of the traces. The stop of a whole cluster at the end of the traces is one incident. After this
        stop, partitions have no leader and replicas are out of the ISR. These partitions and replicas do not count as
        open problems.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from types import SimpleNamespace
from typing import NamedTuple

from messages.trace.schema import STOPPED
from spark.formatting import count_text, duration, formatter, moment
from spark.questions import INTERNAL
from spark.results import Summary
from spark.section_names import COMPARED

CLOSING_SECONDS = 60.0
"""A stop of all brokers within this time at the end of the traces is the stop of the cluster."""
APART_SECONDS = 10.0
"""Maximum number of seconds between two events of one incident."""
MOST_NAMES = 3
MOST_CHANGES = 5
"""Maximum number of differences in the headline."""
NEVER = float("inf")


@dataclass(frozen=True)
class Incident:
    """Something that broke: the times `at` and `until` (None: not over), a title (`what`), and facts about it.

    Times are in seconds since 1970. A fact is a text with its label: "Affected", "How long", "Why" or "Now".
    """

    at: float
    until: float | None
    what: str
    facts: tuple[tuple[str, str], ...]
    gravity: tuple[float, ...] = ()


class EndState(NamedTuple):
    """The state at the end of the traces: "bad", "warn", "ok" or "unknown", and its description."""

    level: str
    text: str


@dataclass(frozen=True)
class Incidents:
    """All incidents of a summary, in order of time, and the state at the end."""

    incidents: tuple[Incident, ...]
    status: EndState

    @property
    def gravest_first(self) -> list[Incident]:
        """Return the incidents by `gravity`, the gravest first; of equal incidents, the earliest first."""
        return sorted(self.incidents, key=lambda each: (each.gravity, -each.at), reverse=True)


class _Group(NamedTuple):
    """Rows that form one incident, from `at` to `until`; `still` is the number of partitions still affected."""

    rows: Sequence[SimpleNamespace]
    partitions: int
    still: int
    at: float
    until: float | None


EXAMINED = ("runs", "episodes", "unavailable", "leaderless", "out_of_isr", "elections", "leadership")
"""The sections from which the incidents are found."""


def find_incidents(summary: Summary, zone: tzinfo | None = UTC) -> Incidents:
    """Return the incidents of a summary, which must have the sections in EXAMINED.

    The texts of the incidents have times in the time zone `zone`.
    """
    return _IncidentFinder(summary, zone).find_all()


def headline(summary: Summary, zone: tzinfo | None = None) -> list[str]:
    """Return the sentences: elections, incidents, the state at the end. Times are in `zone`, by default local.

    Incidents and the state at the end need all sections in EXAMINED.
    """
    when = formatter("at", zone)
    sentences = [
        (row.at, f"Node {row.node} was elected controller at {when(row.at)}, with epoch {row.epoch}.")
        for row in summary["elections"]
    ]
    end = []
    if set(EXAMINED) <= summary.answers.keys() and len(summary["runs"]):
        found_incidents = find_incidents(summary, zone)
        sentences += [
            (each.at, f"{each.what} at {when(each.at)}. {' '.join(answer for _, answer in each.facts)}")
            for each in found_incidents.incidents
        ]
        end = [found_incidents.status.text]
    return [sentence for _, sentence in sorted(sentences)] + end + comparison_sentences(summary)


def comparison_sentences(summary: Summary) -> list[str]:
    """Return the sentences about the comparison with another folder."""
    rows = [row for row in summary[COMPARED] if row.verdict]
    if summary[COMPARED] and not rows:
        return ["Compared with --against, no time is clearly slower or faster."]
    return [
        f"Compared with --against, {row.name} ({row.kind}) is {row.verdict}: {row.after_p50_ms:.1f} ms in the median, "
        f"was {row.before_p50_ms:.1f} ms before."
        for row in rows[:MOST_CHANGES]
    ]


class _IncidentFinder:
    """Finds the incidents in the sections of a summary, and describes them."""

    def __init__(self, summary: Summary, zone: tzinfo | None) -> None:
        self.summary = summary
        self.zone = zone
        self.runs = list(summary["runs"])
        self.begin, self.end = summary.begin, summary.end
        self.gone = list(summary["episodes"])
        self.leaderless = list(summary["leaderless"])
        self.out = list(summary["out_of_isr"])
        self.elections = list(summary["elections"])
        self.closing = self._closing()

    def find_all(self) -> Incidents:
        found = [self._of_broker(row) for row in self.gone if row not in self.closing]
        found += [*self._of_partitions(), *self._of_lag(), *self._of_controller()]
        if self.closing:
            found.append(self._of_closing())
        return Incidents(tuple(sorted(found, key=lambda each: each.at)), self._status(bool(found)))

    # ---------------------------------------------------------------------------------------------------- incidents

    def _of_broker(self, row: SimpleNamespace) -> Incident:
        """Describe a broker that was gone."""
        was_controller = row.was_controller or self._was_controller(row)
        what = f"Broker {row.broker}{', the controller,' if was_controller else ''} {self._ending(row)}"
        out = [each for each in self.out if each.broker == row.broker and _holds(row, each.left_at)]
        mine = [each for each in self.leaderless if each.broker == row.broker and _holds(row, each.lost_at)]
        behind = sum(each.partitions for each in out if each.back_at is None)
        back = max((each.back_at or NEVER for each in out), default=row.back_at or NEVER)
        over = [row.back_at or NEVER, back, *(each.over_at or NEVER for each in mine)]
        until = None if max(over) == NEVER else max(over)
        affected, how_long = self._effects_text(row, mine, out), self._duration_text(row) if row.partitions else ""
        facts = _facts(affected, self._reason_text(row, mine), self._now(row, behind, back), how_long)
        seconds = (row.partition_seconds or 0.0) + row.still_leaderless * (self.end - row.died_at)
        return Incident(row.died_at, until, what, facts, (row.still_leaderless, seconds, row.partitions))

    def _ending(self, row: SimpleNamespace) -> str:
        if row.ending is not None:
            return f"was {row.ending}"
        lived = any(run.node == row.broker and run.first_at <= row.died_at < run.last_at for run in self.runs)
        return "lost its ZooKeeper session" if lived else "was gone"

    def _was_controller(self, row: SimpleNamespace) -> bool:
        """Return whether the broker was the controller, and its absence was noticed at the election of the next one."""
        if row.after != "Elected":
            return False
        before = [each.node for each in self.elections if each.at <= row.died_at + row.seen_s]
        return before[-2:-1] == [row.broker]

    def _effects_text(
        self, row: SimpleNamespace, mine: Sequence[SimpleNamespace], out: Sequence[SimpleNamespace]
    ) -> str:
        under = sum(each.partitions for each in out)
        rest = f" {count_text(under, 'partition')} {'was' if under == 1 else 'were'} under-replicated." if under else ""
        if not row.partitions:
            return f"No partition lost its leader.{rest}"
        of = f" of {count_text(row.topics, 'topic')}" if row.topics > 1 and row.partitions > MOST_NAMES else ""
        named = f": {_names_text(row.partitions, mine)}" if mine else ""
        return f"{count_text(row.partitions, 'partition')}{of} lost {_their(row.partitions)} leader{named}.{rest}"

    def _duration_text(self, row: SimpleNamespace) -> str:
        still, led = row.still_leaderless, row.partitions - row.still_leaderless
        parts = []
        if row.led_again_s is not None and led:
            longest = f"{duration(row.led_again_s)} without a leader"
            median = f", {duration(row.p50_s)} in the median" if led > 1 else ""
            parts.append(f"{'At most ' if led > 1 else ''}{longest}{median}.")
        if still:
            more = " more" if parts else ""
            parts.append(f"{still:,}{more} had none until the end, {duration(self.end - row.died_at)} later.")
        return " ".join(parts) or "Until the deletion of the topic."

    def _reason_text(self, row: SimpleNamespace, mine: Sequence[SimpleNamespace]) -> str:
        elected = ", when it was elected" if row.after == "Elected" else ""
        after = f" after {duration(row.seen_s)}" if row.ending is not None else ""
        expiry = ": ZooKeeper first had to expire the broker's session" if row.ending not in (None, STOPPED) else ""
        parts = [f"Controller {row.seen_by} detected it{after}{elected}{expiry}."]
        waited = sum(each.partitions for each in mine if each.over_at is None or each.over_at >= (row.back_at or NEVER))
        if waited:
            parts.append(f"{count_text(waited, 'partition')} had no other in-sync replica alive.")
        elif row.led_again_s is not None:
            parts.append(f"The last new leader followed after {duration(row.led_again_s - row.seen_s)}.")
        return " ".join(parts)

    def _now(self, row: SimpleNamespace, behind: int, back: float) -> str:
        still = row.still_leaderless
        if row.back_at is None:
            now = f"Broker {row.broker} is not back"
            led = (
                f"{count_text(still, 'partition')} still {_have(still)} no leader"
                if still
                else "all partitions are led"
            )
            return f"{now if not row.partitions and not still else f'{now}; {led}'}."
        now = f"Over. Broker {row.broker} came back at {self._clock(row.back_at)}"
        if still or behind:
            now = now.removeprefix("Over. ")
            open_ = [f"{count_text(still, 'partition')} still {_have(still)} no leader"] if still else []
            open_ += [f"it is not in the ISR of {count_text(behind, 'partition')}"] if behind else []
            return f"{now}, but {' and '.join(open_)}."
        return f"{now}, and has been in all ISRs since {self._clock(back)}." if back > row.back_at else f"{now}."

    def _of_partitions(self) -> Iterator[Incident]:
        """Describe partitions that lost their leader though no broker failed."""
        for group in _together([row for row in self.leaderless if row.broker is None], "lost_at", "over_at"):
            facts = _facts(
                f"{_names_text(group.partitions, group.rows)}.",
                "No controller missed a broker: a log directory failed, or no replica was alive.",
                self._over(group, f"{count_text(group.still, 'partition')} still {_have(group.still)} no leader."),
                self._time_text(group),
            )
            gravity = (group.still, group.partitions * self._seconds(group), group.partitions)
            what = f"{count_text(group.partitions, 'partition')} had no leader, though no broker failed"
            yield Incident(group.at, group.until, what, facts, gravity)

    def _of_lag(self) -> Iterator[Incident]:
        """Describe running brokers that left ISRs."""
        late = [
            row
            for row in self.out
            if row.by == "leader"
            and not any(gone.broker == row.broker and _holds(gone, row.left_at) for gone in self.gone)
        ]
        for broker in sorted({row.broker for row in late}):
            for group in _together([row for row in late if row.broker == broker], "left_at", "back_at"):
                facts = _facts(
                    f"{_names_text(group.partitions, group.rows)}. They were under-replicated.",
                    "Leaders removed it: it did not catch up within replica.lag.time.max.ms.",
                    self._over(group, f"It is still not in the ISR of {count_text(group.still, 'partition')}."),
                    self._time_text(group),
                )
                what = (
                    f"Broker {broker} left the ISR of {count_text(group.partitions, 'partition')} while it was running"
                )
                yield Incident(group.at, group.until, what, facts, (0, 0.0, 0, group.still, group.partitions))

    def _seconds(self, group: _Group) -> float:
        return (group.until or self.end) - group.at

    def _time_text(self, group: _Group) -> str:
        return f"{duration(self._seconds(group))}{' until the end' if group.still else ''}."

    def _over(self, group: _Group, otherwise: str) -> str:
        return otherwise if group.still else f"Over since {self._clock(group.until or group.at)}."

    def _of_controller(self) -> Iterator[Incident]:
        """Describe controllers that were replaced though their broker was not gone."""
        for before, now in zip(self.elections, self.elections[1:], strict=False):
            explained = any(
                row.broker == before.node
                and before.at <= row.died_at
                and (row.died_at <= now.at or (row.after, row.seen_by) == ("Elected", now.node))
                for row in self.gone
            )
            if not explained and before.node != now.node:
                facts = _facts(
                    "No broker was gone.",
                    "/controller was deleted, or the controller resigned: see `why controller`.",
                    f"Over. Broker {now.node} has been the controller since {self._clock(now.at)}.",
                )
                yield Incident(now.at, now.at, f"Broker {now.node} replaced controller {before.node}", facts)

    # ------------------------------------------------------------------------------------------------- at the end

    def _closing(self) -> list[SimpleNamespace]:
        """Return the rows of `gone` for brokers that stopped with the whole cluster at the end of the traces."""
        last: dict[int, SimpleNamespace] = {}
        for run in self.runs:
            if run.node not in last or run.last_at > last[run.node].last_at:
                last[run.node] = run
        late = [run for run in last.values() if run.last_at >= self.end - CLOSING_SECONDS]
        if not late or any(run.ending != STOPPED for run in late):
            return []
        return [
            row
            for row in self.gone
            if row.ending == STOPPED and row.back_at is None and row.died_at >= self.end - CLOSING_SECONDS
        ]

    def _of_closing(self) -> Incident:
        at = min(row.died_at for row in self.closing)
        brokers = ", ".join(str(broker) for broker in sorted({row.broker for row in self.closing}))
        affected = f"The whole cluster. Brokers that a controller saw stop: {brokers}."
        facts = _facts(affected, "", "Every broker had stopped when the traces ended.")
        return Incident(at, self.end, "The cluster was stopped", facts, (-1.0,))

    def _status(self, found: bool) -> EndState:
        if not self.elections and not len(self.summary["leadership"]):
            return EndState("unknown", "No controller has a record here, so it is unknown whether anything broke.")
        ended = [row.died_at for row in self.closing]
        until = min(ended, default=NEVER)
        unled = sum(row.since_at is not None and row.since_at < until for row in self.summary["unavailable"])
        gone = sorted({row.broker for row in self.gone if row.back_at is None and row not in self.closing})
        stopping = {row.broker for row in self.closing}  # a controlled shutdown first removes the broker from ISRs
        late = self.end - CLOSING_SECONDS
        out = sum(
            row.partitions
            for row in self.out
            if row.back_at is None and not (row.broker in stopping and row.left_at >= late)
        )
        parts = [f"{count_text(unled, 'partition')} {_have(unled)} no leader"] if unled else []
        if gone:
            named = ", ".join(map(str, gone[:MOST_NAMES])) + (" ..." if len(gone) > MOST_NAMES else "")
            parts.append(f"broker {named} is gone" if len(gone) == 1 else f"brokers {named} are gone")
        if out:
            parts.append(f"{count_text(out, 'replica')} {'is' if out == 1 else 'are'} out of the ISR")
        if parts:
            return EndState("bad" if unled else "warn", f"Not over: {', '.join(parts)}.")
        if self.closing:
            return EndState("ok", "The cluster was stopped. Until then nothing was left open.")
        if found:
            return EndState("ok", "Over: every partition has a leader, and no broker is gone.")
        return EndState("ok", "No broker failed or stopped, and all partitions kept a leader.")

    def _clock(self, at: float) -> str:
        return moment(at, self.zone, self.begin, self.end)


def _facts(affected: str, why: str, now: str, how_long: str = "") -> tuple[tuple[str, str], ...]:
    """Return the texts about an incident that are not empty, each with its label."""
    texts = (("Affected", affected), ("How long", how_long), ("Why", why), ("Now", now))
    return tuple((label, text) for label, text in texts if text)


def _holds(row: SimpleNamespace, at: float) -> bool:
    """Return whether the broker of this row of "episodes" was gone at the time `at`."""
    return bool(row.died_at <= at < (row.back_at or NEVER))


def _together(rows: Iterable[SimpleNamespace], begin: str, end: str) -> Iterator[_Group]:
    """Yield groups of successive rows that are close in time.

    The rows must be sorted by their begin. A row joins the current group if it begins at most APART_SECONDS after the
    end of that group.
    """
    groups: list[list[SimpleNamespace]] = []
    until = -NEVER
    for row in rows:
        if getattr(row, begin) > until + APART_SECONDS:
            groups.append([])
        groups[-1].append(row)
        until = max(until, getattr(row, end) or NEVER)
    for group in groups:
        still = sum(row.partitions for row in group if getattr(row, end) is None)
        over = None if still else max(getattr(row, end) for row in group)
        yield _Group(group, sum(row.partitions for row in group), still, getattr(group[0], begin), over)


def _names_text(count: int, rows: Iterable[SimpleNamespace]) -> str:
    """Return the names of some partitions of these rows, and the number of the others."""
    every = {name for row in rows for name in row.examples.split(", ")}
    names = sorted(every, key=lambda name: (name.startswith(INTERNAL), name))[:MOST_NAMES]
    more = count - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more > 0 else "")


def _their(count: int) -> str:
    return "its" if count == 1 else "their"


def _have(count: int) -> str:
    return "has" if count == 1 else "have"
