"""What a broker decides: which orders to obey, who leads and follows, what clients are told of the cluster."""
