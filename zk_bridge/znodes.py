"""What Kafka writes into its znodes, both ways (controller.md 2.1-2.4).

Rule 1: read everything that any Kafka of ZooKeeper's times wrote: every version, any key order, unknown keys ignored.
Rule 2: write what 3.9.1 at inter.broker.protocol.version 2.6 writes; the state node byte for byte.
Rule 3: whatever else a znode holds, reading it raises BadZnode, which names the path and the reason, and nothing else.
Rule 4: the state node is read and written 100,000 times in a row: its common form has a path of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from messages.cluster import (
    Broker,
    ConfigEntry,
    Endpoint,
    LeaderIsrAndControllerEpoch,
    PartitionAssignment,
    ReplicaAssignment,
    TopicPartition,
)
from messages.conversation import BadZnode
from messages.zookeeper import NodeRegistration

INT32 = 2**31 - 1
INT64 = 2**63 - 1


def encode(value: Mapping[str, Any]) -> bytes:
    """JSON as Kafka writes it: UTF-8, no whitespace, keys in the order given."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class Torn(Exception):
    """A value is not what it must be; becomes BadZnode where the path is known."""


def _members(data: bytes | None) -> dict[str, Any]:
    if data is None:
        raise Torn("no data")
    try:
        members = json.loads(data)
    except RecursionError:
        raise Torn("nested too deeply") from None
    except ValueError as error:
        raise Torn(f"no valid JSON: {error}") from None
    if type(members) is not dict:
        raise Torn(f"a JSON object is expected, not {_shown(members)}")
    return members


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


_REQUIRED = object()


def _member(members: dict[str, Any], key: str, kind: type, default: object = _REQUIRED) -> Any:
    value = members.get(key)
    if value is None:
        if default is _REQUIRED:
            raise Torn(f"{key} is missing")
        return default
    if type(value) is not kind:
        raise Torn(f"{key} is {_shown(value)}, expected {kind.__name__}")
    return value


def _int(value: object, what: str, least: int = -INT32 - 1, most: int = INT32) -> int:
    if type(value) is not int:
        raise Torn(f"{what} is {_shown(value)}, expected a number")
    if not least <= value <= most:
        raise Torn(f"{what} is out of range: {_shown(value)}")
    return value


def _int_member(members: dict[str, Any], key: str, least: int = -INT32 - 1, default: int | None = None) -> int:
    value = members.get(key, default)
    if value is None:
        raise Torn(f"{key} is missing")
    return _int(value, key, least)


def _text(value: object, what: str) -> str:
    if type(value) is not str:
        raise Torn(f"{what} is {_shown(value)}, expected text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Torn(f"{what} is no valid text: {_shown(value)}") from None
    return value


def _ints(value: object, what: str) -> tuple[int, ...]:
    if type(value) is not list:
        raise Torn(f"{what} is {_shown(value)}, expected a list of broker ids")
    return tuple(_int(each, what) for each in value)


def _reading(path: str, data: bytes | None, read: Callable[[bytes | None], Any]) -> Any:
    try:
        return read(data)
    except Torn as torn:
        raise BadZnode(f"{path}: {torn}") from None


# ------------------------------------------------------------------------------------------------- controller


def encode_controller(broker_id: int, timestamp_ms: int) -> bytes:
    """/controller, version 1."""
    return encode({"version": 1, "brokerid": broker_id, "timestamp": str(timestamp_ms)})


def decode_controller(path: str, data: bytes | None) -> int:
    """The broker id in /controller, version 1 or 2 (3.4 and later add kraftControllerEpoch)."""
    read: int = _reading(path, data, lambda data: _int_member(_members(data), "brokerid"))
    return read


def encode_controller_epoch(epoch: int) -> bytes:
    """/controller_epoch: bare decimal text."""
    return b"%d" % epoch


def decode_controller_epoch(path: str, data: bytes | None) -> int:
    """The number in /controller_epoch."""
    if data is None or not re.fullmatch(rb"[0-9]{1,10}", data) or int(data) > INT32:
        raise BadZnode(f"{path}: a decimal number is expected, not {_shown(data)}")
    return int(data)


# ---------------------------------------------------------------------------------------------------- cluster


def encode_cluster_id(cluster_id: str) -> bytes:
    """/cluster/id; its version is text."""
    return encode({"version": "1", "id": cluster_id})


def decode_cluster_id(path: str, data: bytes | None) -> str:
    """The id in /cluster/id."""
    read: str = _reading(path, data, lambda data: _text(_member(_members(data), "id", str), "id"))
    return read


def encode_node(node: NodeRegistration) -> bytes:
    """/kafka-actors/nodes/N, ours alone."""
    return encode(
        {
            "version": 1,
            "roles": list(node.roles),
            "metrics_host": node.metrics_host,
            "metrics_port": node.metrics_port,
            "pid": node.pid,
        }
    )


def decode_node(path: str, data: bytes | None) -> NodeRegistration:
    """A node of ours; its id is the last part of `path`."""

    def read(data: bytes | None) -> NodeRegistration:
        members = _members(data)
        return NodeRegistration(
            id=_int(_decimal(path.rpartition("/")[2]), "the node's name"),
            roles=tuple(_text(role, "roles") for role in _member(members, "roles", list)),
            metrics_host=_text(_member(members, "metrics_host", str), "metrics_host"),
            metrics_port=_int_member(members, "metrics_port", least=0),
            pid=_int_member(members, "pid", least=0),
        )

    node: NodeRegistration = _reading(path, data, read)
    return node


# ---------------------------------------------------------------------------------------------------- brokers

_ENDPOINT = re.compile(r"([^:/\s]+)://(\[[^\[\]\s]*\]|[^:\[\]/\s]*):(-?[0-9]{1,10})")
FEATURES_SINCE = (2, 7)
PROTOCOL_MAP_SINCE = (0, 10, 0, 1)


def registration_version(ibp: str) -> int:
    """Version of /brokers/ids/N by inter.broker.protocol.version: 5 since 2.7-IV0, 4 since 0.10.0-IV1, else 2."""
    release, _, internal = ibp.partition("-IV")
    parts = [int(part) for part in release.split(".")]
    if parts[0] == 0:
        parts = [*parts, 0, 0, 0][:3]
        version = (*parts, int(internal) if internal else INT32)
        return 4 if version >= PROTOCOL_MAP_SINCE else 2
    return 5 if tuple(parts[:2]) >= FEATURES_SINCE else 4


def encode_broker(broker: Broker, timestamp_ms: int, ibp: str) -> bytes:
    """/brokers/ids/N (controller.md 2.3). host and port are those of the first PLAINTEXT endpoint, else null and -1."""
    version = registration_version(ibp)
    plain = next((end for end in broker.endpoints if end.security_protocol == "PLAINTEXT"), None)
    members: dict[str, Any] = {
        "version": version,
        "host": plain.host if plain else None,
        "port": plain.port if plain else -1,
        "endpoints": [
            f"{end.listener}://{f'[{end.host}]' if ':' in end.host else end.host}:{end.port}"
            for end in broker.endpoints
        ],
        "jmx_port": broker.jmx_port,
        "timestamp": str(timestamp_ms),
    }
    if version >= 3 and broker.rack is not None:
        members["rack"] = broker.rack
    if version >= 4:
        members["listener_security_protocol_map"] = {end.listener: end.security_protocol for end in broker.endpoints}
    if version >= 5:
        members["features"] = {}
    return encode(members)


def decode_broker(path: str, data: bytes | None, epoch: int) -> Broker:
    """A registration of version 1 to 5 (or newer); the broker's id is the last part of `path`, its epoch the czxid."""

    def read(data: bytes | None) -> Broker:
        members = _members(data)
        broker_id = _int(_decimal(path.rpartition("/")[2]), "the broker's id", least=0)
        version = _int_member(members, "version")
        if version < 1:
            raise Torn(f"version {version} is not supported, only 1 and above")
        if version == 1:
            host, port = _text(_member(members, "host", str), "host"), _int_member(members, "port")
            endpoints: tuple[Endpoint, ...] = (Endpoint("PLAINTEXT", host, port),)
        else:
            endpoints = _endpoints(members)
        rack = _member(members, "rack", str, None)
        return Broker(
            id=broker_id,
            endpoints=endpoints,
            epoch=epoch,
            rack=None if rack is None else _text(rack, "rack"),
            jmx_port=_int_member(members, "jmx_port"),
        )

    broker: Broker = _reading(path, data, read)
    return broker


def is_broker_id(name: str) -> bool:
    """Is this the name of a registration? Kafka writes ids as plain decimals."""
    return re.fullmatch(r"0|[1-9][0-9]{0,9}", name, re.ASCII) is not None and int(name) <= INT32


def _endpoints(members: dict[str, Any]) -> tuple[Endpoint, ...]:
    given = _member(members, "listener_security_protocol_map", dict, None)
    protocols = {} if given is None else {_text(key, "a listener").upper(): value for key, value in given.items()}
    endpoints = []
    for each in _member(members, "endpoints", list):
        match = _ENDPOINT.fullmatch(_text(each, "endpoints"))
        if match is None:
            raise Torn(f"{_shown(each)} is no endpoint, expected LISTENER://host:port")
        listener, host = match[1].upper(), match[2].strip("[]")
        if given is not None and listener not in protocols:
            raise Torn(f"listener {listener} is not in listener_security_protocol_map")
        protocol = _text(protocols.get(listener, listener), f"the protocol of {listener}")
        endpoints.append(Endpoint(listener, host, _int(int(match[3]), "a port", -1, 65535), protocol))
    if len({end.listener for end in endpoints}) < len(endpoints):
        raise Torn(f"a listener is named twice: {', '.join(end.listener for end in endpoints)}")
    return tuple(endpoints)


def _decimal(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,10}", text, re.ASCII):
        raise Torn(f"{_shown(text)} is no decimal number")
    return int(text)


# ----------------------------------------------------------------------------------------------------- topics


def encode_topic(partitions: tuple[PartitionAssignment, ...]) -> bytes:
    """/brokers/topics/T, version 2; adding and removing list only partitions where there are any."""
    return encode(
        {
            "version": 2,
            "partitions": {str(number): list(each.replicas) for number, each in partitions},
            "adding_replicas": {str(number): list(each.adding) for number, each in partitions if each.adding},
            "removing_replicas": {str(number): list(each.removing) for number, each in partitions if each.removing},
        }
    )


def decode_topic(path: str, data: bytes | None) -> tuple[PartitionAssignment, ...]:
    """The partitions of a topic by number, from version 1, 2 or 3; missing keys are empty, as for Kafka."""

    def read(data: bytes | None) -> tuple[PartitionAssignment, ...]:
        members = _members(data)
        replicas, adding, removing = (
            {_int(_decimal(key), "a partition"): _ints(value, f"{name} of {key}") for key, value in held.items()}
            for name in ("partitions", "adding_replicas", "removing_replicas")
            if (held := _member(members, name, dict, {})) is not None
        )
        return tuple(
            PartitionAssignment(number, ReplicaAssignment(each, adding.get(number, ()), removing.get(number, ())))
            for number, each in sorted(replicas.items())
        )

    partitions: tuple[PartitionAssignment, ...] = _reading(path, data, read)
    return partitions


def encode_config(entries: tuple[ConfigEntry, ...]) -> bytes:
    """/config/topics/T: overrides, values as text."""
    return encode({"version": 1, "config": dict(entries)})


def decode_config(path: str, data: bytes | None) -> tuple[ConfigEntry, ...]:
    """Overrides by name; null data and a missing key are no overrides. As by Kafka, no version is looked at."""

    def read(data: bytes | None) -> tuple[ConfigEntry, ...]:
        if not data:
            return ()
        config = _member(_members(data), "config", dict, {})
        return tuple(ConfigEntry(_text(key, "a name"), _text(value, key)) for key, value in sorted(config.items()))

    entries: tuple[ConfigEntry, ...] = _reading(path, data, read)
    return entries


def encode_config_change(entity_path: str) -> bytes:
    """/config/changes/config_change_N, version 2: `entity_path` is "topics/T" and the like."""
    return encode({"version": 2, "entity_path": entity_path})


def decode_config_change(path: str, data: bytes | None) -> str:
    """The entity path of a change notification, version 2 or 1 (entity_type and entity_name)."""

    def read(data: bytes | None) -> str:
        members = _members(data)
        version = _int_member(members, "version")
        if version == 1:
            return "/".join(_text(_member(members, key, str), key) for key in ("entity_type", "entity_name"))
        if version != 2:
            raise Torn(f"version {version} is not supported, only 1 and 2")
        return _text(_member(members, "entity_path", str), "entity_path")

    entity: str = _reading(path, data, read)
    return entity


# ------------------------------------------------------------------------------------------- partition states

_STATE = b'{"controller_epoch":%d,"leader":%d,"version":1,"leader_epoch":%d,"isr":[%s]}'
_NUMBER = rb"-?(?:0|[1-9][0-9]{0,8})"
_COMMON_STATE = re.compile(
    rb'\{"controller_epoch":(%b),"leader":(%b),"version":1,"leader_epoch":(%b),"isr":\[((?:%b(?:,%b)*)?)\]\}'
    % ((_NUMBER,) * 5)
)


def encode_state(state: LeaderIsrAndControllerEpoch) -> bytes:
    """.../state in the very bytes of 3.9.1."""
    isr = b",".join([b"%d" % broker_id for broker_id in state.isr])
    return _STATE % (state.controller_epoch, state.leader, state.leader_epoch, isr)


def decode_state(path: str, data: bytes | None, zk_version: int) -> LeaderIsrAndControllerEpoch:
    """What .../state says; `zk_version` is the znode's."""
    common = _COMMON_STATE.fullmatch(data) if data is not None else None
    if common is None:
        state: LeaderIsrAndControllerEpoch = _reading(path, data, lambda data: _decode_state(data, zk_version))
        return state
    epoch, leader, leader_epoch, isr = common.groups()
    return LeaderIsrAndControllerEpoch(
        int(leader), int(leader_epoch), tuple(map(int, isr.split(b","))) if isr else (), int(epoch), zk_version
    )


def _decode_state(data: bytes | None, zk_version: int) -> LeaderIsrAndControllerEpoch:
    members = _members(data)
    return LeaderIsrAndControllerEpoch(
        leader=_int_member(members, "leader"),
        leader_epoch=_int_member(members, "leader_epoch"),
        isr=_ints(_member(members, "isr", list), "isr"),
        controller_epoch=_int_member(members, "controller_epoch"),
        zk_version=zk_version,
    )


# ---------------------------------------------------------------------------------------------- notifications


def encode_isr_change(partitions: tuple[TopicPartition, ...]) -> bytes:
    """/isr_change_notification/isr_change_N."""
    return encode({"version": 1, "partitions": [{"topic": name, "partition": number} for name, number in partitions]})


def decode_isr_change(path: str, data: bytes | None) -> tuple[TopicPartition, ...]:
    """The partitions that a notification names."""

    def read(data: bytes | None) -> tuple[TopicPartition, ...]:
        found = []
        for each in _member(_members(data), "partitions", list):
            if type(each) is not dict:
                raise Torn(f"partitions holds {_shown(each)}, expected objects")
            name = _text(_member(each, "topic", str), "topic")
            found.append(TopicPartition(name, _int_member(each, "partition", least=0)))
        return tuple(found)

    partitions: tuple[TopicPartition, ...] = _reading(path, data, read)
    return partitions


def encode_log_dir_event(broker_id: int) -> bytes:
    """/log_dir_event_notification/log_dir_event_N; event 1 is the failure of a log directory."""
    return encode({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(path: str, data: bytes | None) -> int:
    """The broker that a notification names."""
    read: int = _reading(path, data, lambda data: _int_member(_members(data), "broker"))
    return read
