"""A page for browsers: the picture of a live cluster, or of any moment of a recorded run."""
