"""Open the Spark session that `kafka-actors summary` uses, on this machine or on a Spark cluster."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from spark.bundle import sources_zip
from spark.errors import SparkUnavailable
from spark.java import MEMORY, Java, archive, find_java, home, options
from spark.section_names import MASTER, SUBMITTED, is_local

SMALL_BYTES = 1 << 20
"""Compressed size of some 20,000 records, or of 100,000 similar ones."""
_LOOKED_UP = ("PythonUtils", "functions")
"""Names that PySpark looks up in some 280 jars and several packages at each use."""
_GATEWAY = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
"""Variables by which PySpark finds a running JVM."""


def open_session(master: str = MASTER, java: Java | None = None, archive_to: Path | None = None) -> SparkSession:
    """Open a session, or return the existing session; this takes a few seconds. The caller stops it.

    Workers can import this project's code, but nothing from the current folder; the workers of a cluster get the code
    as an archive. Workers run this process's Python, unless PYSPARK_PYTHON names another (PySpark's own default is the
    first `python3`). Spark's temporary files are in this process's temporary folder.

    A local session uses the archive of Spark's classes that `spark.java` describes, unless SPARK_HOME names another
    Spark. If `java` is given, the session runs in that waiting Java process. With `archive_to`, Java does not use a
    class archive: it writes one to this path when it ends.

    Raises:
        SparkUnavailable: Spark cannot be started.
    """
    find_java()
    local = is_local(master)
    temporary = tempfile.gettempdir()
    variables = {} if java is None else dict(zip(_GATEWAY, map(str, java.listens()), strict=True))
    if local and (archive_to or archive(home()).exists()) and "SPARK_HOME" not in os.environ:
        variables["SPARK_HOME"] = str(home())
    settings = {
        "spark.driver.extraJavaOptions": options(archive_to),
        "spark.buffer.pageSize": "2m",
        "spark.driver.memory": MEMORY,
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.metrics.executorMetricsSource.enabled": "false",
        "spark.local.dir": temporary,
        "spark.sql.adaptive.enabled": str(not local).lower(),
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1024",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ui.explainMode": "simple",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    workers = os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if local:
        settings |= dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), "127.0.0.1")
    builder = SparkSession.builder.appName("kafka-actors")
    if master != SUBMITTED:
        builder = builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        with _errors_to(Path(temporary) / "spark-errors.log"), _environment(variables):
            session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise SparkUnavailable(f"Spark does not start; it needs Java 17 or newer: {error}") from error
    for name in _LOOKED_UP:
        setattr(session._jvm, name, getattr(session._jvm, name))
    if not local:
        session.conf.set("spark.sql.execution.pyspark.python", workers)
        session.sparkContext.pythonExec = sys.executable
    if not local or workers != sys.executable:
        session.sparkContext.addPyFile(str(sources_zip(Path(temporary) / "kafka_actors_internal.zip")))
    return session


def fit(session: SparkSession, size: int) -> bool:
    """Configure Spark for Parquet data of `size` bytes; return whether this is less than SMALL_BYTES.

    For few records, compiling queries and distributing rows to tasks takes longer than computing the results.
    """
    small = size < SMALL_BYTES
    session.conf.set("spark.sql.shuffle.partitions", "1" if small else str(2 * session.sparkContext.defaultParallelism))
    session.conf.set("spark.sql.codegen.wholeStage", str(not small).lower())
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if small else "FALLBACK")
    return small


@contextmanager
def _errors_to(file: Path) -> Iterator[None]:
    """Redirect the standard error of child processes to a file: JVM warnings are not useful to users."""
    before = os.dup(2)
    log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(log)


@contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    """Set these environment variables inside the `with` block, and remove them afterwards."""
    os.environ.update(more)
    try:
        yield
    finally:
        for name in more:
            del os.environ[name]
