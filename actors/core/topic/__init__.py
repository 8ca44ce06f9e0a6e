"""Topics: their names, and where their partitions have replicas."""
