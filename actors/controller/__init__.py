"""The actors of the controller: event queue, connections to brokers, topic deletion.

Their rules are in `actors.core.controller`.
"""
