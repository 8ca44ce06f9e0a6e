"""Replay a recorded node: run its actors again, and compare all messages and I/O calls with the trace.

Rule 1: the input (messages from outside, timers, and results of adapters) is taken from the record, and given to the
        same actors at the same times. There is no other input, and no output: the external endpoints are stubs, which
        send nothing.
Rule 2: the actors' behaviour is compared with the record: every message (sender, receiver, cause, type, payload), every
        adapter call (adapter, method, arguments), every error, and every timer. All sent messages pass through one FIFO
        queue, so the next message that the replayed actors send must be the next recorded one. A message from outside
        must have entered the queue after the messages delivered before it, and before those delivered after it.
Rule 3: the first difference ends the replay of that run, because later differences only follow from it. The report has
        the recorded and the replayed value, and the chain of causes.
Rule 4: the replay of a run without an end record (the node was killed, or the disk was full) ends without a difference,
        even if sent messages were not delivered. `RunReplay.ending` reports that the run is incomplete.
Rule 5: a trace of another code version is replayed with a warning; a trace of another schema version is rejected. A
        damaged run is reported as not replayable. A run without its beginning is replayed from its first snapshot on.
Rule 6: at each snapshot in the record, the state of all replayed actors is compared with the snapshot.
Rule 7: a trace cannot run arbitrary code: top-level actors, which the node's start-up code created, are only created
        from a given list of classes. Other actors are created by actors, or are restored from a snapshot if their
        classes belong to this project.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Protocol

from thespian.actors import Actor

from actors.runtime.kernel.clock import VirtualClock
from actors.runtime.kernel.delivery import DEAD_LETTER, Envelope
from actors.runtime.kernel.reference import EffectDiverged
from actors.runtime.thespian.base import LocalBase, class_name
from actors.runtime.trace.code_version import code_version
from actors.runtime.trace.divergence import (
    Diverged,
    call,
    compare_message,
    compare_outcome,
    encode_message,
    envelope_line,
    message_line,
    payload_difference,
    recorded_effect,
    route,
    state_difference,
)
from actors.runtime.trace.replay_report import ReplayReport, RunReplay
from actors.runtime.trace.silence import silent
from actors.runtime.trace.snapshots import restore_lines, system_lines
from messages.trace import schema
from messages.trace.codec import MessageDecoder, address_text
from messages.trace.endings import DAMAGED
from messages.trace.errors import TraceError
from messages.trace.files import runs
from messages.trace.files.errors import Damaged
from messages.trace.files.snapshots import Snapshot, digest_of

_NOTHING = object()
"""Marker for no message."""

CHAIN_LENGTH = 20
"""Maximum number of displayed causes."""


def replay_directory(
    path: str | Path,
    actors: Collection[type[Actor]],
    node: int | None = None,
    begin: int | None = None,
    name: str | None = None,
) -> ReplayReport:
    """Replay every run below `path`, or only the runs of one node or with one name.

    Args:
        path: The folder.
        actors: The permitted classes of top-level actors.
        node: Only runs of this node.
        begin: Start at the last snapshot before this delivery.
        name: Only the run of this name.

    Raises:
        NotATrace: The folder does not exist.
    """
    found = runs.find_runs(Path(path))
    chosen = (run for run in found.runs if node in (None, run.header.node) and name in (None, run.header.run))
    return ReplayReport(tuple(replay_run(run, actors, begin) for run in chosen), found.unreadable)


def replay_run(run: runs.Run, actors: Collection[type[Actor]], begin: int | None = None) -> RunReplay:
    """Replay one run to its end or its first difference."""
    return Replay(run, actors, begin).result()


class NotReplayable(TraceError):
    """A run cannot be replayed up to the requested delivery."""


class _CannotGoOn(Exception):
    """The trace lacks data that the replay needs, so the replay cannot continue."""


class _Stop(Exception):
    """The replay has reached the delivery that the user chose as its end."""


class ReplayListener(Protocol):
    """The interface of an observer that gets each delivered message of a replay."""

    def begins(self, base: LocalBase) -> None:
        """Receive the restored actor system when the replay begins at a snapshot."""

    def take_record(self, record: schema.TraceRecord) -> None:
        """Receive a record that the replay has processed; a payload that the trace omits is restored."""

    def holds(self, base: LocalBase) -> None:
        """Receive the actor system after each successful comparison with a snapshot in the trace."""


class Replay:
    """The replay of a run, from the run's start or from the last snapshot before delivery `begin`.

    Args:
        run: The run.
        actors: The permitted classes of top-level actors.
        begin: Start at the last snapshot before this delivery.
        until: Stop after this delivery.
        break_at: Stop before the first delivery of a message of this type.
        listener: Receives each record that the replay has reproduced.
        kept: Snapshots of an earlier replay of this run; this replay may also begin at one of them.

    Attributes:
        base: The actor system.
        stopped_at: The record of the next delivery after a stop; None if the run ended without a stop.
    """

    def __init__(
        self,
        run: runs.Run,
        actors: Collection[type[Actor]],
        begin: int | None = None,
        until: int | None = None,
        break_at: str | None = None,
        listener: ReplayListener | None = None,
        kept: Collection[Snapshot] = (),
    ) -> None:
        self.base = LocalBase(clock=VirtualClock())
        self.stopped_at: schema.TraceRecord | None = None
        self._run = run
        self._actors = actors
        self._begin = begin
        self._until = until
        self._break_at = break_at
        self._listener = listener
        self._kept = kept
        self._limit: int | None = None
        """The delivery at which `go_to` stops."""
        self._stretching: Iterator[None] | None = None
        self._content = run.header.detail == schema.FULL
        self._codec = MessageDecoder(self.base.address_of)
        self._marks: deque[Snapshot] = deque()
        self._times = [0.0]
        """The times when the deliveries from `_times_from` on were taken from the queue."""
        self._times_from = 0
        self._entered = (0, 0)
        self._encoded_last = _EncodingCache()
        self._counts = dict.fromkeys(
            ("deliveries", "inputs", "timers", "messages", "effects", "errors", "snapshots", "began"), 0
        )
        self._last_record: schema.TraceRecord | None = None
        """The last record, completed with its payload."""
        self._first_at: float | None = None
        self._last_at = 0.0

    def result(self) -> RunReplay:
        """Run the replay, and return its result.

        Logging is off meanwhile, because the lines would have today's times.
        """
        run, divergence, problem, damaged = self._run, None, "; ".join(self._run.faults), bool(self._run.faults)
        records = runs.RunRecords(run)
        try:
            if not problem:
                with silent():
                    records = self._records()
                    self._live_all(records)
                    self._compare_states(None)
        except _Stop:
            pass
        except Diverged as diverged:
            n = diverged.divergence.n
            divergence = replace(diverged.divergence, chain=tuple(self._chain(n)))
        except _CannotGoOn as error:
            problem = str(error)
        except (Damaged, OSError) as damage:
            problem, damaged = str(damage), True
        return RunReplay(
            run.header.run,
            run.header.node,
            DAMAGED if damaged else runs.ending(run),
            why=(records.end.error or "") if records.end is not None else "",
            **self._counts,
            undelivered=self.base.queued,
            seconds=0.0 if self._first_at is None else self._last_at - self._first_at,
            warnings=tuple(self._warnings()),
            divergence=divergence,
            problem=problem,
        )

    def go_to(self, n: int) -> bool:
        """Continue the replay until delivery `n` is handled; return False if the run ends earlier.

        Raises:
            NotReplayable: The replay differs from the record, or the run cannot be replayed.
        """
        if self._run.faults:
            raise NotReplayable("; ".join(self._run.faults))
        self._limit = n
        try:
            with silent():
                if self._stretching is None:
                    self._stretching = self._stretches(self._records())
                while self.base.n < n and next(self._stretching, self) is None:
                    pass
        except Diverged as diverged:
            raise NotReplayable(f"diverged at {diverged.divergence.text()}") from diverged
        except (_CannotGoOn, Damaged, OSError) as error:
            raise NotReplayable(str(error)) from error
        return self.base.n >= n

    def _warnings(self) -> Iterator[str]:
        header, began = self._run.header, self._counts["began"]
        if header.code_version != code_version():
            yield f"recorded with code version {header.code_version}, replayed with {code_version()}"
        if self._run.removed and began:
            yield f"its first {self._run.removed} segments were removed: replayed from delivery {began + 1} on"

    # ----------------------------------------------------------------------------------------------- the beginning

    def _records(self) -> runs.RunRecords:
        """Return the records from the start of the replay on. Raises Damaged, OSError."""
        run, found = self._run, runs.snapshots(self._run)
        first = runs.first_delivery(run)
        begins = [each for each in (*found, *self._kept) if each.end.resting and each.after >= first]
        if self._begin is not None:
            begin = max((each for each in begins if each.after < self._begin), key=_place_of, default=None)
        else:
            begin = begins[0] if first and begins else None
        if begin is None:
            if run.removed:
                problem = f"its first {run.removed} segments were removed to keep within trace.max.bytes"
                raise _CannotGoOn(f"{problem}, and there is no snapshot to begin with")
            if first:
                raise _CannotGoOn(f"it begins after delivery {first}, and there is no snapshot to begin with")
            self._marks += found
            return runs.RunRecords(run)
        self._restore(begin)
        self._marks += found[found.index(begin) + 1 :] if begin in found else _later(found, begin.after)
        return runs.RunRecords(run, begin.after)

    def _restore(self, snapshot: Snapshot) -> None:
        """Restore the system from a snapshot."""
        base, n = self.base, snapshot.after
        base.ports.recorded = iter(())
        try:
            restore_lines(base, snapshot.lines(), self._actors)
        except (Damaged, OSError):
            raise
        except Exception as error:
            raise _CannotGoOn(f"the snapshot after delivery {n} cannot be restored: {error}") from error
        finally:
            base.ports.recorded = None
        if digest_of(system_lines(base)) != snapshot.end.digest:
            raise _CannotGoOn(f"the snapshot after delivery {n} cannot be restored: it holds what cannot be")
        if self._listener is not None:
            self._listener.begins(base)
        self._counts["began"] = self._times_from = n
        self._times[0] = base.now

    # ----------------------------------------------------------------------------------------------- all records

    def _live_all(self, records: runs.RunRecords) -> None:
        """Replay all records."""
        for _ in self._stretches(records):
            pass

    def _stretches(self, records: runs.RunRecords) -> Iterator[None]:
        """Replay all records (rule 2), with `_live_plain` where possible; yield after each group of records."""
        base = self.base
        looked_at = self._listener is not None or self._break_at is not None or self._until is not None
        plainly = self._content and not looked_at and base.observer is None
        base.ports.recorded = iter(())
        for batch in records.batches():
            place = 0
            while place < len(batch):
                lived = self._live_plain(batch, place) if plainly else place
                if lived == place:
                    self._live(batch[place])
                    lived += 1
                place = lived
                yield

    def _live_plain(self, batch: list[schema.TraceRecord], start: int) -> int:
        """Replay the plain records from `start` on.

        Return the index of the first record that was not replayed.

        A record is plain if its message was sent by an actor, and the handler of the message only sent messages. Nearly
        all records are plain, and this loop is fast. `_live` replays the other records, and describes a difference if
        there is one.
        """
        base, marks, times, encoded_last = self.base, self._marks, self._times, self._encoded_last
        queue, heap, hand_out, encode_it = base.queue, base.timers.heap, base.hand_out, encoded_last.encode
        most = marks[0].after - base.n if marks else len(batch)
        if self._limit is not None:
            most = min(most, self._limit - base.n)
        if most <= 0 or (batch[start].cause, 0) < self._entered:
            return start
        place, last = start, _NOTHING
        try:
            for record in islice(batch, start, start + most):
                if record.kind != schema.SENT or record.effects or record.error is not None or not queue:
                    break
                to, message, sender, sent_by, sent_at, kind, _ = mail = queue[0]
                if message is not last:
                    last, (type_, payload) = message, encode_it(message)
                if (
                    sent_by != record.cause
                    or sent_at != record.queued_at
                    or kind != schema.SENT
                    or type_ != record.type
                    or payload != record.payload
                    or address_text(sender) != record.sender
                    or address_text(to) != record.receiver
                    or to.class_name != record.actor
                    or (heap and heap[0][0] < sent_at)
                ):
                    break
                queue.popleft()
                taken_at = record.taken_at
                times.append(taken_at)
                place += 1
                hand_out(mail, taken_at)
                if base.unkept_error is not None or base.delivered_event_id != record.event_id:
                    compare_outcome(record, (), base.unkept_error, record.actor, base.delivered_event_id)
        except EffectDiverged as diverged:
            raise self._other_effect(record, diverged) from None
        finally:
            if place > start:
                self._entered = batch[place - 1].cause, 0
                self._forget_times()
                self._counts["deliveries"] += place - start
                self._counts["messages"] += place - start
                self._last_at = batch[place - 1].taken_at
                if self._first_at is None:
                    self._first_at = batch[start].taken_at
        return place

    # ----------------------------------------------------------------------------------------------- one record

    def _live(self, record: schema.TraceRecord) -> None:
        self._compare_states(record)
        if record.kind == schema.CREATED:
            self._create(record)
        elif record.kind != schema.ENDED:
            self._stop_before(record)
            self._deliver(record)
        self._last_at = record.taken_at
        if self._first_at is None:
            self._first_at = record.taken_at
        if self._listener is not None:
            self._listener.take_record(self._last_record or record)
            self._last_record = None

    def _stop_before(self, record: schema.TraceRecord) -> None:
        """Stop before this delivery, if requested."""
        if record.type == self._break_at or (self._until is not None and record.n > self._until):
            self.stopped_at = record
            raise _Stop

    def _compare_states(self, following: schema.TraceRecord | None) -> None:
        """Compare the actors' state with the snapshots directly before `following`, or at the end if it is None."""
        base, marks = self.base, self._marks
        while marks and marks[0].after == base.n:
            if following is not None and following.kind == schema.CREATED and marks[0].created != base.register.created:
                return
            snapshot = marks.popleft()
            if (digest_of(system_lines(base)), base.resting) != (snapshot.end.digest, snapshot.end.resting):
                raise state_difference(base, snapshot)
            if self._listener is not None:
                self._listener.holds(base)
            self._counts["snapshots"] += 1

    def _create(self, record: schema.TraceRecord) -> None:
        actor_class = next((each for each in self._actors if class_name(each) == record.type), None)
        if actor_class is None:
            raise _CannotGoOn(f"{record.type} is none of the actors that may be at the top of a node")
        if self._counts["began"] == record.n and self.base.instance_of(self.base.address_of(record.receiver)):
            return  # the snapshot contains this actor already
        address = self.base.newPrimaryActor(actor_class)
        again = schema.creation_record(
            record.n, address_text(address), actor_class.__name__, record.type, record.taken_at
        )
        if again != record:
            raise Diverged(
                record.n,
                "another actor was created",
                f"{record.actor} as {record.receiver}, cause {record.cause}",
                f"{again.actor} as {again.receiver}, cause {again.cause}",
            )

    def _deliver(self, record: schema.TraceRecord) -> None:
        base = self.base
        self._times.append(record.taken_at)
        if record.error == DEAD_LETTER and record.receiver.startswith("outside:"):
            base.dismiss(base.address_of(record.receiver))
        envelope = self._envelope(record)
        try:
            delivery = base.deliver(envelope, record.taken_at, [recorded_effect(effect) for effect in record.effects])
        except EffectDiverged as diverged:
            raise self._other_effect(record, diverged) from None
        compare_outcome(record, delivery.effects, delivery.error, delivery.actor_class, delivery.event_id)
        if self._listener is not None and not self._content:
            self._last_record = schema.with_payload(record, *encode_message(envelope.message))
        self._counts["deliveries"] += 1
        self._counts["effects"] += len(delivery.effects)
        self._counts["errors"] += record.error is not None

    def _other_effect(self, record: schema.TraceRecord, diverged: EffectDiverged) -> Diverged:
        return Diverged(
            record.n,
            f"another effect while {record.receiver} handled {record.type}",
            "no further call" if diverged.recorded is None else call(*diverged.recorded[:3]),
            call(*diverged.made),
        )

    def _envelope(self, record: schema.TraceRecord) -> Envelope:
        if record.kind == schema.OUTSIDE:
            self._counts["inputs"] += 1
            self._enter(record, (-record.cause, 1))
            return self._input(record)
        late = self.base.take_overdue(record.queued_at)
        if late is not None:
            raise Diverged(record.n, "a timer more was armed", message_line(record), envelope_line(late))
        if record.kind == schema.TIMER:
            self._counts["timers"] += 1
            timer = self.base.take_timer(record.receiver, record.cause)
            if timer is None:
                raise Diverged(
                    record.n, "a timer was not armed", message_line(record), f"delivery {record.cause} armed none"
                )
            envelope = timer
        else:
            self._counts["messages"] += 1
            self._enter(record, (record.cause, 0))
            sent = self.base.take_sent()
            if sent is None:
                raise Diverged(record.n, "a message was not sent", message_line(record), "nothing (more) was sent")
            envelope = sent
        compare_message(record, envelope, self._content)
        return envelope

    def _enter(self, record: schema.TraceRecord, moment: tuple[int, int]) -> None:
        """Check that this message did not enter the queue before the message that left the queue last.

        `moment` is (n, 0) if the message entered the queue during delivery n, or (n, 1) if it entered after delivery n.
        """
        if moment < self._entered:
            raise Diverged(
                record.n,
                "the queue's order does not allow this cause",
                message_line(record),
                f"what was delivered before it entered the queue during delivery {self._entered[0]} or after it",
            )
        self._entered = moment
        self._forget_times()

    def _forget_times(self) -> None:
        """Discard the times that are not needed for later records, once these times fill half of the list."""
        gone = min(self._entered[0] - self._times_from, len(self._times) - 1)
        if gone > len(self._times) // 2:
            del self._times[:gone]
            self._times_from += gone

    def _input(self, record: schema.TraceRecord) -> Envelope:
        after = -record.cause
        if not 0 <= after < record.n or not self._time_of(after) <= record.queued_at <= self._time_of(after + 1):
            problem = f"it cannot have come after delivery {after}, queued at {record.queued_at}"
            raise _CannotGoOn(f"input {record.n} ({route(record)}): {problem}")
        try:
            message = self._codec.decode(record.type, record.payload)
        except TraceError as error:
            raise _CannotGoOn(f"input {record.n} ({route(record)}) cannot be read: {error}") from error
        difference = payload_difference(record, encode_message(message)[1])
        if difference is not None:
            problem = f"it holds {record.type}{difference[0]} = {difference[1]}, which cannot be"
            raise _CannotGoOn(f"input {record.n} ({route(record)}): {problem}")
        sender, receiver = (self.base.address_of(text) for text in (record.sender, record.receiver))
        return self.base.outside(receiver, message, sender, record.cause)

    def _time_of(self, n: int) -> float:
        """Return the time when a delivery was taken from the queue; -inf for a delivery before the snapshot."""
        return self._times[max(n - self._times_from, 0)] if n >= self._times_from else float("-inf")

    # ----------------------------------------------------------------------------------------------- causes

    def _chain(self, n: int) -> Iterator[str]:
        """Read the trace again, and yield delivery `n` and its causes, back to the external input, as text."""
        causes: dict[int, int] = {}
        with contextlib.suppress(Damaged):
            for record in runs.RunRecords(self._run):
                if record.n > n:
                    break
                if record.kind in schema.DELIVERIES:
                    causes[record.n] = record.cause
        wanted: list[int] = []
        while n in causes and len(wanted) < CHAIN_LENGTH:
            wanted.append(n)
            n = causes[n]
        last, found = max(wanted, default=0), {}
        with contextlib.suppress(Damaged):  # data after the divergence is not needed
            for record in runs.RunRecords(self._run):
                if record.n > last:
                    break
                if record.n in wanted and record.kind in schema.DELIVERIES:
                    found[record.n] = record
        return (_step(self._run.header, found[number]) for number in wanted if number in found)


class _EncodingCache:
    """The last encoded message and its bytes; actors often send one message to many receivers."""

    def __init__(self) -> None:
        self._message: object = None
        self._how = "", schema.NO_PAYLOAD

    def encode(self, message: object) -> tuple[str, schema.Payload]:
        """See `divergence.encode_message`."""
        if message is not self._message:
            type_, payload = encode_message(message)
            self._how, self._message = (type_, schema.Payload(payload)), message
        return self._how


def _place_of(snapshot: Snapshot) -> int:
    return snapshot.after


def _later(found: Collection[Snapshot], n: int) -> list[Snapshot]:
    return [each for each in found if each.after > n]


def _step(header: schema.Header, record: schema.TraceRecord) -> str:
    moment = datetime.fromtimestamp(record.taken_at + header.clock_offset, UTC)
    return f"{record.n} {moment:%H:%M:%S.%f} {message_line(record)}"
