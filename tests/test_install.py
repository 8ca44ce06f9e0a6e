"""Test `make install`, `make java` and `make run`: interrupted, run twice, with a stale JAVA_HOME, on ports in use."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from spark.java import archive, prepare_once
from tests.layering import ROOT
from tests.waiting import until


@pytest.fixture(scope="module")
def installer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("install", ROOT / ".ci" / "install.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Steps:
    """Records the commands instead of running them. `interrupted` is the step that raises KeyboardInterrupt."""

    def __init__(self, venv: Path, interrupted: str = "") -> None:
        self.venv = venv
        self.interrupted = interrupted
        self.done: list[str] = []
        self.commands: list[list[str]] = []

    def __call__(self, command: list[str], lock: int) -> None:
        assert os.fstat(lock), "a step holds the lock"
        words = {Path(word).name for part in command for word in part.split()}
        step = " ".join(sorted(words & {"venv", "install", "compileall", "zookeeper"}))
        self.done.append(step)
        self.commands.append(command)
        (self.venv / f"half of {step}").touch()
        if step == self.interrupted:
            raise KeyboardInterrupt
        (self.venv / f"half of {step}").unlink()
        if step == "venv":
            (self.venv / "bin").mkdir()
            (self.venv / "bin" / "python").touch()


@pytest.mark.parametrize("step", ["venv", "install"])
def test_an_interrupted_installation_is_repeated(installer: ModuleType, tmp_path: Path, step: str) -> None:
    venv, lock = tmp_path / ".venv", tmp_path / "cache" / "lock"
    with pytest.raises(KeyboardInterrupt):
        installer.install(venv, lock, Steps(venv, interrupted=step))
    again = Steps(venv)
    installer.install(venv, lock, again)
    assert again.done == ["venv", "install"]
    assert sorted(each.name for each in venv.iterdir()) == [".installed", "bin"]
    installer.install(venv, lock, again)
    assert again.done == ["venv", "install"], "nothing is left to do"


def test_an_interrupted_step_is_killed_without_a_word(installer: ModuleType, tmp_path: Path) -> None:
    child = tmp_path / "child"

    def interrupt() -> None:
        until(child.exists, what="the step runs")
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with (tmp_path / "lock").open("w") as lock, pytest.raises(KeyboardInterrupt):
        installer.run(["sh", "-c", 'echo $$ > "$0.part"; mv "$0.part" "$0"; sleep 600', str(child)], lock.fileno())
    thread.join()
    assert not psutil.pid_exists(int(child.read_text()))


def test_a_step_may_end_as_it_is_interrupted(
    installer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended(subprocess.Popen[bytes]):
        interrupted = False

        def wait(self, timeout: float | None = None) -> int:
            code = super().wait(timeout)
            if not self.interrupted:
                self.interrupted = True
                raise KeyboardInterrupt
            return code

    monkeypatch.setattr(subprocess, "Popen", Ended)
    with (tmp_path / "lock").open("w") as lock, pytest.raises(KeyboardInterrupt):
        installer.run(["true"], lock.fileno())


def test_make_run_installs_no_extra_and_make_install_the_rest(installer: ModuleType, tmp_path: Path) -> None:
    """The extras have the tests' libraries and pyspark, a gigabyte."""
    venv, lock = tmp_path / ".venv", tmp_path / "lock"
    steps = Steps(venv)
    installer.install(venv, lock, steps, only_run=True)
    assert steps.done == ["venv", "compileall install zookeeper", "zookeeper"]
    [pip] = [command[-1] for command in steps.commands if " install " in command[-1]]
    assert "--editable ." in pip and "kazoo" in pip and "[" not in pip
    installer.install(venv, lock, steps, only_run=True)
    assert len(steps.done) == 3, "nothing is left to do"
    installer.install(venv, lock, steps)
    assert steps.done[3:] == ["install"] and ".[all,test,bench]" in steps.commands[-1]
    (venv / ".runs").unlink()
    installer.install(venv, lock, steps, only_run=True)
    assert len(steps.done) == 4, "what is there is enough"


def test_an_older_installation_is_brought_up_to_date(installer: ModuleType, tmp_path: Path) -> None:
    venv, lock = tmp_path / ".venv", tmp_path / "lock"
    installer.install(venv, lock, Steps(venv))
    os.utime(venv / ".installed", (0, 0))
    update = Steps(venv)
    installer.install(venv, lock, update)
    assert update.done == ["install"]


def test_a_second_installation_waits_for_the_first(
    installer: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    venv, lock_file = tmp_path / ".venv", tmp_path / "lock"
    steps = Steps(venv)
    said: list[str] = []
    with lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(target=installer.install, args=(venv, lock_file, steps))
        second.start()
        until(lambda: said.append(capsys.readouterr().out) or "waiting for another make" in "".join(said))
        venv.mkdir()
        (venv / ".installed").touch()
    second.join()
    assert steps.done == []


def _java(folder: Path, version: str) -> None:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}.0.2\" 2025-04-15' >&2\n")
    java.chmod(0o755)


@pytest.mark.parametrize(
    ("home", "on_path", "code", "words"),
    [
        ("gone", "17", 0, ""),
        ("21", "8", 0, ""),
        ("", "17", 0, ""),
        ("8", "17", 1, "holds Java 8, and kafka-actors needs 17 or newer: unset it"),
        ("gone", "11", 1, "found: 11"),
    ],
)
def test_java_is_looked_for_where_it_will_be_used(
    tmp_path: Path, home: str, on_path: str, code: int, words: str
) -> None:
    """apt-get is not on the PATH, because the test must not install anything."""
    _java(tmp_path / "path", on_path)
    if home.isdigit():
        _java(tmp_path / home, home)
    for tool in ("sed", "head", "id", "cat", "sh"):
        (tmp_path / "path" / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    done = subprocess.run(
        ["/bin/sh", ROOT / ".ci" / "java"],
        env={"PATH": str(tmp_path / "path" / "bin"), "JAVA_HOME": str(tmp_path / home) if home else ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert words in done.stderr


def test_an_installation_shows_progress(
    installer: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message is printed before pip starts, and pip prints its own progress."""
    steps = Steps(tmp_path / ".venv")
    installer.install(tmp_path / ".venv", tmp_path / "lock", steps)
    assert capsys.readouterr().out.startswith(f"installing kafka-actors and its dependencies into {tmp_path}/.venv")
    assert "--quiet" not in steps.commands[-1]


def test_make_run_installs_nothing_when_its_port_is_in_use(tmp_path: Path) -> None:
    shutil.copytree(ROOT / ".ci", tmp_path / "a clone" / ".ci")
    (tmp_path / "a clone" / "actors" / "node").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "actors/node/free_ports.py"):
        shutil.copy(ROOT / name, tmp_path / "a clone" / name)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            ["make", "run", f"PYTHON={sys.executable}", f"PORT={port - 1}"],
            cwd=tmp_path / "a clone",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode != 0
    assert f"cannot listen on 127.0.0.1: port {port} (in use); choose others: make run PORT=" in done.stderr
    assert not (tmp_path / "a clone" / ".venv").exists()


def test_make_run_does_not_prepare_spark() -> None:
    planned = subprocess.run(
        ["make", "--dry-run", "--always-make", "run"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert ".ci/ports.py 9092 3" in planned and ".ci/install.py .venv run" in planned
    assert planned.index(".ci/ports.py") < planned.index(".ci/install.py") < planned.index("kafka-actors up")
    assert "spark prepare" not in planned


def test_spark_is_prepared_by_one_process_at_a_time(tmp_path: Path) -> None:
    """A second process waits and finds the archive. The work of an interrupted process is repeated."""
    home = tmp_path / "share" / "spark"
    said: list[str] = []
    begun, go_on = threading.Event(), threading.Event()
    laid_out: list[str] = []

    def slowly(folder: Path) -> None:
        begun.set()
        assert go_on.wait(60)
        laid_out.append("first")
        folder.mkdir()
        archive(folder).touch()

    def interrupted(folder: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare_once(home, interrupted, said.append)
    first = threading.Thread(target=prepare_once, args=(home, slowly, said.append))
    first.start()
    assert begun.wait(60)
    second = threading.Thread(target=prepare_once, args=(home, lambda _: laid_out.append("second"), said.append))
    second.start()
    until(lambda: said == ["another process is preparing Spark; waiting for it"])
    go_on.set()
    first.join()
    second.join()
    assert laid_out == ["first"]
