"""Message schemas of the broker-to-broker APIs, in the JSON form of Apache Kafka's own message definitions."""
