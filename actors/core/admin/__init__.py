"""Parse the input of the administration commands, and print their results, as Kafka 3.9.1's tools do."""
