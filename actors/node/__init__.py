"""A node put together: its root actor, its process, its settings and the ports to what is no mail."""
