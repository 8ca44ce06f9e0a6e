"""Deterministic simulation: whole nodes on one virtual clock, with simulated network, disks and ZooKeeper."""
