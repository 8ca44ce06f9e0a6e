"""The JVM for the programs of Apache Kafka's jars, with an archive of their loaded classes.

The archive takes the CPU time of a broker's start from 3.3 to 2.0 s. The first test run makes it, once.
"""

from __future__ import annotations

import fcntl
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

from tests.layering import ROOT

SMALL_JVM = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xlog:disable")
"""Without its log: the JVM writes it to standard output, which tests compare."""


def archive(jars: Path) -> Path:
    """Return the archive's file for these jars. The JVM ignores an archive that was made of others."""
    return ROOT / ".cache" / f"kafka-classes-{zlib.crc32(str(jars).encode()):08x}.jsa"


def apache_java(jars: Path, heap: str = "256m") -> list[str]:
    """Return the command that runs a class of these jars: the class and its arguments follow."""
    file = archive(jars)
    shared = [f"-XX:SharedArchiveFile={file}"] if file.exists() else []
    return [*SMALL_JVM, f"-Xmx{heap}", *shared, "-cp", f"{jars}/*"]


def make_archive(jars: Path, run: Callable[[Path, tuple[str, ...]], None]) -> None:
    """Make the archive, unless there is one. One process at a time does it.

    Args:
        jars: The jars.
        run: Starts a broker in a folder, with these options for its JVM, and stops it when it serves.
    """
    file = archive(jars)
    file.parent.mkdir(exist_ok=True)
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if file.exists():
            return
        with tempfile.TemporaryDirectory(dir=file.parent) as place:
            made = Path(place) / file.name
            run(Path(place), (f"-XX:ArchiveClassesAtExit={made}",))
            made.rename(file)
