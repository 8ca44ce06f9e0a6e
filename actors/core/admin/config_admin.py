"""Parse and print configs for the command `kafka-actors configs` (ConfigCommand of Kafka 3.9.1).

Rule 1: In "a=1,b=[x,y]", commas within brackets belong to a value.
Rule 2: An override is listed with the other values of the setting: those in ZooKeeper, and Kafka's default. The values
        in a broker's server.properties are not listed, because only the broker has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from actors.core.config.config_requests import INSTEAD, broker_default
from actors.core.config.topic_config import FROM_SERVER, UNSAID
from actors.core.refusal import Refused
from messages.cluster import ConfigEntry
from messages.config_requests import DEFAULT_CONFIG, ConfigSynonym

TOPICS, BROKERS = "topics", "brokers"
OUTSIDE_BRACKETS = re.compile(r",(?=[^\]]*(?:\[|$))")


def parse_added(text: str) -> dict[str, str]:
    """Return the overrides of --add-config by name (rule 1).

    Raises:
        Refused: The text is invalid.
    """
    found: dict[str, str] = {}
    for pair in OUTSIDE_BRACKETS.split(text) if text else ():
        name, equals, value = pair.partition("=")
        name = name.strip()
        if not equals or "=" in value:
            raise Refused(
                'requirement failed: Invalid entity config: all configs to be added must be in the format "key=val".'
            )
        if not re.fullmatch("[a-zA-Z0-9._-]*", name):
            raise Refused(f"Invalid character found for config key: {name}")
        found[name] = re.sub(r"\[?\]?", "", value).strip()
    return found


def parse_deleted(text: str) -> list[str]:
    """Return the names of --delete-config."""
    return [name.strip() for name in text.split(",") if name.strip()]


def overridden(
    entries: Iterable[ConfigEntry], added: Mapping[str, str], deleted: Iterable[str]
) -> tuple[ConfigEntry, ...]:
    """Return the overrides after additions and deletions.

    Raises:
        Refused: A name in `deleted` has no override.
    """
    values = dict(entries)
    absent = [name for name in deleted if name not in values]
    if absent:
        raise Refused(f"Invalid config(s): {','.join(absent)}")
    kept = {name: value for name, value in values.items() if name not in set(deleted)}
    return tuple(ConfigEntry(name, value) for name, value in sorted({**kept, **added}.items()))


def headline(kind: str, name: str | None) -> str:
    """Return the headline of the overrides of one topic or broker; if `name` is None, of all topics or brokers."""
    return (
        f"Default configs for {kind} in the cluster are:"
        if name is None
        else f"Dynamic configs for {kind[:-1]} {name} are:"
    )


def updated(kind: str, name: str | None) -> str:
    """Return the line that reports a completed update."""
    if name is None:
        return f"Completed updating default config for {kind} in the cluster."
    return f"Completed updating config for {kind[:-1]} {name}."


def described(
    kind: str, name: str | None, entries: Iterable[ConfigEntry], of_all: Iterable[ConfigEntry] = ()
) -> list[str]:
    """Return one line per override, sorted by name (rule 2).

    Args:
        of_all: The overrides that apply to all brokers; empty for a topic.
    """
    source = {TOPICS: "DYNAMIC_TOPIC_CONFIG", BROKERS: "DYNAMIC_BROKER_CONFIG"}[kind]
    said_of_all = dict(of_all)
    lines = []
    for key, value in sorted(entries):
        places = [f"{source}:{key}={value}"] if name is not None else []
        if key in said_of_all:
            places.append(f"DYNAMIC_DEFAULT_BROKER_CONFIG:{key}={said_of_all[key]}")
        if name is not None:
            places += [f"DEFAULT_CONFIG:{each.name}={each.value}" for each in _kafka_default(kind, key)]
        lines.append(f"  {key}={value} sensitive=false synonyms={{{', '.join(places)}}}")
    return lines


def _kafka_default(kind: str, key: str) -> list[ConfigSynonym]:
    """Return the broker setting whose default applies without overrides; an empty list if it has no default."""
    if kind == BROKERS:
        return broker_default(INSTEAD.get(key, key))
    server, default = FROM_SERVER.get(key, ("", ""))
    return [ConfigSynonym(server, default, DEFAULT_CONFIG)] if server and key not in UNSAID else []
