"""The broker's actors: replica manager, partitions, metadata cache and request handler. Rules: `actors.core.broker`."""
