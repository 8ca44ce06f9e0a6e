"""`kafka-actors simulate`: simulate clusters under random faults, and shorten the schedules of violations."""

from __future__ import annotations

import inspect
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from actors.cli.app import FAILED, Failed
from actors.cli.display import console
from actors.simulation.actions import ABSENT, ADMIN, FAULTS, GROUPS, NAMED, invent, unfit
from actors.simulation.explore import explore
from actors.simulation.run import Outcome, run
from actors.simulation.schedule import BadSchedule, Schedule, parse
from actors.simulation.shrink import Shrinker
from messages.node import NodeSettings


def _faults(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """Return the groups of actions that the option names."""
    if value == "none":
        return ()
    parts = tuple(part.strip() for part in value.split(","))
    unknown = [part for part in parts if part not in (*FAULTS, *NAMED, "all")]
    if unknown:
        raise click.BadParameter(
            f"unknown faults: {', '.join(unknown)}. Use {', '.join((*FAULTS, *NAMED))}, all or none."
        )
    return (*(FAULTS if "all" in parts else ()), *(part for part in parts if part != "all"))


@click.command("simulate", epilog="Exit codes: 0 no violation, 1 a violation, 2 usage error.")
@click.option("--brokers", type=click.IntRange(1, 1000), default=3, show_default=True, help="Number of brokers.")
@click.option("--topics", type=click.IntRange(1), default=8, show_default=True, help="Maximum number of topics.")
@click.option(
    "--partitions",
    type=click.IntRange(1),
    default=4,
    show_default=True,
    help="Maximum number of partitions of a new topic.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Replication factor of new topics.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The first seed.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Number of seeds.")
@click.option(
    "--duration", type=click.FloatRange(1), default=120.0, show_default=True, help="Virtual seconds of each run."
)
@click.option(
    "--faults",
    default="all",
    show_default=True,
    callback=_faults,
    help=f"Faults to inject, separated by commas: {','.join(FAULTS)}; all; none; {ADMIN} (requests of newer tools);"
    f" {GROUPS} (consumer groups); {ABSENT} (deletions during reassignments to a broker that never exists).",
)
@click.option("--records/--no-records", default=False, show_default=True, help="Also run producers and consumers.")
@click.option(
    "--validate/--no-validate",
    default=True,
    show_default=True,
    help="Actors validate their own state after each message (slower).",
)
@click.option(
    "--schedule",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Run this schedule instead of seeds.",
)
@click.option("--workers", type=click.IntRange(1), help="Number of processes; one per core by default.")
@click.option(
    "--shrink/--no-shrink", default=True, show_default=True, help="Shorten the schedule of the first violation."
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("simulation"),
    show_default=True,
    help="The folder for the violating schedule, its traces and its disks.",
)
def command(
    brokers: int,
    topics: int,
    partitions: int,
    replication_factor: int,
    seed: int,
    seeds: int,
    duration: float,
    faults: tuple[str, ...],
    records: bool,
    validate: bool,
    schedule: Path | None,
    workers: int | None,
    shrink: bool,
    keep: Path,
) -> int:
    """Simulate clusters in virtual time, with random operations and faults from a seed.

    The invariants are checked after every step. The schedule of the first seed that violates one is shortened and
    kept: `kafka-actors simulate --schedule FILE` runs it again.
    """
    out = console()
    if schedule is not None:
        schedules = [_read(schedule)]
    else:
        schedules = [
            invent(each, brokers, topics, partitions, replication_factor, duration, faults, records, validate)
            for each in range(seed, seed + seeds)
        ]
    broken: list[Outcome] = []
    seconds, deliveries = 0.0, 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True) as progress:
        task = progress.add_task("seeds", total=len(schedules))
        for outcome in explore(schedules, workers or 0):
            seconds += outcome.seconds
            deliveries += outcome.deliveries
            progress.advance(task)
            if outcome.violation is not None:
                broken.append(outcome)
                out.print(f"seed {outcome.schedule.seed}: {outcome.violation}")
    out.print(f"{len(schedules)} seeds, {seconds:.0f} simulated seconds, {deliveries} messages, {len(broken)} broken")
    if not broken:
        return 0
    _keep(min(broken, key=lambda each: each.schedule.seed), shrink and schedule is None, keep)
    return FAILED


def _read(path: Path) -> Schedule:
    try:
        read = parse(path.read_text(encoding="utf-8"))
    except (BadSchedule, UnicodeDecodeError) as error:
        raise Failed(f"{path}: {error}") from error
    for name, _ in read.settings:
        if name not in inspect.signature(NodeSettings).parameters:
            raise Failed(f"{path}: set {name}: unknown node setting; remove the line or correct the name")
    for action in read.actions:
        reason = unfit(action, read.brokers)
        if reason is not None:
            raise Failed(f"{path}: {reason}")
    return read


def _keep(broken: Outcome, shrinking: bool, folder: Path) -> None:
    """Shrink a violation, run it again with traces, and print how to reproduce it."""
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
