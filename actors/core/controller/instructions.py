"""The instructions that event handlers of the controller yield; `ControllerActor.perform` executes each immediately.

Instructions are never sent between actors: ControllerActor executes an instruction by sending messages, for example to
a broker's channel.
"""

from __future__ import annotations

from messages.apis.update_metadata import ControllerRequest
from messages.broker import ExpectedTopicState
from messages.cluster import Endpoint
from messages.events import Event, StateChangesRefused
from messages.flow.conversation import Instruction
from messages.parts import Part
from messages.vocabulary import Message, value_class


@value_class
class OpenChannel(Instruction):
    """An instruction to create the actor that sends requests to a broker, unless that actor exists."""

    broker_id: int
    endpoint: Endpoint


@value_class
class RedirectChannel(Instruction):
    """An instruction to send the requests for a broker to another endpoint."""

    broker_id: int
    endpoint: Endpoint


@value_class
class CloseChannel(Instruction):
    """An instruction to close the connection to a broker; queued and in-flight requests are dropped."""

    broker_id: int


@value_class
class CloseAllChannels(Instruction):
    """An instruction to close the connections to all brokers."""


@value_class
class Enqueue(Instruction):
    """An instruction to put an event at the end of the queue, now or after a delay in seconds.

    A delayed event replaces an event of the same class that still waits for its time.
    """

    event: Event
    seconds: float = 0.0


@value_class
class RecordRefusals(Instruction):
    """An instruction to record in the trace which state changes were refused."""

    refused: StateChangesRefused


@value_class
class DelayedResponse:
    """A client response that is sent when this node's metadata contains the expected topics, or after a timeout.

    It is not an instruction: a request handler returns it, and ControllerActor sends AwaitTopics (`messages.broker`)
    for it.
    """

    response: Message
    expected: tuple[ExpectedTopicState, ...]
    timeout_ms: int


@value_class
class SendRequest(Instruction):
    """An instruction to queue a request for a broker.

    Without a channel to the broker, the request is dropped with a warning.
    """

    broker_id: int
    request: ControllerRequest
    parts: tuple[Part, ...] = ()
