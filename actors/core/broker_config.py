"""What of a broker may be changed while it runs, as data, and Kafka's words for the rest (DynamicBrokerConfig).

Rule: what one broker alone can have is not said of all, and is checked by that broker, for it depends on its settings.
"""

from __future__ import annotations

from actors.core.advertised_listeners import ADVERTISED_LISTENERS, advertised_listeners
from actors.core.refusal import Refused
from actors.core.topic_config import BOOLEAN, TEXT, Kind, number
from messages.cluster import ConfigEntry
from messages.node import NodeSettings

DYNAMIC: dict[str, Kind] = {
    ADVERTISED_LISTENERS: TEXT,
    "follower.replication.throttled.rate": number("LONG", 0),
    "leader.replication.throttled.rate": number("LONG", 0),
    "unclean.leader.election.enable": BOOLEAN,
}
"""Setting -> how its value is read."""


def check_broker_config(entry: ConfigEntry, of_all: bool, node: NodeSettings | None) -> None:
    """Raise Refused unless a running broker may be given this; `of_all`: all may. `node` is the broker, if it asks."""
    name, value = entry
    kind = DYNAMIC.get(name)
    if kind is None:
        raise Refused(f"Cannot update these configs dynamically: Set({name})")
    if name == ADVERTISED_LISTENERS:
        if of_all:
            where = "at default cluster level, broker id must be specified"
            raise Refused(f"Cannot update these configs {where}: Set({name})")
        if node is None:
            raise Refused(f"{name} is checked by the broker itself: kafka-configs --bootstrap-server changes it")
        advertised_listeners(node, value)
    problem = kind.problem(value)
    if problem is not None:
        raise Refused(f"Invalid value {value} for configuration {name}: {problem}")
