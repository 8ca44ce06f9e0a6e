"""The parts of an actor system that need no actor classes: a queue, timers, clocks, addresses and two drivers."""
