"""Rules of topics: check names, new topics and new partitions, and assign replicas to brokers."""
