"""The external endpoints of a node: client connections, connections to peers, ZooKeeper and metrics."""
