"""Record what a node's actors do (recorder, flight recorder, snapshots), and replay it exactly."""
