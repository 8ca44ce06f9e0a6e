"""Log directories and log files in Kafka's format, with faults of disks for tests."""
