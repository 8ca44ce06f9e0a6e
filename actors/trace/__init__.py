"""Read a recorded cluster: its deliveries and their causes, and the state of its actors at any moment."""
