"""Random access to the deliveries of a recorded trace, by number and by time, without reading the trace whole.

Rule 1: a run is opened by its frames, whose prefixes have the numbers of the deliveries. A frame is decoded when a
        delivery in it is needed; the last frames are kept decoded.
        Records without the texts of an interest are passed over undecoded, and frames without them unread; which these
        are is kept, or in the index of words when the survey has made it. A search of more frames
        than SearchLimit is interrupted, and continues where it was when the same is searched again.
Rule 2: the order of deliveries is (time, index of the run, number). Within a run it is that of the numbers.
Rule 3: a damaged or torn run is read up to the damage, and `problems` says what is not shown.
Rule 4: the skew between the clocks of nodes, as far as it is certain, is subtracted from all times.
Rule 5: causes on other nodes are searched in a stretch of time and LEAD deliveries of each run before it.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, NamedTuple

from actors.page.clock_skew import corrections, skews_of
from actors.page.word_index import WordIndex
from actors.trace.delivery_text import clock
from actors.trace.links import CauseFinder, DeliveryId, Link
from actors.trace.reader import Trace, TraceDelivery, TraceRun
from messages.trace.errors import TraceError
from messages.trace.files.frames import RECORDS
from messages.trace.files.runs import RunRecords, Slice, may_contain, slice_lines, slice_records, slice_texts
from messages.trace.schema import DELIVERIES, FULL, TraceRecord
from messages.trace.text import records_of

LEAD = 600
"""Number of deliveries of each run that are read before a stretch, to find what is still under way when it begins."""
SAMPLE = 3_000
"""Number of deliveries at the beginning and at the end of each run from which the skew between clocks is estimated."""
KEPT = 50_000
"""Number of decoded deliveries that are kept."""
KEPT_FRAME = 20
"""Number of deliveries for which a frame counts besides its own, so that not too many frames are kept either."""
LEAD_SECONDS = 60.0
"""Seconds after its end in which a run may have a cause of what happens on another node."""

Position = tuple[float, int, int]
"""(seconds since 1970, index of the run, number of the delivery): the order of all deliveries of a trace."""
Predicate = Callable[[TraceDelivery], bool]
_Key = tuple[int, int, tuple[bytes, ...]]
"""A run, a frame, and the texts of which each delivery contains one; without texts, all of the frame are decoded."""


class Interest(NamedTuple):
    """The condition that a delivery is wanted, and texts of which the record of each such delivery contains one.

    Without texts, deliveries are found only by decoding them.
    """

    concerns: Predicate | None
    texts: tuple[bytes, ...] = ()


EVERYTHING = Interest(None)


class SearchUnfinished(Exception):
    """A search was interrupted because it read too many frames."""


class SearchLimit:
    """How many frames may still be searched for texts."""

    def __init__(self) -> None:
        self._left = math.inf

    @contextmanager
    def limited(self, frames: int) -> Iterator[None]:
        """Limit all searches of a block together."""
        self._left = frames
        try:
            yield
        finally:
            self._left = math.inf

    def count(self) -> None:
        """Count a frame. Raises SearchUnfinished if it is one too many."""
        if not self._left:
            raise SearchUnfinished
        self._left -= 1


class _DecodedFrames:
    """The deliveries of the frames that were used last; together at most KEPT."""

    def __init__(self) -> None:
        self._found: OrderedDict[_Key, list[TraceDelivery]] = OrderedDict()
        self._size = 0

    def get(self, key: _Key) -> list[TraceDelivery] | None:
        found = self._found.get(key)
        if found is not None:
            self._found.move_to_end(key)
        return found

    def add(self, key: _Key, deliveries: list[TraceDelivery]) -> None:
        self._found[key] = deliveries
        self._size += len(deliveries) + KEPT_FRAME
        while len(self._found) > 2 and self._size > KEPT:
            self._size -= len(self._found.popitem(last=False)[1]) + KEPT_FRAME


class _FrameOfDeliveries(NamedTuple):
    """A frame whose records follow delivery `deliveries_after`."""

    after: int
    slice: Slice


class RecordedRun:
    """The deliveries of one run, by number and by time.

    Attributes:
        run: The run.
        place: Its index in the trace.
        problem: Why the rest of the run cannot be read; "" if it is read whole.
        first: The number of the first delivery.
        last: The number of the last delivery; less than `first` if there is none.
    """

    def __init__(self, run: TraceRun, place: int, kept: _DecodedFrames, search_limit: SearchLimit) -> None:
        self.run = run
        self.place = place
        self.problem = "; ".join(run.faults)
        self._kept = kept
        self._search_limit = search_limit
        self._frames: list[_FrameOfDeliveries] = []
        try:
            for path, frame in RunRecords(run.run).frames():
                if frame.kind == RECORDS:
                    part = Slice(run.run.header, path, frame.offset, frame.end)
                    self._frames.append(_FrameOfDeliveries(frame.after, part))
        except (TraceError, OSError) as error:
            self.problem = self.problem or str(error)
        self._afters = [frame.after for frame in self._frames]
        self._begins: dict[int, float] = {}
        self._searched: dict[tuple[bytes, ...], dict[int, bool]] = {}
        self._words: WordIndex | None = None
        while self._frames and not self._decode_frame(len(self._frames) - 1):  # only the end of the run, or damaged
            self._frames.pop()
            self._afters.pop()
        self.first = self._decode_frame(0)[0].seq if self._frames and self._decode_frame(0) else 1
        last = self._decode_frame(len(self._frames) - 1)[-1] if self._frames else None
        self.last = 0 if last is None else last.seq
        self._finished = None if last is None or self.last < self.first else last.record.finished_at

    @property
    def length(self) -> int:
        """The number of deliveries."""
        return max(self.last - self.first + 1, 0)

    @property
    def begin(self) -> float:
        """The time of the first delivery, or of the start of the recording."""
        return self._begin_of(0) if self._frames else self.run.started.timestamp()

    @property
    def end(self) -> float:
        """The time at which the last handler finished."""
        return self.begin if self._finished is None else self._finished + self.run.clock_offset

    def _decode_frame(self, index: int, texts: tuple[bytes, ...] = ()) -> list[TraceDelivery]:
        """Return the deliveries of a frame; with texts, at least those whose records contain one of them."""
        key = self.place, index, texts
        found = self._kept.get((self.place, index, ())) or self._kept.get(key)
        if found is not None:
            return found
        found = []
        part = self._frames[index].slice
        try:
            if texts:
                lines = (line for line in slice_lines(part) if any(text in line for text in texts))
                records: Iterator[TraceRecord] = chain.from_iterable(map(records_of, lines))
            else:
                records = slice_records(part)
            for record in records:
                if record.kind in DELIVERIES:
                    found.append(TraceDelivery(self.run, record))
        except (TraceError, OSError, ValueError) as error:
            self.problem = self.problem or str(error)
        self._kept.add(key, found)
        return found

    def _with_texts(self, indexes: Iterable[int], texts: tuple[bytes, ...]) -> Iterator[int]:
        """Yield the frames whose text contains one of the texts; all without texts, and damaged ones."""
        known = self._searched.get(texts)
        if known is None:
            frames = None if self._words is None else self._words.frames_with(texts)
            known = {} if frames is None else {index: bool(frames >> index & 1) for index in range(len(self._frames))}
            self._searched[texts] = known
        for index in indexes:
            if texts and index not in known:
                self._search_limit.count()
                try:
                    known[index] = may_contain(self._frames[index].slice, texts)
                except (TraceError, OSError):
                    known[index] = True
            if not texts or known[index]:
                yield index

    def index_words(self, names: Set[bytes], is_stopped: Callable[[], bool]) -> None:
        """Make the index of words, with these names of subjects, so that steps of a subject search nothing."""
        words = WordIndex(names)
        for index, frame in enumerate(self._frames):
            if is_stopped():
                return
            try:
                for content in slice_texts(frame.slice):
                    words.add(index, content)
            except (TraceError, OSError):
                words.add(index, None)
        self._words = words
        self._searched = {}

    def deliveries(self, after: int, texts: tuple[bytes, ...] = ()) -> Iterator[TraceDelivery]:
        """Yield the deliveries after a number; with texts, at least those whose records contain one of them."""
        indexes = range(max(bisect_right(self._afters, after) - 1, 0), len(self._frames))
        for index in self._with_texts(indexes, texts):
            for each in self._decode_frame(index, texts):
                if each.seq > after:
                    yield each

    def backwards(self, before: int, texts: tuple[bytes, ...] = ()) -> Iterator[TraceDelivery]:
        """Yield the deliveries before a number, the last one first; otherwise as `deliveries`."""
        for index in self._with_texts(range(bisect_left(self._afters, before) - 1, -1, -1), texts):
            for each in reversed(self._decode_frame(index, texts)):
                if each.seq < before:
                    yield each

    def sample(self) -> Iterator[TraceDelivery]:
        """Yield the first and the last SAMPLE deliveries, each once."""
        yield from islice(self.deliveries(0), SAMPLE)
        yield from islice(self.backwards(self.last + 1), min(max(self.length - SAMPLE, 0), SAMPLE))

    def delivery(self, seq: int) -> TraceDelivery | None:
        """Return a delivery by its number; None if the run has no such delivery."""
        found = next(self.deliveries(seq - 1), None)
        return found if found is not None and found.seq == seq else None

    def number_before(self, at: float, inclusive: bool = False) -> int:
        """Return the number of the last delivery before a time; with `inclusive`, also at this time."""
        if at > self.end:
            return self.last
        find = bisect_right if inclusive else bisect_left
        index = find(range(len(self._frames)), at, key=self._begin_of) - 1
        if index < 0:
            return self.first - 1
        count = find(self._decode_frame(index), at, key=lambda each: each.at)
        return self._decode_frame(index)[count - 1].seq if count else self._afters[index]

    def _begin_of(self, index: int) -> float:
        """Return the time of the first delivery in a frame, or in the next one that has any, as the last one does."""
        found = self._begins.get(index)
        if found is None:
            decoded = self._decode_frame(index)
            found = self._begins[index] = decoded[0].at if decoded else self._begin_of(index + 1)
        return found

    def containing(
        self,
        is_wanted: Callable[[bytes], bool],
        after: int = 0,
        step: int = 1,
        texts: tuple[bytes, ...] = (),
    ) -> Iterator[TraceDelivery]:
        """Yield the deliveries after a number in whose line of text something is; of `step` frames one is searched.

        If it has one of these texts, frames without them are not decoded.
        """
        indexes = range(max(bisect_right(self._afters, after) - 1, 0), len(self._frames), step)
        try:
            for index in self._with_texts(indexes, texts):
                for line in filter(is_wanted, slice_lines(self._frames[index].slice)):
                    for record in records_of(line):
                        if record.kind in DELIVERIES and record.n > after:
                            yield TraceDelivery(self.run, record)
        except (TraceError, OSError, ValueError):
            return  # `problem` says so


class Stretch(NamedTuple):
    """The deliveries in a stretch of time, in order, with their causes.

    `read` has the deliveries by id, also those before the stretch that were read to find causes. `links` has the link
    to the cause of each of them. `until` is the time up to which the stretch was read; it is less than its end if there
    are too many deliveries.
    """

    deliveries: list[TraceDelivery]
    read: dict[DeliveryId, TraceDelivery]
    links: dict[DeliveryId, Link]
    until: float


class RecordedTrace:
    """A folder of traces, open for looking at any moment.

    Attributes:
        trace: The trace.
        runs: Its runs.
        skews: The estimated differences between the clocks of the nodes.
        shifts: The seconds that are subtracted from the recorded times of each run, by its name.
        begin: The first time.
        end: The last time.
        search_limit: The number of frames that searches for texts may read.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.search_limit = SearchLimit()
        kept = _DecodedFrames()
        self.runs = [RecordedRun(run, place, kept, self.search_limit) for place, run in enumerate(trace.runs)]
        sample = chain.from_iterable(run.sample() for run in self.runs)
        self.skews = skews_of([run.run for run in self.runs], sample)
        corrected = corrections({run.run.node for run in self.runs}, self.skews)
        self.shifts = {run.run.name: corrected[run.run.node] for run in self.runs}
        for run in self.runs:
            run.run.clock_offset -= self.shifts[run.run.name]
        self.begin = min(run.begin for run in self.runs)
        self.end = max(run.end for run in self.runs)
        self._by_name = {run.run.name: run for run in self.runs}
        self._places = {id(run): place for place, run in enumerate(trace.runs)}

    @property
    def problems(self) -> list[str]:
        """Sentences about what cannot be shown: damage, runs that are being written, files of another schema."""
        found = list(self.trace.unreadable)
        for run in self.runs:
            name = f"run {run.run.name} of node {run.run.node}"
            if run.problem:
                found.append(f"{name} is shown up to delivery {run.last:,}: {run.problem}")
            if run.run.run.running:
                found.append(f"{name} is still being recorded; it is shown as far as it was written ({clock(run.end)})")
            if run.run.run.header.detail != FULL:
                found.append(f"{name} was recorded without the contents of messages between its actors")
            if run.first > 1 and run.last:
                found.append(f"{name} begins with delivery {run.first:,}: what was recorded before it was removed")
        return found

    def run_named(self, name: str) -> RecordedRun:
        """Return a run. Raises TraceError if there is none with this name."""
        if name not in self._by_name:
            raise TraceError(f"{self.trace.folder} contains no run {name}")
        return self._by_name[name]

    def delivery(self, run: str, seq: int) -> TraceDelivery:
        """Return a delivery. Raises TraceError if it does not exist."""
        found = self.run_named(run).delivery(seq)
        if found is None:
            raise TraceError(f"run {run} has no delivery {seq}")
        return found

    def correct_time(self, fact: Any) -> Any:
        """Return a fact with the time of its place corrected by the skew between clocks."""
        shift = self.shifts.get(fact.place.run, 0.0)
        return fact._replace(place=fact.place._replace(at=fact.place.at - shift)) if shift else fact

    def id_of(self, delivery: TraceDelivery) -> DeliveryId:
        """Return the id of a delivery."""
        return DeliveryId(self._places[id(delivery.run)], delivery.seq)

    def position(self, delivery: TraceDelivery) -> Position:
        """Return the position of a delivery in the order of all deliveries."""
        return delivery.at, *self.id_of(delivery)

    def deliveries_after(
        self, position: Position, interest: Interest = EVERYTHING, searched: int | None = None
    ) -> Iterator[TraceDelivery]:
        """Yield the deliveries of all runs after a position, in order.

        Only those of an interest, among the next `searched` deliveries that contain its texts.
        """
        at, place, seq = position
        concerns, texts = interest
        streams = [
            run.deliveries(seq if run.place == place else run.number_before(at, inclusive=run.place < place), texts)
            for run in self.runs
        ]
        merged = heapq.merge(*streams, key=self.position)
        return filter(concerns, islice(merged, searched))  # after merging: no run is searched farther than needed

    def deliveries_before(
        self, position: Position, interest: Interest = EVERYTHING, searched: int | None = None
    ) -> Iterator[TraceDelivery]:
        """Yield the deliveries of all runs before a position, the last one first; otherwise as `deliveries_after`."""
        at, place, seq = position
        concerns, texts = interest
        streams = [
            run.backwards(seq if run.place == place else run.number_before(at, inclusive=run.place < place) + 1, texts)
            for run in self.runs
        ]
        merged = heapq.merge(*streams, key=self.position, reverse=True)
        return filter(concerns, islice(merged, searched))

    def count(self, start: float, end: float) -> int:
        """Return the number of deliveries from a time (inclusive) to another (exclusive)."""
        return sum(run.number_before(end) - run.number_before(start) for run in self.runs)

    def stretch(self, start: float, end: float, most: int, lead: int = LEAD) -> Stretch:
        """Read a stretch of time with at most `most` deliveries."""
        runs = [run for run in self.runs if run.end >= start - LEAD_SECONDS]
        streams = [run.deliveries(max(run.number_before(start) - lead, 0)) for run in runs]
        return self.linked(heapq.merge(*streams, key=self.position), start, end, most)

    def linked(
        self, deliveries: Iterable[TraceDelivery], start: float = -math.inf, end: float = math.inf, most: int = KEPT
    ) -> Stretch:
        """Return the stretch that these deliveries are, in order, with the causes that are among them."""
        finder = CauseFinder(self.trace.runs)
        found = Stretch([], {}, {}, end)
        for delivery in deliveries:
            if delivery.at >= end:
                break
            if len(found.deliveries) >= most:
                return found._replace(until=delivery.at)
            here = self.id_of(delivery)
            found.read[here] = delivery
            link = finder.link(delivery)
            if link is not None:
                found.links[here] = link
            if delivery.at >= start:
                found.deliveries.append(delivery)
        return found
