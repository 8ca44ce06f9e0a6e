"""The I/O that a node does outside of its actors: connections to clients, nodes and ZooKeeper, and metrics."""
