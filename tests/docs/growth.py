"""Write docs/reference/growth.md and its pictures from the rows of benchmarks in growth.jsonl; `make docs` runs it.

The rows come from benchmarks that run with BENCHMARK_ROWS=docs/reference/growth.jsonl (`tests.benchmarks.report`).
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import linear_regression, median
from typing import Any, NamedTuple

DOCS = Path(__file__).resolve().parents[2] / "docs"
FILE, ROWS, IMAGES = DOCS / "reference" / "growth.md", DOCS / "reference" / "growth.jsonl", DOCS / "images"
UNITS = {"k": 1_000, "m": 1_000_000}
WIDTH, HEIGHT, MARGIN = 640, 300, 60
COLOURS = ("#1565c0", "#c62828", "#2e7d32", "#6a1b9a", "#ef6c00", "#00838f", "#4e342e")
CONTROLLER = (1_000, 10_000, 100_000, 1_000_000)
CLIENTS = (1, 10, 100, 1_000)


class Chart(NamedTuple):
    """A picture and a table: the cases `name` + size of a benchmark, by size.

    `sizes` are those that the page promises; the page says which of them were not measured.
    """

    file: str
    title: str
    size: str
    unit: str
    bench: str
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    command: str


CHARTS = (
    Chart(
        *("controller", "Scenarios of a controller with 10 stub brokers", "partitions", "ms", "controller"),
        ("failover_", "loss_", "return_", "shutdown_", "create_", "delete_", "preferred_"),
        CONTROLLER,
        "controller --brokers 10 --sides ours --partitions N",
    ),
    Chart(
        *("controller-memory", "Peak memory of that controller", "partitions", "MB", "controller", ("peak_memory_",)),
        CONTROLLER,
        "controller --brokers 10 --sides ours --partitions N",
    ),
    Chart(
        *("controller-latency", "Longest turn (CPU), and p99 of a probe", "partitions", "ms", "controller"),
        ("longest_turn_", "probe_p99_"),
        CONTROLLER,
        "controller --brokers 10 --sides ours --partitions N",
    ),
    Chart(
        *("broker", "Start, clean stop and restart of a broker", "partitions", "s", "turns"),
        ("start_", "stop_", "restart_"),
        (10_000, 100_000, 1_000_000),
        "turns --apart --partitions N",
    ),
    Chart(
        *("broker-memory", "Peak memory of that broker", "partitions", "MB", "turns", ("memory_",)),
        (10_000, 100_000, 1_000_000),
        "turns --apart --partitions N",
    ),
    Chart(
        *("simulation", "CPU of a thousand simulated seconds", "brokers", "s", "simulate", ("brokers_",)),
        (1, 3, 10, 30, 100),
        "simulate --brokers 1,3,10,30,100",
    ),
    Chart(
        *("producers", "Records of many producers", "producers", "records/s", "data_plane", ("producers_",)),
        CLIENTS,
        "data_plane --cases producers_1,producers_10,producers_100,producers_1000",
    ),
    Chart(
        *("spark", "The default queries of `summary`", "records", "rows/s", "spark"),
        ("brief_1_executors_", "brief_2_executors_"),
        (1_000_000, 10_000_000, 30_000_000),
        "spark --peer none --master local-cluster[E,1,2048] --records N",
    ),
)

Curves = dict[str, dict[int, list[dict[str, Any]]]]
"""Rows by curve and size."""


def curves(chart: Chart, rows: list[dict[str, Any]]) -> Curves:
    """Return the rows of a chart."""
    found: Curves = defaultdict(lambda: defaultdict(list))
    for row in rows:
        for name in chart.names:
            size = re.fullmatch(rf"{name}(\d+)([km]?)", row["case"])
            if row["bench"] == chart.bench and size:
                curve = name.strip("_").replace("_", " ")
                of_size = int(size[1]) * UNITS.get(size[2], 1)
                found[curve][of_size].append(row)
                if row["peer_name"].startswith("Apache"):
                    found[f"{curve}, Apache"][of_size].append({**row, "ours": row["peer"]})
    return {name: dict(sorted(curve.items())) for name, curve in found.items()}


def middle(rows: list[dict[str, Any]]) -> float:
    """Return the median of the rows' figures."""
    return median(row["ours"] for row in rows)


def number(figure: float) -> str:
    """Return a figure with four digits or more."""
    return f"{figure:,.4g}" if figure < 1000 else f"{figure:,.0f}"


def slope(curve: dict[int, list[dict[str, Any]]]) -> str:
    """Return the exponent of the growth by least squares: 1 if the figure grows like the size."""
    if len(curve) < 2:
        return "one size"
    points = [(math.log(size), math.log(middle(rows))) for size, rows in curve.items()]
    return f"{linear_regression(*zip(*points, strict=True)).slope:.2f}"


def first_limit(curve: dict[int, list[dict[str, Any]]]) -> str:
    """Return the smallest size at which the figure is worse than its limit."""
    limited = {size: rows for size, rows in curve.items() if rows[0]["peer_name"] == "limit"}
    missed = [f"{size:,}" for size, rows in limited.items() if middle(rows) > rows[0]["peer"]]
    return "no limit is set" if not limited else f"{missed[0]}" if missed else "none met"


def picture(chart: Chart, found: Curves) -> str:
    """Return an SVG with logarithmic axes."""
    sizes = sorted({size for curve in found.values() for size in curve})
    values = [middle(rows) for curve in found.values() for rows in curve.values()]
    left, right = (math.log10(edge) for edge in (sizes[0], max(sizes[-1], 10 * sizes[0])))
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)

    def x(size: float) -> float:
        return MARGIN + (math.log10(size) - left) / (right - left) * (WIDTH - 3 * MARGIN)

    def y(value: float) -> float:
        return HEIGHT - 40 - (math.log10(value) - low) / (high - low) * (HEIGHT - MARGIN)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        ' font-size="11" fill="#444"><rect width="100%" height="100%" fill="#fff"/>'
    ]
    for power in range(low, high + 1):
        at = y(10.0**power)
        parts.append(f'<path d="M{MARGIN} {at:.1f}H{WIDTH - 2 * MARGIN}" stroke="#ddd"/>')
        parts.append(f'<text x="{MARGIN - 6}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:,g}</text>')
    for size in sizes:
        parts.append(f'<text x="{x(size):.1f}" y="{HEIGHT - 22}" text-anchor="middle">{size:,}</text>')
    parts.append(f'<text x="{WIDTH / 2 - MARGIN / 2}" y="{HEIGHT - 6}" text-anchor="middle">{chart.size}</text>')
    parts.append(f'<text x="{MARGIN}" y="12">{chart.unit}</text>')
    for place, (name, curve) in enumerate(found.items()):
        colour = COLOURS[place % len(COLOURS)]
        points = [(x(size), y(middle(rows))) for size, rows in curve.items()]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points]
        parts.append(f'<text x="{WIDTH - 2 * MARGIN + 8}" y="{24 + 16 * place}" fill="{colour}">{name}</text>')
    return "\n".join((*parts, "</svg>", ""))


def document() -> str:
    """Return the page."""
    return "\n".join(_lines(measured())) + "\n"


def measured() -> list[dict[str, Any]]:
    """Return the rows of the benchmarks."""
    return [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]


def _lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "# Growth"
    yield ""
    yield "How cost grows with size. `python -m tests.docs.growth` makes this page from rows of benchmarks in"
    yield "`docs/reference/growth.jsonl`, which they append with"
    yield "`BENCHMARK_ROWS=docs/reference/growth.jsonl`. A figure is the median of all rows of its size."
    yield "**Slope** is the exponent of the growth by least squares: 1 if the figure grows like the size, 0 if"
    yield "it stays the same. **First limit** is the smallest size at which a figure exceeds its required"
    yield "limit. Both axes of the pictures are logarithmic."
    for chart in CHARTS:
        found = curves(chart, rows)
        yield from ("", f"## {chart.title}", "", f"`python -m tests.benchmarks.{chart.command}`", "")
        if not found:
            yield "Not measured."
            continue
        yield f"![{chart.title}](../images/growth-{chart.file}.svg)"
        sizes = sorted({size for curve in found.values() for size in curve})
        yield ""
        yield f"| {chart.unit} | {' | '.join(f'{size:,}' for size in sizes)} | slope | first limit |"
        yield "| --- |" + " --- |" * (len(sizes) + 2)
        for name, curve in found.items():
            cells = [number(middle(curve[size])) if size in curve else "" for size in sizes]
            yield f"| {name} | {' | '.join(cells)} | {slope(curve)} | {first_limit(curve)} |"
        every = [row for curve in found.values() for some in curve.values() for row in some]
        runs = [len(some) for curve in found.values() for some in curve.values()]
        loads = sorted(row["load"] for row in every)
        yield ""
        yield f"Commits: {', '.join(sorted({row['commit'] for row in every}))}."
        yield f"Rows of a figure: {min(runs)} to {max(runs)}."
        yield f"Load of the machine, the benchmark included: {loads[0]:.1f} to {loads[-1]:.1f}."
        missing = [
            f"{name} at {', '.join(f'{size:,}' for size in lacking)}"
            for name in (each.strip("_").replace("_", " ") for each in chart.names)
            if (lacking := [size for size in chart.sizes if size not in found.get(name, {})])
        ]
        yield f"Not measured: {'; '.join(missing) or 'nothing of what this page promises'}."


def main() -> None:
    """Write the page and the pictures."""
    FILE.write_text(document(), encoding="utf-8")
    rows = measured()
    for chart in CHARTS:
        if found := curves(chart, rows):
            (IMAGES / f"growth-{chart.file}.svg").write_text(picture(chart, found), encoding="utf-8")


if __name__ == "__main__":
    main()
