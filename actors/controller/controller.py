"""ControllerActor runs the controller's event handlers; its mailbox is the controller's event queue.

Rule 1: One event is finished before the next begins (`FlowActor`). The controller's correctness depends on this.
Rule 2: Events from watches of an expired session, and responses from closed channels, are dropped.
Rule 3: An expired session is handled before all queued events. Each queued request is refused with the error that this
        node is not the controller.
Rule 4 (failure policy): If an event's handler raises an exception, the event is logged and dropped.
        `actors.core.controller.failures` decides whether this node stays the controller, and what it does before the
        next event.
Rule 5: Before and after each event, the gauges that have changed are sent to the metrics gateway. After the event, its
        wait time and run time are also published. An event that takes SLOW_SECONDS or longer is logged.

Kafka: `KafkaController`. The mailbox is the queue of its `ControllerEventManager`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import ClassVar, TypeVar

from thespian.actors import ActorAddress, ActorExitRequest, ChildActorExited, WakeupMessage

from actors.controller.channel import BrokerChannelActor
from actors.controller.topic_deletion import TopicDeletionActor
from actors.core.controller import failover, instructions
from actors.core.controller.context import ControllerContext
from actors.core.controller.events import HANDLERS, REQUESTS
from actors.core.controller.failures import Consequence, consequence, name_of
from actors.core.controller.gauges import FAILED_EVENTS, gauges, samples
from actors.core.controller.validation import validate
from actors.runtime import FlowActor, UnknownMessage
from messages import errors, events
from messages.apis import API_BY_REQUEST
from messages.broker import AwaitTopics
from messages.channel import MoveChannel, StartChannel
from messages.flow.conversation import Flow
from messages.metrics import DropMetric, Gauge, Gauges, Samples
from messages.network import Forwarded
from messages.node import StartController
from messages.probes import probe
from messages.vocabulary import AnyMessage, Message

log = logging.getLogger("kafka.controller")

T = TypeVar("T")

SLOW_SECONDS = 2.0


class ControllerActor(FlowActor):
    """This actor takes part in controller elections. It is the controller from a won election until it resigns."""

    answer_deadline: ClassVar[float] = 3600.0
    """Seconds until an answer counts as lost. It is long because the bridge holds questions while ZooKeeper is
    unreachable, as Kafka does.
    """

    def __init__(self) -> None:
        super().__init__()
        self.context: ControllerContext
        self._start: StartController
        self._channels: dict[int, ActorAddress] = {}
        self._channels_opened = 0
        self._dead_generation = 0
        self._published: dict[str, Gauge] = {}
        self._failed_events: dict[str, int] = {}
        """Event -> number of its unexpected errors since its last success."""
        self._stopped = False

    def receiveMsg_StartController(self, message: StartController, sender: ActorAddress) -> None:
        """Store the settings and the addresses of the actors that this actor needs.

        The controller is idle until Startup arrives.
        """
        self._start = message
        self.context = ControllerContext(message.settings, message.cluster_id)
        self.peers = {"bridge": message.bridge, "deletion": self.createActor(TopicDeletionActor)}

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: ActorAddress) -> None:
        """Ignore the exit of a channel: only this actor stops channels."""

    def receiveMsg_StateChangesRefused(self, message: events.StateChangesRefused, sender: ActorAddress) -> None:
        """Do nothing: the delivery of the message is its purpose, because the trace records it."""

    # ------------------------------------------------------------------------------------------------------- events

    def event_id_of(self, message: Message) -> int:
        """Return the number of the message's delivery, which is the id of the controller event."""
        return self.delivery

    def flow(self, message: AnyMessage) -> Flow[None] | None:
        """Return the flow of an event; None for an event that is ignored, or a request that was refused."""
        if isinstance(message, WakeupMessage):
            message = message.payload
            if isinstance(message, events.Reelect):
                self.context.set_backing_off(False)
        if isinstance(message, Forwarded):
            return self._serve(message)
        if self._stopped or self._is_late(message):
            return None
        body = self._body(message)
        return (
            None
            if body is None
            else self._run_and_publish(message, message.state, self._run_and_validate(message, body))
        )

    def preempts(self, message: Message) -> bool:
        """Return whether the message empties the queue: only SessionExpired does (rule 3)."""
        return isinstance(message, events.SessionExpired)

    def handle_dropped(self, dropped: list[tuple[Message, ActorAddress]]) -> None:
        """Refuse the queued requests; a ControllerShutdown in the queue still takes effect."""
        for message, _ in dropped:
            self._stopped = self._stopped or isinstance(message, events.ControllerShutdown)
            if isinstance(message, Forwarded):
                probe("T13 a request that waits is refused when the session expires")
                self._refuse(message)

    def event_failed(self, event: Message, error: Exception) -> Flow[None] | None:
        """Apply the failure policy (rule 4)."""
        what = Consequence.DROPPED if isinstance(error, UnknownMessage) else consequence(error)
        probe("T4 an event fails, and its requests are not left for the next one")
        if isinstance(event, Forwarded):
            ours = what in (Consequence.DROPPED, Consequence.RELOADED)
            self._refuse(event, errors.UNKNOWN_SERVER_ERROR if ours else None)
        match what:
            case Consequence.DEPOSED:
                return self._run_and_publish(
                    event, events.ControllerState.CONTROLLER_CHANGE, failover.resign_after_refusal(self.context)
                )
            case Consequence.GIVEN_UP:
                return self._run_and_publish(
                    event, events.ControllerState.CONTROLLER_CHANGE, failover.trigger_controller_move(self.context)
                )
            case Consequence.RELOADED if self.context.active:
                return self._unforeseen(event, error)
        return None

    def _unforeseen(self, event: Message, error: Exception) -> Flow[None]:
        """Resign and reload all state at an event's first unexpected error; at later ones, only drop the event."""
        name = _name_of(event)
        times = self._failed_events[name] = self._failed_events.get(name, 0) + 1
        self.send(self._start.metrics, Gauges((Gauge(FAILED_EVENTS, times, (("event", name),)),)))
        tag = self.context.tag
        if times == 1:
            log.error(
                "%s Error processing event %s, resigning to reload the state from ZooKeeper: %r", tag, name, error
            )
            now = self.port("time").wall_ms()
            return self._run_and_publish(
                event, events.ControllerState.CONTROLLER_CHANGE, failover.reload(self.context, now)
            )
        log.error("%s Error processing event %s (attempt %d), dropping it: %r", tag, name, times, error)
        return self._run_and_publish(event, events.ControllerState.CONTROLLER_CHANGE, validate(self.context))

    def _reset_errors(self, name: str) -> None:
        """Reset the error count of an event that succeeded."""
        if self._failed_events.pop(name, 0):
            self.send(self._start.metrics, DropMetric(FAILED_EVENTS, (("event", name),)))

    def _is_late(self, message: Message) -> bool:
        """Return whether the event comes from a watch of an expired session, or from a closed channel (rule 2)."""
        if isinstance(message, events.ResponseReceived):
            return bool(self._channels.get(message.broker_id) != self.sender)
        if isinstance(message, events.SessionExpired):
            return False
        return 0 < getattr(message, "generation", 0) <= self._dead_generation

    def _body(self, message: Message) -> Flow[None] | None:
        """Return the flow of the event's handler; None if this node is inactive and the event needs the controller."""
        context = self.context
        match message:
            case events.Startup() | events.ControllerChange() | events.Reelect():
                return failover.elect(context, self.port("time").wall_ms())
            case events.SessionExpired(generation):
                self._dead_generation = max(generation, self._dead_generation)
                return failover.resign_after_expiry(context)
            case events.ControllerShutdown():
                self._stopped = True
                return failover.resign(context)
        handler = HANDLERS.get(type(message))
        if handler is None:
            raise UnknownMessage(f"the controller has no handler for {type(message).__name__}")
        return handler(context, message) if context.active else None

    def _run_and_validate(self, event: Message, body: Flow[T]) -> Flow[T]:
        """Run the handler's flow, then validate the state and reset the event's error count."""
        result = yield from body
        if self._start.settings.validate_state:
            yield from validate(self.context)
        if self._failed_events:
            self._reset_errors(_name_of(event))
        return result

    def _run_and_publish(self, event: Message, state: events.ControllerState, body: Flow[None]) -> Flow[None]:
        """Run the flow, and publish metrics before and after it (rule 5)."""
        self._publish(state)
        began = self.now
        try:
            yield from body
        except GeneratorExit:
            raise
        except BaseException:
            self._over(event, state, began)
            raise
        self._over(event, state, began)

    def _over(self, event: Message, state: events.ControllerState, began: float) -> None:
        """Publish the metrics of an event that ended, with or without an error."""
        took = self.now - began
        self._publish(events.ControllerState.IDLE)
        kind = type(_request_of(event)).__name__
        self.send(self._start.metrics, Samples(samples(kind, state, self.waited, took, self.requests)))
        if took >= SLOW_SECONDS:
            log.warning(
                "%s Event %s took %.1f s with %d ZooKeeper requests, after %.1f s in the queue",
                *(self.context.tag, _name_of(event), took, self.requests, self.waited),
            )

    # ------------------------------------------------------------------------------------------------------- clients

    def _serve(self, forwarded: Forwarded) -> Flow[None] | None:
        """Handle a request that only the controller answers."""
        request = forwarded.request.request
        if not self.context.active:
            self._refuse(forwarded)
            return None
        served = REQUESTS[type(request)]
        flow = self._run_and_validate(forwarded, served.flow(self.context, request))
        return self._run_and_publish(forwarded, served.state, self._answer(forwarded, flow))

    def _answer(self, forwarded: Forwarded, flow: Flow[Message | instructions.DelayedResponse]) -> Flow[None]:
        result = yield from flow
        if isinstance(result, instructions.DelayedResponse):
            waiting = AwaitTopics(forwarded, result.response, result.expected, result.timeout_ms)
            self.send(self._start.metadata_cache, waiting)
        else:
            self.send(*forwarded.reply(result))

    def _refuse(self, forwarded: Forwarded, error_code: int | None = None) -> None:
        """Respond with an error; without a code, the error is that another node is the controller."""
        request = forwarded.request.request
        api = API_BY_REQUEST[type(request)]
        self.send(*forwarded.reply(api.refusal(request, api.elsewhere if error_code is None else error_code)))

    # ------------------------------------------------------------------------------------------------------- channels

    def perform(self, instruction: Message) -> None:
        """Execute a flow's instruction about channels or the queue."""
        _PERFORM[type(instruction)](self, instruction)

    def _open_channel(self, instruction: instructions.OpenChannel) -> None:
        broker_id = instruction.broker_id
        if broker_id in self._channels:
            return
        start, settings = self._start, self._start.settings
        self._channels_opened += 1
        channel = self._channels[broker_id] = self.createActor(BrokerChannelActor)
        self.send(
            channel,
            StartChannel(
                broker_id,
                settings.node_id,
                instruction.endpoint,
                f"controller-{settings.node_id}-broker-{broker_id}-{self._channels_opened}",
                settings.controller_socket_timeout_ms / 1000,
                settings.request_timeout_ms / 1000,
                start.network,
                start.metrics,
            ),
        )

    def _redirect_channel(self, instruction: instructions.RedirectChannel) -> None:
        self.send(self._channels[instruction.broker_id], MoveChannel(instruction.endpoint))

    def _close_channel(self, instruction: instructions.CloseChannel) -> None:
        channel = self._channels.pop(instruction.broker_id, None)
        if channel is not None:
            self.send(channel, ActorExitRequest())

    def _close_all_channels(self, instruction: instructions.CloseAllChannels) -> None:
        for broker_id in list(self._channels):
            self._close_channel(instructions.CloseChannel(broker_id))

    def _send_request(self, instruction: instructions.SendRequest) -> None:
        channel = self._channels.get(instruction.broker_id)
        if channel is None:
            log.warning(
                "%s Not sending request to broker %d, since it is offline.", self.context.tag, instruction.broker_id
            )
        else:
            for part in instruction.parts:
                self.send(channel, part)
            self.send(channel, instruction.request)

    def _record_refusals(self, instruction: instructions.RecordRefusals) -> None:
        self.send(self.myAddress, instruction.refused)

    def _enqueue(self, instruction: instructions.Enqueue) -> None:
        event, seconds = instruction.event, instruction.seconds
        if seconds:
            self.set_timer(type(event).__name__, seconds, event)
        else:
            self.send(self.myAddress, event)

    # ------------------------------------------------------------------------------------------------------- metrics

    def _publish(self, state: events.ControllerState) -> None:
        """Send the gauges that changed."""
        changed = tuple(
            gauge for gauge in gauges(self.context, state, self.stashed) if self._published.get(gauge.name) != gauge
        )
        if changed:
            self._published.update((gauge.name, gauge) for gauge in changed)
            self.send(self._start.metrics, Gauges(changed))


def _request_of(event: Message) -> Message:
    """Return the client's request if the event is a Forwarded, the payload if it is a timer, else the event."""
    if isinstance(event, Forwarded):
        return event.request.request
    return event.payload if isinstance(event, WakeupMessage) else event


def _name_of(event: Message) -> str:
    """Return the event's name for metrics and the log."""
    return name_of(_request_of(event))


_PERFORM: dict[type, Callable[[ControllerActor, AnyMessage], None]] = {
    instructions.OpenChannel: ControllerActor._open_channel,
    instructions.RedirectChannel: ControllerActor._redirect_channel,
    instructions.CloseChannel: ControllerActor._close_channel,
    instructions.CloseAllChannels: ControllerActor._close_all_channels,
    instructions.Enqueue: ControllerActor._enqueue,
    instructions.RecordRefusals: ControllerActor._record_refusals,
    instructions.SendRequest: ControllerActor._send_request,
}
