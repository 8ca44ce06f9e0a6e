"""The sections of a summary; each module transforms Spark data frames (`spark.summary` has the table)."""
