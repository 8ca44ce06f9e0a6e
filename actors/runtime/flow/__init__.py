"""Base classes of actors that send requests and wait for the replies: each event handler is a generator."""
