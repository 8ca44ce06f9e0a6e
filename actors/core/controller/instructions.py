"""What the controller's flows yield besides questions: things for the shell to do at once (`ControllerActor.perform`).

They are no mail: the shell turns them into mail to a broker's channel.
"""

from __future__ import annotations

import attrs

from messages.cluster import Endpoint
from messages.conversation import Instruction
from messages.parts import Part
from messages.requests import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest


@attrs.frozen
class OpenChannel(Instruction):
    """Start a request channel to a broker; nothing where there is one."""

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
class ElectLater(Instruction):
    """Stand for election again after so many seconds."""

    seconds: float


@attrs.frozen
class SendRequest(Instruction):
    """Queue a request on a broker's channel, its parts ahead; dropped with a warning where there is none."""

    broker_id: int
    request: LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
    parts: tuple[Part, ...] = ()
