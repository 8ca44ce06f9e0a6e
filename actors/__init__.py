"""The actor system, the actors of a node, the simulator and the commands."""
