"""Read how a command connects to a secured cluster from a file of Kafka's client properties (`--command-config`)."""

from __future__ import annotations

import ssl
from pathlib import Path

import attrs

from actors.core.security.jaas import parse_jaas
from actors.node.properties import read_properties
from actors.node.security_settings import MODULES, SPOKEN_PROTOCOLS, Messages, client_messages
from actors.node.tls_settings import context_of, read_stores


@attrs.frozen(repr=False)
class ClientSecurity:
    """How a client connects.

    Attributes:
        protocol: The security protocol of the listener.
        tls: The context of TLS; None without TLS.
        mechanism: The SASL mechanism; "" without SASL.
        messages: Starts an exchange of the mechanism; None without SASL.
    """

    protocol: str = "PLAINTEXT"
    tls: ssl.SSLContext | None = None
    mechanism: str = ""
    messages: Messages | None = None


def read_client_security(path: Path) -> ClientSecurity:
    """Return the security in a file of client properties.

    Raises:
        ValueError: A setting is invalid; the text does not contain a secret.
        OSError: The file cannot be read.
    """
    properties = {name: value.strip() for name, value in read_properties(path).items()}

    def value_of(name: str, default: str = "") -> str:
        return properties.get(name, default)

    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in SPOKEN_PROTOCOLS:
        raise ValueError(f"security.protocol={protocol} is not one of {', '.join(SPOKEN_PROTOCOLS)}")
    tls = None
    if protocol.endswith("SSL"):
        tls = context_of(value_of, ssl.PROTOCOL_TLS_CLIENT, read_stores(value_of))
    if not protocol.startswith("SASL"):
        return ClientSecurity(protocol, tls)
    mechanism = properties.get("sasl.mechanism", "GSSAPI")
    if mechanism not in MODULES:
        raise ValueError(f"sasl.mechanism={mechanism} is not one of {', '.join(MODULES)}")
    entry = parse_jaas(properties.get("sasl.jaas.config", ""))
    messages = client_messages(mechanism, entry)
    if entry.module != MODULES[mechanism] or messages is None:
        raise ValueError(f"sasl.jaas.config needs {MODULES[mechanism]} with a credential of {mechanism}")
    return ClientSecurity(protocol, tls, mechanism, messages)
