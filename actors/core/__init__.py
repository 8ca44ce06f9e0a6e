"""Kafka's rules as pure code: what to do for each request or event, without actors or I/O.

Each subpackage contains the rules of one role (controller, broker, coordinator) or of one shared concept, such as
configs.
"""
