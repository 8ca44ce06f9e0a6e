"""Questions asked of traces, with Spark: any number of nodes, any size, one folder."""
