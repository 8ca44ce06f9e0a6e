"""Read the ssl.* settings of a listener, or of the connections to ZooKeeper, and make contexts of OpenSSL from them.

Rule 1: a listener between brokers must be able to connect to itself, as in Kafka: otherwise the node does not start.
Rule 2: Python cannot select among the cipher suites of TLS 1.3. A list without any of them disables TLS 1.3, and a list
        with some of them is an error.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

from actors.core.config.broker_config import STORES
from actors.core.security.distinguished_name import alternative_names_of, parse_rules, principal_of, subject_of
from actors.core.security.listener_security import Tls
from actors.node.key_stores import PEM, TYPES, Identity, pem_of, read_identity, read_trusted
from messages.node_settings import items

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
SUITES_OF_TLS_1_3 = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
WITHOUT_EFFECT = tuple(
    f"ssl.{each}"
    for each in ("provider", "keymanager.algorithm", "trustmanager.algorithm", "secure.random.implementation")
)
"""Settings of Java's implementation."""
ALLOWANCES = ("ssl.allow.dn.changes", "ssl.allow.san.changes")
"""What a new certificate of a running listener may lack."""

Of = Callable[..., str]
"""Function (name, default="") -> the value of a setting."""


class Stores(NamedTuple):
    """What a listener reads from its stores.

    Attributes:
        identity: The key and its certificates; None without a key store.
        trusted: The trusted certificates in PEM; "" for those of the system.
    """

    identity: Identity | None
    trusted: str


def listener_tls(of: Of, is_between: bool) -> Tls:
    """Return how the connections of a listener are encrypted.

    Args:
        of: The settings of the listener.
        is_between: Whether brokers connect to this listener.

    Raises:
        ValueError: A setting is wrong.
    """
    asked = of("ssl.client.auth", "none")
    if asked not in CLIENT_AUTH:
        raise ValueError(f"ssl.client.auth={asked} is not {', '.join(CLIENT_AUTH)}")
    for name in (*WITHOUT_EFFECT, *ALLOWANCES):
        of(name)
    rules = parse_rules(of("ssl.principal.mapping.rules", "DEFAULT"))
    stores = read_stores(of)
    if stores.identity is None:
        raise ValueError("ssl.keystore.location is missing")
    server, client = (context_of(of, kind, stores) for kind in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT))
    server.num_tickets = 0  # a ticket would carry an identity past a changed truststore
    server.verify_mode = CLIENT_AUTH[asked]
    if is_between:
        _connect_in_memory(server, client)
    return Tls(server, client, partial(principal_of, rules=rules), stores.identity.certificate)


def sources(of: Of) -> tuple[object, ...]:
    """Return what decides whether the stores are read anew: their settings, and the times of their files."""
    paths = [Path(of(f"ssl.{each}store.location") or os.devnull) for each in ("key", "trust")]
    return *map(of, STORES), *(path.stat().st_mtime_ns if path.is_file() else 0 for path in paths)


def check_replacement(old: bytes, new: bytes, of: Of) -> None:
    """Check that a certificate may replace that of a running listener. Raises ValueError.

    Kafka: `SslFactory.CertificateEntries.ensureCompatible`.
    """
    names = [subject_of(each) for each in (old, new)]
    if names[0] != names[1] and of("ssl.allow.dn.changes", "false").lower() != "true":
        raise ValueError(f"Keystore DistinguishedName does not match: existing={names[0]}, new={names[1]}")
    lost = alternative_names_of(old) - alternative_names_of(new)
    if lost and of("ssl.allow.san.changes", "false").lower() != "true":
        raise ValueError(f"Keystore SubjectAltNames do not match: {len(lost)} of the existing names are missing")


def zookeeper_tls(words: Mapping[str, str]) -> Of:
    """Return the zookeeper.ssl.* settings as those of a listener. Java's ZooKeeper client has other defaults."""
    own = {name.removeprefix("zookeeper."): value for name, value in words.items()}
    own = {name: value for name, value in own.items() if value or name.endswith(".algorithm")}
    own["ssl.protocol"] = own.get("ssl.protocol", "TLSv1.2")
    own["ssl.enabled.protocols"] = own.get("ssl.enabled.protocols", own["ssl.protocol"])
    own["ssl.key.password"] = own.get("ssl.keystore.password", "")
    for store in ("ssl.keystore", "ssl.truststore"):
        if own.get(f"{store}.location", "").endswith(".pem"):
            own[f"{store}.type"] = own.get(f"{store}.type", PEM)
        if own.get(f"{store}.type", "").upper() == PEM:
            own.pop(f"{store}.password", None)

    def value_of(name: str, default: str = "") -> str:
        return own.get(name, default)

    return value_of


def context_of(of: Of, kind: int, stores: Stores) -> ssl.SSLContext:
    """Return the context of a server or client. Raises ValueError."""
    enabled = items(of("ssl.enabled.protocols", "TLSv1.2,TLSv1.3"))
    if of("ssl.protocol", "TLSv1.3") not in ("TLS", *VERSIONS) or not enabled or not set(enabled) <= VERSIONS.keys():
        raise ValueError(f"ssl.protocol and ssl.enabled.protocols take {' and '.join(VERSIONS)}")
    algorithm = of("ssl.endpoint.identification.algorithm", "https").lower()
    if algorithm not in ("", "https"):
        raise ValueError(f"ssl.endpoint.identification.algorithm={algorithm} is not https or empty")
    context = ssl.SSLContext(kind)
    if suites := items(of("ssl.cipher.suites")):
        enabled = _select_suites(context, suites, enabled)
    versions = sorted(VERSIONS[each] for each in enabled)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Java, any trusted certificate will do
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION
    try:
        if stores.identity is not None:
            _load(context, stores.identity)
    except ssl.SSLError as error:
        raise ValueError(f"the key store cannot be used, or ssl.key.password is wrong: {_reason(error)}") from None
    try:
        if stores.trusted:
            context.load_verify_locations(cadata=stores.trusted)
        else:
            context.load_default_certs()
    except ssl.SSLError as error:
        raise ValueError(f"the trust store cannot be used: {_reason(error)}") from None
    if kind == ssl.PROTOCOL_TLS_CLIENT:
        context.check_hostname = algorithm == "https"
    return context


def read_stores(of: Of) -> Stores:
    """Read the key store and the trust store. Raises ValueError."""
    key, chain, key_password = (
        of(f"ssl.{each}") for each in ("keystore.key", "keystore.certificate.chain", "key.password")
    )
    if bool(key) != bool(chain):
        raise ValueError("ssl.keystore.key and ssl.keystore.certificate.chain must be set together")
    identity = _read(of, "key", "private key", key, partial(read_identity, key_password=key_password))
    if key:
        identity = Identity(_pem(of, "keystore.key", "keystore.certificate.chain").encode(), key_password)
    certificates = of("ssl.truststore.certificates")
    trusted = _read(of, "trust", "trust certificates", certificates, read_trusted)
    return Stores(identity, _pem(of, "truststore.certificates") if certificates else trusted or "")


def _pem(of: Of, *names: str) -> str:
    try:
        return "".join(pem_of(of(f"ssl.{name}")) for name in names)
    except ValueError as error:
        raise ValueError(f"ssl.{' or ssl.'.join(names)} is wrong: {error}") from None


def _read(of: Of, what: str, inline: str, text: str, read: Callable[..., Any]) -> Any:
    """Read the store that a location names; None without a location. Kafka: `DefaultSslEngineFactory`."""
    name = f"ssl.{what}store"
    type, path, password = of(f"{name}.type", "JKS").upper(), of(f"{name}.location"), of(f"{name}.password")
    if type not in TYPES:
        raise ValueError(f"{name}.type={type} is not {', '.join(TYPES)}")
    if text and path:
        raise ValueError(f"Both SSL {what} store location and separate {inline} are specified.")
    if text and type != PEM:
        raise ValueError(f"SSL {inline} can be specified only for PEM, but {what} store type is {type}.")
    if password and type == PEM:
        raise ValueError(f"SSL {what} store password cannot be specified with PEM format")
    if password and not path:
        raise ValueError(f"SSL {what} store is not specified, but {what} store password is specified.")
    if path and what == "key" and not password and type != PEM:
        raise ValueError("SSL key store is specified, but key store password is not specified.")
    try:
        return read(type, path, password) if path else None
    except (ValueError, OSError) as error:
        raise ValueError(
            f"Failed to load SSL {what}store of type {type}: {name}.location={path}: {_reason(error)}"
        ) from None


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return str(error.reason or error)
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _select_suites(context: ssl.SSLContext, suites: list[str], enabled: list[str]) -> list[str]:
    """Enable cipher suites, and return the enabled versions that have any (rule 2)."""
    newest = SUITES_OF_TLS_1_3.intersection(suites)
    older = [suite for suite in suites if suite not in newest]
    if newest and newest != SUITES_OF_TLS_1_3 and "TLSv1.3" in enabled:
        missing = ", ".join(sorted(SUITES_OF_TLS_1_3 - newest))
        raise ValueError(f"ssl.cipher.suites has no {missing}: the suites of TLSv1.3 can only be enabled together")
    names = [_openssl_name(suite) for suite in older]
    context.set_ciphers("DEFAULT")
    known = {each["name"] for each in context.get_ciphers()}
    if wrong := [suite for suite, name in zip(older, names, strict=True) if name not in known]:
        raise ValueError(f"ssl.cipher.suites: Unsupported CipherSuite: {', '.join(wrong)}")
    if older:
        context.set_ciphers(":".join(names))
    having = [version for version, found in (("TLSv1.2", older), ("TLSv1.3", newest)) if found and version in enabled]
    if not having:
        raise ValueError("ssl.cipher.suites has no suite of ssl.enabled.protocols")
    return having


def _openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a cipher suite of TLS 1.2."""
    name = re.sub(r"^TLS_(RSA_WITH_)?|WITH_|(?<=[0-9])_CBC|(?<=POLY1305)_SHA256", "", suite)
    return re.sub("AES_([0-9])", r"AES\1", name).replace("_", "-")


def _load(context: ssl.SSLContext, identity: Identity) -> None:
    """Load a key from memory, although OpenSSL takes files only."""
    # The temporary file is readable by this user only, and it is deleted at once.
    with os.fdopen(os.memfd_create("key"), "wb") if hasattr(os, "memfd_create") else NamedTemporaryFile() as file:
        file.write(identity.pem)
        file.flush()
        path = file.name if isinstance(file.name, str) else f"/proc/self/fd/{file.fileno()}"
        context.load_cert_chain(path, password=lambda: identity.password)


def _connect_in_memory(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Check that a client with these settings can connect to a server with them (rule 1). Raises ValueError."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    check, client.check_hostname = client.check_hostname, False
    peers = [client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True)]
    try:
        for _ in range(4):
            for peer in list(peers):
                try:
                    peer.do_handshake()
                    peers.remove(peer)
                except ssl.SSLWantReadError:
                    continue
    except ssl.SSLError as error:
        raise ValueError(
            "A client SSLEngine created with the provided settings can't connect to a server SSLEngine created with"
            f" those settings: {_reason(error)}"
        ) from None
    finally:
        client.check_hostname = check
