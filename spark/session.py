"""The Spark session of this project: local, small, silent."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import messages.trace

MASTER = "local[2]"
_QUICK_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d %p %c: %m%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""
"""Errors only. The gateway's level is spelt out: where it differs from the root's, Spark explains log levels."""
_HOUSE = Path(messages.trace.__file__).resolve().parents[2]


def open_session(master: str = MASTER) -> SparkSession:
    """A session (or the one there is), a few seconds to start. Its workers can import the trace's schema.

    The caller stops it. Two shuffle partitions: traces of a small cluster are small. Workers run this very Python,
    unless PYSPARK_PYTHON says otherwise: PySpark's own default is whichever `python3` comes first.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    log4j = Path(tempfile.gettempdir()) / f"kafka-actors-spark-{os.getuid()}-log4j2.properties"
    log4j.write_text(_LOG4J)
    builder = SparkSession.builder.master(master).appName("kafka-actors")
    for name, value in {
        "spark.driver.extraJavaOptions": f"{_QUICK_START} -Dlog4j2.configurationFile={log4j.as_uri()}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.executorEnv.PYTHONPATH": str(_HOUSE),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
