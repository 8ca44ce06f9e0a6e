"""Log directories and log files in Kafka's format, and disk faults for tests."""
