"""The actors of a broker, such as ReplicaManagerActor and PartitionActor; `actors.core.broker` has their rules."""
