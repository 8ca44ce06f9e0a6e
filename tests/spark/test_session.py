"""Finding Java for Spark, and `kafka-actors summary` as a process: its imports, and what remains after an interrupt."""

from __future__ import annotations

import faulthandler
import os
import pty
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from actors.cli.app import run
from spark.errors import SparkUnavailable
from spark.java import Java, find_java
from tests.cluster.processes import OURS, Running
from tests.trace.small_system import Small
from tests.waiting import until


def _java_home(place: Path) -> Path:
    java = place / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    return place


def test_a_java_home_without_java_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, other = _java_home(tmp_path / "real"), _java_home(tmp_path / "other")
    monkeypatch.setenv("PATH", str(other / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(real))
    find_java()
    assert os.environ["JAVA_HOME"] == str(real)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    find_java()
    assert "JAVA_HOME" not in os.environ
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkUnavailable, match="no Java"):
        find_java()


def test_a_summary_without_java_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["summary", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "Error: no Java: Spark needs Java 17 or newer on the PATH or in JAVA_HOME\n"


def test_an_early_exit_of_java_is_reported_with_its_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text("#!/bin/sh\necho no memory for classes >&2\nexit 3\n")
    submit.chmod(0o755)
    with pytest.raises(SparkUnavailable, match="Java ended with 3 before Spark began: no memory for classes"):
        Java(tmp_path).listens()


def test_where_spark_is_not_laid_out_java_does_not_start_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert Java.ahead() is None


@pytest.fixture
def strange_folder(tmp_path: Path) -> Path:
    """Return a folder with a trace, and with modules that have names of ours and end any process that imports them."""
    for name in ("messages", "click", "spark"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the current folder')\n")
    small = Small(tmp_path / "trace")
    small.live()
    small.recorder.close()
    return tmp_path


@pytest.mark.java
@pytest.mark.soak
@pytest.mark.long
def test_files_in_the_current_folder_are_not_imported_nor_by_sparks_workers(strange_folder: Path) -> None:
    summary = Running(
        [*OURS, "summary", str(strange_folder / "trace")],
        strange_folder / "out",
        {"JAVA_HOME": "/nowhere", "TMPDIR": str(strange_folder)},
        cwd=strange_folder,
    )
    assert summary.process.wait(120) == 0, summary.output
    assert "Messages by actor and type" in summary.output
    assert "Traceback" not in summary.output
    left = sorted(each.name for each in strange_folder.iterdir())
    assert left == ["click.py", "messages.py", "out", "spark.py", "trace"]


@pytest.mark.java
def test_an_interrupted_summary_leaves_no_java_and_no_traceback(strange_folder: Path) -> None:
    summary = Running([*OURS, "summary", str(strange_folder / "trace")], strange_folder / "out")

    def java() -> list[psutil.Process]:
        return [each for each in psutil.Process(summary.process.pid).children(recursive=True) if each.name() == "java"]

    found = until(java, what="Spark's Java starts", timeout=60, ignore=(psutil.Error,))
    summary.send(signal.SIGINT)
    assert summary.process.wait(20) == 130
    until(lambda: [each for each in found if each.is_running()], lambda left: not left, "Java is gone", 10)
    assert not summary.output.strip()


_PREPARED = """
from spark.archive import prepare
from spark.java import archive, home
prepare()
before = archive(home()).stat()
assert prepare() == home() and before.st_size > 50 << 20
assert archive(home()).stat().st_mtime == before.st_mtime, "it is there already"
from pathlib import Path
from spark.session import open_session
java = open_session().sparkContext._gateway.proc.pid
assert str(archive(home())) in Path(f"/proc/{java}/maps").read_text()
"""

_AHEAD = """
from spark.java import Java
java = Java.ahead()
from spark.session import open_session
session = open_session(java=java)
assert session.sparkContext._gateway.proc is None, "PySpark started none itself"
assert session.range(3).count() == 3
"""


_SUMMARY = """
import sys
sys.prefix = sys.argv[1]
from actors.cli.app import run
sys.exit(run(["summary", sys.argv[2]]))
"""


@pytest.mark.spark_cluster
@pytest.mark.soak
@pytest.mark.long
def test_the_first_summary_at_a_terminal_prepares_spark_after_its_answer(tmp_path: Path) -> None:
    """The summary runs in its own process; in this one, Spark would reuse the existing session."""
    faulthandler.cancel_dump_traceback_later()  # it can take minutes on a busy machine, and has its own timeout
    small = Small(tmp_path / "trace")
    small.live()
    small.recorder.close()
    terminal, theirs = pty.openpty()
    summary = [sys.executable, "-c", _SUMMARY, str(tmp_path / "prefix"), str(tmp_path / "trace")]
    done = subprocess.run(summary, stdout=subprocess.PIPE, stderr=theirs, text=True, timeout=300, check=False)
    said = os.read(terminal, 1 << 16).decode()
    os.close(theirs)
    os.close(terminal)
    assert done.returncode == 0, said
    assert "Messages by actor and type" in done.stdout
    assert "storing Spark's class data, once (half a minute; Ctrl-C skips it)" in said
    assert list((tmp_path / "prefix" / "share" / "kafka-actors").glob("spark-*/classes.jsa"))


@pytest.mark.spark_cluster
def test_spark_is_prepared_once_and_then_starts_from_its_archive() -> None:
    """The archive is that of this Python environment, which `make install` creates."""
    for step in (_PREPARED, _AHEAD):
        command = [sys.executable, "-c", step]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
