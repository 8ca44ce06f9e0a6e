"""Encode and decode the data of /brokers/topics/T, /config/topics/T and config change notifications."""

from __future__ import annotations

from collections.abc import Generator

from messages.ask import BadZnode
from messages.cluster import ConfigEntry, PartitionAssignment, ReplicaAssignment
from messages.flow.conversation import all_at_once, chunks, slices
from messages.store import ANY_VERSION
from messages.zookeeper import TopicAssignment
from zk_bridge.znodes import reading


def encode_topic(topic: TopicAssignment) -> bytes:
    """Encode /brokers/topics/T: version 2, or version 3 if the topic has an id.

    The tables `adding_replicas` and `removing_replicas` list only partitions that have such replicas.
    """
    return all_at_once(encoding_topic(topic))


def encoding_topic(topic: TopicAssignment) -> Generator[None, None, bytes]:
    """Run `encode_topic` in steps of SLICE partitions."""
    tables: dict[str, list[bytes]] = {"partitions": [], "adding_replicas": [], "removing_replicas": []}
    for part in slices(topic.partitions):
        if tables["partitions"]:
            yield
        for table, rows in (
            ("partitions", {str(n): list(each.replicas) for n, each in part}),
            ("adding_replicas", {str(n): list(each.adding) for n, each in part if each.adding}),
            ("removing_replicas", {str(n): list(each.removing) for n, each in part if each.removing}),
        ):
            if rows:
                tables[table].append(reading.encode(rows)[1:-1])  # without the braces of the JSON object
    members = [b'"%s":{%s}' % (table.encode(), b",".join(rows)) for table, rows in tables.items()]
    head = {"version": 2} if topic.topic_id is None else {"version": 3, "topic_id": topic.topic_id}
    return b"%s,%s}" % (reading.encode(head)[:-1], b",".join(members))


def decode_topic(path: str, data: bytes | None, zk_version: int = ANY_VERSION) -> TopicAssignment:
    """Return the id of a topic and its partitions, sorted by number. The topic's name is the last part of `path`.

    The data may have version 1, 2 or 3; the version is ignored. As in Kafka, a missing key counts as an empty object.
    """
    return all_at_once(decoding_topic(path, data, zk_version))


def decoding_topic(path: str, data: bytes | None, zk_version: int) -> Generator[None, None, TopicAssignment]:
    """Run `decode_topic` in steps of SLICE partitions, because a topic may have ten thousand."""
    tables: list[dict[int, tuple[int, ...]]] = []
    try:
        members = reading.parse(data)
        topic_id = reading.member(members, "topic_id", str, None)
        for name in ("partitions", "adding_replicas", "removing_replicas"):
            table: dict[int, tuple[int, ...]] = {}
            for part in chunks(reading.member(members, name, dict, {}).items()):
                if table:
                    yield
                for key, value in part:
                    table[reading.number(reading.decimal(key), "a partition")] = reading.broker_ids(
                        value, f"{name} of {key}"
                    )
            tables.append(table)
    except reading.InvalidValue as torn:
        raise BadZnode(f"{path}: {torn}") from None
    replicas, adding, removing = tables
    found: list[PartitionAssignment] = []
    settled: dict[tuple[int, ...], ReplicaAssignment] = {}
    for some in slices(sorted(replicas.items())):
        if found:
            yield
        for partition, ids in some:
            if partition in adding or partition in removing:
                assignment = ReplicaAssignment(ids, adding.get(partition, ()), removing.get(partition, ()))
            else:
                assignment = settled.get(ids) or settled.setdefault(ids, ReplicaAssignment(ids))
            found.append(PartitionAssignment(partition, assignment))
    return TopicAssignment(path.rpartition("/")[2], tuple(found), topic_id, zk_version)


def encode_config(entries: tuple[ConfigEntry, ...]) -> bytes:
    """Encode /config/topics/T: the overrides, with values as text."""
    return reading.encode({"version": 1, "config": dict(entries)})


def decode_config(path: str, data: bytes | None) -> tuple[ConfigEntry, ...]:
    """Return the overrides, sorted by name; empty if the data is null or has no "config" key.

    As in Kafka, the version is ignored.
    """

    def read(data: bytes | None) -> tuple[ConfigEntry, ...]:
        if not data:
            return ()
        config = reading.member(reading.parse(data), "config", dict, {})
        return tuple(
            ConfigEntry(reading.valid_text(key, "a name"), reading.valid_text(value, key))
            for key, value in sorted(config.items())
        )

    entries: tuple[ConfigEntry, ...] = reading.naming(path, data, read)
    return entries


def encode_config_change(entity_path: str) -> bytes:
    """Encode /config/changes/config_change_N, version 2. `entity_path` is, for example, "topics/T"."""
    return reading.encode({"version": 2, "entity_path": entity_path})


def decode_config_change(path: str, data: bytes | None) -> str:
    """Return a notification's entity path (version 2) or entity_type/entity_name (version 1). Raises BadZnode."""

    def read(data: bytes | None) -> str:
        members = reading.parse(data)
        version = reading.number_member(members, "version")
        if version == 1:
            return "/".join(
                reading.valid_text(reading.member(members, key, str), key) for key in ("entity_type", "entity_name")
            )
        if version != 2:
            raise reading.InvalidValue(f"version {version} is not supported, only 1 and 2")
        return reading.valid_text(reading.member(members, "entity_path", str), "entity_path")

    entity: str = reading.naming(path, data, read)
    return entity
