"""Read a trace once, in the background: how busy its nodes were, the slowest client requests, the subjects of actors.

Rule 1: a request of a client is paired with its response by connection and correlation id. The requests of brokers,
        which fetch from each other, are not client requests.
Rule 2: of each API only the slowest requests of a run are kept, so that long polls of consumers hide nothing.
Rule 3: first it makes the index of words, so that a step by a subject searches only the frames that name it.
"""

from __future__ import annotations

import heapq
import json
import re
import threading
from collections.abc import Set
from typing import NamedTuple

from actors.page.recorded_trace import RecordedTrace
from actors.trace import filters, payloads
from messages.facts.open_requests import REQUESTS, RESPONSES
from messages.trace.errors import TraceError
from messages.trace.files.runs import RunRecords
from messages.trace.schema import DELIVERIES, OUTSIDE, TIMER, TraceRecord

BINS = 1_000
"""Number of equal parts of the time of a trace for which it is known how busy each run was."""
SLOWEST = 30
"""Number of requests per run and API that are kept."""
OWNERS = {**filters.OWNERS, "StartGroup": "GroupActor"}
"""The first message of an actor that belongs to one partition, broker or group."""
OF_BROKERS = frozenset("LeaderAndIsr StopReplica UpdateMetadata ControlledShutdown WriteTxnMarkers".split())
"""APIs that only brokers send."""
PAUSE = 40
"""Number of deliveries after which the thread that reads lets a request pass; they take half a millisecond."""
MOST_OPEN = 10_000
"""Number of requests without a response that are kept."""

_OWNED = {
    "PartitionActor": re.compile(rb'"partition":(\["(?:[^"\\]|\\.)*",\d+\])'),
    "BrokerChannelActor": re.compile(rb'"broker_id":(\d+)'),
    "GroupActor": re.compile(rb'"group":("(?:[^"\\]|\\.)*")'),
}
_PARTITION = re.compile(rb'"partition":\[("(?:[^"\\]|\\.)*"),(\d+)\]')
_REPLICA = re.compile(rb'"replica_id":\d')


class Activity:
    """How busy a run was in each of equal parts of a time.

    Attributes:
        busy: Seconds in handlers.
        queued: Seconds that messages waited in the queue, added up: divided by the length of a part, it is the mean
            length of the queue.
        handled: Number of deliveries.
    """

    def __init__(self, start: float, end: float, bins: int) -> None:
        self.start = start
        self.width = max(end - start, 1e-9) / bins
        self.busy = [0.0] * bins
        self.queued = [0.0] * bins
        self.handled = [0] * bins

    def take(self, record: TraceRecord, offset: float) -> None:
        """Add a delivery."""
        begin = record.taken_at + offset
        place = int((begin - self.start) / self.width)
        if 0 <= place < len(self.handled):
            self.handled[place] += 1
        _add(self.busy, self.start, self.width, begin, record.finished_at + offset)
        if record.kind != TIMER:
            _add(self.queued, self.start, self.width, record.queued_at + offset, begin)


def _add(sums: list[float], start: float, width: float, begin: float, end: float) -> None:
    """Add to each part the seconds of [begin, end) that lie in it."""
    first, last = (begin - start) / width, (end - start) / width
    if last <= 0 or first >= len(sums):
        return
    if int(first) == int(last) and first >= 0:
        sums[int(first)] += end - begin
        return
    first, last = max(first, 0.0), min(last, float(len(sums)))
    for place in range(int(first), min(int(last) + 1, len(sums))):
        sums[place] += max(min(last, place + 1) - max(first, place), 0.0) * width


class ServedRequest(NamedTuple):
    """A client's request and its response, in one run; `at` is when the request was queued, in seconds since 1970."""

    ms: float
    at: float
    run: str
    node: int
    seq: int
    answered: int
    connection: int
    correlation_id: int
    api: str
    client_id: str
    subject: str


class TraceSurvey:
    """What reading the whole trace shows.

    Attributes:
        read: The part of the deliveries that has been read, from 0 to 1.
        activities: For each run.
        owners: What an actor is for, by run and address: "partition:orders-0", "broker:1" or "group:readers".
    """

    def __init__(self, recorded: RecordedTrace) -> None:
        self.read = 0.0
        self.activities = [Activity(recorded.begin, recorded.end, BINS) for _ in recorded.runs]
        self.owners: dict[tuple[int, str], str] = {}
        self._recorded = recorded
        self._stopped = False
        self._slowest: dict[tuple[int, str], list[tuple[float, int, ServedRequest]]] = {}

    def stop(self) -> None:
        """Let `run` return soon."""
        self._stopped = True

    def run(self, names: Set[str], *gates: threading.Lock) -> None:
        """Read the trace, and index these names of subjects. Other threads may look at the results so far.

        While another thread has one of the gates, this one waits, so that an answer is not computed at half the speed.
        """

        def is_stopped() -> bool:
            for gate in gates:
                with gate:
                    pass
            return self._stopped

        runs = self._recorded.runs
        for run in runs:
            run.index_words({name.encode() for name in names}, is_stopped)
        total = sum(run.length for run in runs) or 1
        done = 0
        for run in runs:
            offset, activity = run.run.clock_offset, self.activities[run.place]
            waiting: dict[tuple[int, int], tuple[TraceRecord, payloads.ExchangeRead]] = {}
            try:
                for record in RunRecords(run.run.run):
                    if record.kind in DELIVERIES:
                        activity.take(record, offset)
                        name = record.type
                        if name in OWNERS and OWNERS[name] == record.actor:
                            self._note_owner(run.place, record)
                        elif name in REQUESTS and record.kind == OUTSIDE:
                            self._note_requests(waiting, record)
                        elif name in RESPONSES and record.actor == "":
                            self._note_answers(waiting, run.place, record)
                        done += 1
                        if not done % PAUSE:
                            self.read = done / total
                            if is_stopped():
                                return
            except (TraceError, OSError):
                continue  # RecordedRun.problem says so
        self.read = 1.0

    def _note_owner(self, place: int, record: TraceRecord) -> None:
        key = place, record.receiver
        found = None if key in self.owners else _OWNED[record.actor].search(record.payload)
        if found is not None:
            value = json.loads(found[1])
            kind = {"PartitionActor": "partition", "BrokerChannelActor": "broker"}.get(record.actor, "group")
            self.owners[key] = f"{kind}:{value[0]}-{value[1]}" if isinstance(value, list) else f"{kind}:{value}"

    def _note_requests(
        self, waiting: dict[tuple[int, int], tuple[TraceRecord, payloads.ExchangeRead]], record: TraceRecord
    ) -> None:
        read = payloads.read(record.payload)
        for each in read.exchanges if read is not None else ():
            name = each.request[0].removesuffix("Request")
            if name not in OF_BROKERS and _REPLICA.search(each.request[1]) is None:
                waiting[each.connection, each.correlation_id] = record, each
        while len(waiting) > MOST_OPEN:
            del waiting[next(iter(waiting))]

    def _note_answers(
        self,
        waiting: dict[tuple[int, int], tuple[TraceRecord, payloads.ExchangeRead]],
        place: int,
        record: TraceRecord,
    ) -> None:
        read = payloads.read(record.payload)
        for each in read.exchanges if read is not None else ():
            asked = waiting.pop((each.connection, each.correlation_id), None)
            if asked is None:
                continue
            request, exchange = asked
            api = exchange.request[0].removesuffix("Request")
            ms = (record.taken_at - request.queued_at) * 1000
            kept = self._slowest.setdefault((place, api), [])
            if len(kept) == SLOWEST and kept[0][0] >= ms:
                continue
            run = self._recorded.runs[place].run
            found = _PARTITION.search(exchange.request[1])
            subject = "" if found is None else f"{json.loads(found[1])}-{int(found[2])}"
            served = ServedRequest(
                *(ms, request.queued_at + run.clock_offset, run.name, run.node, request.n, record.n),
                *(each.connection, each.correlation_id, api, exchange.client_id, subject),
            )
            (heapq.heappush if len(kept) < SLOWEST else heapq.heapreplace)(kept, (ms, request.n, served))

    def slowest(self, api: str = "") -> list[ServedRequest]:
        """Return the slowest requests, the slowest one first; with `api`, only those of this API."""
        found = [each for (_, name), kept in self._slowest.copy().items() if api in ("", name) for *_, each in kept]
        return sorted(found, reverse=True)
