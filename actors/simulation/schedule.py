"""A schedule: all that is done to a simulated cluster, and when. It is the whole run: the same schedule, the same run.

Rule 1: a schedule is text, one action a line, so that it can be kept, read, cut down by hand and run again.
Rule 2: an action is independent: whatever is left out before it, it can be done, or does nothing. A fault says how long
        it lasts, and ends by itself.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

REST = "rest"
"""The action at which every fault ends; the cluster is checked when it has come to rest."""


class BadSchedule(ValueError):
    """A schedule that cannot be read; the text names the line."""


@attrs.frozen
class Action:
    """One thing done `at` a moment (seconds of the schedule), with its arguments; `seconds`: how long it lasts."""

    at: float
    name: str
    args: tuple[str, ...] = ()
    seconds: float | None = None

    def __str__(self) -> str:
        lasting = "" if self.seconds is None else f" for {self.seconds:.3f}"
        return f"{self.at:.3f} {' '.join((self.name, *self.args))}{lasting}"


@attrs.frozen
class Schedule:
    """The cluster's size, the seed of random choices, the actions, and when it ends (with a rest).

    `records`: producers write, and consumers read, all the time. `validated`: every actor looks at its own state after
    each event; that costs a look at every partition. `steady`: everything takes the same time on every wire.
    `settings`: those of `messages.node.NodeSettings` that every node has otherwise (yes and no are 1 and 0).
    """

    brokers: int = 3
    seed: int = 0
    duration: float = 60.0
    records: bool = False
    validated: bool = True
    steady: bool = False
    settings: tuple[tuple[str, int], ...] = ()
    actions: tuple[Action, ...] = ()

    def text(self) -> str:
        """The schedule as lines; `parse` reads them."""
        head = [
            f"{field.name} {_said(getattr(self, field.name))}"
            for field in attrs.fields(Schedule)
            if field.name not in ("actions", "settings")
        ]
        head += [f"set {name} {value}" for name, value in self.settings]
        return "\n".join([*head, *map(str, self.actions)]) + "\n"


def _said(value: bool | float) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, int) else f"{value:.15g}"


def parse(text: str) -> Schedule:
    """Read what `Schedule.text` wrote; empty lines and those that begin with # say nothing. Raises BadSchedule."""
    fields: dict[str, int | float | bool] = {}
    settings: list[tuple[str, int]] = []
    actions: list[Action] = []
    kinds: dict[str, Callable[[str], int | float | bool]]
    kinds = {"brokers": int, "seed": int, "duration": float, "records": _yes, "validated": _yes, "steady": _yes}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            if words[0] in kinds:
                fields[words[0]] = kinds[words[0]](words[1])
            elif words[0] == "set":
                settings.append((words[1], int(words[2])))
            else:
                actions.append(_action(words))
        except (KeyError, ValueError, IndexError):
            raise BadSchedule(
                f"line {number}: {line.strip()!r} is neither a setting ({', '.join(kinds)}, set) nor an action "
                "(seconds, name, arguments, and perhaps: for seconds)"
            ) from None
    if int(fields.get("brokers", 1)) < 1:
        raise BadSchedule("a cluster has at least 1 broker")
    return Schedule(**fields, settings=tuple(settings), actions=tuple(sorted(actions, key=lambda action: action.at)))  # type: ignore[arg-type]


def _action(words: list[str]) -> Action:
    seconds = None
    if len(words) > 3 and words[-2] == "for":
        seconds = float(words[-1])
        words = words[:-2]
    at, name, *args = words
    return Action(float(at), name, tuple(args), seconds)


def _yes(word: str) -> bool:
    return {"yes": True, "no": False}[word]
