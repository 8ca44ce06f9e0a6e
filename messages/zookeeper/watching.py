"""The watches of the actor that sends the request."""

from __future__ import annotations

from messages.conversation import Done
from messages.vocabulary import message
from messages.zookeeper.question import BridgeQuestion


@message
class StartWatching(BridgeQuestion[Done]):
    """Watch for these event classes, except events of paths with keys. -> Done"""

    events: tuple[str, ...]


@message
class StopWatching(BridgeQuestion[Done]):
    """Drop the sender's watches of these event classes: those of `keys`, or all. -> Done

    A key is a broker id or a topic as text; several keys of a path are joined by "/".
    """

    events: tuple[str, ...]
    keys: tuple[str, ...] | None = None
