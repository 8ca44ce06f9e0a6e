"""The files of traces: frames, segments and snapshots, how they are written, and how they are read."""
