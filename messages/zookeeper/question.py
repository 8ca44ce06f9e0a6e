"""The base class of all requests to the ZooKeeper bridge, and the requests to start and stop watches."""

from __future__ import annotations

from typing import ClassVar

from messages.ask import Done, Question, R_co
from messages.vocabulary import message


class BridgeQuestion(Question[R_co]):
    """The base class of requests to ZkBridgeActor."""

    __slots__ = ()
    asks: ClassVar[str] = "bridge"


@message
class StartWatching(BridgeQuestion[Done]):
    """A request to watch the znodes whose changes cause events of these classes; the reply is Done.

    Event classes whose path contains a broker id or a topic are ignored.
    """

    events: tuple[str, ...]


@message
class StopWatching(BridgeQuestion[Done]):
    """A request to stop the sender's watches for these event classes, for all keys or only for `keys`.

    The reply is Done. A key is text: a broker id, a topic, or a partition in the form "topic/number".
    """

    events: tuple[str, ...]
    keys: tuple[str, ...] | None = None
