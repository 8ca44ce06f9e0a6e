"""Read a recorded cluster: its deliveries and their causes, and what its actors held at any moment."""
