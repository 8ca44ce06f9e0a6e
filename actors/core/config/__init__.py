"""The configs of topics and brokers: types, defaults, checks, and what a change of them means."""
