"""Questions to traces with Spark: any number of nodes in one folder."""
