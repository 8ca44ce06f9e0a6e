"""Encode and decode the data of /brokers/ids/N (controller.md 2.3)."""

from __future__ import annotations

import re
from typing import Any

from messages.cluster import Broker, Endpoint
from messages.protocol_version import at_least
from zk_bridge.znodes import reading

_ENDPOINT = re.compile(r"([^:/\s]+)://(\[[^\[\]\s]*\]|[^:\[\]/\s]*):(-?[0-9]{1,10})")
REGISTRATION_VERSIONS = (("2.7-IV0", 5), ("0.10.0-IV1", 4))
"""Minimum inter.broker.protocol.version and its version of a registration. Below the last it is 2."""


def registration_version(ibp: str) -> int:
    """Return the version of /brokers/ids/N for an inter.broker.protocol.version."""
    return next((version for since, version in REGISTRATION_VERSIONS if at_least(ibp, since)), 2)


def encode_broker(broker: Broker, timestamp_ms: int, ibp: str) -> bytes:
    """Encode /brokers/ids/N (controller.md 2.3).

    host and port are those of the first PLAINTEXT endpoint. Without such an endpoint, host is null and port is -1.
    """
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
    return reading.encode(members)


def decode_broker(path: str, data: bytes | None, epoch: int) -> Broker:
    """Decode a registration of any version (1 to 5 are known; newer ones are read like 5).

    Args:
        path: The znode's path; its last part is the broker's id.
        data: The znode's data.
        epoch: The znode's czxid, which is the broker epoch.

    Raises:
        BadZnode: The data or the id is invalid.
    """

    def read(data: bytes | None) -> Broker:
        members = reading.parse(data)
        broker_id = reading.number(reading.decimal(path.rpartition("/")[2]), "the broker's id", least=0)
        version = reading.number_member(members, "version")
        if version < 1:
            raise reading.InvalidValue(f"version {version} is not supported, only 1 and above")
        if version == 1:
            host, port = (
                reading.valid_text(reading.member(members, "host", str), "host"),
                reading.number_member(members, "port"),
            )
            endpoints: tuple[Endpoint, ...] = (Endpoint("PLAINTEXT", host, port),)
        else:
            endpoints = _endpoints(members)
        rack = reading.member(members, "rack", str, None)
        return Broker(
            id=broker_id,
            endpoints=endpoints,
            epoch=epoch,
            rack=None if rack is None else reading.valid_text(rack, "rack"),
            jmx_port=reading.number_member(members, "jmx_port"),
        )

    broker: Broker = reading.naming(path, data, read)
    return broker


def is_broker_id(name: str) -> bool:
    """Return whether this is the name of a registration. Kafka writes ids as plain decimals."""
    return re.fullmatch(r"0|[1-9][0-9]{0,9}", name, re.ASCII) is not None and int(name) <= reading.INT32


def _endpoints(members: dict[str, Any]) -> tuple[Endpoint, ...]:
    given = reading.member(members, "listener_security_protocol_map", dict, None)
    protocols = (
        {} if given is None else {reading.valid_text(key, "a listener").upper(): value for key, value in given.items()}
    )
    endpoints = []
    for each in reading.member(members, "endpoints", list):
        match = _ENDPOINT.fullmatch(reading.valid_text(each, "endpoints"))
        if match is None:
            raise reading.InvalidValue(f"{reading.shown(each)} is no endpoint, expected LISTENER://host:port")
        listener, host = match[1].upper(), match[2].strip("[]")
        if given is not None and listener not in protocols:
            raise reading.InvalidValue(f"listener {listener} is not in listener_security_protocol_map")
        protocol = reading.valid_text(protocols.get(listener, listener), f"the protocol of {listener}")
        endpoints.append(Endpoint(listener, host, reading.number(int(match[3]), "a port", -1, 65535), protocol))
    if len({end.listener for end in endpoints}) < len(endpoints):
        raise reading.InvalidValue(f"a listener is named twice: {', '.join(end.listener for end in endpoints)}")
    return tuple(endpoints)
