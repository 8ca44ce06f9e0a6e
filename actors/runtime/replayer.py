"""The replayer: stands a recorded node up again and lives its life through, comparing everything it says and does.

Rule 1: what came from outside is taken from the record and given to the same actors at the same times: messages,
        timers, and the answers of ports. Nothing else gets in, and nothing gets out: outsiders are mute.
Rule 2: what the actors do is compared with the record: every message (sender, receiver, cause, type, payload), every
        port call (port, method, arguments), every error, and every timer. Sends are one FIFO, so the next message that
        the replayed actors have sent *is* the one recorded next, or they behaved differently.
Rule 3: the first difference ends the replay of that run; what follows from it tells nothing new. It is shown recorded
        against replayed, with the chain of causes that led there.
Rule 4: a run that was killed just ends: what had been sent, but not delivered, is no difference.
Rule 5: a trace of another code version is replayed with a warning, that is what replay is for; one of another schema
        version is refused. A run whose beginning or middle is missing cannot be replayed, and says so.

Top-level actors are created by whoever put the node together, so the record names their classes. All other actors are
created by actors, and follow by themselves.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
from array import array
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from actors.runtime.base import LocalBase
from actors.runtime.clock import VirtualClock
from actors.runtime.code_version import code_version
from actors.runtime.delivery import DEAD_LETTER, Delivery, Effect, Envelope
from actors.runtime.ports import EffectDiverged
from actors.runtime.recorder import unencodable
from messages.trace.codec import Codec, TraceError, address_text, encode
from messages.trace.frames import Records, Run, find_runs
from messages.trace.schema import CLOSED, CREATED, OUTSIDE, TIMER, Header, Record

CHAIN_LENGTH = 20
"""So many causes are shown at most."""
_LONG_TEXT = 300


@dataclass(frozen=True)
class Divergence:
    """The first difference. `what` names it in a few words; `recorded` and `replayed` are one line each.

    `n` is the delivery at which it showed. `chain` reads from that delivery back to what came from outside.
    """

    n: int
    what: str
    recorded: str
    replayed: str
    chain: tuple[str, ...] = ()

    def text(self) -> str:
        """All of it, in lines, for people."""
        lines = [f"delivery {self.n}: {self.what}", f"  recorded: {self.recorded}", f"  replayed: {self.replayed}"]
        return "\n".join([*lines, "  because of:", *(f"    {step}" for step in self.chain)] if self.chain else lines)


@dataclass(frozen=True)
class RunReplay:
    """How the replay of one run went. `problem` says why it could not be replayed, `divergence` where it differed.

    `deliveries` were replayed: `inputs` from outside, `timers`, and `messages` sent by actors, which were compared
    like the `effects` and the `errors` of handlers. `complete`: the run was ended by a clean stop, not by a kill.
    `undelivered` messages had been sent when the record ends. `seconds` of node's time were lived through.
    """

    run: str
    node: int
    deliveries: int = 0
    inputs: int = 0
    timers: int = 0
    messages: int = 0
    effects: int = 0
    errors: int = 0
    undelivered: int = 0
    seconds: float = 0.0
    complete: bool = False
    warnings: tuple[str, ...] = ()
    divergence: Divergence | None = None
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether it was replayed, without a difference."""
        return self.divergence is None and not self.problem


@dataclass(frozen=True)
class ReplayReport:
    """What came of all runs that were found, and the files that look like segments but cannot be read."""

    runs: tuple[RunReplay, ...]
    unreadable: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there was something to replay, and no run differed."""
        return bool(self.runs) and all(run.ok for run in self.runs)

    def as_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {"ok": self.ok, **asdict(self)}


def replay_directory(path: str | Path, node: int | None = None) -> ReplayReport:
    """Replay every run below `path`, or those of one node.

    Raises TraceError: NotATrace where there is no such folder, WrongSchema. Actors do not log meanwhile: it would
    read as if it happened now.
    """
    found = find_runs(Path(path))
    with _silence():
        runs = tuple(replay_run(run) for run in found.runs if node is None or run.header.node == node)
    return ReplayReport(runs, found.unreadable)


def replay_run(run: Run) -> RunReplay:
    """Replay one run, to its end or its first difference."""
    warnings = []
    if run.header.code_version != code_version():
        warnings.append(f"recorded with code version {run.header.code_version}, replayed with {code_version()}")
    if not run.whole:
        problem = "a segment of the trace is missing: it cannot be replayed from its beginning to its end"
        return RunReplay(run.header.run, run.header.node, warnings=tuple(warnings), problem=problem)
    return _Replay(run, tuple(warnings)).result()


class _Diverged(Exception):
    """The replayed node did something else; carries the Divergence, yet without its chain."""

    def __init__(self, n: int, what: str, recorded: str, replayed: str) -> None:
        super().__init__(what)
        self.divergence = Divergence(n, what, recorded, replayed)


class _CannotGoOn(Exception):
    """The trace does not hold what is needed to go on."""


class _Replay:
    """One run while it is being replayed."""

    def __init__(self, run: Run, warnings: tuple[str, ...]) -> None:
        self._run = run
        self._base = LocalBase(clock=VirtualClock())
        self._codec = Codec(self._base.address_of)
        self._causes = array("q", [0])
        self._counts = dict.fromkeys(("deliveries", "inputs", "timers", "messages", "effects", "errors"), 0)
        self._first_at: float | None = None
        self._last_at = 0.0
        self._complete = False
        self._warnings = warnings

    def result(self) -> RunReplay:
        """Do it."""
        divergence, problem = None, ""
        records = Records(self._run)
        try:
            for record in records:
                if records.malformed:
                    break
                self._live(record)
        except _Diverged as diverged:
            n = diverged.divergence.n
            divergence = replace(diverged.divergence, chain=tuple(self._chain(n)))
        except _CannotGoOn as error:
            problem = str(error)
        if records.malformed and divergence is None and not problem:
            problem = f"a line after delivery {self._base.n} is no record: what follows cannot be replayed"
        return RunReplay(
            self._run.header.run,
            self._run.header.node,
            **self._counts,
            undelivered=self._base.queued,
            seconds=0.0 if self._first_at is None else self._last_at - self._first_at,
            complete=self._complete,
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
        elif record.kind == CLOSED:
            self._complete = True
        else:
            self._deliver(record)

    def _create(self, record: Record) -> None:
        module, _, name = record.type.partition(":")
        try:
            actor_class = importlib.import_module(module)
            for part in name.split("."):
                actor_class = getattr(actor_class, part)
        except (ImportError, AttributeError, ValueError) as error:
            raise _CannotGoOn(
                f"the actor class {record.type} of {record.receiver} is not to be had: {error}"
            ) from error
        created = self._base.newPrimaryActor(actor_class)  # type: ignore[arg-type]
        if address_text(created) != record.receiver:
            raise _Diverged(
                record.n,
                "another number of actors created",
                record.receiver,
                f"{address_text(created)} is its name here",
            )

    def _deliver(self, record: Record) -> None:
        base = self._base
        if record.n != base.n + 1:
            raise _CannotGoOn(f"delivery {base.n + 1} is missing: the next record is that of {record.n}")
        self._causes.append(record.cause)
        if record.error == DEAD_LETTER and record.receiver.startswith("outside:"):
            base.dismiss(base.address_of(record.receiver))
        envelope = self._envelope(record)
        try:
            delivery = base.deliver(envelope, record.taken_at, [_recorded(effect) for effect in record.effects])
        except EffectDiverged as diverged:
            raise _Diverged(
                record.n,
                f"another effect while {record.receiver} handled {record.type}",
                "no further call" if diverged.recorded is None else _call(*diverged.recorded[:3]),
                _call(*diverged.made),
            ) from None
        self._compare(record, delivery)

    def _envelope(self, record: Record) -> Envelope:
        if record.kind == OUTSIDE:
            self._counts["inputs"] += 1
            return self._input(record)
        self._no_timer_before(record)
        if record.kind == TIMER:
            self._counts["timers"] += 1
            timer = self._base.take_timer(record.receiver, record.cause)
            if timer is None:
                raise _Diverged(
                    record.n, "a timer was not armed", _message_line(record), f"delivery {record.cause} armed none"
                )
            envelope = timer
        else:
            self._counts["messages"] += 1
            sent = self._base.take_sent()
            if sent is None:
                raise _Diverged(record.n, "a message was not sent", _message_line(record), "nothing (more) was sent")
            envelope = sent
        self._same_message(record, envelope)
        return envelope

    def _input(self, record: Record) -> Envelope:
        try:
            message = self._codec.decode(record.type, record.payload)
        except TraceError as error:
            raise _CannotGoOn(f"input {record.n} ({_route(record)}) cannot be read: {error}") from error
        sender, receiver = (self._base.address_of(text) for text in (record.sender, record.receiver))
        return self._base.outside(receiver, message, sender, record.cause)

    def _no_timer_before(self, record: Record) -> None:
        """A timer that was due before this message was queued has been delivered, or its actor was dead by then."""
        late = self._base.take_overdue(record.queued_at)
        if late is not None:
            raise _Diverged(record.n, "a timer more was armed", _message_line(record), _envelope_line(late))

    # ----------------------------------------------------------------------------------------------- comparing

    def _same_message(self, record: Record, envelope: Envelope) -> None:
        type_, payload = _encoded(envelope.message)
        same_way = (envelope.kind, envelope.cause, address_text(envelope.sender), address_text(envelope.receiver)) == (
            record.kind,
            record.cause,
            record.sender,
            record.receiver,
        )
        recorded = bytes(record.payload)
        if same_way and type_ == record.type:
            if payload == recorded:
                return
            difference = first_difference(json.loads(recorded), json.loads(payload))
            if difference is None:
                return
            place, was, became = difference
            what = f"another {record.type} from {record.sender} to {record.receiver}"
            raise _Diverged(
                record.n,
                what,
                f"{record.type}{place} = {_short(_json(was))}",
                f"{type_}{place} = {_short(_json(became))}",
            )
        raise _Diverged(record.n, "another message", _message_line(record), _envelope_line(envelope))

    def _compare(self, record: Record, delivery: Delivery) -> None:
        made = len(delivery.effects)
        self._counts["deliveries"] += 1
        self._counts["effects"] += made
        if made < len(record.effects):
            raise _Diverged(
                record.n,
                f"an effect is missing while {record.receiver} handled {record.type}",
                _call(*_recorded(record.effects[made])[:3]),
                "no further call",
            )
        if delivery.error != record.error:
            raise _Diverged(
                record.n,
                f"another outcome when {record.receiver} handled {record.type}",
                record.error or "handled without an error",
                delivery.error or "handled without an error",
            )
        if record.error is not None:
            self._counts["errors"] += 1

    # ----------------------------------------------------------------------------------------------- causes

    def _chain(self, n: int) -> Iterator[str]:
        """Delivery `n` and what caused it, back to what came from outside; a second reading of the trace."""
        wanted: list[int] = []
        while 0 < n < len(self._causes) and len(wanted) < CHAIN_LENGTH:
            wanted.append(n)
            n = self._causes[n]
        last, found = max(wanted, default=0), {}
        for record in Records(self._run):
            if record.n > last:
                break
            if record.n in wanted and record.kind not in (CREATED, CLOSED):
                found[record.n] = record
        return (_step(self._run.header, found[number]) for number in wanted)


# ------------------------------------------------------------------------------------------------ words


def first_difference(recorded: Any, replayed: Any, place: str = "") -> tuple[str, Any, Any] | None:
    """Where two decoded payloads first differ: (path such as ".isr[2]", recorded, replayed); None if nowhere."""
    if type(recorded) is type(replayed):
        if isinstance(recorded, dict):
            for key in sorted(recorded.keys() | replayed.keys()):
                found = first_difference(recorded.get(key), replayed.get(key), f"{place}.{key}")
                if found is not None:
                    return found
            return None
        if isinstance(recorded, list):
            for index, (one, other) in enumerate(zip(recorded, replayed, strict=False)):
                found = first_difference(one, other, f"{place}[{index}]")
                if found is not None:
                    return found
            if len(recorded) == len(replayed):
                return None
            return f"{place} (length)", len(recorded), len(replayed)
        if recorded == replayed:
            return None
    return place, recorded, replayed


def _encoded(message: object) -> tuple[str, bytes]:
    try:
        return encode(message)
    except TraceError as error:
        return type(message).__name__, _json(unencodable(error)).encode()


def _recorded(effect: Any) -> Effect:
    """The recorded effect with tuples where JSON has lists."""
    return Effect(effect.port, effect.method, _tuples(effect.args), _tuples(effect.result), effect.error)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(entry) for entry in value) if isinstance(value, list | tuple) else value


def _short(text: str) -> str:
    return text if len(text) <= _LONG_TEXT else f"{text[:_LONG_TEXT]}... ({len(text)} characters)"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _call(port: str, method: str, args: tuple[Any, ...]) -> str:
    return _short(f"{port}.{method}({', '.join(map(repr, args))})")


def _route(record: Record) -> str:
    return f"{record.sender} -> {record.receiver}: {record.type}"


def _why(kind: str, cause: int) -> str:
    if kind == OUTSIDE:
        return f"from outside, after delivery {-cause}"
    return f"timer armed during delivery {cause}" if kind == TIMER else f"sent during delivery {cause}"


def _message_line(record: Record) -> str:
    payload = _short(bytes(record.payload).decode())
    return f"{_route(record)} {payload} ({_why(record.kind, record.cause)})"


def _envelope_line(envelope: Envelope) -> str:
    type_, payload = _encoded(envelope.message)
    route = f"{address_text(envelope.sender)} -> {address_text(envelope.receiver)}"
    return f"{route}: {type_} {_short(payload.decode())} ({_why(envelope.kind, envelope.cause)})"


def _step(header: Header, record: Record) -> str:
    moment = datetime.fromtimestamp(record.taken_at + header.clock_offset, UTC)
    return f"{record.n} {moment:%H:%M:%S.%f} {_message_line(record)}"


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
