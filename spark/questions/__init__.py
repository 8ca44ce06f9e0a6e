"""What can be asked of traces: transformations DataFrame -> DataFrame, one question each (the table: spark.summary)."""
