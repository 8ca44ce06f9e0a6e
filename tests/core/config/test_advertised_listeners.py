"""Values that a running broker accepts for `advertised.listeners`, compared with Apache's broker."""

from __future__ import annotations

import attrs
import pytest

from actors.core.config.advertised_listeners import advertised_listeners
from actors.core.refusal import Refused
from messages.cluster import Endpoint
from messages.errors import INVALID_REQUEST
from messages.node import NodeSettings

CLIENTS, NODES = Endpoint("CLIENTS", "127.0.0.1", 9092), Endpoint("NODES", "127.0.0.1", 9093)
NODE = NodeSettings(
    *(0, (CLIENTS, NODES), (CLIENTS, NODES), ("/nowhere",), "memory"),
    listener_security_protocol_map="clients:plaintext, NODES:PLAINTEXT,FREE:PLAINTEXT",
    inter_broker_listener_name="NODES",
)


@pytest.mark.parametrize(
    ("text", "endpoints"),
    [
        ("NODES://h:1", [Endpoint("NODES", "h", 1)]),
        (
            " nodes://h:0 ,, CLIENTS://a.b-c:65535, ",
            [Endpoint("NODES", "h", 9093), Endpoint("CLIENTS", "a.b-c", 65535)],
        ),
        ("NODES://[::1]:5", [Endpoint("NODES", "::1", 5)]),
    ],
)
def test_valid_advertised_listeners_become_endpoints(text: str, endpoints: list[Endpoint]) -> None:
    assert list(advertised_listeners(NODE, text)) == endpoints


NAMED = (
    "must be a listener name defined in advertised.listeners."
    " The valid options based on currently configured listeners are"
)
UNREADABLE = {
    "x": "Unable to parse x to a broker endpoint",
    "NODES://h": "Unable to parse NODES://h to a broker endpoint",
    "NODES://h:1,x,SSL://h:2": "Unable to parse x to a broker endpoint",
    "NODES://h:1,SSL://h:2": "No security protocol defined for listener SSL",
}
NOT_OURS = {
    "NODES://h:65536": "Unable to parse NODES://h:65536 to a broker endpoint",
    "NODES://:1": "Unable to parse NODES://:1 to a broker endpoint",
}
"""Values that Apache's broker accepts: it sends clients such a port, or its machine's name."""
REQUIRED = {
    "": "There must be at least one broker advertised listener.",
    "NODES://h:1,nodes://h:2": "Each listener must have a different name, listeners: NODES://h:1,nodes://h:2",
    "CLIENTS://h:1": f"inter.broker.listener.name {NAMED} CLIENTS",
    "NODES://h:1,FREE://h:2": (
        "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners."
        " Found NODES,FREE. The valid options based on the current configuration are CLIENTS,NODES"
    ),
    "NODES://0.0.0.0:1": (
        "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."
    ),
}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *((text, f"Error creating broker listeners from '{text}': {why}") for text, why in UNREADABLE.items()),
        *((text, f"Error creating broker listeners from '{text}': {why}") for text, why in NOT_OURS.items()),
        *((text, f"requirement failed: {what}") for text, what in REQUIRED.items()),
    ],
)
def test_invalid_advertised_listeners_are_refused_in_kafkas_words(text: str, words: str) -> None:
    with pytest.raises(Refused) as refused:
        advertised_listeners(NODE, text)
    assert (refused.value.code, str(refused.value)) == (INVALID_REQUEST, words)


def test_the_listener_of_controllers_must_be_reached() -> None:
    node = attrs.evolve(NODE, control_plane_listener_name="CLIENTS")
    with pytest.raises(Refused, match=f"requirement failed: control.plane.listener.name {NAMED} NODES"):
        advertised_listeners(node, "NODES://h:1")
    assert len(advertised_listeners(node, "NODES://h:1,CLIENTS://h:2")) == 2
