"""Deterministic simulation: whole nodes run in virtual time, with a simulated network, disks and ZooKeeper."""
