"""Print the results of benchmarks: one JSON object per line."""

from __future__ import annotations

import json
import re
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
    return ratio


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
