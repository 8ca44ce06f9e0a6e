"""The replayer: stands a recorded node up again and lives its life through, comparing everything it says and does.

Rule 1: what came from outside is taken from the record and given to the same actors at the same times: messages,
        timers, and the answers of ports. Nothing else gets in, and nothing gets out: outsiders are mute.
Rule 2: what the actors do is compared with the record: every message (sender, receiver, cause, type, payload), every
        port call (port, method, arguments), every error, and every timer. Sends are one FIFO, so the next message that
        the replayed actors have sent *is* the one recorded next, or they behaved differently. Of what came from outside
        the queue's order shows when: not before what was delivered before it, nor after what was sent later.
Rule 3: the first difference ends the replay of that run; what follows from it tells nothing new. It is shown recorded
        against replayed, with the chain of causes that led there.
Rule 4: a run that broke off just ends: what had been sent, but not delivered, is no difference. That it broke off is
        said (`RunReplay.ending`).
Rule 5: a trace of another code version is replayed with a warning, that is what replay is for; one of another schema
        version is refused. A run that is damaged, or whose beginning is gone, cannot be replayed, and says so.
Rule 6: a trace is no program: of top-level actors, which whoever put the node together created, only classes from a
        given list are stood up. All other actors are created by actors, and follow by themselves.
"""

from __future__ import annotations

import contextlib
import logging
from array import array
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from thespian.actors import Actor

from actors.runtime.base import LocalBase
from actors.runtime.clock import VirtualClock
from actors.runtime.code_version import code_version
from actors.runtime.comparison import (
    Diverged,
    call,
    compare_message,
    compare_outcome,
    encoded,
    envelope_line,
    message_line,
    payload_difference,
    recorded_effect,
    route,
)
from actors.runtime.delivery import DEAD_LETTER, Envelope
from actors.runtime.ports import EffectDiverged
from actors.runtime.replay_report import ReplayReport, RunReplay
from messages.trace.codec import Codec, address_text
from messages.trace.errors import Damaged, TraceError
from messages.trace.runs import DAMAGED, Records, Run, ending, find_runs
from messages.trace.schema import CREATED, DELIVERIES, ENDED, OUTSIDE, TIMER, Header, Record, created

CHAIN_LENGTH = 20
"""So many causes are shown at most."""


def replay_directory(path: str | Path, actors: Collection[type[Actor]], node: int | None = None) -> ReplayReport:
    """Replay every run below `path`, or those of one node; `actors` are the classes of top-level actors that may be.

    Raises NotATrace where there is no such folder. Actors do not log meanwhile: it would read as if it happened now.
    """
    found = find_runs(Path(path))
    with _silence():
        runs = tuple(replay_run(run, actors) for run in found.runs if node is None or run.header.node == node)
    return ReplayReport(runs, found.unreadable)


def replay_run(run: Run, actors: Collection[type[Actor]]) -> RunReplay:
    """Replay one run, to its end or its first difference."""
    warnings: tuple[str, ...] = ()
    if run.header.code_version != code_version():
        warnings = (f"recorded with code version {run.header.code_version}, replayed with {code_version()}",)
    if run.faults:
        return RunReplay(run.header.run, run.header.node, DAMAGED, warnings=warnings, problem="; ".join(run.faults))
    if run.removed:
        problem = f"its first {run.removed} segments were removed to keep within trace.max.bytes: its beginning is gone"
        return RunReplay(run.header.run, run.header.node, ending(run), warnings=warnings, problem=problem)
    return _Replay(run, actors, warnings).result()


class _CannotGoOn(Exception):
    """The trace does not hold what is needed to go on."""


class _Replay:
    """One run while it is being replayed."""

    def __init__(self, run: Run, actors: Collection[type[Actor]], warnings: tuple[str, ...]) -> None:
        self._run = run
        self._actors = {f"{each.__module__}:{each.__qualname__}": each for each in actors}
        self._base = LocalBase(clock=VirtualClock())
        self._codec = Codec(self._base.address_of)
        self._causes = array("q", [0])
        self._times = array("d", [0.0])
        self._entered = (0, 0)
        self._counts = dict.fromkeys(("deliveries", "inputs", "timers", "messages", "effects", "errors"), 0)
        self._first_at: float | None = None
        self._last_at = 0.0
        self._warnings = warnings

    def result(self) -> RunReplay:
        """Do it."""
        divergence, problem, damaged = None, "", False
        records = Records(self._run)
        try:
            for record in records:
                self._live(record)
        except Diverged as diverged:
            n = diverged.divergence.n
            divergence = replace(diverged.divergence, chain=tuple(self._chain(n)))
        except _CannotGoOn as error:
            problem = str(error)
        except (Damaged, OSError) as damage:
            problem, damaged = str(damage), True
        return RunReplay(
            self._run.header.run,
            self._run.header.node,
            DAMAGED if damaged else ending(self._run),
            why=(records.end.error or "") if records.end is not None else "",
            **self._counts,
            undelivered=self._base.queued,
            seconds=0.0 if self._first_at is None else self._last_at - self._first_at,
            warnings=self._warnings,
            divergence=divergence,
            problem=problem,
        )

    # ----------------------------------------------------------------------------------------------- one record

    def _live(self, record: Record) -> None:
        self._last_at = record.taken_at
        if self._first_at is None:
            self._first_at = record.taken_at
        if record.kind == CREATED:
            self._create(record)
        elif record.kind != ENDED:
            self._deliver(record)

    def _create(self, record: Record) -> None:
        actor_class = self._actors.get(record.type)
        if actor_class is None:
            raise _CannotGoOn(f"{record.type} of {record.receiver} is none of the actors that a node begins with")
        address = self._base.newPrimaryActor(actor_class)
        again = created(record.n, address_text(address), actor_class.__name__, record.type, record.taken_at)
        if again != record:
            raise Diverged(
                record.n,
                "another actor was created",
                f"{record.actor} as {record.receiver}, cause {record.cause}",
                f"{again.actor} as {again.receiver}, cause {again.cause}",
            )

    def _deliver(self, record: Record) -> None:
        base = self._base
        self._causes.append(record.cause)
        self._times.append(record.taken_at)
        if record.error == DEAD_LETTER and record.receiver.startswith("outside:"):
            base.dismiss(base.address_of(record.receiver))
        envelope = self._envelope(record)
        try:
            delivery = base.deliver(envelope, record.taken_at, [recorded_effect(effect) for effect in record.effects])
        except EffectDiverged as diverged:
            raise Diverged(
                record.n,
                f"another effect while {record.receiver} handled {record.type}",
                "no further call" if diverged.recorded is None else call(*diverged.recorded[:3]),
                call(*diverged.made),
            ) from None
        compare_outcome(record, delivery)
        self._counts["deliveries"] += 1
        self._counts["effects"] += len(delivery.effects)
        self._counts["errors"] += record.error is not None

    def _envelope(self, record: Record) -> Envelope:
        if record.kind == OUTSIDE:
            self._counts["inputs"] += 1
            self._enter(record, (-record.cause, 1))
            return self._input(record)
        late = self._base.take_overdue(record.queued_at)
        if late is not None:
            raise Diverged(record.n, "a timer more was armed", message_line(record), envelope_line(late))
        if record.kind == TIMER:
            self._counts["timers"] += 1
            timer = self._base.take_timer(record.receiver, record.cause)
            if timer is None:
                raise Diverged(
                    record.n, "a timer was not armed", message_line(record), f"delivery {record.cause} armed none"
                )
            envelope = timer
        else:
            self._counts["messages"] += 1
            self._enter(record, (record.cause, 0))
            sent = self._base.take_sent()
            if sent is None:
                raise Diverged(record.n, "a message was not sent", message_line(record), "nothing (more) was sent")
            envelope = sent
        compare_message(record, envelope)
        return envelope

    def _enter(self, record: Record, moment: tuple[int, int]) -> None:
        """What is delivered now entered the queue at that moment (during or, 1, after a delivery): it is a FIFO."""
        if moment < self._entered:
            raise Diverged(
                record.n,
                "the queue's order does not allow this cause",
                message_line(record),
                f"what was delivered before it entered the queue during delivery {self._entered[0]} or after it",
            )
        self._entered = moment

    def _input(self, record: Record) -> Envelope:
        after = -record.cause
        if not 0 <= after < record.n or not self._times[after] <= record.queued_at <= self._times[after + 1]:
            problem = f"it cannot have come after delivery {after}, queued at {record.queued_at}"
            raise _CannotGoOn(f"input {record.n} ({route(record)}): {problem}")
        try:
            message = self._codec.decode(record.type, record.payload)
        except TraceError as error:
            raise _CannotGoOn(f"input {record.n} ({route(record)}) cannot be read: {error}") from error
        difference = payload_difference(record, encoded(message)[1])
        if difference is not None:
            problem = f"it holds {record.type}{difference[0]} = {difference[1]}, which cannot be"
            raise _CannotGoOn(f"input {record.n} ({route(record)}): {problem}")
        sender, receiver = (self._base.address_of(text) for text in (record.sender, record.receiver))
        return self._base.outside(receiver, message, sender, record.cause)

    # ----------------------------------------------------------------------------------------------- causes

    def _chain(self, n: int) -> Iterator[str]:
        """Delivery `n` and what caused it, back to what came from outside; a second reading of the trace."""
        wanted: list[int] = []
        while 0 < n < len(self._causes) and len(wanted) < CHAIN_LENGTH:
            wanted.append(n)
            n = self._causes[n]
        last, found = max(wanted, default=0), {}
        with contextlib.suppress(Damaged):  # what comes after the divergence is not of interest any more
            for record in Records(self._run):
                if record.n > last:
                    break
                if record.n in wanted and record.kind in DELIVERIES:
                    found[record.n] = record
        return (_step(self._run.header, found[number]) for number in wanted if number in found)


def _step(header: Header, record: Record) -> str:
    moment = datetime.fromtimestamp(record.taken_at + header.clock_offset, UTC)
    return f"{record.n} {moment:%H:%M:%S.%f} {message_line(record)}"


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
