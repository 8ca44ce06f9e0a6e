"""Charts with rows (lanes), which the page of a report (report.html) draws as HTML and SVG, without JavaScript.

Rule: A lane has a label, marks and a note. Positions are fractions of the width, and colours are CSS classes. The
page's style sheet has the colours, light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from spark.formatting import moment

TICKS = 4
"""Maximum number of intervals between the ticks of an axis."""
EDGE = 8
"""A tick that is closer to an edge, in percent of the width, has its label beside it."""
STEPS = 500
"""Maximum number of steps of an area."""
_THINNEST = 0.4
"""The smallest width of a box, in percent: a narrower one would be invisible."""
_SECONDS = (0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)


@dataclass(frozen=True)
class Box:
    """A box in a chart's lane: its start and end on the axis, its colour (a CSS class), and the words shown for it.

    `top` and `bottom` are shares of the lane's height; `label` is written into the box.
    """

    begin: float
    end: float
    colour: str
    words: str = ""
    top: float = 0.0
    bottom: float = 1.0
    label: str = ""
    link: str = ""


@dataclass(frozen=True)
class Area:
    """A step chart in a lane. A point is (place on the axis, value until the next point); `most` is the scale's top."""

    points: Sequence[tuple[float, float]]
    most: float
    colour: str
    words: str = ""
    top: float = 0.0
    bottom: float = 1.0


@dataclass(frozen=True)
class Lane:
    """A row of a chart; `note` is written below the label."""

    label: str
    marks: Sequence[Box | Area]
    height: int = 18
    note: str = ""


@dataclass(frozen=True)
class Axis:
    """The horizontal axis: its ends, and its ticks with their labels."""

    begin: float
    end: float
    ticks: Sequence[tuple[float, str]]

    def percent(self, value: float) -> float:
        """Return the place of a value, in percent of the width."""
        width = self.end - self.begin
        return 0.0 if width <= 0 else 100 * min(1.0, max(0.0, (value - self.begin) / width))

    def edge(self, value: float) -> str:
        """Return at which edge a value is: "first", "last", or ""."""
        percent = self.percent(value)
        return "first" if percent < EDGE else "last" if percent > 100 - EDGE else ""

    def extent(self, box: Box) -> tuple[float, float]:
        """Return the left end and the width of a box, in percent."""
        left = self.percent(box.begin)
        width = max(_THINNEST, self.percent(box.end) - left)
        return min(left, 100 - width), width

    def path(self, area: Area) -> str:
        """Return the outline of an area in a square of 1000 by 100."""
        steps = (
            f"H{short(10 * self.percent(place))}V{short(100 - 100 * value / (area.most or 1))}"
            for place, value in area.points
        )
        return f"M0 100{''.join(steps)}H1000V100Z"


@dataclass(frozen=True)
class Chart:
    """Lanes above one axis; `legend` has colours with their meaning, and `words` describes the chart."""

    words: str
    lanes: Sequence[Lane]
    axis: Axis
    legend: Sequence[tuple[str, str]] = ()
    unit: str = ""
    long_labels: bool = False


def time_axis(begin: float, end: float, zone: tzinfo | None) -> Axis:
    """Return an axis of times in seconds since 1970."""
    width = max(end - begin, 0.001)
    step = next(
        (step for step in _SECONDS if width / step <= (TICKS if step >= 1 else TICKS / 2)),
        math.ceil(width / TICKS / 86400) * 86400,
    )
    first = math.ceil(begin / step) * step
    times = [first + number * step for number in range(TICKS + 1) if first + number * step <= begin + width]
    digits = 0 if step >= 1 else 1 if step >= 0.1 else 3
    return Axis(begin, begin + width, [(at, _time(at, zone, step, digits)) for at in times])


def number_axis(most: float) -> Axis:
    """Return an axis from 0 to at least `most`."""
    most = most if most > 0 else 1.0
    power = 10 ** math.floor(math.log10(most))
    step = next(each * power for each in (0.25, 0.5, 1, 2, 2.5) if most / (each * power) <= TICKS)
    count = math.ceil(most / step)
    return Axis(0.0, count * step, [(number * step, f"{number * step:,.10g}") for number in range(count + 1)])


def running_total(changes: Iterable[tuple[float, float]], begin: float, end: float) -> list[tuple[float, float]]:
    """Return the running total of `changes`, which are pairs (place, change), as points (place, total).

    The axis is divided into STEPS columns. A column has at most two points: its maximum and the total at its end.
    """
    width = (end - begin) / STEPS or 1.0
    points = [(begin, 0.0)]
    total, column, most = 0.0, 0, 0.0
    for place, change in sorted(changes):
        if place > end:
            break
        now = max(0, int((place - begin) / width))
        if now != column:
            if points[-1][1] != most:
                points.append((begin + column * width, most))
            if most != total:
                points.append((begin + (column + 1) * width, total))
            column, most = now, total
        total += change
        most = max(most, total) if place > begin else total
    if points[-1][1] != most:
        points.append((begin + column * width, most))
    if most != total:
        points.append((min(end, begin + (column + 1) * width), total))
    return points


def short(number: float) -> str:
    """Return a number with at most two decimals."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _time(at: float, zone: tzinfo | None, step: float, digits: int) -> str:
    if step >= 86400:
        return moment(at, zone, 0.0, at)[:10]
    words = moment(at, zone, at, at)
    if digits:
        return f"{words}{f'{at % 1:.{digits}f}'[1:]}"
    return words if step < 60 else words[:5]
