"""Check a change of `advertised.listeners` on a running broker, with the errors of Kafka 3.9.1's KafkaConfig.

Rule 1: Each bound listener may be named once. The inter-broker and control plane listeners must be named.
Rule 2: Port 0 is replaced by the port of the bound listener. A host is required: an empty host would mean this
        machine's name, which is looked up only at a start.

Kafka: `DynamicListenerConfig`.
"""

from __future__ import annotations

import re

from actors.core.refusal import Refused
from messages.cluster import Endpoint
from messages.node import NodeSettings

ADVERTISED_LISTENERS = "advertised.listeners"
_ENDPOINT = re.compile(r"(?P<listener>[^:/]+)://\[?(?P<host>[0-9a-zA-Z%._:-]+)\]?:(?P<port>[0-9]{1,5})")


def advertised_listeners(node: NodeSettings, text: str) -> tuple[Endpoint, ...]:
    """Return the endpoints that the node advertises with this setting.

    Args:
        text: Value of `advertised.listeners`.

    Raises:
        Refused: The value is invalid for this node.
    """
    named = _parse_endpoints(node, text)
    names, bound = list(named), {endpoint.listener: endpoint for endpoint in node.listeners}
    if not names:
        raise _requirement_failed("There must be at least one broker advertised listener.")
    _check_named("inter.broker.listener.name", node.inter_broker_listener_name, names)
    if not named.keys() <= bound.keys():
        raise _requirement_failed(
            f"{ADVERTISED_LISTENERS} listener names must be equal to or a subset of the ones defined in listeners."
            f" Found {','.join(names)}. The valid options based on the current configuration are {','.join(bound)}"
        )
    if any(endpoint.host == "0.0.0.0" for endpoint in named.values()):
        nowhere = "cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."
        raise _requirement_failed(f"{ADVERTISED_LISTENERS} {nowhere}")
    if node.control_plane_listener_name is not None:
        _check_named("control.plane.listener.name", node.control_plane_listener_name, names)
    return tuple(
        Endpoint(name, endpoint.host, endpoint.port or bound[name].port, endpoint.security_protocol)
        for name, endpoint in named.items()
    )


def _parse_endpoints(node: NodeSettings, text: str) -> dict[str, Endpoint]:
    """Return the endpoints by listener name."""
    protocols = security_protocols(node.listener_security_protocol_map)
    endpoints = []
    for item in filter(None, map(str.strip, text.split(","))):
        match = _ENDPOINT.fullmatch(item)
        if match is None or int(match["port"]) > 65535:
            raise _unreadable(text, f"Unable to parse {item} to a broker endpoint")
        listener = match["listener"].upper()
        if listener not in protocols:
            raise _unreadable(text, f"No security protocol defined for listener {listener}")
        endpoints.append(Endpoint(listener, match["host"], int(match["port"]), protocols[listener]))
    named = {endpoint.listener: endpoint for endpoint in endpoints}
    if len(named) < len(endpoints):
        raise _requirement_failed(f"Each listener must have a different name, listeners: {text.strip()}")
    return named


def _check_named(setting: str, listener: str, names: list[str]) -> None:
    if listener not in names:
        raise _requirement_failed(
            f"{setting} must be a listener name defined in {ADVERTISED_LISTENERS}."
            f" The valid options based on currently configured listeners are {','.join(names)}"
        )


def _requirement_failed(what: str) -> Refused:
    return Refused(f"requirement failed: {what}")


def _unreadable(text: str, why: str) -> Refused:
    return Refused(f"Error creating broker listeners from '{text.strip()}': {why}")


def security_protocols(text: str) -> dict[str, str]:
    """Return the security protocols by listener name.

    Args:
        text: Value of `listener.security.protocol.map`.

    Raises:
        ValueError: An item is not `listener:protocol`.
    """
    protocols = {}
    for item in filter(None, map(str.strip, text.split(","))):
        listener, colon, protocol = item.rpartition(":")
        if not (colon and listener and protocol):
            raise ValueError(item)
        protocols[listener.strip().upper()] = protocol.strip().upper()
    return protocols
