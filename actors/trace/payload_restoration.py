"""Read runs whose traces omit the contents of messages (`trace.detail=inputs`).

A replay restores the contents in a temporary folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from messages.trace.errors import TraceError
from messages.trace.files.runs import Run, find_runs
from messages.trace.schema import FULL


@contextmanager
def with_payloads(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """Yield the runs with the contents of all messages; restored runs exist until the end of the `with` block.

    Raises:
        TraceError: A replay differs from its trace, or is impossible.
    """
    complete = [run for run in runs if run.header.detail == FULL]
    if len(complete) == len(runs):
        yield complete
        return
    with tempfile.TemporaryDirectory(prefix="kafka-actors-") as folder:
        for run in runs:
            if run.header.detail != FULL:
                _restore(run, Path(folder))
        restored = {run.header.run: run for run in (*complete, *find_runs(Path(folder)).runs)}
        yield [restored[run.header.run] for run in runs]


def _restore(run: Run, folder: Path) -> None:
    from actors.runtime.trace.expansion import expand  # takes 0.5 s, and few traces need it
    from actors.trace.moment import ACTORS

    result = expand(run, ACTORS, folder)
    if not result.ok:
        reason = result.problem or "the replayed run differs from the trace (see `kafka-actors replay`)"
        raise TraceError(
            f"run {run.header.run} was recorded without message contents (trace.detail={run.header.detail}),"
            f" and replaying it did not restore them: {reason}"
        )
