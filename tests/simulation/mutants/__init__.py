"""Mutation score of the simulator: realistic protocol bugs, and after how many seeds the simulation finds each."""
