"""The decisions of Kafka as pure code, without actors or I/O.

Each subpackage contains the decisions of one role (controller, broker, coordinator) or of one shared concept, such as
configs.
"""
