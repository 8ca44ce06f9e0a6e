"""Client quotas: the entities that have them, and the messages about them (KIP-13, KIP-55, KIP-124)."""

from __future__ import annotations

import re
from typing import NamedTuple

from messages.cluster import ConfigEntry, TopicPartition
from messages.vocabulary import Message, message

PRODUCE, FETCH, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
QUOTAS = (PRODUCE, FETCH, REQUEST)
"""The quotas of a client: bytes produced and fetched per second, and percent of the time of one thread."""

DEFAULT = "<default>"
"""In place of a sanitized name: all users or client ids without a quota of their own."""


_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")
_ESCAPED = re.compile(rb"%([0-9A-Fa-f]{2})")


def sanitize(name: str) -> str:
    """Return a name in the form that ZooKeeper's paths have: with percent-encoded bytes."""
    return "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in name.encode())


def desanitize(text: str) -> str:
    """Return the name that `sanitize` encodes as `text`."""
    return _ESCAPED.sub(lambda byte: bytes.fromhex(byte[1].decode()), text.encode()).decode(errors="replace")


class QuotaEntity(NamedTuple):
    """The clients that a quota applies to: a user, a client id, or both.

    A name is sanitized, as in ZooKeeper (`sanitize`), or DEFAULT. None means that the quota
    does not depend on the user, or on the client id.
    """

    user: str | None = None
    client_id: str | None = None

    def __str__(self) -> str:
        user = "" if self.user is None else f"users/{self.user}/"
        return user[:-1] if self.client_id is None else f"{user}clients/{self.client_id}"


def entity_at(path: str) -> QuotaEntity | None:
    """Return the entity with this path below /config; None if the path is not that of an entity with client quotas."""
    match path.split("/"):
        case ["users", user]:
            return QuotaEntity(user)
        case ["users", user, "clients", client_id]:
            return QuotaEntity(user, client_id)
        case ["clients", client_id]:
            return QuotaEntity(None, client_id)
    return None


class ClientQuota(NamedTuple):
    """The quotas of an entity, as texts by name; `entries` is empty if the entity has none."""

    entity: QuotaEntity
    entries: tuple[ConfigEntry, ...]


@message
class ClientQuotasConfigured(Message):
    """A message to the listener: these entities have new quotas."""

    quotas: tuple[ClientQuota, ...]


class ThrottledClient(NamedTuple):
    """A client that used more than its quota, which is `bound` per second, and how many times it was throttled.

    `owner` is the user, the client id or both that the quota is configured for, as Kafka's tools name them.
    """

    user: str
    client_id: str
    quota: str
    owner: str
    bound: float
    times: int
    longest_ms: int


@message
class ClientsThrottled(Message):
    """A message from a listener to the request handler, at most one a second: the clients that were throttled."""

    throttles: tuple[ThrottledClient, ...]


@message
class FetchThrottled(Message):
    """A message from a listener: a consumer got an empty response instead of the one with these partitions.

    The reason is a client quota. If `is_full`, the response did not name the session either, so the session ends.
    """

    session_id: int
    is_full: bool
    partitions: tuple[TopicPartition, ...]
