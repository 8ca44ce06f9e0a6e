"""Mutation score of the simulator: realistic protocol bugs, and the number of seeds until the simulation finds each."""
