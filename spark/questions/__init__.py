"""The questions to traces: transformations from DataFrame to DataFrame (the table: `spark.summary`)."""
