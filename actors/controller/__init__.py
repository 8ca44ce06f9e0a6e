"""The controller's actors: event queue, channels to brokers, topic deletion. Their rules: `actors.core.controller`."""
