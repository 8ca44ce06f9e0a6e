"""`kafka-actors simulate`: run simulated clusters under random faults.

It shortens and keeps the schedule of the first seed that violates an invariant.
"""

from __future__ import annotations

import inspect
import itertools
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from actors.cli.app import FAILED, FILE, FOLDER, CommandFailed
from actors.cli.display import console
from actors.simulation import actions
from actors.simulation.canary import NAME, SEEDS, run_with_bug
from actors.simulation.coverage import Report
from actors.simulation.explore import explore
from actors.simulation.run import RunOutcome, run
from actors.simulation.schedule import BadSchedule, Schedule, parse
from actors.simulation.shrink import Shrinker
from actors.simulation.triage import digest, examine, groups, page
from messages.node import NodeSettings

NOT_FOUND = 3
"""Exit code if --canary is not found."""

SAMPLE = 20
"""Distance of the seeds that --check-determinism runs twice."""

EQUAL = "each seed that was run twice left the same traces"
FOUND = "found"


PARTS = {
    "kill": "nodes are killed or stopped",
    "pause": "nodes are suspended for a while",
    "partition": "hosts cannot reach each other",
    "expire": "ZooKeeper sessions expire",
    "disk": "disks fail, are full or are slow",
    "slow": "nodes and connections are slow",
    "zookeeper": "ZooKeeper is down or slow",
    actions.ADMIN: "requests of admin tools",
    actions.GROUPS: "requests of consumer groups",
    actions.ABSENT: "topics are reassigned to a broker that never exists, and these topics are deleted",
    actions.STALE: "requests with old epochs",
    actions.PRODUCERS: "idempotent producers",
    actions.TRANSACTIONS: "transactional producers",
    actions.FLIPS: "bits of committed records flip on a disk while its node is down",
}
"""Value of --faults -> what it adds to the runs."""


def _faults(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """Return the kinds of faults and requests that the option names."""
    if value == "none":
        return ()
    parts = tuple(part.strip() for part in value.split(","))
    unknown = [part for part in parts if part not in (*actions.FAULTS, *actions.NAMED, "all")]
    if unknown:
        raise click.BadParameter(
            f"unknown kinds of faults: {', '.join(map(repr, unknown))}."
            f" Use {', '.join((*actions.FAULTS, *actions.NAMED))}, all or none."
        )
    wanted = (*actions.FAULTS, *actions.NAMED) if "all" in parts else parts
    return tuple(part for part in (*actions.FAULTS, *actions.NAMED) if part in wanted)


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
    "simulate",
    context_settings={"show_default": True},
    epilog="Exit codes: 0 no violation; 1 a violation, too little coverage, or a schedule that ran differently when"
    " repeated; 2 usage error; 3 the bug that --canary plants was not found.",
)
@click.option(
    "--brokers",
    type=click.IntRange(1, 1000),
    help="Number of brokers. By default each seed selects a number; with --no-swarm it is 3.",
)
@click.option("--topics", type=click.IntRange(1), default=8, help="Maximum number of topics.")
@click.option("--partitions", type=click.IntRange(1), default=4, help="Maximum number of partitions of a new topic.")
@click.option("--replication-factor", type=click.IntRange(1), default=3, help="Replication factor of new topics.")
@click.option("--seed", type=int, default=0, help="The first random seed.")
@click.option("--seeds", type=click.IntRange(1), default=1, help="Number of random seeds to run, from --seed on.")
@click.option(
    "--duration", type=click.FloatRange(1), default=120.0, help="Length of each run, in seconds of simulated time."
)
@click.option(
    "--faults",
    default="all",
    callback=_faults,
    help="The faults and requests that runs may contain, separated by commas: "
    + ", ".join(f"{name} ({PARTS[name]})" for name in (*actions.FAULTS, *actions.NAMED))
    + ". `all` selects everything, `none` nothing.",
)
@click.option("--records/--no-records", default=False, help="Also run producers and consumers.")
@click.option(
    "--validate/--no-validate",
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
    "--schedule",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Run the schedule in this file instead of schedules drawn from seeds.",
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
@click.option("--workers", type=click.IntRange(1), help="Number of worker processes. Default: one per core.")
@click.option(
    "--shrink/--no-shrink",
    default=True,
    help="Remove from the first violating schedule all actions that the violation does not need.",
)
@click.option(
    "--keep",
    type=FOLDER,
    default=Path("simulation"),
    help="If a run violates an invariant, keep its schedule, traces and simulated disks in this folder (not with --json"
    " or --html).",
)
def command(
    brokers: int | None,
    topics: int,
    partitions: int,
    replication_factor: int,
    seed: int,
    seeds: int,
    duration: float,
    faults: tuple[str, ...],
    records: bool,
    validate: bool,
    swarm: bool,
    schedule: Path | None,
    coverage: Path | None,
    require: float | None,
    budget: float | None,
    json_file: Path | None,
    html_file: Path | None,
    canary: bool,
    check_determinism: bool,
    workers: int | None,
    shrink: bool,
    keep: Path,
) -> int:
    """Simulate clusters in virtual time, with random operations and faults from a seed.

    Each invariant of Kafka's replication is checked after the changes to which it applies. The schedule of the first
    seed that violates an invariant is shortened and kept. `kafka-actors simulate --schedule FILE` runs it again.
    """
    out = console()
    before = _read_report(json_file)

    def made(number: int) -> Schedule:
        return actions.invent(
            number, brokers, topics, partitions, replication_factor, duration, faults, records, validate, swarm=swarm
        )

    began, runs = time.monotonic(), 1 if schedule is not None else seeds
    schedules: Iterable[Schedule] = map(made, range(seed, seed + seeds) if budget is None else itertools.count(seed))
    if schedule is not None:
        schedules = [_read(schedule)]
    checks = {"canary": _find_canary(made, seed, workers or 0)} if canary else {}
    covered = coverage is not None or require is not None
    reached: Counter[str] = Counter()
    broken: list[RunOutcome] = []
    seconds, deliveries = 0.0, 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True) as progress:
        task = progress.add_task("seeds", total=None if budget is not None else runs)
        runs = 0

        def is_over() -> bool:
            return budget is not None and time.monotonic() - began > budget

        for outcome in explore(schedules, partial(run, covered=covered), workers or 0, is_over):
            runs += 1
            reached.update(outcome.reached)
            seconds += outcome.seconds
            deliveries += outcome.deliveries
            progress.advance(task)
            if outcome.violation is not None:
                broken.append(outcome)
                out.print(f"seed {outcome.schedule.seed}: {outcome.violation}")
    out.print(f"{runs} seeds, {seconds:.0f} simulated seconds, {deliveries} messages, {len(broken)} broken")
    uncovered = covered and not _report_coverage(Report(reached), coverage, require)
    if check_determinism:
        numbers = range(seed, seed + runs, SAMPLE)
        checked = [_read(schedule)] if schedule is not None else list(map(made, numbers))
        checks["determinism"] = _compare_runs(checked, workers or 0)
    for name, result in checks.items():
        out.print(f"{name}: {result}", highlight=False)
    if json_file is not None or html_file is not None:
        with out.status(f"shrinking {len(broken)} schedules"):
            cases = list(explore(broken, examine, workers or 0))
        report: dict[str, Any] = {
            "runs": runs,
            "broken": len(broken),
            "checks": checks,
            "groups": groups(cases, before),
        }
        _write(json_file, json.dumps(report, indent=1) + "\n")
        _write(html_file, page(report))
        for group in report["groups"]:
            seen = ", ".join(map(str, group["seeds"]))
            out.print(f"{group['status']}: {group['invariant']} ({group['shape']}): seeds {seen}", highlight=False)
    elif broken:
        _report_violation(min(broken, key=lambda each: each.schedule.seed), shrink and schedule is None, keep)
    if not checks.get("canary", FOUND).startswith(FOUND):
        return NOT_FOUND
    return FAILED if broken or uncovered or checks.get("determinism", EQUAL) != EQUAL else 0


def _find_canary(made: Callable[[int], Schedule], seed: int, workers: int) -> str:
    """Run simulations with a known bug, seed by seed, until an invariant is violated; return the result as text."""
    schedules = map(made, range(seed, seed + SEEDS))
    for outcome in explore(schedules, run_with_bug, workers):
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
            f"{file} exists, but is not a report of kafka-actors simulate ({error!r}). Name another file."
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


def _read(path: Path) -> Schedule:
    try:
        read = parse(path.read_text(encoding="utf-8"))
    except (BadSchedule, UnicodeDecodeError) as error:
        raise CommandFailed(f"{path}: {error}") from error
    for name, _ in read.settings:
        if name not in inspect.signature(NodeSettings).parameters:
            raise CommandFailed(
                f"{path}: unknown node setting in the line 'set {name}'. Remove the line or correct the name."
            )
    for action in read.actions:
        reason = actions.unfit(action, read.brokers)
        if reason is not None:
            raise CommandFailed(f"{path}: {reason}")
    return read


def _report_violation(broken: RunOutcome, shrinking: bool, folder: Path) -> None:
    """Repeat the run that violated an invariant, with traces, and print how to reproduce the violation.

    If `shrinking` is true, the schedule is shortened first.
    """
    out = console()
    smallest = broken
    if shrinking:
        shrinker = Shrinker(broken, run)
        with out.status(f"shrinking seed {broken.schedule.seed}"):
            smallest = shrinker.shrink()
        out.print(
            f"shrunk from {len(broken.schedule.actions)} to {len(smallest.schedule.actions)} "
            f"actions in {shrinker.runs} runs"
        )
    place = folder / f"seed-{broken.schedule.seed}"
    number = 0
    while place.exists():
        number += 1
        place = folder / f"seed-{broken.schedule.seed}.{number}"
    place.mkdir(parents=True)
    run(smallest.schedule, place)
    file = place / "schedule.txt"
    file.write_text(f"# {smallest.violation}\n{smallest.schedule.text()}", encoding="utf-8")
    out.print(smallest.schedule.text(), highlight=False)
    out.print(f"{smallest.violation}", highlight=False)
    out.print(f"again:  kafka-actors simulate --schedule {file}", highlight=False, soft_wrap=True)
    out.print(f"traces: kafka-actors replay {place}; kafka-actors summary {place}", highlight=False, soft_wrap=True)
