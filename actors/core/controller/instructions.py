"""What the controller's flows yield besides questions: things for the shell to do at once (`ControllerActor.perform`).

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
    """Start a request channel to a broker; nothing where there is one."""

    broker_id: int
    endpoint: Endpoint


@attrs.frozen
class RedirectChannel(Instruction):
    """Let the channel to a broker lead to another endpoint from now on."""

    broker_id: int
    endpoint: Endpoint


@attrs.frozen
class CloseChannel(Instruction):
    """End the channel to a broker; requests queued or under way vanish without an answer."""

    broker_id: int


@attrs.frozen
class CloseAllChannels(Instruction):
    """End every channel."""


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
    """Queue a request on a broker's channel, its parts ahead; dropped with a warning where there is none."""

    broker_id: int
    request: ControllerRequest
    parts: tuple[Part, ...] = ()
