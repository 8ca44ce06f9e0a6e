"""Instructions that the controller's flows yield for immediate execution (`ControllerActor.perform`).

They are no mail: the shell turns them into mail to a broker's channel.
"""

from __future__ import annotations

import attrs

from messages.broker import Expected
from messages.cluster import Endpoint
from messages.conversation import Instruction
from messages.events import Event
from messages.parts import Part
from messages.requests import ControllerRequest
from messages.vocabulary import Message


@attrs.frozen
class OpenChannel(Instruction):
    """Start a request channel to a broker, unless one exists."""

    broker_id: int
    endpoint: Endpoint


@attrs.frozen
class RedirectChannel(Instruction):
    """Set the endpoint of a broker's channel."""

    broker_id: int
    endpoint: Endpoint


@attrs.frozen
class CloseChannel(Instruction):
    """Close the channel to a broker; queued and in-flight requests are dropped."""

    broker_id: int


@attrs.frozen
class CloseAllChannels(Instruction):
    """Close all channels."""


@attrs.frozen
class Enqueue(Instruction):
    """Put an event at the end of the queue, at once or after a number of seconds; there it takes the place of an event
    of its class that still waits for its time."""

    event: Event
    seconds: float = 0.0


@attrs.frozen
class Awaited:
    """No instruction, but what a request's flow may return: a response that the client gets only when the topics are
    as expected in the metadata of this node, or after the time (`messages.broker.AwaitTopics`)."""

    response: Message
    expected: tuple[Expected, ...]
    timeout_ms: int


@attrs.frozen
class SendRequest(Instruction):
    """Queue a request and its preceding parts on a broker's channel; without a channel, drop it with a warning."""

    broker_id: int
    request: ControllerRequest
    parts: tuple[Part, ...] = ()
