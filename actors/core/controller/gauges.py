"""The controller's figures, under the names that jmx_exporter gives Kafka's (controller.md 8)."""

from __future__ import annotations

from actors.core.controller.context import ControllerContext
from messages.events import ControllerState
from messages.metrics import Gauge

CONTROLLER_STATE = "kafka_controller_kafkacontroller_controllerstate"
FAILED_EVENTS = "kafka_actors_controller_failed_events"
"""Ours: how often an event raised what nobody foresees, by event; gone when it went well."""

EVENT_QUEUE_SIZE = "kafka_controller_controllereventmanager_eventqueuesize"
UNCLEAN_ELECTIONS = "kafka_controller_controllerstats_uncleanleaderelections_total"


def gauges(context: ControllerContext, state: ControllerState, queue_size: int) -> tuple[Gauge, ...]:
    """All figures: those of the term are 0 while we are not the controller."""
    deletions = context.deletions
    term = (
        ("activecontrollercount", int(context.active)),
        ("offlinepartitionscount", context.offline_count),
        ("globaltopiccount", len(context.topics)),
        ("globalpartitioncount", len(context.leadership)),
        ("topicstodeletecount", len(deletions.queued)),
        ("replicastodeletecount", deletions.replicas_to_delete),
        ("topicsineligibletodeletecount", len(deletions.ineligible)),
        ("replicasineligibletodeletecount", deletions.replicas_ineligible),
    )
    return (
        *(Gauge(f"kafka_controller_kafkacontroller_{name}", value) for name, value in term),
        Gauge(UNCLEAN_ELECTIONS, context.unclean_elections),
        Gauge(CONTROLLER_STATE, state.value),
        Gauge(EVENT_QUEUE_SIZE, queue_size),
    )
