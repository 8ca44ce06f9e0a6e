"""Print the results of benchmarks: one JSON object per line.

If BENCHMARK_ROWS names a file, rows are also appended to it, with the commit and the load of the machine. The page of
growth is made from such rows (`tests.docs.growth`).
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path


def report(
    bench: str,
    case: str,
    ours: float,
    peer: float,
    peer_name: str,
    unit: str,
    less_is_better: bool = False,
    ratio: float | None = None,
    bound: float | None = None,
) -> float:
    """Print a row, and return its ratio: how many times better than the peer kafka-actors is (below 1: worse).

    Args:
        ratio: For example the median of the rounds' ratios. None: the ratio of the two figures.
        bound: The ratio that the project requires.
    """
    if ratio is None:
        ratio = peer / ours if less_is_better else ours / peer
    row = {
        "bench": bench,
        "case": case,
        "ours": _rounded(ours),
        "peer": _rounded(peer),
        "peer_name": peer_name,
        "unit": unit,
        "ratio": _rounded(ratio),
    }
    if bound is not None:
        row["bound"] = bound
    print(json.dumps(row), flush=True)
    if "BENCHMARK_ROWS" in os.environ:
        with Path(os.environ["BENCHMARK_ROWS"]).open("a", encoding="utf-8") as rows:
            rows.write(json.dumps({**row, "commit": _commit(), "load": os.getloadavg()[0]}) + "\n")
    return ratio


@functools.cache
def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=8"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds that `work` takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def peak_megabytes(process: int) -> float:
    """Return the peak resident memory of a process in MB."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s+(\d+)", status)
    assert found is not None
    return int(found[1]) / 1000


def _rounded(value: float) -> float:
    """Round to four significant digits; the rest is noise."""
    return float(f"{value:.4g}")
