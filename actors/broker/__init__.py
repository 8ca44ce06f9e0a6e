"""The actors of a broker, such as PartitionActor; the package `actors.core.broker` makes their decisions."""
