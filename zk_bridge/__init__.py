"""Access to ZooKeeper by messages: requests and replies, watches, and clients for a real or an in-memory ZooKeeper."""
