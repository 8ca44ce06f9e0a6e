"""The functions that compute the sections of a summary with Spark. `spark.summary` lists the sections."""
