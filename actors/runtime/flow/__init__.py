"""Base classes of actors that ask and answer: each event handler is a generator."""
