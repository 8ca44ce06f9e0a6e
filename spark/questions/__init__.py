"""The sections of a summary, one module for each (`spark.summary` has the list); they use Spark data frames."""
