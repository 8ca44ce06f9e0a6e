"""The Spark session of this project: silent, small where it is local, on a cluster where a master is named."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from spark.bundle import HOUSE, house
from spark.shared_classes import archive, home

MASTER = "local[*]"
LOCAL_MASTER = "local["
"""So begin masters whose workers are this machine's, in the driver's own process."""
SUBMITTED = "spark-submit's"
"""The master that spark-submit was given, where that has started us."""
_JAVA = (
    "-Xms640m -Xmn480m -XX:MetaspaceSize=256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    " -XX:-UsePerfData -Xshare:auto -Xlog:disable"
)
"""Room for a small summary, and for its classes, without more than one or two collections of garbage."""
SMALL_BYTES = 1 << 20
"""Some 20,000 records; 100,000 of those that are much alike."""
_LOOKED_UP = ("PythonUtils", "functions")
"""Names that PySpark looks up in some 280 jars, and several packages, each time it needs them."""
_LOG4J = Path(__file__).with_name("log4j2.properties").resolve()


class SparkUnavailable(Exception):
    """Spark cannot be started; the text says why."""


def default_master() -> str:
    """The master where none is named."""
    return SUBMITTED if "PYSPARK_GATEWAY_PORT" in os.environ else MASTER


def open_session(master: str = MASTER, java: str | None = None) -> SparkSession:
    """A session (or the one there is), a few seconds to start. The caller stops it.

    Its workers can import the trace's schema, and nothing from the current folder; those of a cluster get our code as
    an archive. They run the Python of this very path, unless PYSPARK_PYTHON names another (PySpark's own default is
    whichever `python3` comes first); what Spark plans in Python, it plans in this one. What Spark keeps on disk goes
    where this process keeps its temporary files. A local one makes use of `spark.shared_classes`, and of another
    Spark where SPARK_HOME names one; `java` are options for its JVM, instead of those for that.

    Raises SparkUnavailable.
    """
    _find_java()
    local = master.startswith(LOCAL_MASTER)
    temporary = tempfile.gettempdir()
    laid_out = home()
    if java is not None or archive(laid_out).exists():
        java = java or f'"-XX:SharedArchiveFile={archive(laid_out)}"'
        if local:
            os.environ.setdefault("SPARK_HOME", str(laid_out))
    options = f'{_JAVA} {java or ""} -Dlog4j2.configurationFile={_LOG4J.as_uri()} "-Djava.io.tmpdir={temporary}"'
    settings = {
        "spark.driver.extraJavaOptions": options,
        "spark.buffer.pageSize": "2m",
        "spark.driver.memory": "1700m",
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
        settings["spark.executorEnv.PYTHONPATH"] = str(HOUSE)
        settings |= dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), "127.0.0.1")
    builder = SparkSession.builder.appName("kafka-actors")
    if master != SUBMITTED:
        builder = builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        with _errors_to(Path(temporary) / "spark-errors.log"):
            session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise SparkUnavailable(f"Spark does not start; it needs Java 17 or newer: {error}") from error
    for name in _LOOKED_UP:
        setattr(session._jvm, name, getattr(session._jvm, name))
    if not local:
        session.conf.set("spark.sql.execution.pyspark.python", workers)
        session.sparkContext.pythonExec = sys.executable
        session.sparkContext.addPyFile(str(house(Path(temporary) / "kafka_actors_house.zip")))
    return session


def fit(session: SparkSession, size: int) -> bool:
    """Set up for questions about so many bytes of Parquet; whether these are few.

    Of a few, compiling the questions costs more than asking them, and so does dealing rows out to tasks.
    """
    small = size < SMALL_BYTES
    session.conf.set("spark.sql.shuffle.partitions", "1" if small else str(2 * session.sparkContext.defaultParallelism))
    session.conf.set("spark.sql.codegen.wholeStage", str(not small).lower())
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if small else "FALLBACK")
    return small


@contextmanager
def _errors_to(file: Path) -> Iterator[None]:
    """Let whoever is started meanwhile complain into a file: a JVM has things to say that are no news to anybody."""
    before = os.dup(2)
    log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(log)


def _find_java() -> None:
    """See to it that Spark finds Java: it takes JAVA_HOME's word, even where there is no Java any more."""
    home = os.environ.get("JAVA_HOME")
    if home and shutil.which("java", path=f"{home}/bin") is None:
        del os.environ["JAVA_HOME"]
        home = None
    if not home and shutil.which("java") is None:
        raise SparkUnavailable("no Java: Spark needs Java 17 or newer on the PATH or in JAVA_HOME")
