"""Read facts from the messages of a controller: its events, terms, writes to ZooKeeper, and the requests it rejects.

Rule 1: a controller handles one event at a time. Deliveries with an event's id belong to that event. A `Samples`
        message with an event's metrics ends the event. Earlier events in the queue that have no such message ended
        without a write or request.
Rule 2: an expired session ends all events that are queued.
Rule 3: a write becomes a fact when the answer confirms that ZooKeeper stored it. The fact's place is the place of the
        question that requested the write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import attrs
from thespian.actors import WakeupMessage

from messages import errors, zookeeper
from messages.apis.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from messages.apis.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from messages.apis.create_partitions import CreatePartitionsResponse
from messages.apis.create_topics import CreateTopicsResponse
from messages.apis.delete_topics import DeleteTopicsResponse
from messages.ask import Answer, Ask, Failure
from messages.cluster import ConfigEntry, Leadership, TopicPartition
from messages.events import BrokerChange, Event, ResponseReceived, SessionExpired, StateChangesRefused
from messages.facts import declarations
from messages.metrics import EVENT_TIME, EVENT_WAIT, Samples
from messages.network import ClientResponse, Forwarded
from messages.node import StartController
from messages.store import OK
from messages.topic_deletion import DeletionPlan, DeletionSets, QueueDeletions
from messages.trace.endings import KILLED
from messages.trace.schema import TraceRecord
from messages.vocabulary import AnyMessage, Message

CONTROLLER = "ControllerActor"
WAITING = "MetadataCacheActor."
"""Address of the actor in which a controller's responses wait until the node knows a change of topics."""
READS = ("Get", "Watch", "StartWatching")
"""Prefixes of the names of questions that do not write to ZooKeeper."""

RESPONSES = {each.__name__ for each in ResponseReceived.__subclasses__()}
"""Events with a broker's response; usually they need no action."""

ENDS = {
    "SessionExpired": "its ZooKeeper session expired",
    "ControllerShutdown": "its node was stopped",
    "ControllerMoved": "it was fenced: /controller_epoch had been raised by another",
    "ConnectionLoss": "the outcome of a write could not be known",
    "LostAnswer": "an answer did not come in time",
}
"""Reasons for the end of a term, as text, by the name of the event or failure."""

NOT_IN_OFFICE = "it was not the controller"

Emit = Callable[[declarations.Fact], None]


class _QueuedEvent(NamedTuple):
    """A queued controller event, with its session, and whether the controller was active when the event was queued."""

    event: declarations.ControllerEvent
    generation: int
    in_office: bool


class _Controller:
    """The state of a controller, as read so far from the messages of its run.

    It has the queued events, the current event first, and the requests that have no response yet.
    """

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.queue: list[_QueuedEvent] = []
        self.open: dict[int, str] = {}
        """Questions without an answer: their names by id."""
        self.in_office = False
        self.dead_generation = 0
        self.writing: set[int] = set()
        """Queued events that wrote or responded, by id."""

    def place_of(self, event_id: int) -> int | None:
        """Return the index of the queued event with this id, None if it is not queued."""
        return next((number for number, each in enumerate(self.queue) if each.event.place.n == event_id), None)

    def idle_reason(self, queued: _QueuedEvent) -> str:
        """Return why an event ended without a write or request."""
        if 0 < queued.generation <= self.dead_generation:
            return "it came from a session that was over"
        if not (queued.in_office and self.in_office):
            return NOT_IN_OFFICE
        if queued.event.kind in RESPONSES:
            return "it was the answer of a channel that had been closed"
        return "the record does not tell why"


class ControllerFacts:
    """Reads the facts about the controllers of one run, and about its brokers' writes to ZooKeeper."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._controllers: dict[str, _Controller] = {}
        """Controllers by actor address."""
        self._asked: dict[tuple[str, int], tuple[declarations.TracePosition, tuple[Leadership, ...]]] = {}
        """Writes of partition states without an answer, by requester and id."""
        self._unconfirmed: dict[tuple[str, int], list[declarations.Fact]] = {}
        """Facts that become true when a question succeeds, by requester and id."""
        self._versions: dict[TopicPartition, int] = {}
        """The last known version of each partition's state znode."""
        self._configs: dict[str, dict[str, str]] = {}
        """The last known overrides of topics and brokers."""

    def take(self, place: declarations.TracePosition, record: TraceRecord, message: Message) -> None:
        """Read the next message."""
        if record.actor == CONTROLLER:
            self._read_message(place, record, message)
        match message:
            case Samples():
                self._over(record, message)
            case Ask():
                self._question(place, record, message)
            case Answer():
                self._answer(place, record, message)
            case StateChangesRefused(what, refusals):
                for partition, why in refusals:
                    self._emit(declarations.StateChangeRefused(place, partition, what, why))
            case ClientResponse():
                self._read_response(place, record, message)

    def end(self, last: declarations.TracePosition, ending: str) -> None:
        """At the end of the run, emit the pending events and, if the controller was killed, the end of its term."""
        for controller in self._controllers.values():
            if not controller.open:
                self._idle(controller, len(controller.queue))
            for number, (event, *_) in enumerate(controller.queue):
                waits_for = ", ".join(dict.fromkeys(controller.open.values())) if number == 0 else ""
                self._emit(declarations.PendingEvent(event.place, event, last.at - event.place.at, waits_for))
            if controller.in_office and ending == KILLED:
                self._emit(
                    declarations.ControllerResigned(
                        last, controller.broker, "its process was killed, and this is its last record"
                    )
                )

    # ------------------------------------------------------------------------------------------------ events

    def _read_message(self, place: declarations.TracePosition, record: TraceRecord, message: Message) -> None:
        if isinstance(message, StartController):
            self._controllers[record.receiver] = _Controller(message.settings.node_id)
        controller = self._controllers.get(record.receiver)
        if controller is None:
            controller = self._controllers[record.receiver] = _Controller(place.node)
        event = message.payload if isinstance(message, WakeupMessage) else message
        failed = ""
        match event:
            case Answer():
                controller.open.pop(event.id, None)
                failed = event.result.name if isinstance(event.result, Failure) else ""
            case Forwarded(_, request):
                about = str(request.request.broker_id) if isinstance(request.request, ControlledShutdownRequest) else ""
                self._queue_event(controller, place, type(request.request).__name__, about, client=request.client_id)
            case Event():
                failed = type(event).__name__
                if isinstance(event, SessionExpired):
                    self._end_queued_events(controller, event.generation)
                if event is message:
                    self._queue_event(controller, place, failed, _about(event), getattr(event, "generation", 0))
                else:
                    self._queue_event(controller, place, failed)
        if failed in ENDS:
            self._emit(declarations.ControllerResigned(place, controller.broker, ENDS[failed]))

    def _queue_event(
        self,
        controller: _Controller,
        place: declarations.TracePosition,
        kind: str,
        about: str = "",
        generation: int = 0,
        client: str = "",
    ) -> None:
        event = declarations.ControllerEvent(place, kind, about, client=client)
        self._emit(event)
        controller.queue.append(_QueuedEvent(event, generation, controller.in_office))

    def _end_queued_events(self, controller: _Controller, generation: int) -> None:
        """End all queued events (rule 2)."""
        if controller.open:
            why = "the ZooKeeper session expired before it was done"
            for each in controller.queue:
                self._emit(declarations.EventWithoutEffect(each.event.place, each.event, why))
            controller.queue.clear()
        self._idle(controller, len(controller.queue))
        controller.open.clear()
        controller.in_office, controller.dead_generation = False, generation

    def _idle(self, controller: _Controller, count: int) -> None:
        """Remove the first `count` events from the queue, and emit an EventWithoutEffect for each of them."""
        over, controller.queue = controller.queue[:count], controller.queue[count:]
        for each in over:
            self._emit(declarations.EventWithoutEffect(each.event.place, each.event, controller.idle_reason(each)))

    def _over(self, record: TraceRecord, samples: Samples) -> None:
        """Handle the end of a controller's event (rule 1)."""
        controller = self._controllers.get(record.sender)
        if controller is None:
            return
        values = {sample.name: sample.value for sample in samples.values}
        number = controller.place_of(record.event_id)
        if EVENT_TIME not in values or number is None:
            return
        self._idle(controller, number)
        queued = controller.queue.pop(0).event
        event = queued._replace(waited=values[EVENT_WAIT], took=values[EVENT_TIME])
        self._emit(event)
        if event.place.n not in controller.writing and event.kind not in RESPONSES:
            self._emit(declarations.EventWithoutEffect(event.place, event, "there was nothing to be done"))
        controller.writing.clear()

    # ------------------------------------------------------------------------------------------------ ZooKeeper

    def _question(self, place: declarations.TracePosition, record: TraceRecord, ask: Ask) -> None:
        """Process a question that was sent to the ZooKeeper bridge or to TopicDeletionActor."""
        controller = self._controllers.get(record.sender)
        question = ask.question
        key = record.sender, ask.id
        if controller is not None:
            self._idle(controller, controller.place_of(record.event_id) or 0)
            name = type(question).__name__
            controller.open[ask.id] = name
            if record.actor == "ZkBridgeActor" and not name.startswith(READS):
                controller.writing.add(record.event_id)
        match question:
            case zookeeper.CreatePartitionStates() | zookeeper.UpdatePartitionStates():
                self._asked[key] = place, question.states
            case zookeeper.SetAssignments(topics):
                self._unconfirmed[key] = [*_assignments(place, topics, written=True)]
            case zookeeper.CreateTopic(topic):
                self._unconfirmed[key] = [*_assignments(place, (topic,), written=True)]
            case zookeeper.SetTopicConfig(name, entries):
                self._unconfirmed[key] = [self._changed_overrides(place, f"topic {name}", entries)]
            case zookeeper.SetBrokerConfig(name, entries):
                self._unconfirmed[key] = [self._changed_overrides(place, f"broker {name}", entries)]
            case zookeeper.RequestTopicDeletion(topic):
                self._unconfirmed[key] = [declarations.TopicDeletionStep(place, "asked", (topic,))]
            case zookeeper.DeleteTopics(topics):
                self._unconfirmed[key] = [declarations.TopicDeletionStep(place, "deleted", topics)]
            case QueueDeletions(topics):
                self._unconfirmed[key] = [
                    declarations.TopicDeletionStep(place, "queued", tuple(each.topic for each in topics))
                ]
            case zookeeper.RemoveReassignments(requests):
                self._unconfirmed[key] = [declarations.ReassignmentRequestRemoved(place, *each) for each in requests]
            case zookeeper.StopWatching(event_names) if controller is not None and BrokerChange.__name__ in event_names:
                controller.in_office = False
                self._emit(declarations.ControllerResigned(place, controller.broker, ""))

    def _answer(self, place: declarations.TracePosition, record: TraceRecord, answer: Answer) -> None:
        """Read an answer of the ZooKeeper bridge, or of TopicDeletionActor."""
        controller, result = self._controllers.get(record.receiver), answer.result
        key = record.receiver, answer.id
        confirmed = self._unconfirmed.pop(key, [])
        if not isinstance(result, Failure | zookeeper.TopicExists):
            for fact in confirmed:
                self._emit(fact)
        match result:
            case zookeeper.WriteResults(results):
                asked, states = self._asked.pop(key, (place, ()))
                by = f"controller {controller.broker}" if controller else f"broker {place.node}, which leads it,"
                for (partition, state), (_, code, version) in zip(states, results, strict=False):
                    if code == OK:
                        written = partition, state.leader, state.leader_epoch, state.isr
                        self._state(declarations.StateWrite(asked, *written, by, place.at, None, version))
            case zookeeper.TopicConfigs(configs):
                self._configs.update((f"topic {each.topic}", dict(each.entries)) for each in configs)
            case zookeeper.BrokerConfigs(configs):
                self._configs.update((f"broker {each.broker}", dict(each.entries)) for each in configs)
            case zookeeper.Assignments(topics):
                for assigned in _assignments(place, topics, written=False):
                    self._emit(assigned)
            case DeletionPlan(steps):
                for step in steps:
                    if isinstance(step, DeletionSets) and step.ineligible:
                        self._emit(declarations.TopicDeletionStep(place, "ineligible", step.ineligible))
        if controller is None:
            return
        match result:
            case zookeeper.Elected(epoch):
                controller.in_office = True
                self._emit(declarations.ControllerElected(place, controller.broker, epoch))
            case zookeeper.Brokers(brokers):
                self._emit(
                    declarations.BrokersRead(place, controller.broker, {each.id: each.epoch for each in brokers})
                )
            case zookeeper.PartitionStates(states_read):
                for partition, read, _ in states_read:
                    if read is not None:
                        found = partition, read.leader, read.leader_epoch, read.isr
                        by = f"controller {controller.broker}"
                        self._state(
                            declarations.StateWrite(place, *found, by, place.at, None, read.zk_version, read=True)
                        )

    def _changed_overrides(
        self, place: declarations.TracePosition, resource: str, entries: tuple[ConfigEntry, ...]
    ) -> declarations.OverridesChanged:
        before, now = self._configs.get(resource, {}), dict(entries)
        self._configs[resource] = now
        changes = {name: now.get(name) for name in sorted({**before, **now}) if now.get(name) != before.get(name)}
        return declarations.OverridesChanged(place, resource, changes)

    def _state(self, state: declarations.StateWrite) -> None:
        """Emit a partition's state, unless its version is the last known version."""
        if self._versions.get(state.partition) != state.version:
            self._versions[state.partition] = state.version
            self._emit(state)

    # ------------------------------------------------------------------------------------------------ refusals

    def _read_response(self, place: declarations.TracePosition, record: TraceRecord, responded: ClientResponse) -> None:
        """Read the response to a client or to a broker."""
        controller, event = self._controllers.get(record.sender), None
        if controller is not None:
            controller.writing.add(record.event_id)
            number = controller.place_of(record.event_id)
            event = None if number is None else controller.queue[number].event
        if controller is not None or record.sender.startswith(WAITING):
            for refused in _refusals(place, event, responded.response):
                self._emit(refused)

    def is_controller(self, address: str) -> bool:
        """Return whether a controller of this run has the address."""
        return address in self._controllers


def _about(event: Event) -> str:
    """Return the topic, partition or broker of an event as text."""
    names = sorted(field.name for field in attrs.fields(type(event)) if field.name != "generation")
    values = [value for name in names if type(value := getattr(event, name)) in (int, str)]
    return " ".join(map(str, sorted(values, key=lambda value: type(value) is int)))  # a topic, then its partition


def _assignments(
    place: declarations.TracePosition, topics: tuple[zookeeper.TopicAssignment, ...], written: bool
) -> Iterator[declarations.ReplicasAssigned]:
    """Yield the assignments of a message's topics."""
    for topic, partitions, *_ in topics:
        for number, each in partitions:
            replicas = each.replicas, each.adding, each.removing
            yield declarations.ReplicasAssigned(place, TopicPartition(topic, number), *replicas, None, written)


def _refusals(
    place: declarations.TracePosition, event: declarations.ControllerEvent | None, response: Message
) -> Iterator[declarations.RequestRefused]:
    """Yield the rejected items in a controller's response, with error code and reason; `event` is the request."""
    api = type(response).__name__.removesuffix("Response")
    results: list[tuple[TopicPartition | str, AnyMessage]] = []
    match response:
        case ControlledShutdownResponse(code, left):
            if event is not None and (code or left):
                yield declarations.RequestRefused(place, api, int(event.about), code, "", left)
        case AlterPartitionReassignmentsResponse(responses=topics):
            results = [
                (TopicPartition(each.name, one.partition_index), one) for each in topics for one in each.partitions
            ]
        case CreateTopicsResponse() | CreatePartitionsResponse() | DeleteTopicsResponse():
            results = [(each.name, each) for each in response.topics]
    for subject, result in results:
        if result.error_code != errors.NONE:
            why = getattr(result, "error_message", None) or ""
            yield declarations.RequestRefused(place, api, subject, result.error_code, why)
