"""Sort the violations found in many runs into groups by cause; compare each group with the most similar passing run.

Rule 1: two failing seeds belong to one group if they violate the same invariant and their shrunk schedules have the
        same actions in the same order.
Rule 2: the nearest run that passes is the shrunk schedule without one action. Each attempt leaves out one action, the
        first attempt the last action, until a run passes.
Rule 3: a group is new, or known from the previous report; a known group without a seed in this report is gone.
"""

from __future__ import annotations

import difflib
import hashlib
import tempfile
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

import attrs

from actors.simulation.disk import scratch_folder
from actors.simulation.run import RunOutcome, run
from actors.simulation.schedule import Schedule
from actors.simulation.shrink import Shrinker

MOST_RUNS = 150
"""Maximum number of runs to shrink one failing seed."""

NEW, KNOWN, GONE = "new", "known", "gone"
STORY_LINES = 400
"""Maximum number of lines of a transcript in a report."""


@attrs.frozen
class Case:
    """A failing seed: its shrunk schedule, and the passing run that is most similar to the run of that schedule."""

    seed: int
    invariant: str
    text: str
    schedule: Schedule
    actions: int
    """The number of actions before the schedule was shrunk."""
    left_out: str
    """The action that the passing run leaves out; empty if no such run passes."""
    difference: tuple[str, ...]
    """The transcripts of the failing and of the passing run, as a unified diff."""

    @property
    def shape(self) -> str:
        """The actions of the shrunk schedule (rule 1)."""
        return ", ".join(action.name for action in self.schedule.actions) or "no action"

    @property
    def key(self) -> tuple[str, str]:
        """The key that the cases of a group share."""
        return self.invariant, self.shape


def examine(broken: RunOutcome) -> Case:
    """Shrink a failing run, and find the nearest run that passes."""
    shrinker = Shrinker(broken, run, most_runs=MOST_RUNS)
    smallest = shrinker.shrink()
    violation = smallest.violation
    assert violation is not None
    schedule, left_out, passing = smallest.schedule, "", None
    for place in reversed(range(len(schedule.actions))):
        actions = schedule.actions[:place] + schedule.actions[place + 1 :]
        transcript: list[str] = []
        if run(attrs.evolve(schedule, actions=actions), transcript=transcript).violation is None:
            left_out, passing = str(schedule.actions[place]), transcript
            break
    failing: list[str] = []
    run(schedule, transcript=failing)
    difference = difflib.unified_diff(passing or [], failing, "passes", "fails", lineterm="", n=3)
    return Case(
        *(broken.schedule.seed, violation.invariant, violation.text, schedule, len(broken.schedule.actions)),
        *(left_out, tuple(difference)[:STORY_LINES]),
    )


def digest(schedule: Schedule) -> tuple[int, str]:
    """Run a schedule. Return its seed, and the checksum of all traces that the run writes."""
    with tempfile.TemporaryDirectory(prefix="kafka-actors-", dir=scratch_folder()) as folder:
        root = Path(folder)
        run(schedule, root)
        whole = hashlib.sha256()
        for file in sorted(path for path in root.rglob("trace/*") if path.is_file()):
            whole.update(f"{file.relative_to(root)} {file.stat().st_size}\n".encode())
            whole.update(file.read_bytes())
        return schedule.seed, whole.hexdigest()


# ---------------------------------------------------------------------------------------------------- the report


def groups(cases: Iterable[Case], before: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the groups of these cases, and the groups of the previous report that have no case now (rules 1 and 3).

    The latter get the status GONE. Groups that already have this status in the previous report `before` are omitted.
    """
    by_key: dict[tuple[str, str], list[Case]] = {}
    for case in sorted(cases, key=lambda case: case.seed):
        by_key.setdefault(case.key, []).append(case)
    last = {
        (group["invariant"], group["shape"]): group for group in before.get("groups", ()) if group["status"] != GONE
    }
    found = []
    for key, members in by_key.items():
        first = min(members, key=lambda case: len(case.schedule.actions))
        found.append(
            {
                "invariant": first.invariant,
                "shape": first.shape,
                "status": KNOWN if key in last else NEW,
                "seeds": [case.seed for case in members],
                "violation": first.text,
                "schedule": first.schedule.text(),
                "actions before shrinking": first.actions,
                "passes without": first.left_out,
                "difference": list(first.difference),
            }
        )
    return found + [{**group, "status": GONE} for key, group in last.items() if key not in by_key]


def page(report: Mapping[str, Any]) -> str:
    """Return the report as one self-contained HTML page."""
    counts = ", ".join(
        f"{sum(group['status'] == status for group in report['groups'])} {status}" for status in (NEW, KNOWN, GONE)
    )
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Simulation report</title>",
        "<style>body{font:15px sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
        "pre{background:#f4f4f4;padding:.6em;overflow:auto}h2{margin-top:2em}"
        "table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.2em .6em;text-align:left}</style>",
        "<h1>Simulation report</h1>",
        f"<p>{report['runs']} runs, {report['broken']} with a violation. Groups: {counts}.</p>",
        "<table><tr><th>check</th><th>result</th></tr>",
        *(f"<tr><td>{escape(name)}</td><td>{escape(result)}</td></tr>" for name, result in report["checks"].items()),
        "</table>",
        "<p>A schedule, copied to a file, runs again with <code>kafka-actors simulate --schedule FILE</code>. This"
        " keeps the traces, and prints the command that opens their page at the violation.</p>",
    ]
    for group in report["groups"]:
        seeds = ", ".join(map(str, group["seeds"]))
        without = group["passes without"]
        passes = f"passes without <code>{escape(without)}</code>" if without else "no shorter run passes"
        parts += [
            f"<h2>{escape(group['invariant'])} ({group['status']})</h2>",
            f"<p>{escape(group['violation'])}</p><p>Seeds {seeds}; {passes}.</p>",
            f"<h3>Shrunk schedule</h3><pre>{escape(group['schedule'])}</pre>",
            "<h3>What differs from the nearest run that passes</h3>",
            f"<pre>{escape(chr(10).join(group['difference']))}</pre>",
        ]
    return "\n".join(parts) + "\n"
