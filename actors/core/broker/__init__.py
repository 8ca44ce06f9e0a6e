"""What a broker decides: requests to accept, roles of partitions, metadata for clients."""
