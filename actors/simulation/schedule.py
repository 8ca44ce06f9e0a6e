"""A schedule lists the actions on a simulated cluster with their times; the same schedule always gives the same run.

Rule 1: a schedule is text with one action per line, so that it can be kept, read, shortened by hand and run again.
Rule 2: if any earlier actions are left out, each later action still works, or it does nothing. A fault has a duration
        and ends by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import attrs

from actors.simulation.wire import LATENCY

REST = "rest"
"""The action that ends all faults and checks the cluster when it is idle."""


class BadSchedule(ValueError):
    """The text of a schedule is invalid; the exception's message names the line."""


@attrs.frozen
class Action:
    """An action of a schedule: its start time (`at`), its name, its arguments, and its duration in seconds."""

    at: float
    name: str
    args: tuple[str, ...] = ()
    seconds: float | None = None

    def __str__(self) -> str:
        lasting = "" if self.seconds is None else f" for {self.seconds:.3f}"
        return f"{self.at:.3f} {' '.join((self.name, *self.args))}{lasting}"


@attrs.frozen
class Schedule:
    """A description of a simulated cluster, and the actions to execute on it.

    The run ends after `duration` seconds, with a final rest (see REST).

    Attributes:
        brokers: Number of brokers.
        seed: The seed of all random choices of the run.
        duration: Seconds until the final rest.
        records: Whether producers write and consumers read during the run.
        validated: Whether each actor validates its state after each event, which costs one check per partition for each
            event.
        steady: Whether all network delays are equal.
        racks: Number of racks over which the brokers are spread; 0 without racks.
        latency: Minimum delay of each message in seconds.
        settings: Names and values of the fields of `messages.node.NodeSettings` that the schedule sets on all nodes;
            1 and 0 are the values of a boolean.
        clocks: The nodes with drifting clocks, and the rate of each.
        distances: Pairs of nodes, and the additional delay of messages between them in seconds.
        actions: The actions in the order of their times.
    """

    brokers: int = 3
    seed: int = 0
    duration: float = 60.0
    records: bool = False
    validated: bool = True
    steady: bool = False
    racks: int = 0
    latency: float = LATENCY
    settings: tuple[tuple[str, int | str], ...] = ()
    clocks: tuple[tuple[int, float], ...] = ()
    distances: tuple[tuple[int, int, float], ...] = ()
    actions: tuple[Action, ...] = ()

    def text(self) -> str:
        """Return the schedule as text for `parse`."""
        head = [
            f"{field.name} {_text(getattr(self, field.name))}"
            for field in attrs.fields(Schedule)
            if field.name not in ("actions", "settings", "clocks", "distances")
            and not (field.name in ("racks", "latency") and getattr(self, field.name) == field.default)
        ]
        head += [f"set {name} {value}" for name, value in self.settings]
        head += [f"clock {node} {rate:g}" for node, rate in self.clocks]
        head += [f"distance {one} {other} {seconds:g}" for one, other, seconds in self.distances]
        return "\n".join([*head, *map(str, self.actions)]) + "\n"


def _text(value: bool | float) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, int) else f"{value:.15g}"


def parse(text: str) -> Schedule:
    """Parse the text of a schedule; empty lines and lines that start with # are ignored.

    Raises:
        BadSchedule: A line is invalid.
    """
    fields: dict[str, int | float | bool] = {}
    settings: list[tuple[str, int | str]] = []
    clocks: list[tuple[int, float]] = []
    distances: list[tuple[int, int, float]] = []
    actions: list[Action] = []
    kinds: dict[str, Callable[[str], int | float | bool]]
    kinds = {"brokers": int, "seed": int, "duration": float, "records": _yes, "validated": _yes, "steady": _yes}
    kinds |= {"racks": int, "latency": float}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            if words[0] in kinds:
                fields[words[0]] = kinds[words[0]](words[1])
            elif words[0] == "set":
                settings.append((words[1], int(words[2]) if words[2].lstrip("-").isdecimal() else words[2]))
            elif words[0] == "clock":
                clocks.append((int(words[1]), _positive(words[2])))
            elif words[0] == "distance":
                distances.append((int(words[1]), int(words[2]), _positive(words[3])))
            else:
                actions.append(_action(words))
        except (KeyError, ValueError, IndexError):
            raise BadSchedule(
                f"line {number}: {line.strip()!r} is neither a setting nor an action. "
                f"Settings are {', '.join(kinds)}, set, clock and "
                "distance. An action has a time in seconds, a name and arguments, and may end with `for` SECONDS or "
                "`for inf`."
            ) from None
    if int(fields.get("brokers", 1)) < 1:
        raise BadSchedule("the number of brokers must be at least 1")
    return Schedule(
        **fields,  # type: ignore[arg-type]
        settings=tuple(settings),
        clocks=tuple(clocks),
        distances=tuple(distances),
        actions=tuple(sorted(actions, key=lambda action: action.at)),
    )


def _action(words: list[str]) -> Action:
    seconds = None
    if len(words) > 3 and words[-2] == "for":
        seconds = float(words[-1])
        words = words[:-2]
    at, name, *args = words
    return Action(float(at), name, tuple(args), seconds)


def _positive(word: str) -> float:
    if not 0 < float(word) < math.inf:
        raise ValueError(word)
    return float(word)


def _yes(word: str) -> bool:
    return {"yes": True, "no": False}[word]
