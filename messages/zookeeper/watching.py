"""The asker's own watches."""

from __future__ import annotations

from messages.conversation import Done
from messages.vocabulary import message
from messages.zookeeper.question import BridgeQuestion


@message
class StopWatching(BridgeQuestion[Done]):
    """Forget the asker's watches of the event named (its class): those of `keys` (as text), or all. -> Done"""

    event: str
    keys: tuple[str, ...] | None = None
