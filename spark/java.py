"""Find a Java installation for Spark, start it early, and cache Spark's classes so that it starts faster.

HOME/classes.jsa        Spark's classes, as a JVM that has done the work laid them out. Java calls it class data sharing
                        (JEP 310, 350): another JVM with the same class path maps what it would have to load, check and
                        link. A session, and the first questions, take half of it.
HOME/jars, ...          links to Spark itself, all but mllib: where that is on the class path, each session registers
                        its functions, by reflection, for more than half a second.
HOME/bin/spark-submit   the command that Spark's scripts, by a JVM of their own, make of a session's settings each time.

The folder lies in the Python environment, and is named by what it belongs to: where there is none, Spark starts
without. Nothing here imports PySpark, which takes longer than to start Java.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from spark.errors import SparkUnavailable

_OPTIONS = (
    "-Xms640m -Xmn480m -XX:MetaspaceSize=256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    " -XX:-UsePerfData -Xshare:auto -Xlog:disable"
    f" -Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').resolve().as_uri()}"
)
"""Layer for a small summary, and for its classes, without more than one or two collections of garbage."""
MEMORY = "1700m"
"""Of the driver."""
_WITHOUT = "spark-mllib_"
_SUBMIT = "bin/spark-submit"
_MAIN = "org.apache.spark.deploy.SparkSubmit"
_ARCHIVES_TO, _ARCHIVED_AT, _TEMPORARY = "-XX:ArchiveClassesAtExit=", "-XX:SharedArchiveFile=", "-Djava.io.tmpdir="
_INT = struct.Struct(">i")
_LOOKS = 0.005
"""Seconds between two looks whether Java is there."""


def find_java() -> None:
    """See to it that Spark finds Java: it takes JAVA_HOME's word, even where there is no Java any more.

    Raises SparkUnavailable.
    """
    home = os.environ.get("JAVA_HOME")
    if home and shutil.which("java", path=f"{home}/bin") is None:
        del os.environ["JAVA_HOME"]
        home = None
    if not home and shutil.which("java") is None:
        raise SparkUnavailable("no Java: Spark needs Java 17 or newer on the PATH or in JAVA_HOME")


def options(archive_to: Path | None = None) -> str:
    """Java's options for a session; `archive_to`: it lays out its classes there when it ends."""
    laid_out = home()
    shared = ""
    if archive_to is not None:
        shared = f' "{_ARCHIVES_TO}{archive_to}"'
    elif archive(laid_out).exists():
        shared = f' "{_ARCHIVED_AT}{archive(laid_out)}"'
    return f'{_OPTIONS}{shared} "{_TEMPORARY}{tempfile.gettempdir()}"'


# ---------------------------------------------------------------------------------------------------- laid out


def home() -> Path:
    """Where Spark is, or will be, laid out for this Python environment and this Java."""
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else shutil.which("java")
    of = [_OPTIONS, MEMORY, Path(java or "java").resolve(), *_jars()]
    name = hashlib.sha256("\n".join(map(str, of)).encode()).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "kafka-actors" / f"spark-{name}"


def archive(home: Path) -> Path:
    """The classes in such a folder."""
    return home / "classes.jsa"


def prepare_once(home: Path, lay_out: Callable[[Path], None], say: Callable[[str], None]) -> None:
    """Call `lay_out(home)`, which makes the archive, unless it exists; one process at a time does.

    The folder counts as prepared once the archive is there: `lay_out` makes it last, by a rename. The folder itself
    is not renamed, because some versions of Java ignore an archive whose class path has moved. The lock ends with its
    process; what an interrupted preparation left is made again. Raises OSError, and what `lay_out` raises.
    """
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is preparing Spark; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive(home).exists():
            lay_out(home)


def link(home: Path) -> None:
    """Link Spark to that folder, anew. Raises OSError."""
    shutil.rmtree(home, ignore_errors=True)
    (home / "jars").mkdir(parents=True)
    for jar in _jars():
        (home / "jars" / jar.name).symlink_to(jar)
    for rest in ("bin", "python"):
        (home / rest).symlink_to(_spark() / rest)


def record(home: Path, pid: int) -> None:
    """Keep the command of a JVM that runs from that folder and is to archive its classes. Raises OSError.

    Where the system has no /proc, Spark's scripts stay, and find it out each time.
    """
    line = Path(f"/proc/{pid}/cmdline")
    if not line.exists():
        return
    java, *words = line.read_text().rstrip("\0").split("\0")
    kept = (each for each in words[: words.index(_MAIN) + 1] if not each.startswith((_ARCHIVES_TO, _TEMPORARY)))
    command = shlex.join([f"{_ARCHIVED_AT}{archive(home)}", *kept])
    submit = home / _SUBMIT
    submit.parent.unlink()
    submit.parent.mkdir()
    submit.write_text(f'#!/bin/sh\nexec {shlex.quote(java)} "{_TEMPORARY}${{TMPDIR:-/tmp}}" {command} "$@"\n')
    submit.chmod(0o755)


def _spark() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@cache
def _jars() -> tuple[Path, ...]:
    jars = sorted((_spark() / "jars").resolve().glob("*.jar"))
    return tuple(jar for jar in jars if not jar.name.startswith(_WITHOUT))


# ---------------------------------------------------------------------------------------------------- ahead


class Java:
    """A Java process that is started before PySpark is imported, so that a local session opens sooner."""

    def __init__(self, home: Path) -> None:
        self._folder = Path(tempfile.mkdtemp())
        self._port_file = self._folder / "listens"
        environment = {**os.environ, "SPARK_HOME": str(home), "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._port_file)}
        with (self._folder / "errors").open("wb") as errors:
            self._process = subprocess.Popen(
                [home / _SUBMIT, "pyspark-shell"],
                stdin=subprocess.PIPE,  # it ends when that ends
                stderr=errors,
                env=environment,
            )

    @classmethod
    def ahead(cls) -> Java | None:
        """Start Java; None if Spark is not prepared, or SPARK_HOME names another one."""
        laid_out = home()
        if "SPARK_HOME" in os.environ or (laid_out / "bin").is_symlink() or not archive(laid_out).exists():
            return None
        return cls(laid_out)

    def listens(self) -> tuple[int, str]:
        """Its port and secret, as soon as it has them. Raises SparkUnavailable."""
        while not self._port_file.exists():
            if self._process.poll() is not None:
                said = (self._folder / "errors").read_text(errors="replace")
                raise SparkUnavailable(f"Java ended with {self._process.returncode} before Spark began: {said}")
            time.sleep(_LOOKS)
        content = self._port_file.read_bytes()
        (port,), (length,) = _INT.unpack_from(content), _INT.unpack_from(content, _INT.size)
        return port, content[2 * _INT.size :][:length].decode()
