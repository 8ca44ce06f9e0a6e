"""The steps of `.ci/run` after the installation, their budgets, and how they run: `python .ci/steps.py`.

Rule 1: steps of the second lane use one core, and run one after the other beside those of the first.
Rule 2: a step that fails does not stop the others; the exit code is 1 then. A step is killed at four times its budget.
Rule 3: the output of a step of the second lane is printed when it has ended, and the last step's output comes last.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import NamedTuple


class Step(NamedTuple):
    """A step: its command, and the seconds that it may take on two idle cores."""

    name: str
    command: str
    budget: int


SECOND_LANE = (
    Step("lint", "make lint", 80),
    Step("site", "make site", 45),
    Step("Thespian's own tests on our base", "make test-thespian", 150),
    Step("Spark's executors, masters and workers", "make test-spark WORKERS=1", 170),
)
FIRST_LANE = (
    Step("beside Apache Kafka", "make interop WORKERS=2 ARGS='--soak-seed 7'", 340),
    Step("simulated clusters", "make simulate", 70),
    Step("slow tests", "make test-slow ARGS='--soak-seed 7'", 430),
    Step("tests", "make test", 270),
)
"""The soak has another seed each time without --soak-seed."""


def run(step: Step, results: dict[Step, tuple[int, float]], quiet: bool) -> None:
    """Run a step, and store its exit code and seconds."""
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as kept:
        print(f"\n== {step.name}", flush=True)
        out = kept if quiet else None
        process = subprocess.Popen(
            step.command, shell=True, stdout=out, stderr=subprocess.STDOUT if quiet else None, start_new_session=True
        )
        try:
            code = process.wait(4 * step.budget)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait() or 1
        kept.seek(0)
        print(kept.read(), end="", flush=True)
    seconds = time.monotonic() - begin
    results[step] = code, seconds
    print(f"== {step.name}: exit code {code}, {seconds:.0f} s of {step.budget}", flush=True)


def main() -> None:
    """Run both lanes; print the seconds of each step beside its budget."""
    first = FIRST_LANE
    if not os.environ.get("KAFKA_LIBS") and shutil.which("mvn") is None:
        print("Apache Kafka's jars cannot be fetched (Maven is needed): the tests beside it are left out")
        first = FIRST_LANE[1:]
    results: dict[Step, tuple[int, float]] = {}
    begin = time.monotonic()
    second = threading.Thread(target=lambda: [run(step, results, quiet=True) for step in SECOND_LANE])
    second.start()
    for step in first[:-1]:
        run(step, results, quiet=False)
    second.join()
    run(first[-1], results, quiet=False)
    print(f"\n{time.monotonic() - begin:.0f} s without the installation")
    for step, (code, seconds) in results.items():
        over = ", over its budget" if seconds > step.budget else ""
        print(f"{seconds:6.0f} s of {step.budget:4}  {step.name}{over}{f': exit code {code}' if code else ''}")
    sys.exit(any(code for code, _ in results.values()))


if __name__ == "__main__":
    main()
