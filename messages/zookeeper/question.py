"""The base class of questions to the bridge."""

from __future__ import annotations

from typing import ClassVar

from messages.conversation import Question, R_co


class BridgeQuestion(Question[R_co]):
    """A question that ZkBridgeActor answers."""

    __slots__ = ()
    asks: ClassVar[str] = "bridge"
