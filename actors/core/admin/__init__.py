"""Requests and results of the administration commands: parsed and printed as Kafka 3.9.1's tools do."""
