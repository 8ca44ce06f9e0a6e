"""`kafka-actors simulate`: run simulated clusters under random faults.

It shortens and keeps the schedule of the first seed that violates an invariant. `simulate explore` searches with many
seeds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from actors.cli import simulate_explore
from actors.cli.app import FAILED, FOLDER
from actors.cli.display import console
from actors.cli.simulated_clusters import SimulatedClusters, cluster_options, run_all
from actors.cli.usage_errors import exit_codes
from actors.simulation.run import RunOutcome, run
from actors.simulation.shrink import Shrinker
from actors.simulation.simulated_cluster import EPOCH_MS


@click.group(
    "simulate",
    invoke_without_command=True,
    subcommand_metavar="[explore ...]",
    context_settings={"show_default": True},
    epilog=exit_codes("a violation", success="no violation"),
)
@cluster_options
@click.option(
    "--keep",
    type=FOLDER,
    default=Path("simulation"),
    help="If a run violates an invariant, keep its schedule, traces and simulated disks in this folder.",
)
@click.pass_context
def command(context: click.Context, keep: Path, **options: Any) -> int:
    """Simulate clusters in virtual time, with random operations and faults from a seed.

    Each invariant of Kafka's replication is checked after the changes to which it applies. The schedule of the first
    seed that violates an invariant is shortened and kept. `kafka-actors simulate --schedule FILE` runs it again.
    `kafka-actors simulate explore` groups the violations of many seeds by cause, and measures what the seeds reach.
    """
    if context.invoked_subcommand is not None:
        return 0
    clusters = SimulatedClusters(**options)
    broken = run_all(clusters).broken
    if broken:
        _report_violation(min(broken, key=lambda each: each.schedule.seed), clusters.schedule is None, keep)
    return FAILED if broken else 0


command.add_command(simulate_explore.command)


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
    assert smallest.violation is not None
    at = EPOCH_MS / 1000 + smallest.violation.at
    out.print(f"page:   kafka-actors trace show {place} --ui --from {at!r}", highlight=False, soft_wrap=True)
