"""Spark laid out once for this Python environment and this Java: a session, and the first questions, take half of it.

HOME/classes.jsa   its classes, as a JVM that has done the work laid them out. Java calls it class data sharing (JEP
                   310, 350): another JVM with the same class path maps what it would have to load, check and link.
HOME/jars, ...     links to Spark itself, all but mllib: where that is on the class path, each session registers its
                   functions, by reflection, for more than half a second.

The folder lies in the Python environment, and is named by what it belongs to: where there is none, Spark starts
without.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

import pyspark

_SPARK = Path(pyspark.__path__[0])
_WITHOUT = "spark-mllib_"


def home() -> Path:
    """Where Spark is, or will be, laid out for this Python environment and this Java."""
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else shutil.which("java")
    of = [Path(java or "java").resolve(), *_jars()]
    name = hashlib.sha256("\n".join(map(str, of)).encode()).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "kafka-actors" / f"spark-{name}"


def archive(home: Path) -> Path:
    """The classes in such a folder."""
    return home / "classes.jsa"


def link(home: Path) -> None:
    """Link Spark to that folder, anew. Raises OSError."""
    shutil.rmtree(home, ignore_errors=True)
    (home / "jars").mkdir(parents=True)
    for jar in _jars():
        (home / "jars" / jar.name).symlink_to(jar)
    for rest in ("bin", "python"):
        (home / rest).symlink_to(_SPARK / rest)


def _jars() -> list[Path]:
    jars = sorted((_SPARK / "jars").resolve().glob("*.jar"))
    return [jar for jar in jars if not jar.name.startswith(_WITHOUT)]
