"""One Spark session for all tests of this folder, because it takes seconds to start, and one recorded failover."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark.session import open_session
from tests.spark import failover


@pytest.fixture(scope="session")
def session() -> Iterator[SparkSession]:
    opened = open_session()
    yield opened
    opened.stop()


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the failover's traces, which no test changes."""
    folder = tmp_path_factory.mktemp("traces")
    failover.record(folder)
    return folder
