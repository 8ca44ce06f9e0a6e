"""The options of `simulate` and `simulate explore` that say which clusters run, and their runs on all cores."""

from __future__ import annotations

import inspect
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import attrs
import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from actors.cli.app import CommandFailed
from actors.cli.display import console
from actors.simulation import actions
from actors.simulation.explore import explore
from actors.simulation.run import RunOutcome, run
from actors.simulation.schedule import BadSchedule, Schedule, parse
from messages.node import NodeSettings

C = TypeVar("C", bound=Callable[..., Any])

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
    actions.LOGS: "logs are cleaned, expire, and move between disks",
    actions.QUOTAS: "quotas change while users with records produce and fetch",
    actions.VERSIONS: "nodes restart with another inter-broker protocol version",
    actions.RIGHTS: "ACLs change while users send requests; not in `all`, because all nodes have an authorizer",
}
"""Value of --faults -> what it adds to the runs."""


def _faults(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """Return the kinds of faults and requests that the option names."""
    if value == "none":
        return ()
    parts = tuple(part.strip() for part in value.split(","))
    unknown = [part for part in parts if part not in (*PARTS, "all")]
    if unknown:
        raise click.BadParameter(
            f"unknown kinds of faults: {', '.join(map(repr, unknown))}. Use {', '.join(PARTS)}, all or none."
        )
    wanted = (*actions.FAULTS, *actions.NAMED, *parts) if "all" in parts else parts
    return tuple(part for part in (*actions.FAULTS, *actions.NAMED, actions.RIGHTS) if part in wanted)


OPTIONS = (
    click.option(
        "--brokers", type=click.IntRange(1, 1000), help="Number of brokers. By default each seed selects a number."
    ),
    click.option("--topics", type=click.IntRange(1), default=8, help="Maximum number of topics."),
    click.option(
        "--partitions", type=click.IntRange(1), default=4, help="Maximum number of partitions of a new topic."
    ),
    click.option(
        "--replication-factor",
        "replication",
        type=click.IntRange(1),
        default=3,
        help="Replication factor of new topics.",
    ),
    click.option("--seed", type=int, default=0, help="The first random seed."),
    click.option("--seeds", type=click.IntRange(1), default=1, help="Number of random seeds to run, from --seed on."),
    click.option(
        "--duration", type=click.FloatRange(1), default=120.0, help="Length of each run, in seconds of simulated time."
    ),
    click.option(
        "--faults",
        default="all",
        callback=_faults,
        help="The faults and requests that runs may contain, separated by commas: "
        + ", ".join(f"{name} ({text})" for name, text in PARTS.items())
        + ". `all` selects everything, `none` nothing.",
    ),
    click.option("--records/--no-records", default=False, help="Also run producers and consumers."),
    click.option(
        "--schedule",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Run the schedule in this file instead of schedules drawn from seeds.",
    ),
    click.option("--workers", type=click.IntRange(1), help="Number of worker processes. Default: one per core."),
)


def cluster_options(command: C) -> C:
    """Add OPTIONS to a command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


class SimulatedClusters:
    """The clusters that the values of OPTIONS describe; the other values are arguments of `actions.invent`."""

    def __init__(self, seed: int, seeds: int, schedule: Path | None, workers: int | None, **arguments: Any) -> None:
        self.seed, self.seeds, self.workers = seed, seeds, workers or 0
        self.schedule = schedule
        self.of_seed: Callable[[int], Schedule] = partial(actions.invent, **arguments)

    def schedules(self, count: int | None) -> Iterable[Schedule]:
        """Return the schedules of `count` seeds, or of all seeds from the first on; or the schedule in the file."""
        if self.schedule is not None:
            return [read_schedule(self.schedule)]
        return map(self.of_seed, itertools.islice(itertools.count(self.seed), count))


@attrs.define
class Runs:
    """The outcomes of the runs of several schedules."""

    count: int = 0
    broken: list[RunOutcome] = attrs.field(factory=list)
    reached: Counter[str] = attrs.field(factory=Counter)
    """How often the runs reached each coverage point."""


def run_all(clusters: SimulatedClusters, covered: bool = False, budget: float | None = None) -> Runs:
    """Run the clusters, for `budget` seconds if it is given, and print each violation and the number of runs."""
    out, runs, began = console(), Runs(), time.monotonic()
    seconds, deliveries = 0.0, 0
    total = None if budget is not None else 1 if clusters.schedule is not None else clusters.seeds
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True) as progress:
        task = progress.add_task("seeds", total=total)

        def is_over() -> bool:
            return budget is not None and time.monotonic() - began > budget

        play = partial(run, covered=covered)
        for outcome in explore(clusters.schedules(total), play, clusters.workers, is_over):
            runs.count += 1
            runs.reached.update(outcome.reached)
            seconds += outcome.seconds
            deliveries += outcome.deliveries
            progress.advance(task)
            if outcome.violation is not None:
                runs.broken.append(outcome)
                out.print(f"seed {outcome.schedule.seed}: {outcome.violation}")
    out.print(f"{runs.count} seeds, {seconds:.0f} simulated seconds, {deliveries} messages, {len(runs.broken)} broken")
    return runs


def read_schedule(path: Path) -> Schedule:
    """Return the schedule in a file.

    Raises:
        CommandFailed: The file is not a schedule.
    """
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
