"""`make install`: a virtual environment with the project and all it needs, as an editable installation.

    python .ci/install.py .venv         all of it
    python .ci/install.py .venv run     what `make run` needs: the libraries of `kafka-actors up`, and ZooKeeper's jars

Rule 1: one at a time. Who comes second waits, and finds it done.
Rule 2: begun is marked in the environment, and the mark becomes `.installed` or `.runs` at the end. An environment with
        the mark was interrupted, somewhere, and is made anew: half a pip is worse than none.
Rule 3: what is printed begins in the first second, and ends with the time that was not spent on downloads.
"""

from __future__ import annotations

import fcntl
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
COMPILED = tuple(PROJECT.glob("messages/wire/*.c"))
BEGUN, INSTALLED, RUNS = ".begun", ".installed", ".runs"
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


def install(
    venv: Path, lock_file: Path, run: Callable[[list[str], int], None] = run, *, only_run: bool = False
) -> None:
    """Make `venv` hold what pyproject.toml says; does nothing where it does. CalledProcessError where a step fails.

    `only_run`: only what `make run` needs.
    """
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with lock_file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("waiting for another make, which is installing", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        begun, stamps = venv / BEGUN, [venv / INSTALLED, venv / RUNS][: 1 + only_run]
        declared = max(file.stat().st_mtime for file in (PROJECT / "pyproject.toml", *COMPILED))
        if any(stamp.exists() and stamp.stat().st_mtime >= declared for stamp in stamps):
            return
        if begun.exists():
            shutil.rmtree(venv)
        size = "30 MB" if only_run else "some minutes, 1 GB"
        print(f"installing kafka-actors and its dependencies into {venv} ({size})", flush=True)
        clock = time.monotonic()
        venv.mkdir(exist_ok=True)
        begun.touch()
        python = str(venv / "bin" / "python")
        pip, packages = [python, "-m", "pip"], ["--editable", ".[all,test,bench]"]
        outer = "" if (venv / "bin" / "pip").exists() else _pip_of_this_python()
        if outer:  # it installs pip in a tenth of the time that venv takes; `make run` needs none
            pip, packages = [python, outer], ["pip", *packages]
        if not Path(python).exists():
            new = [sys.executable, "-m", "venv", str(venv), *["--without-pip"][: bool(outer)]]
            try:
                run(new, lock.fileno())
            except subprocess.CalledProcessError:
                sys.exit(NO_VENV.format(sys.executable))
        add = [*pip, "install", "--disable-pip-version-check"]
        if only_run:
            needed = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
            zookeeper = ["sh", str(PROJECT / ".ci" / "zookeeper"), str(venv)]
            own, libraries = ["--no-compile", "--no-deps", "--editable", "."], ["--no-compile", *needed]
            # The nodes, which start together, would each compile the sources
            compiled = [python, "-m", "compileall", "-q", "actors", "messages", "zk_bridge"]
            run(_together([*add, *own], [*add, *libraries], zookeeper, compiled), lock.fileno())
            run([*zookeeper, *pip], lock.fileno())
        else:
            run([*add, *packages], lock.fileno())
        begun.rename(stamps[-1])
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu, seconds = used.ru_utime + used.ru_stime, time.monotonic() - clock
        rest = f"at least {max(0.0, seconds - cpu):.0f} s for downloads and disk"
        print(f"installed in {seconds:.0f} s: {cpu:.0f} s of CPU, {rest}", flush=True)


def _together(*commands: list[str]) -> list[str]:
    """Return a command that runs these together, because pip leaves a core idle. It fails if one of them does."""
    begun = [f"{shlex.join(command)} & pid{number}=$!" for number, command in enumerate(commands)]
    ended = [f'wait "$pid{number}"' for number in range(len(commands))]
    return ["sh", "-ec", "\n".join([*begun, *ended])]


def _pip_of_this_python() -> str:
    """The file by which this Python's pip runs in another Python (pip 22.3); empty if there is none."""
    code = "import pip, pathlib; print(next(pathlib.Path(pip.__path__[0]).glob('__pip-runner__.py'), ''))"
    command = [sys.executable, "-I", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    try:
        install(Path(sys.argv[1]).absolute(), PROJECT / ".cache" / "install.lock", only_run="run" in sys.argv[2:])
    except KeyboardInterrupt:
        sys.exit(130)
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode if error.returncode > 0 else 1)
