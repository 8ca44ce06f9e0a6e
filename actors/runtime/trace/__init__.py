"""What a node records of its actors: recorder, flight recorder, snapshots, and exact replay."""
