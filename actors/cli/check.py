"""`kafka-actors check DIR`: check the invariants of the simulator on recorded traces."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from actors.cli.app import FAILED, CommandFailed
from actors.cli.display import console, printable, table
from actors.cli.replay import demand
from actors.cli.usage_errors import DAMAGED, exit_codes
from actors.page.recorded_trace import RecordedTrace
from actors.simulation.monitors.families import INVARIANTS
from actors.simulation.recorded_cluster import check
from actors.trace.explanation import utc
from actors.trace.reader import Trace, TraceRun
from messages.trace.errors import TraceError
from messages.trace.files.runs import find_runs
from messages.trace.schema import FULL


@click.command("check", epilog=exit_codes(f"a violated invariant, or {DAMAGED}", success="no invariant is violated"))
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, path_type=Path))
@click.option("--all", "every", is_flag=True, help="Print each invariant: held, violated, or why it was not checked.")
def command(directory: Path, every: bool) -> int:
    """Check the invariants of Kafka's replication on the traces below DIR, as `kafka-actors simulate` does in its runs.

    For each violated invariant, the first violation is printed, with the options that make `kafka-actors replay DIR`
    stop at the delivery that shows it. An invariant is not checked if it needs more than the traces have, such as the
    state of a cluster at rest, or the start of a run whose first segments were removed. The traces must be those of all
    brokers, recorded with `trace.detail=full`. Differences between the clocks of the brokers are subtracted, as far as
    requests show them.
    """
    try:
        found = find_runs(directory)
        demand(found.runs, found.unreadable, directory, None)
        if any(run.header.detail != FULL for run in found.runs):
            raise CommandFailed(f"{directory} has traces without message contents (trace.detail=inputs).")
        result = check(found.runs, RecordedTrace(Trace(directory, tuple(map(TraceRun, found.runs)))).shifts)
    except TraceError as error:
        raise CommandFailed(str(error)) from error
    out = console()
    violated = {each.invariant.name for each in result.violations}
    for each in result.violations:
        out.print(f"violated: {each.invariant.name} ({each.invariant.rule}): {printable(each.text)}")
        out.print(f"  [{utc(each.at)}; --run {each.run} --until {each.delivery}]")
    if every:
        rows = []
        for row in INVARIANTS:
            why, times = result.not_checked.get(row.name), result.checked.get(row.name, 0)
            counted = f"held, checked {times} times" if times else "not checked: nothing to check"
            state = "violated" if row.name in violated else counted if why is None else f"not checked: needs {why}"
            rows.append((row.name, row.rule, state))
        out.print(table(None, ("invariant", "rule", "result"), rows))
    held = sum(1 for name in result.checked if name not in violated)
    needs = ", ".join(f"{count} need {why}" for why, count in Counter(result.not_checked.values()).most_common())
    out.print(
        f"{len(violated)} violated, {held} held in {result.deliveries} deliveries;"
        f" {len(INVARIANTS) - held - len(violated)} not checked ({needs})"
    )
    return FAILED if violated else 0
