"""The border of a node as mail: clients' connections, connections to peers, ZooKeeper's store and the metrics."""
