"""The lines that nodes logged while their runs were recorded, from the log files beside the traces.

Rule 1: `up` writes node.log beside each node's trace, and clusters in one process write cluster.log, in which the text
        of a line names its node. A line that names no node is not shown.
Rule 2: the times of a log file are local times of the machine that wrote it, which is taken to be this one.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from actors.page.recorded_trace import RecordedRun, RecordedTrace
from actors.trace.delivery_text import logged_at

NODE_LOG, CLUSTER_LOG = "node.log", "cluster.log"
PARENTS = 3
"""Number of folders above a run in which its log file is searched."""
MOST_LINES = 200_000
"""Maximum number of lines of a file that are read, from its end."""
MOST_SHOWN = 100

_LINE = re.compile(r"\[([\d-]{10} [\d:]{8},\d{3})\] ([A-Z]+) (.*)")
_NODE = re.compile(r"\[[^\]]*?(?:\bid=|\breplicaId=|\bbroker=|Coordinator )(\d+)")
_LEVELS = {"WARNING": 1, "ERROR": 2, "CRITICAL": 2}


class LogLine(NamedTuple):
    """A line of a log; `run` is the index of the run, `level` is 0, 1 for warnings, or 2 for errors."""

    at: float
    run: int
    level: int
    text: str


def log_lines(recorded: RecordedTrace) -> list[LogLine]:
    """Return the lines that were logged during the runs, in order of time."""
    files: dict[Path, list[RecordedRun]] = {}
    for run in recorded.runs:
        found = (
            parent / name for parent in [*run.run.run.folder.parents][:PARENTS] for name in (NODE_LOG, CLUSTER_LOG)
        )
        path = next((each for each in found if each.is_file()), None)
        if path is not None:
            files.setdefault(path, []).append(run)
    return sorted(line for path, runs in files.items() for line in _read(path, runs, recorded))


def _read(path: Path, runs: list[RecordedRun], recorded: RecordedTrace) -> Iterator[LogLine]:
    try:
        lines = path.read_text(errors="replace").splitlines()[-MOST_LINES:]
    except OSError:
        return
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        named = _NODE.search(match[3])
        logged = logged_at(match[1])
        for run in runs:
            at = logged - recorded.shifts[run.run.name]
            is_its = path.name == NODE_LOG or (named is not None and int(named[1]) == run.run.node)
            if is_its and run.begin - 0.001 <= at <= run.end + 0.001:  # the file has milliseconds
                yield LogLine(at, run.place, _LEVELS.get(match[2], 0), match[3])
                break


def lines_between(lines: list[LogLine], start: float, end: float) -> list[LogLine]:
    """Return the first lines in a part of the time."""
    first = bisect_left(lines, start, key=lambda line: line.at)
    last = bisect_right(lines, end, key=lambda line: line.at)
    return lines[first : min(last, first + MOST_SHOWN)]
