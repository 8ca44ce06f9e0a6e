"""Find a Java installation for Spark, start Java early, and cache Spark's classes so that Spark starts faster.

HOME/classes.jsa is an archive of Spark's classes for class data sharing (JEP 310 and 350). A JVM writes this archive
after it has computed a summary. Another JVM with the same class path maps the archive into memory instead of loading,
verifying and linking the classes. This halves the time to start a session and compute a summary's first sections.

HOME/jars has links to all jars of Spark except mllib, and HOME/python is a link to Spark's python folder. With mllib in
the class path, each session registers mllib's functions by reflection, which takes more than half a second.

HOME/bin/spark-submit runs a stored Java command; without it, Spark's scripts start another JVM for each session to
compute this command.

HOME is in the Python environment. Its name contains a hash of the Java installation, the jars and the options for which
the archive is valid. Without HOME, Spark starts as usual. This module does not import PySpark, because this import
takes longer than the start of Java.
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
"""Java's options: a heap that needs at most two garbage collections in a small summary, and a fast start."""
MEMORY = "1700m"
"""Memory of the driver."""
_WITHOUT = "spark-mllib_"
_SUBMIT = "bin/spark-submit"
_MAIN = "org.apache.spark.deploy.SparkSubmit"
_ARCHIVES_TO, _ARCHIVED_AT, _TEMPORARY = "-XX:ArchiveClassesAtExit=", "-XX:SharedArchiveFile=", "-Djava.io.tmpdir="
_INT = struct.Struct(">i")
_LOOKS = 0.005
"""Seconds between two checks whether Java has started."""


def find_java() -> None:
    """Check that Java can be found.

    Unset JAVA_HOME if it names a folder without Java, because Spark would use that folder nevertheless.

    Raises:
        SparkUnavailable: No Java is found.
    """
    home = os.environ.get("JAVA_HOME")
    if home and shutil.which("java", path=f"{home}/bin") is None:
        del os.environ["JAVA_HOME"]
        home = None
    if not home and shutil.which("java") is None:
        raise SparkUnavailable("no Java: Spark needs Java 17 or newer on the PATH or in JAVA_HOME")


def options(archive_to: Path | None = None) -> str:
    """Return Java's options for a session; with `archive_to`, Java writes a class archive to this path at exit."""
    laid_out = home()
    shared = ""
    if archive_to is not None:
        shared = f' "{_ARCHIVES_TO}{archive_to}"'
    elif archive(laid_out).exists():
        shared = f' "{_ARCHIVED_AT}{archive(laid_out)}"'
    return f'{_OPTIONS}{shared} "{_TEMPORARY}{tempfile.gettempdir()}"'


# ------------------------------------------------------------------------------------------------- the archive


def home() -> Path:
    """Return the folder of Spark's archive for this Python environment and this Java."""
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else shutil.which("java")
    of = [_OPTIONS, MEMORY, Path(java or "java").resolve(), *_jars()]
    name = hashlib.sha256("\n".join(map(str, of)).encode()).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "kafka-actors" / f"spark-{name}"


def archive(home: Path) -> Path:
    """Return the path of the archive in the folder `home`."""
    return home / "classes.jsa"


def prepare_once(home: Path, lay_out: Callable[[Path], None], say: Callable[[str], None]) -> None:
    """Unless the archive exists, call `lay_out(home)` to create it.

    A lock ensures that only one process at a time makes this call.

    The folder counts as prepared once the archive exists, because `lay_out` creates the archive last, by a rename. The
    folder itself is not renamed, because some versions of Java ignore an archive whose class path has moved. If the
    process is interrupted, its lock is released, and the next caller repeats the preparation.

    Raises:
        OSError: The folder cannot be written; also what `lay_out` raises.
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
    """Create the folder `home` with links to Spark's files; an existing folder is replaced.

    Raises:
        OSError: The links cannot be written.
    """
    shutil.rmtree(home, ignore_errors=True)
    (home / "jars").mkdir(parents=True)
    for jar in _jars():
        (home / "jars" / jar.name).symlink_to(jar)
    for rest in ("bin", "python"):
        (home / rest).symlink_to(_spark() / rest)


def record(home: Path, pid: int) -> None:
    """Write bin/spark-submit in `home`: a script with the command line of the JVM `pid`.

    This JVM writes the class archive; the JVM that the script starts reads the archive.

    Without /proc, HOME/bin remains a link to Spark's scripts, which compute the command for each session.

    Raises:
        OSError: The command cannot be written.
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


# ---------------------------------------------------------------------------------------------- early start


class Java:
    """A Java process that is started before PySpark is imported, so that a local session opens sooner."""

    def __init__(self, home: Path) -> None:
        self._folder = Path(tempfile.mkdtemp())
        self._port_file = self._folder / "listens"
        environment = {**os.environ, "SPARK_HOME": str(home), "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._port_file)}
        with (self._folder / "errors").open("wb") as errors:
            self._process = subprocess.Popen(
                [home / _SUBMIT, "pyspark-shell"],
                stdin=subprocess.PIPE,  # the Java process ends when its input ends
                stderr=errors,
                env=environment,
            )

    @classmethod
    def ahead(cls) -> Java | None:
        """Start Java and return its process.

        If SPARK_HOME is set, or if the archive or the stored Java command is missing, start nothing and return None.
        """
        laid_out = home()
        if "SPARK_HOME" in os.environ or (laid_out / "bin").is_symlink() or not archive(laid_out).exists():
            return None
        return cls(laid_out)

    def listens(self) -> tuple[int, str]:
        """Wait until Java listens for PySpark's connection; return its port and secret.

        Raises:
            SparkUnavailable: The process has ended.
        """
        while not self._port_file.exists():
            if self._process.poll() is not None:
                output = (self._folder / "errors").read_text(errors="replace")
                raise SparkUnavailable(f"Java ended with {self._process.returncode} before Spark began: {output}")
            time.sleep(_LOOKS)
        content = self._port_file.read_bytes()
        (port,), (length,) = _INT.unpack_from(content), _INT.unpack_from(content, _INT.size)
        return port, content[2 * _INT.size :][:length].decode()
