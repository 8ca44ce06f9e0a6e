"""A Spark data source for traces; the installed package has this module as `pyspark_kafka_actors`.

    spark.read.format("kafka-actors").load(DIR)
    spark.readStream.format("kafka-actors").option("node", "0").load(DIR)

In each session that uses a Python data source, PySpark 4 imports every module whose name begins with `pyspark_`, and
registers the module's `DefaultSource` (pyspark/sql/worker/lookup_data_sources.py). So this module imports nothing but
PySpark's base class; reading traces imports the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """The Spark data source that users register: all records in the traces of all nodes below a folder."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kafka-actors"

    def schema(self) -> StructType:
        """Return the columns of a record."""
        return self._source().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the folder that the user passed to `load`.

        Raises:
            NotATrace: The folder contains no traces.
            BadOption: An option is invalid.
        """
        return self._source().reader(schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a stream reader for the folder that the user passed to `load`.

        Raises:
            NotATrace: The folder contains no traces.
            BadOption: An option is invalid.
        """
        return self._source().streamReader(schema)

    def _source(self) -> DataSource:
        from spark.source import TraceSource

        return TraceSource(self.options)
