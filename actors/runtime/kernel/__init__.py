"""The kernel of an actor system: its queue, timers, clocks, addresses and two drivers, without any actor classes."""
