"""The configs of topics and brokers: types, defaults, checks, and the effects of their changes."""
