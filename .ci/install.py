"""`make install`: a virtual environment with the project and all it needs, as an editable installation.

    python .ci/install.py .venv

Rule 1: one at a time. Who comes second waits, and finds it done.
Rule 2: begun is marked in the environment, and the mark becomes `.installed` at the end. An environment with the mark
        was interrupted, somewhere, and is made anew: half a pip is worse than none.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
BEGUN, INSTALLED = ".begun", ".installed"
NO_VENV = "'{} -m venv' failed: on Debian and Ubuntu, install the package python3-venv."


def run(command: list[str], lock: int) -> None:
    """Run a command to its end; the lock is held as long as it runs, even if we are killed.

    A Ctrl-C at the terminal reaches only us: pip and venv would print where they were.
    """
    with subprocess.Popen(command, cwd=PROJECT, pass_fds=(lock,), start_new_session=True) as step:
        try:
            code = step.wait()
        except KeyboardInterrupt:
            with suppress(ProcessLookupError):  # it ended at the same moment
                os.killpg(step.pid, signal.SIGKILL)
            step.wait()
            raise
    if code:
        raise subprocess.CalledProcessError(code, command)


def install(venv: Path, lock_file: Path, run: Callable[[list[str], int], None] = run) -> None:
    """Make `venv` hold what pyproject.toml says; does nothing where it does. CalledProcessError where a step fails."""
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with lock_file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("waiting for another make, which is installing", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        installed, begun = venv / INSTALLED, venv / BEGUN
        if installed.exists() and installed.stat().st_mtime >= (PROJECT / "pyproject.toml").stat().st_mtime:
            return
        if begun.exists():
            shutil.rmtree(venv)
        venv.mkdir(exist_ok=True)
        begun.touch()
        python = venv / "bin" / "python"
        if not python.exists():
            try:
                run([sys.executable, "-m", "venv", str(venv)], lock.fileno())
            except subprocess.CalledProcessError:
                sys.exit(NO_VENV.format(sys.executable))
        print(f"installing kafka-actors and its dependencies into {venv} (some minutes, 1 GB)", flush=True)
        pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
        run([*pip, "--editable", ".[all,test,bench]"], lock.fileno())
        begun.rename(installed)


if __name__ == "__main__":
    try:
        install(Path(sys.argv[1]).absolute(), PROJECT / ".cache" / "install.lock")
    except KeyboardInterrupt:
        sys.exit(130)
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode if error.returncode > 0 else 1)
