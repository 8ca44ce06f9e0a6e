"""Requests of an actor to the ZooKeeper bridge to start and stop watches."""

from __future__ import annotations

from messages.ask import Done
from messages.vocabulary import message
from messages.zookeeper.question import BridgeQuestion


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
