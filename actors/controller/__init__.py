"""The actors of the controller: event queue, connections to brokers, topic deletion; `actors.core.controller` has their
rules.
"""
