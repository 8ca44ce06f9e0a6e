"""The page of a recorded trace: what it answers about any moment, delivery, request, partition and group.

Rule 1: the facts and the survey are read in the background; until they are there, the page shows what it has, and says
        so. Facts come from the index beside each run.
Rule 2: one request is answered at a time, because all use the same decoded deliveries; replays have a lock of their
        own, so that a long one holds up nothing else. A request that searches more than MOST_FRAMES is answered by
        {"unfinished": true}: it continues when the page repeats it.
Rule 3: a picture is folded from the last one, or from a copy of the nearest kept picture before it.
Rule 4: another process stores snapshots of the runs, so that a state is replayed from one near it. Until it has come
        to a delivery, the page says how far it is.
"""

from __future__ import annotations

import copy
import multiprocessing
import os
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import islice, zip_longest
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from actors.explain.step_texts import TEXTS, text_of
from actors.node.free_ports import HOST
from actors.page import critical_path, subject_histories
from actors.page.lanes import drawn, interest_of, lanes, lanes_of, strip_of, with_log_lanes
from actors.page.log_lines import LogLine, lines_between, log_lines
from actors.page.picture import Picture, timeline
from actors.page.recorded_trace import Position, RecordedTrace, SearchUnfinished
from actors.page.server import PageServer, Route
from actors.page.survey import TraceSurvey
from actors.trace.changes import ABSENT, compare
from actors.trace.debugger import Debugger
from actors.trace.delivery_text import as_dict, title
from actors.trace.explanation import explain_facts, explanation_json, subject_named, utc, with_payloads
from actors.trace.links import DeliveryId
from actors.trace.moment import shown_state
from actors.trace.reader import Trace, TraceDelivery, open_trace
from messages.cluster import partition_named
from messages.facts import declarations
from messages.facts.declarations import Fact, fields_of
from messages.facts.indexed import decode_facts, readable_content_of
from messages.facts.trace_facts import TraceFacts, facts_before, merge_runs
from messages.trace.errors import TraceError

EVERY = 4_000
"""Number of facts between two kept pictures."""
NEAR = 400
"""Number of deliveries before and after a delivery among which its causes and effects are searched."""
CHAIN = 40
EFFECTS = 60
FOUND = 100
"""Maximum length of a chain of causes, and numbers of effects and of search results that are shown."""
PAYLOAD_BYTES = 256 << 10
STEPPED = 1_500
"""Maximum number of deliveries, of those that contain the texts of a subject, that a step passes over."""
MOST_FRAMES = 200
"""Maximum number of frames that a request searches for texts: 0.4 ms each."""
SNAPSHOTS = 5_000
"""Number of deliveries between two snapshots of a replay, so that a step back replays few of them."""
MOST_SNAPSHOTS = 400
"""Maximum number of snapshots of a run; a longer run has more deliveries between two."""
CACHE_BYTES = 1 << 30
"""Bytes of snapshots above which those of other runs are removed."""
COMPARED = 20
"""Number of facts before and after a moment in a comparison of two runs."""
MARKS = 1_000
MOST_DRAWN = 500

_QUIET = (
    *(declarations.ControllerEvent, declarations.BrokersRead, declarations.BrokerResponse),
    *(declarations.EventWithoutEffect, declarations.PendingEvent),
)
"""Facts that are no steps of their own."""


class _Facts:
    """The facts of the trace, in order, and pictures of the cluster between them."""

    def __init__(self, recorded: RecordedTrace) -> None:
        runs = [run.run.run for run in recorded.runs]
        with with_payloads(runs) as complete:
            self.all = merge_runs(decode_facts(readable_content_of(run)) for run in complete)
        self.ordered = timeline(map(recorded.correct_time, self.all.all()))
        self.steps = [each for each in self.ordered if each.place.n > 0 and not isinstance(each, _QUIET)]
        self.at: dict[tuple[str, int], list[Fact]] = {}
        for fact in self.steps:
            self.at.setdefault((fact.place.run, fact.place.n), []).append(fact)
        self._kept = [Picture()]
        self._last = 0, Picture()
        picture = Picture()
        for count, each in enumerate(self.ordered, 1):
            picture.apply(each)
            if not count % EVERY:
                self._kept.append(copy.deepcopy(picture))
        self.marks = picture.whole()["feed"][-MARKS:]

    def picture(self, at: float) -> Picture:
        """Return the picture at a time."""
        count = bisect_right(self.ordered, at, key=lambda fact: fact.place.at)
        kept = count // EVERY
        done, picture = self._last
        if not kept * EVERY <= done <= count:
            done, picture = kept * EVERY, copy.deepcopy(self._kept[kept])
        for each in self.ordered[done:count]:
            picture.apply(each)
        self._last = count, picture
        return picture

    @cached_property
    def subjects(self) -> dict[str, list[str]]:
        """The names of what the facts are about, by kind."""
        of = self.all.select
        found = {
            "partition": {str(partition) for partition in self.all.states},
            "topic": {partition.topic for partition in self.all.states},
            "group": {each.group for each in of(declarations.GroupStateChanged)},
            "transaction": {each.transactional_id for each in of(declarations.TransactionRequest)},
            "client": {each.client_id for each in of(declarations.ErrorAnswered)} - {""},
        }
        return {kind: sorted(names) for kind, names in found.items()}


def store_snapshots(folder: Path, run: str, cache: Path | None, every: int) -> None:
    """Store snapshots of a run; this is the work of a process of its own."""
    os.nice(5)
    with suppress(KeyboardInterrupt, TraceError, OSError):  # without snapshots the page replays from farther away
        Debugger(open_trace(folder).only_run(None, run), cache, every).store_snapshots(CACHE_BYTES)


class _States:
    """The states of actors by replay, and the process that stores snapshots of one run after the other."""

    def __init__(self, recorded: RecordedTrace, cache: Path | None) -> None:
        self._recorded = recorded
        self._cache = cache
        self._debuggers: dict[str, Debugger] = {}
        self.replaying = threading.Lock()
        self._left = [run.run.name for run in recorded.runs if run.length > 2 * SNAPSHOTS]
        self._processes = multiprocessing.get_context("spawn")
        self._process: BaseProcess | None = None
        self._choosing = threading.Lock()
        self._thread = threading.Thread(target=self._store_all, name="page-snapshots", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the process."""
        self._put_first([])
        self._thread.join()

    def _put_first(self, runs: list[str]) -> None:
        """Let the process continue with other runs."""
        with self._choosing:
            self._left = runs
            if self._process is not None:
                self._process.terminate()

    def _store_all(self) -> None:
        while True:
            with self._choosing:
                if not self._left:
                    return
                run = self._left[0]
                arguments = self._recorded.trace.folder, run, self._cache, self._every(run)
                self._process = self._processes.Process(target=store_snapshots, args=arguments, daemon=True)
                self._process.start()
            self._process.join()
            with self._choosing:
                if self._left[:1] == [run]:  # otherwise it was stopped in favour of another run
                    self._left = self._left[1:]
                self._process = None

    def _every(self, run: str) -> int:
        return max(SNAPSHOTS, self._recorded.run_named(run).length // MOST_SNAPSHOTS)

    def before_and_after(self, delivery: TraceDelivery) -> list[Any] | int:
        """Return the states of the receiver before and after a delivery.

        Returns:
            The number of the last stored snapshot before it, if the other process is on its way to the delivery.
        """
        run = delivery.run.name
        with self.replaying:
            debugger = self._debuggers.get(run)
            if debugger is None:
                debugger = self._debuggers[run] = Debugger(delivery.run, self._cache, self._every(run))
            is_far = debugger.distance(delivery.seq) > 2 * self._every(run)  # by the snapshots that are stored now
            left = self._left  # the thread replaces the list
            if is_far and run in left:
                if left[0] != run:
                    self._put_first([run, *(each for each in left if each != run)])
                return debugger.begins(delivery.seq)
            states = []
            for seq in (delivery.seq - 1, delivery.seq):
                debugger.go(seq)
                living = {str(ref) for ref in debugger.base.living()}
                states.append(shown_state(debugger.base, delivery.receiver) if delivery.receiver in living else ABSENT)
            return states


class RecordedPage:
    """Serves the page of a recorded trace until `stop`; `url` is its address.

    Args:
        trace: The trace.
        host: The address to listen on.
        port: The port; 0 selects a free one.
        cache: The folder of the debugger's snapshots; None for the default.
        beside: The page of another run, with which this one is compared.

    Raises:
        OSError: The port is in use.
    """

    def __init__(
        self,
        trace: Trace,
        host: str = HOST,
        port: int = 0,
        cache: Path | None = None,
        beside: RecordedPage | None = None,
    ) -> None:
        self._beside = beside
        self._recorded = RecordedTrace(trace)
        self._survey = TraceSurvey(self._recorded)
        self._problem = ""
        self._facts: _Facts | None = None
        self._logs: list[LogLine] = []
        self._gate = threading.Lock()
        self._server = PageServer({"mode": "recorded", "title": str(trace.folder)}, self.routes, host=host, port=port)
        self.url = self._server.url
        self._states = _States(self._recorded, cache)
        self._thread = threading.Thread(target=self._read, name="page-reader", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close the page."""
        self._survey.stop()
        self._server.stop()
        self._states.stop()
        self._thread.join()

    @property
    def end(self) -> float:
        """The last time of the trace, in seconds since 1970."""
        return self._recorded.end

    def wait(self) -> None:
        """Wait until the trace is read."""
        self._thread.join()

    def _read(self) -> None:
        """Read the facts and the survey."""
        try:
            self._facts = _Facts(self._recorded)
        except (TraceError, OSError) as error:
            self._problem = f"the facts cannot be read: {error}"
        self._logs = log_lines(self._recorded)
        named = {} if self._facts is None else self._facts.subjects
        names = {name for kind, names in named.items() if kind != "partition" for name in names}
        self._survey.run(names, self._gate, self._states.replaying)

    @property
    def routes(self) -> dict[str, Route]:
        """The function of each address."""
        table: dict[str, Callable[[Mapping[str, str]], Any]] = {
            "overview": self._overview,
            "picture": self._picture,
            "lanes": self._lanes,
            "step": self._step,
            "delivery": self._delivery,
            "slow": self._slow,
            "path": self._path,
            "partition": self._partition,
            "offsets": self._offsets,
            "members": self._members,
            "lags": self._lags,
            "search": self._search,
            "why": self._why,
            "compare": self._compare,
        }
        found = {f"/api/{name}": self._one_at_a_time(answer) for name, answer in table.items()}
        return {**found, "/api/state": self._state}

    def _one_at_a_time(self, answer: Route) -> Route:
        def answer_locked(query: Mapping[str, str]) -> Any:
            try:
                with self._gate, self._recorded.search_limit.limited(MOST_FRAMES):
                    return answer(query)
            except SearchUnfinished:
                return {"unfinished": True}

        return answer_locked

    def _known_facts(self) -> _Facts:
        """Return the facts. Raises TraceError if they are not read yet."""
        if self._facts is None:
            raise TraceError(self._problem or "the index of facts is being built; try again in a moment")
        return self._facts

    # ------------------------------------------------------------------------------------------------ the trace

    def _overview(self, query: Mapping[str, str]) -> Any:
        """Return the extent of the trace, its runs, what is known so far, and the marks on the slider."""
        recorded, facts = self._recorded, self._facts
        return {
            "folder": str(recorded.trace.folder),
            "compares": self._beside is not None,
            "begin": recorded.begin,
            "end": recorded.end,
            "deliveries": sum(run.length for run in recorded.runs),
            "problems": [*recorded.problems, *([self._problem] if self._problem else [])],
            "ready": facts is not None or bool(self._problem),
            "read": self._survey.read,
            "runs": [
                {
                    "run": run.run.name,
                    "node": run.run.node,
                    "begin": run.begin,
                    "end": run.end,
                    "ending": run.run.ending,
                    "first": run.first,
                    "last": run.last,
                    "strip": strip_of(self._survey, run.place, recorded.begin, recorded.end),
                }
                for run in recorded.runs
            ],
            "marks": [] if facts is None else facts.marks,
            "gaps": []
            if facts is None
            else [
                {"node": gap.place.node, "begin": gap.began, "end": gap.place.at}
                for gap in facts.all.select(declarations.RecordingGap)
            ],
            "subjects": {} if facts is None else facts.subjects,
            "skews": [{**each._asdict(), "certain": each.is_certain} for each in recorded.skews],
        }

    def _picture(self, query: Mapping[str, str]) -> Any:
        """Return the picture of the cluster at a time."""
        return self._known_facts().picture(float(query["at"])).whole()

    def _lanes(self, query: Mapping[str, str]) -> Any:
        """Return what the lanes show around a moment."""
        most = min(int(query.get("most", MOST_DRAWN)), MOST_DRAWN)
        interest = interest_of(query.get("about", ""), self._recorded, self._survey)
        found = lanes(self._recorded, self._survey, self._position(query), interest, most)
        steps = [] if self._facts is None else self._facts.steps
        part = steps[bisect_left(steps, found["start"], key=_time_of) : bisect_right(steps, found["end"], key=_time_of)]
        logs = lines_between(self._logs, found["start"], found["end"])
        return {
            **found,
            "lanes": with_log_lanes(self._recorded, found["lanes"], {line.run for line in logs}),
            "logs": [line._asdict() for line in logs],
            "facts": [_fact_row(each) for each in part[:FOUND]],
        }

    def _position(self, query: Mapping[str, str], back: bool = False) -> Position:
        """Return the position of a delivery, or that of a time."""
        if query.get("run"):
            return self._recorded.position(self._recorded.delivery(query["run"], int(query["seq"])))
        return float(query["at"]), -1 if not back else len(self._recorded.runs), 0

    # ------------------------------------------------------------------------------------------------ steps

    def _step(self, query: Mapping[str, str]) -> Any:
        """Return the next or previous delivery, beginning of an event, or fact, from a delivery or a time."""
        back, by = query.get("back") == "1", query.get("by", "delivery")
        position = self._position(query, back)
        if by == "fact":
            return self._step_to_fact(position, back, query.get("about", ""))
        interest = interest_of(query.get("about", ""), self._recorded, self._survey)
        move = self._recorded.deliveries_before if back else self._recorded.deliveries_after
        steps = move(position, interest, STEPPED)
        found = next((each for each in steps if by != "event" or each.record.event_id == each.seq), None)
        return None if found is None else self._place(found)

    def _step_to_fact(self, position: Position, back: bool, about: str) -> Any:
        places = {run.run.name: run.place for run in self._recorded.runs}
        name = about.partition(":")[2]

        def key(fact: Fact) -> Position:
            return fact.place.at, places.get(fact.place.run, 0), fact.place.n

        steps, at = self._known_facts().steps, position[0]
        first, count = bisect_left(steps, at, key=_time_of), bisect_right(steps, at, key=_time_of)
        for number in range(count - 1, -1, -1) if back else range(first, len(steps)):
            fact = steps[number]
            passed = key(fact) < position if back else key(fact) > position
            if passed and (not name or name in _text(fact)):
                return _fact_row(fact)
        return None

    def _place(self, delivery: TraceDelivery) -> dict[str, Any]:
        return {
            "run": delivery.run.name,
            "node": delivery.node,
            "seq": delivery.seq,
            "at": delivery.at,
            "title": title(delivery.record),
            "to": delivery.receiver,
        }

    # ------------------------------------------------------------------------------------------------ a delivery

    def _delivery(self, query: Mapping[str, str]) -> Any:
        """Return a delivery with its causes, its effects and the facts that it shows."""
        here = self._recorded.delivery(query["run"], int(query["seq"]))
        facts = [] if self._facts is None else self._facts.at.get((here.run.name, here.seq), [])
        event = here.record.event_id
        return {
            **as_dict(here, PAYLOAD_BYTES),
            "title": title(here.record),
            "actor": here.actor,
            "event": event,
            "payload_bytes": here.payload_bytes,
            "payload": here.payload if here.payload_bytes <= PAYLOAD_BYTES else None,
            "effects": [effect_json(each) for each in here.effects],
            "causes": self._causes(here),
            "sent": self._effects_of(here),
            "facts": [_fact_row(each) for each in facts],
        }

    def _causes(self, delivery: TraceDelivery) -> list[dict[str, Any]]:
        """Return the chain of causes, the nearest first, as far as the recording near each of them shows it."""
        found: list[dict[str, Any]] = []
        here: TraceDelivery | None = delivery
        near = None
        while here is not None and len(found) < CHAIN:
            place = self._recorded.id_of(here)
            cause: DeliveryId | None = None
            if here.cause is not None:
                cause = DeliveryId(place.run, here.cause)
            else:
                if near is None or place not in near.read:
                    near = self._recorded.stretch(here.at, here.at + 1e-6, NEAR, lead=NEAR)
                link = near.links.get(place)
                cause = None if link is None else link.cause
            here = None if cause is None else self._recorded.runs[cause.run].delivery(cause.seq)
            if here is not None:
                found.append(self._place(here))
        return found

    def _effects_of(self, delivery: TraceDelivery) -> list[dict[str, Any]]:
        """Return the deliveries near this one that it caused."""
        here = self._recorded.id_of(delivery)
        near = self._recorded.stretch(delivery.at, delivery.at + 60.0, 4 * NEAR, lead=0)
        effects = [
            each
            for each in near.deliveries
            if (link := near.links.get(self._recorded.id_of(each))) is not None and link.cause == here
        ]
        return [self._place(each) for each in effects[:EFFECTS]]

    def _state(self, query: Mapping[str, str]) -> Any:
        """Return the state of the receiver before and after a delivery, with what differs, by replay."""
        with self._gate:
            here = self._recorded.delivery(query["run"], int(query["seq"]))
        if here.actor == "":
            return {"actor": here.receiver, "before": None, "after": None, "differences": [], "outside": True}
        try:
            states = self._states.before_and_after(here)
        except TraceError as error:  # such as a run that another version of the code recorded
            return {"actor": here.receiver, "problem": str(error)}
        if isinstance(states, int):
            return {"actor": here.receiver, "stored": states}
        one, other = states
        return {
            "actor": here.receiver,
            "before": None if one is ABSENT else one,
            "after": None if other is ABSENT else other,
            "differences": [each._asdict() for each in compare("", one, other)],
        }

    # ------------------------------------------------------------------------------------------------ requests

    def _slow(self, query: Mapping[str, str]) -> Any:
        """Return the slowest requests of clients."""
        found = self._survey.slowest(query.get("api", ""))
        about = query.get("about", "")
        if about:
            found = [each for each in found if about in (each.subject, each.client_id)]
        return {"read": self._survey.read, "requests": [each._asdict() for each in found[: 2 * FOUND]]}

    def _path(self, query: Mapping[str, str]) -> Any:
        """Return the critical path of a request, with the deliveries to draw."""
        ids = int(query["connection"]), int(query["correlation"])
        path = critical_path.critical_path(self._recorded, query["run"], int(query["seq"]), *ids)
        return {
            **critical_path.as_json(path, self._recorded),
            "lanes": lanes_of(self._recorded, path.deliveries),
            "deliveries": [drawn(self._recorded, path.stretch, each) for each in path.deliveries],
        }

    # ------------------------------------------------------------------------------------------------ subjects

    def _partition(self, query: Mapping[str, str]) -> Any:
        """Return what the picture has about a partition at a time."""
        return self._known_facts().picture(float(query.get("at") or self._recorded.end)).partition(query["name"])

    def _offsets(self, query: Mapping[str, str]) -> Any:
        """Return the history of a partition's offsets."""
        partition = partition_named(query["name"])
        if partition is None:
            raise TraceError(f"{query['name']} is no partition such as orders-0")
        start, end = float(query.get("start", self._recorded.begin)), float(query.get("end", self._recorded.end))
        found = subject_histories.partition_history(self._recorded, self._known_facts().all, partition, start, end)
        waited = [each for each in self._survey.slowest("Produce") if each.subject == str(partition)]
        return {**found, "produces": [each._asdict() for each in waited]}

    def _members(self, query: Mapping[str, str]) -> Any:
        """Return the history of a consumer group's members."""
        return subject_histories.group_history(self._known_facts().all, query["name"])

    def _lags(self, query: Mapping[str, str]) -> Any:
        """Return the lag of a consumer group at a time."""
        return subject_histories.group_lags(self._recorded, query["name"], float(query["at"]))

    def _why(self, query: Mapping[str, str]) -> Any:
        """Explain a subject, at a time or at the end."""
        about, name = query["about"], query.get("name") or None
        facts: TraceFacts = self._known_facts().all
        if query.get("at"):
            facts = facts_before(facts, float(query["at"]) + 1e-6)
        return explanation_json(explain_facts(facts, about, subject_named(about, name), utc), utc)

    def _search(self, query: Mapping[str, str]) -> Any:
        """Return subjects and facts whose text contains some words, and deliveries that contain them from a time on."""
        text = query["text"].strip()
        if not text:
            raise TraceError("enter what to search for")
        words = text.lower()
        subjects, facts = [], []
        if self._facts is not None:
            named = self._facts.subjects.items()
            subjects = [[kind, name] for kind, names in named for name in names if words in name.lower()][:FOUND]
            facts = list(
                islice((each for each in map(_fact_row, self._facts.steps) if words in each["text"].lower()), FOUND)
            )
        found = islice(self._containing(text, float(query.get("from", self._recorded.begin))), FOUND)
        return {"subjects": subjects, "facts": facts, "deliveries": [self._place(each) for each in found]}

    def _compare(self, query: Mapping[str, str]) -> Any:
        """Return the facts of this run and of the other one around a moment, counted from the beginning of each run."""
        if self._beside is None:
            raise TraceError("there is no other run: start with --with DIR")
        pages = self, self._beside
        ours, theirs = ([_content(fact) for fact in page._known_facts().steps] for page in pages)
        first = next((n for n, (one, other) in enumerate(zip_longest(ours, theirs)) if one != other), None)
        since = float(query["at"]) - self._recorded.begin
        return {"since": since, "same": first is None, "sides": [page._side(since, first) for page in pages]}

    def _side(self, since: float, first: int | None) -> dict[str, Any]:
        """Return one column of a comparison; `first` is the number of the first fact that differs."""
        begin, facts = self._recorded.begin, self._known_facts()
        passed = bisect_right(facts.steps, begin + since, key=_time_of)
        start = max(passed - COMPARED, 0)
        shown = [_fact_row(each) for each in facts.steps[start : passed + COMPARED]]
        differing = None if first is None or first >= len(facts.steps) else facts.steps[first]
        picture = facts.picture(begin + since).whole()
        return {
            "folder": str(self._recorded.trace.folder),
            "url": self.url,
            "at": begin + since,
            "first": None if differing is None else {**_fact_row(differing), "since": differing.place.at - begin},
            "controller": picture["cluster"]["controller"],
            "brokers": [[each["id"], each["process"]] for each in picture["brokers"]],
            "facts": [
                {**each, "since": each["at"] - begin, "passed": n < passed, "differs": first is not None and n >= first}
                for n, each in enumerate(shown, start)
            ],
        }

    def _containing(self, text: str, start: float) -> Iterator[TraceDelivery]:
        """Yield the deliveries from a time on whose record contains the text, run by run."""
        needle = text.encode()
        most = FOUND // len(self._recorded.runs) + 1
        for run in self._recorded.runs:
            found = run.containing(lambda line: needle in line, run.number_before(start), texts=(needle,))
            yield from islice(found, most)


def effect_json(effect: object) -> dict[str, Any]:
    """Return a call of an I/O adapter as plain values."""
    return {name: getattr(effect, name) for name in ("port", "method", "args", "result", "error")}


def _time_of(fact: Fact) -> float:
    return fact.place.at


def _text(fact: Fact) -> str:
    if (type(fact), "") in TEXTS:
        return text_of(fact)
    fields = ", ".join(f"{name} {value}" for name, value in fields_of(fact).items())
    return f"{type(fact).__name__}: {fields}" if fields else type(fact).__name__


def _content(fact: Fact) -> tuple[Any, ...]:
    """Return what must be equal in two runs: all but times."""
    values = fields_of(fact).values()
    return fact.place.node, type(fact), *(value for value in values if not isinstance(value, float))


def _fact_row(fact: Fact) -> dict[str, Any]:
    place = fact.place
    return {
        "at": place.at,
        "node": place.node,
        "run": place.run,
        "seq": place.n,
        "kind": type(fact).__name__,
        "text": _text(fact),
    }
