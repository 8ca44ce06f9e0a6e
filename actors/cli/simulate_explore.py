"""`kafka-actors simulate explore`: run many seeds, group their violations by cause, and measure what they reach."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from actors.cli.app import FAILED, FILE, CommandFailed
from actors.cli.display import console
from actors.cli.simulated_clusters import SimulatedClusters, cluster_options, run_all
from actors.simulation.canary import NAME, SEEDS, run_with_bug
from actors.simulation.coverage import Report
from actors.simulation.explore import explore
from actors.simulation.schedule import Schedule
from actors.simulation.triage import digest, examine, groups, page

NOT_FOUND = 3
"""Exit code if --canary is not found."""

SAMPLE = 20
"""Distance of the seeds that --check-determinism runs twice."""

EQUAL = "each seed that was run twice left the same traces"
FOUND = "found"


def _percent(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Return the number in a percentage such as 95% or 95."""
    if value is None:
        return None
    if not re.fullmatch(r"\d+(\.\d+)?%?", value) or float(value.rstrip("%")) > 100:
        raise click.BadParameter(f"'{value}' is not a percentage. Use a number from 0 to 100, such as 95%")
    return float(value.rstrip("%"))


def _seconds(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Return the seconds of a duration such as 90s, 10m or 2h."""
    if value is None:
        return None
    if not re.fullmatch(r"\d+(\.\d+)?[smh]", value):
        raise click.BadParameter(f"'{value}' is not a duration. Use a number with s, m or h, such as 10m")
    return float(value[:-1]) * {"s": 1, "m": 60, "h": 3600}[value[-1]]


@click.command(
    "explore",
    context_settings={"show_default": True},
    epilog="Exit codes: 0 no violation; 1 a violation, too little coverage, or a schedule that ran differently when"
    " repeated; 2 usage error; 3 the bug that --canary plants was not found.",
)
@cluster_options
@click.option(
    "--validate/--no-validate",
    "validated",
    default=True,
    help="Check the state of each broker and controller for consistency after each request (slower).",
)
@click.option(
    "--swarm/--no-swarm",
    default=True,
    help="Let each seed select the settings, the network delays, the clock drift, the faults and the requests;"
    " in some runs a fault lasts until the end of the run. --no-swarm uses the defaults.",
)
@click.option(
    "--coverage",
    type=FILE,
    help="Write to this file how often each state, message and error code occurred in the runs. The format is JSON"
    " if the name of the file ends with .json, otherwise Markdown.",
)
@click.option(
    "--require",
    callback=_percent,
    metavar="PERCENT",
    help="The runs must cover at least this share, such as 95%, of all states, messages and error codes (see"
    " --coverage). The exit code is 1 if they cover less, or if some kind of fault or request never occurred.",
)
@click.option(
    "--budget",
    callback=_seconds,
    metavar="DURATION",
    help="Run seeds until this time has passed, such as 90s, 10m or 2h, instead of a fixed number (--seeds).",
)
@click.option(
    "--json",
    "json_file",
    type=FILE,
    help="Write the violations, grouped by invariant, to this JSON file, and print for each group whether it is new or"
    " known from the file's earlier content.",
)
@click.option("--html", "html_file", type=FILE, help="Write the groups of violations to this file as an HTML page.")
@click.option(
    "--canary/--no-canary",
    default=False,
    help="Test the simulation itself: patch a known bug into the worker processes and run seeds until it is found.",
)
@click.option(
    "--check-determinism/--no-check-determinism",
    default=False,
    help=f"Run every {SAMPLE}th seed twice in separate processes, and compare the bytes of the two traces.",
)
def command(
    coverage: Path | None,
    require: float | None,
    budget: float | None,
    json_file: Path | None,
    html_file: Path | None,
    canary: bool,
    check_determinism: bool,
    **options: Any,
) -> int:
    """Run many seeds, shorten the schedule of each that violates an invariant, and group these seeds by cause.

    Seeds are in one group if they violate the same invariant, and their shortened schedules have the same actions.
    """
    out, before = console(), _read_report(json_file)
    clusters = SimulatedClusters(**options)
    checks = {"canary": _find_canary(clusters)} if canary else {}
    measured = coverage is not None or require is not None
    runs = run_all(clusters, covered=measured, budget=budget)
    uncovered = measured and not _report_coverage(Report(runs.reached), coverage, require)
    if check_determinism:
        checks["determinism"] = _compare_runs(list(clusters.schedules(runs.count))[::SAMPLE], clusters.workers)
    for name, result in checks.items():
        out.print(f"{name}: {result}", highlight=False)
    with out.status(f"shrinking {len(runs.broken)} schedules"):
        cases = list(explore(runs.broken, examine, clusters.workers))
    report: dict[str, Any] = {
        "runs": runs.count,
        "broken": len(runs.broken),
        "checks": checks,
        "groups": groups(cases, before),
    }
    _write(json_file, json.dumps(report, indent=1) + "\n")
    _write(html_file, page(report))
    for group in report["groups"]:
        seen = ", ".join(map(str, group["seeds"]))
        out.print(f"{group['status']}: {group['invariant']} ({group['shape']}): seeds {seen}", highlight=False)
    if not checks.get("canary", FOUND).startswith(FOUND):
        return NOT_FOUND
    return FAILED if runs.broken or uncovered or checks.get("determinism", EQUAL) != EQUAL else 0


def _find_canary(clusters: SimulatedClusters) -> str:
    """Run simulations with a known bug, seed by seed, until an invariant is violated; return the result as text."""
    schedules = map(clusters.of_seed, range(clusters.seed, clusters.seed + SEEDS))
    for outcome in explore(schedules, run_with_bug, clusters.workers):
        if outcome.violation is not None:
            return f"{FOUND} by seed {outcome.schedule.seed}: {outcome.violation.invariant} ({NAME})"
    return f"not found within {SEEDS} seeds: {NAME}. The simulation does not see what it should see."


def _compare_runs(schedules: Sequence[Schedule], workers: int) -> str:
    """Run each schedule twice, in separate processes; return the result as text."""
    twice = [schedule for schedule in schedules for _ in range(2)]
    found: dict[int, set[str]] = {}
    for number, checksum in explore(twice, digest, workers, fresh=True):
        found.setdefault(number, set()).add(checksum)
    differing = sorted(number for number, checksums in found.items() if len(checksums) > 1)
    return f"the traces of seeds {', '.join(map(str, differing))} differ between two runs" if differing else EQUAL


def _read_report(file: Path | None) -> dict[str, Any]:
    """Return the report of the previous run; empty if the file does not exist."""
    if file is None or not file.exists():
        return {}
    try:
        read = json.loads(file.read_text(encoding="utf-8"))
        return {"groups": [dict(group) for group in read["groups"]]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandFailed(
            f"{file} exists, but is not a report of kafka-actors simulate explore ({error!r}). Name another file."
        ) from error


def _write(file: Path | None, text: str) -> None:
    """Write a report, if it was requested."""
    if file is not None:
        try:
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandFailed(f"{file}: {error.strerror}. Name a file that can be written.") from error


def _report_coverage(report: Report, file: Path | None, require: float | None) -> bool:
    """Write and print the coverage; return whether it is at least `require` percent."""
    out = console()
    if file is not None:
        _write(file, json.dumps(report.document(), indent=1) + "\n" if file.suffix == ".json" else report.text())
    out.print(report.summary(), highlight=False)
    for what, names in (
        ("never reached, without a reason", report.missing),
        ("reached, although a reason says it cannot be", report.false_reasons),
        ("error code that the table of its API lacks", report.undeclared),
    ):
        for name in names:
            out.print(f"{what}: {name}", highlight=False, soft_wrap=True)
    if require is None:
        return True
    if report.percent < require:
        out.print(f"{report.percent:.1f} % were reached, {require:g} % are required", highlight=False)
    for name in report.idle_actions:
        out.print(f"action that never ran: {name}", highlight=False)
    return report.percent >= require and not (report.idle_actions or report.false_reasons or report.undeclared)
