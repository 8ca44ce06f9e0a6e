"""What of a broker may be changed while it runs, as data, and Kafka's words for the rest (DynamicBrokerConfig)."""

from __future__ import annotations

from actors.core.refusal import Refused
from actors.core.topic_config import BOOLEAN, Kind, number
from messages.cluster import ConfigEntry

DYNAMIC: dict[str, Kind] = {
    "follower.replication.throttled.rate": number("LONG", 0),
    "leader.replication.throttled.rate": number("LONG", 0),
    "unclean.leader.election.enable": BOOLEAN,
}
"""Setting -> how its value is read."""


def check_broker_config(entry: ConfigEntry) -> None:
    """Raise Refused unless a running broker may be given this."""
    name, value = entry
    kind = DYNAMIC.get(name)
    if kind is None:
        raise Refused(f"Cannot update these configs dynamically: Set({name})")
    problem = kind.problem(value)
    if problem is not None:
        raise Refused(f"Invalid value {value} for configuration {name}: {problem}")
