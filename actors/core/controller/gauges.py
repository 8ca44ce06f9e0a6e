"""The metrics of the controller, with the names that jmx_exporter gives to Kafka's metrics (controller.md 8).

Kafka: `ControllerStats` and the gauges of `KafkaController`.
"""

from __future__ import annotations

from actors.core.controller.context import ControllerContext
from messages.events import ControllerState
from messages.metrics import EVENT_REQUESTS, EVENT_TIME, EVENT_WAIT, Gauge, Sample

CONTROLLER_STATE = "kafka_controller_kafkacontroller_controllerstate"
FAILED_EVENTS = "kafka_actors_controller_failed_events"
"""Number of unexpected errors by event, removed after a success. Kafka has no such metric."""

EVENT_QUEUE_SIZE = "kafka_controller_controllereventmanager_eventqueuesize"
UNCLEAN_ELECTIONS = "kafka_controller_controllerstats_uncleanleaderelections_total"
TIMER = "kafka_controller_controllerstats_{}"
EVENT_QUEUE_TIME = "kafka_controller_controllereventmanager_eventqueuetimems"


def samples(event: str, state: ControllerState, waited: float, took: float, requests: int) -> tuple[Sample, ...]:
    """Return the samples of a finished event.

    `waited` and `took` are in seconds. The samples of times are in milliseconds.
    """
    labels = (("event", event),)
    timer = () if state.timer is None else (Sample(TIMER.format(state.timer.lower()), took * 1000),)
    return (
        *timer,
        Sample(EVENT_QUEUE_TIME, waited * 1000),
        Sample(EVENT_TIME, took * 1000, labels),
        Sample(EVENT_WAIT, waited * 1000, labels),
        Sample(EVENT_REQUESTS, requests, labels),
    )


def gauges(context: ControllerContext, state: ControllerState, queue_size: int) -> tuple[Gauge, ...]:
    """Return all gauges. The gauges of a controller's term (`term`) are 0 while this node is not the controller."""
    deletions = context.deletions
    term = (
        ("activecontrollercount", int(context.active)),
        ("offlinepartitionscount", context.offline_count),
        ("preferredreplicaimbalancecount", context.imbalance()),
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
