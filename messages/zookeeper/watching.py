"""The watches of the asking actor."""

from __future__ import annotations

from messages.conversation import Done
from messages.vocabulary import message
from messages.zookeeper.question import BridgeQuestion


@message
class StartWatching(BridgeQuestion[Done]):
    """Arm the events named (their classes), those of nodes with keys left out. -> Done"""

    events: tuple[str, ...]


@message
class StopWatching(BridgeQuestion[Done]):
    """Forget the asker's watches of the events named (their classes): those of `keys`, or all. -> Done

    A key is text: a broker's id, a topic; a path with several has them joined by "/".
    """

    events: tuple[str, ...]
    keys: tuple[str, ...] | None = None
