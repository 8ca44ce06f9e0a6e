"""One Spark session for all tests of this folder, because it takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark.session import open_session


@pytest.fixture(scope="session")
def session() -> Iterator[SparkSession]:
    opened = open_session()
    yield opened
    opened.stop()
