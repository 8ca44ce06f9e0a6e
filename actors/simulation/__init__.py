"""The cluster on paper: whole nodes on one virtual clock, with simulated wires, disks and ZooKeeper."""
