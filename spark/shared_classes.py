"""Spark's classes as the JVM has laid them out once: with them a session, and the first questions, take half the CPU.

What Java calls class data sharing (JEP 310, 350): a JVM that has done the work writes the classes it loaded into an
archive when it ends; another with the same class path maps it. The archive lies in the Python environment, and is named
by what it belongs to: a JVM that finds none of its name starts without.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

import pyspark


def archive() -> Path:
    """Where the archive of this Python environment and this Java is, or will be."""
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else shutil.which("java")
    jars = Path(pyspark.__path__[0]) / "jars"
    of = [Path(java or "java").resolve(), jars.resolve(), *sorted(each.name for each in jars.glob("*.jar"))]
    name = hashlib.sha256("\n".join(map(str, of)).encode()).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "kafka-actors" / f"spark-{name}.jsa"
