"""The base class of all requests to the ZooKeeper bridge."""

from __future__ import annotations

from typing import ClassVar

from messages.ask import Question, R_co


class BridgeQuestion(Question[R_co]):
    """The base class of requests to ZkBridgeActor."""

    __slots__ = ()
    asks: ClassVar[str] = "bridge"
