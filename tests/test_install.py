"""`make install` and `make java`: interrupted, doubled, with a stale JAVA_HOME."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from tests.house import HOUSE
from tests.waiting import until


@pytest.fixture(scope="module")
def installer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("install", HOUSE / ".ci" / "install.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Steps:
    """In place of running commands: what was to be run; `interrupted` is the step at which a Ctrl-C comes."""

    def __init__(self, venv: Path, interrupted: str = "") -> None:
        self.venv = venv
        self.interrupted = interrupted
        self.done: list[str] = []

    def __call__(self, command: list[str], lock: int) -> None:
        assert os.fstat(lock), "a step holds the lock"
        step = command[2]
        self.done.append(step)
        (self.venv / f"half of {step}").touch()
        if step == self.interrupted:
            raise KeyboardInterrupt
        (self.venv / f"half of {step}").unlink()
        if step == "venv":
            (self.venv / "bin").mkdir()
            (self.venv / "bin" / "python").touch()


@pytest.mark.parametrize("step", ["venv", "pip"])
def test_what_was_interrupted_is_made_anew(installer: ModuleType, tmp_path: Path, step: str) -> None:
    venv, lock = tmp_path / ".venv", tmp_path / "cache" / "lock"
    with pytest.raises(KeyboardInterrupt):
        installer.install(venv, lock, Steps(venv, interrupted=step))
    again = Steps(venv)
    installer.install(venv, lock, again)
    assert again.done == ["venv", "pip"]
    assert sorted(each.name for each in venv.iterdir()) == [".installed", "bin"]
    installer.install(venv, lock, again)
    assert again.done == ["venv", "pip"], "nothing is left to do"


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


def test_an_older_installation_is_brought_up_to_date(installer: ModuleType, tmp_path: Path) -> None:
    venv, lock = tmp_path / ".venv", tmp_path / "lock"
    installer.install(venv, lock, Steps(venv))
    os.utime(venv / ".installed", (0, 0))
    update = Steps(venv)
    installer.install(venv, lock, update)
    assert update.done == ["pip"]


def test_who_comes_second_waits_and_finds_it_done(
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
    """Without apt-get on the PATH, for nothing may be installed here."""
    _java(tmp_path / "path", on_path)
    if home.isdigit():
        _java(tmp_path / home, home)
    for tool in ("sed", "head", "id", "cat", "sh"):
        (tmp_path / "path" / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    done = subprocess.run(
        ["/bin/sh", HOUSE / ".ci" / "java"],
        env={"PATH": str(tmp_path / "path" / "bin"), "JAVA_HOME": str(tmp_path / home) if home else ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert words in done.stderr
