"""The results of a replay, as values and as text."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from messages.trace.schema import STOPPED

SAME = "same"
SAME_EARLY = "same, ended early"
DIVERGED = "DIVERGED"
NOT_REPLAYED = "not replayed"


@dataclass(frozen=True)
class Divergence:
    """The first difference between a trace and its replay: `recorded` is in the trace, `replayed` in the replay.

    `n` is the delivery at which it was found. `chain` lists that delivery and its causes, back to the external input.
    """

    n: int
    what: str
    recorded: str
    replayed: str
    chain: tuple[str, ...] = ()

    def text(self) -> str:
        """Format the divergence as lines of text."""
        lines = [f"delivery {self.n}: {self.what}", f"  recorded: {self.recorded}", f"  replayed: {self.replayed}"]
        return "\n".join([*lines, "  because of:", *(f"    {step}" for step in self.chain)] if self.chain else lines)


@dataclass(frozen=True)
class RunReplay:
    """The result of a replay. `problem` is set if the run could not be replayed, `divergence` if the replay differed.

    Attributes:
        run: The name of the run.
        node: The node's id.
        ending: How the recording ended: "stopped", "disk full", "given up", "killed", "still running" or "damaged"
            (`messages.trace`).
        why: The reason in the trace's last record.
        deliveries: Number of replayed deliveries.
        inputs: Number of messages from outside the actor system.
        timers: Number of timers.
        messages: Number of compared messages of actors.
        effects: Number of compared I/O calls.
        errors: Number of compared errors of handlers.
        snapshots: Number of snapshots that equal the state of the replayed actors.
        began: The delivery after which the replay began (0: at the beginning, else at a snapshot).
        undelivered: Number of messages that were sent but not delivered when the trace ends.
        seconds: Seconds of the node's time that were replayed.
        warnings: Warnings for the user.
        divergence: The first difference, or None.
        problem: The reason why the run could not be replayed, or "".
    """

    run: str
    node: int
    ending: str
    why: str = ""
    deliveries: int = 0
    inputs: int = 0
    timers: int = 0
    messages: int = 0
    effects: int = 0
    errors: int = 0
    snapshots: int = 0
    began: int = 0
    undelivered: int = 0
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    divergence: Divergence | None = None
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether the whole trace was replayed without a difference."""
        return self.divergence is None and not self.problem

    @property
    def complete(self) -> bool:
        """Whether the trace ends with a clean stop of the node."""
        return self.ending == STOPPED

    @property
    def result(self) -> str:
        """The result in one or two words."""
        if self.problem:
            return NOT_REPLAYED
        if self.divergence is not None:
            return DIVERGED
        return SAME if self.complete else SAME_EARLY


@dataclass(frozen=True)
class ReplayReport:
    """The results of replaying all runs below a folder, and the trace files that could not be read."""

    runs: tuple[RunReplay, ...]
    unreadable: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there were runs, all files could be read, and no run differed."""
        return bool(self.runs) and not self.unreadable and all(run.ok for run in self.runs)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"ok": self.ok, **asdict(self)}
