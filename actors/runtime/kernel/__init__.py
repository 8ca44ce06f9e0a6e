"""The queue, timers, clocks and addresses of an actor system, and its two drivers; it knows no actor classes."""
