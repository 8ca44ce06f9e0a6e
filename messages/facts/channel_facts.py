"""Read facts from a controller's channel messages: LeaderAndIsr requests, their responses, failed replica deletions.

Rule: a channel has one request in flight, and sends its requests in the order in which they were queued.
"""

from __future__ import annotations

from messages.apis.declaration import PartitionError
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest, LeaderAndIsrResponse
from messages.apis.stop_replica import StopReplicaResponse
from messages.channel import StartChannel
from messages.errors import NONE
from messages.facts import declarations
from messages.facts.controller_facts import Emit
from messages.network import ChannelPart, Received, Transmit, TransmitFailed
from messages.parts import LeaderAndIsrPart, PartitionErrorsPart
from messages.trace.schema import TraceRecord
from messages.vocabulary import Message


class _Channel:
    """A controller's channel to a broker: its queued LeaderAndIsr requests, and parts of incomplete messages."""

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.queue: list[list[declarations.LeaderAndIsrSent]] = []
        self.states: list[LeaderAndIsrPartitionState] = []
        self.errors: list[PartitionError] = []
        self.answered: declarations.TracePosition | None = None


class ChannelFacts:
    """Finds the facts about controller channels in one run."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._channels: dict[str, _Channel] = {}
        """Channels by actor address."""

    def note_response(self, place: declarations.TracePosition, record: TraceRecord) -> None:
        """Note the position of a response, if its receiver is a controller's channel."""
        channel = self._channels.get(record.receiver)
        if channel is not None:
            channel.answered = place

    def take(self, place: declarations.TracePosition, record: TraceRecord, message: Message) -> None:
        """Read the next message."""
        if isinstance(message, StartChannel):
            self._channels[record.receiver] = _Channel(message.broker_id)
        if isinstance(message, Transmit):
            channel = self._channels.get(record.sender)
            if channel is not None and channel.queue and isinstance(message.request, LeaderAndIsrRequest):
                channel.queue[0] = [each._replace(sent=each.sent or place.at) for each in channel.queue[0]]
            return
        channel = self._channels.get(record.receiver)
        if channel is None:
            return
        match message:
            case LeaderAndIsrPart():
                channel.states.extend(message.entries)
            case LeaderAndIsrRequest():
                states, channel.states = [*channel.states, *message.partition_states], []
                channel.queue.append(
                    [
                        declarations.LeaderAndIsrSent(
                            place, channel.broker, each.partition, each.leader, each.leader_epoch
                        )
                        for each in states
                    ]
                )
            case ChannelPart():
                if isinstance(message.part, PartitionErrorsPart):
                    channel.errors.extend(message.part.entries)
            case Received():
                self._emit_response_facts(place, channel, message)
            case TransmitFailed():
                self._emit(declarations.RequestFailed(place, channel.broker, message.reason))
                channel.queue = [[each._replace(why=message.reason) for each in sent] for sent in channel.queue]

    def _emit_response_facts(self, place: declarations.TracePosition, channel: _Channel, received: Received) -> None:
        """Emit the facts of a response. A LeaderAndIsr response answers the first LeaderAndIsr request in the queue."""
        errors, channel.errors = channel.errors, []
        response = received.response
        if isinstance(response, StopReplicaResponse):
            for failed in (*errors, *response.partition_errors):
                if failed.error_code != NONE:
                    self._emit(
                        declarations.ReplicaDeletionFailed(place, channel.broker, failed.partition, failed.error_code)
                    )
        if isinstance(response, LeaderAndIsrResponse) and channel.queue:
            codes = {each.partition: each.error_code for each in (*errors, *response.partition_errors)}
            for each in channel.queue.pop(0):
                code = response.error_code or codes.get(each.partition, NONE)
                self._emit(each._replace(answered=place.at, outcome=code))

    def end(self) -> None:
        """At the end of the run, emit the requests that have no response, and the last response of each broker."""
        last: dict[int, declarations.TracePosition] = {}
        for each in self._channels.values():
            if each.answered is not None:
                last[each.broker] = max(each.answered, last.get(each.broker, each.answered))
        for broker, place in last.items():
            self._emit(declarations.BrokerResponse(place, broker))
        for channel in self._channels.values():
            for sent in channel.queue:
                for request in sent:
                    self._emit(request)
