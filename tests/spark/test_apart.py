"""Work in a child process: its result or exception is returned, and no process or file of it remains."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path

import psutil
import pytest

from messages.trace.files.errors import NotATrace
from spark.child_process import ChildEnded, apart
from tests.waiting import until


def test_the_result_comes_back_and_so_does_what_is_raised() -> None:
    assert apart(lambda: {"here": os.getpid()})["here"] != os.getpid()
    with pytest.raises(NotATrace, match="no such folder"):
        apart(partial(_raise, NotATrace("no such folder")))
    with pytest.raises(RuntimeError, match="TypeError: unpicklable"):
        apart(partial(_raise, type("Local", (TypeError,), {})("unpicklable"), "TypeError"))
    with pytest.raises(RuntimeError, match="TwoWords: one two"):
        apart(partial(_raise, TwoWords("one", "two")))
    with pytest.raises(ChildEnded):
        apart(lambda: os._exit(3))


class TwoWords(Exception):
    """Like some exceptions of Spark, this one can be pickled, but not be read again."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


def _raise(error: Exception, name: str = "") -> None:
    if name:
        type(error).__name__ = name
    raise error


def _linger(report: Path) -> None:
    """Start a process that would outlive this one, create a file in the temporary folder, and wait for a signal."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(tempfile.gettempdir(), "left").touch()
    report.with_suffix(".part").write_text(f"{os.getpid()} {child.pid} {tempfile.gettempdir()}")
    report.with_suffix(".part").rename(report)
    signal.pause()


@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)], ids=["int", "term"]
)
def test_nothing_is_left_of_what_is_interrupted(
    tmp_path: Path, number: signal.Signals, raised: type[BaseException]
) -> None:
    report = tmp_path / "report"
    before = signal.getsignal(number)

    def interrupt() -> None:
        until(report.exists, what="the child is at work")
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(raised):
        apart(partial(_linger, report))
    thread.join()
    worker, grandchild, temporary = report.read_text().split()
    until(lambda: _alive(int(worker), int(grandchild)), lambda left: not left, "both are gone", 10)
    assert not Path(temporary).exists()
    assert signal.getsignal(number) is before
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())


def _alive(*processes: int) -> list[int]:
    found = [psutil.Process(pid) for pid in processes if psutil.pid_exists(pid)]
    return [each.pid for each in found if each.status() != psutil.STATUS_ZOMBIE]
