"""The I/O of a node outside its actors: client connections, connections to other nodes, ZooKeeper, and metrics."""
