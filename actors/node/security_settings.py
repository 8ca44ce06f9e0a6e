"""Read the security of each listener from a server.properties.

Rule 1: a setting of a listener has the prefix `listener.name.<listener>.`, in lower case; without the prefix it counts
        for all listeners. `sasl.jaas.config` has the prefix of its listener and of its mechanism.
Rule 2: everything that is read here is reported as honoured. A security setting that is not read is refused
        (`settings`).
Rule 3: secrets are in the result only, never in NodeSettings, which traces store.
"""

from __future__ import annotations

import secrets
import ssl
import time
import urllib.parse
from collections.abc import Callable, Generator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import attrs

from actors.core.security.jaas import JaasEntry, parse_jaas
from actors.core.security.listener_security import ListenerSecurity, SaslClient, Security, Tls
from actors.core.security.oauthbearer import OAUTHBEARER, VALIDATOR, login, oauthbearer, token_rules, validate_token
from actors.core.security.sasl_exchange import Exchange, SaslIdentity, plain, plain_messages
from actors.core.security.sasl_server import SaslMechanism
from actors.core.security.scram import HASHES, ScramClient, ScramServer
from actors.gateway.vault import Vault
from actors.node import tls_settings
from actors.node.password_encoder import PasswordEncoder
from actors.node.settings_table import KNOWN
from actors.node.signed_tokens import SignedTokens
from messages.node_settings import SETTINGS, NodeSettings, SettingType, items
from messages.security import Secret
from zk_bridge.store import StoreSecurity

SPOKEN_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PLAIN = "PLAIN"
MODULES = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    **dict.fromkeys(HASHES, "org.apache.kafka.common.security.scram.ScramLoginModule"),
    OAUTHBEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
"""The supported mechanisms, with the login module that a JAAS entry must name."""
SIGNED = "OAuthBearerValidatorCallbackHandler"
"""Kafka's class for the validation of signed tokens."""
_HANDLER = f"{OAUTHBEARER.lower()}.sasl.server.callback.handler.class"
_OF_SIGNED = {
    "jwks.endpoint.url": "",
    "expected.audience": "",
    "expected.issuer": "",
    "clock.skew.seconds": "30",
    "sub.claim.name": "sub",
}
"""Settings of the validation of signed tokens, without their prefix, and their defaults."""
USER = "user_"
"""Prefix of the options of PLAIN that are a user's password."""

SET_ACL = "zookeeper.set.acl"
SASL_USER, SASL_PASSWORD = "zookeeper.sasl.username", "zookeeper.sasl.password"
"""The credential for ZooKeeper. Kafka has none of these settings: it reads a JAAS file of Java's."""

_TYPES = {setting.name: setting.type for setting in SETTINGS}


class ReadSecurity(NamedTuple):
    """The security of the listeners.

    Attributes:
        listeners: The protected listeners.
        honoured: Names of the settings that were read.
        errors: A sentence for each error.
        warnings: A sentence for each listener that discloses passwords.
        vault: Keeps the credentials of users.
        stores: Reads the stores of listeners anew.
        zookeeper: How the session with ZooKeeper is protected.
    """

    listeners: Security
    honoured: frozenset[str]
    errors: list[str]
    warnings: list[str]
    vault: Vault
    stores: StoresAdapter
    zookeeper: StoreSecurity


def read_security(properties: Mapping[str, str], settings: NodeSettings) -> ReadSecurity:
    """Return the security of a node's listeners."""
    reader = _SecurityReader(properties, settings)
    listeners = {
        endpoint.listener: reader.listener(endpoint.listener, endpoint.security_protocol)
        for endpoint in settings.listeners
        if endpoint.security_protocol != "PLAINTEXT"
    }
    zookeeper = reader.zookeeper()
    stores = StoresAdapter(properties, settings, listeners, reader.vault)
    found = frozenset(reader.honoured), reader.errors, reader.warnings
    return ReadSecurity(listeners, *found, reader.vault, stores, zookeeper)


def zookeeper_security(properties: Mapping[str, str]) -> StoreSecurity:
    """Return how a session with ZooKeeper is protected. Raises ValueError."""
    own = {name: value.strip() for name, value in properties.items() if name.startswith("zookeeper.")}
    user, password, tls = own.get(SASL_USER, ""), own.get(SASL_PASSWORD, ""), None
    if bool(user) != bool(password):
        raise ValueError(f"{SASL_USER} and {SASL_PASSWORD} must be set together")
    if user and find_spec("puresasl") is None:
        raise ValueError(f"{SASL_USER} needs pure-sasl, of the extra 'zookeeper-sasl': pip install pure-sasl")
    of = tls_settings.zookeeper_tls(own)
    if _is_true(own, "zookeeper.ssl.client.enable"):
        for name in ("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable"):
            if _is_true(own, name):
                raise ValueError(f"{name}=true is not supported: revocation is not checked")
        tls = tls_settings.context_of(of, ssl.PROTOCOL_TLS_CLIENT, tls_settings.read_stores(of))
    sets_acls = _is_true(own, SET_ACL)
    if sets_acls and not (user or (tls and of("ssl.keystore.location"))):
        raise ValueError(
            f"{SET_ACL}=true needs {SASL_USER} and {SASL_PASSWORD}, or zookeeper.ssl.client.enable=true and"
            " zookeeper.ssl.keystore.location"
        )
    return StoreSecurity(tls, user, Secret(password.encode()), sets_acls)


class StoresAdapter:
    """The I/O adapter `tls`, which reads the key stores and trust stores of listeners anew (KIP-226).

    New connections use what was read last. If the stores of one listener cannot be used, those of all listeners stay.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        settings: NodeSettings,
        listeners: dict[str, ListenerSecurity],
        vault: Vault,
    ) -> None:
        self._properties, self._settings, self._listeners, self._vault = properties, settings, listeners, vault
        self._used = {listener: tls_settings.sources(of) for listener, of in self._listeners_with_tls(())}
        """Listener -> the sources of its stores."""

    def problem(self, overrides: tuple[tuple[str, str], ...]) -> str:
        """Return why the stores that these overrides name cannot be used; "" if they can."""
        try:
            self._changed_listeners(overrides)
        except ValueError as error:
            return str(error)
        return ""

    def reload(self, overrides: tuple[tuple[str, str], ...]) -> str:
        """Use the stores that these overrides name; return as `problem`."""
        try:
            changed = self._changed_listeners(overrides)
        except ValueError as error:
            return str(error)
        self._listeners |= changed
        self._used |= {
            listener: tls_settings.sources(of)
            for listener, of in self._listeners_with_tls(overrides)
            if listener in changed
        }
        return ""

    def _listeners_with_tls(self, overrides: tuple[tuple[str, str], ...]) -> list[tuple[str, tls_settings.Of]]:
        """Return the listeners with TLS, each with its settings."""
        opened = {name: self._vault.text_of(value) for name, value in overrides}
        reader = _SecurityReader({**self._properties, **opened}, self._settings)
        return [
            (name, reader.tls_of(name, bool(each.mechanisms))) for name, each in self._listeners.items() if each.tls
        ]

    def _changed_listeners(self, overrides: tuple[tuple[str, str], ...]) -> dict[str, ListenerSecurity]:
        """Return the listeners whose stores have changed, with the new ones. Raises ValueError."""
        changed = {}
        for listener, of in self._listeners_with_tls(overrides):
            if tls_settings.sources(of) == self._used[listener]:
                continue
            old = self._listeners[listener]
            tls = tls_settings.listener_tls(of, listener == self._settings.inter_broker_listener_name)
            if old.tls is not None:
                tls_settings.check_replacement(old.tls.certificate, tls.certificate, of)
            changed[listener] = attrs.evolve(old, tls=tls)
        return changed


def _nonce() -> str:
    return secrets.token_hex(20)


Messages = Callable[[], Generator[bytes, bytes, None]]
"""Starts the client's side of an exchange (`SaslClient.messages`)."""


def client_messages(mechanism: str, entry: JaasEntry) -> Messages | None:
    """Return the client's side of a mechanism; None if the JAAS entry has no credential for a client.

    Raises:
        ValueError: A claim of an OAUTHBEARER token is invalid.
    """
    if mechanism == OAUTHBEARER:
        return login(entry, time.time)
    user, password = entry.option("username"), entry.options.get("password")
    if not user or password is None:
        return None
    if mechanism in HASHES:
        return lambda: ScramClient(mechanism, user, password, _nonce()).messages()
    return lambda: plain_messages(user, password)


class _SecurityReader:
    """A reader of the settings of listeners, which collects all errors."""

    def __init__(self, properties: Mapping[str, str], settings: NodeSettings) -> None:
        self._properties, self._settings = properties, settings
        self.honoured: set[str] = set()
        self.errors: list[str] = []
        self.warnings: list[str] = []
        token_key = self._secret("delegation.token.secret.key") or self._secret("delegation.token.master.key")
        encoder, secret = None, self._secret("password.encoder.secret")
        if secret is not None:
            try:
                encoder = PasswordEncoder(secret, self._secret("password.encoder.old.secret"), settings)
            except ValueError as error:
                self._error(str(error))
        self.vault = Vault(token_key, lambda: time.time_ns() // 1_000_000, encoder)

    def _secret(self, name: str) -> Secret | None:
        text = self._properties.get(name, "").strip()
        return Secret(text.encode()) if text else None

    def listener(self, listener: str, protocol: str) -> ListenerSecurity:
        """Return the security of one listener."""
        tls = self._tls(listener, protocol) if protocol.endswith("SSL") else None
        if not protocol.startswith("SASL"):
            return ListenerSecurity({}, tls=tls)
        settings = self._settings
        enabled = items(self._value_of(listener, "sasl.enabled.mechanisms", settings.sasl_enabled_mechanisms))
        between = settings.sasl_mechanism_inter_broker_protocol
        mechanisms: dict[str, SaslMechanism] = {}
        client = None
        for mechanism in enabled:
            if mechanism not in MODULES:
                self._error(
                    f"listener {listener} cannot use SASL mechanism {mechanism}; sasl.enabled.mechanisms takes"
                    f" {', '.join(MODULES)}" + (" (GSSAPI needs a Kerberos library)" if mechanism == "GSSAPI" else "")
                )
                continue
            entry = self._jaas(listener, mechanism)
            mechanisms[mechanism] = SaslMechanism(
                self._exchange(listener, mechanism, entry), self._lifetime(listener, mechanism)
            )
            if mechanism == between and (messages := self._messages(listener, mechanism, entry)) is not None:
                client = SaslClient(mechanism, messages)
            if mechanism == OAUTHBEARER and self._value_of(listener, _HANDLER, VALIDATOR).endswith(VALIDATOR):
                self.warnings.append(
                    f"listener {listener} takes unsecured OAUTHBEARER tokens: its clients may claim any name"
                )
            if mechanism == PLAIN and tls is None:
                self.warnings.append(f"listener {listener} receives passwords unencrypted (SASL_PLAINTEXT with PLAIN)")
        if listener in (settings.inter_broker_listener_name, settings.control_plane_listener_name):
            if between not in enabled:
                self._error(
                    "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms when SASL is used"
                    f" for inter-broker communication; it is {between}, and listener {listener} has"
                    f" {', '.join(enabled)}"
                )
            elif client is None and between in MODULES:
                lacking = "claims of this node" if between == OAUTHBEARER else "username and password"
                self._error(f"{_jaas_name(listener, between)} has no {lacking}, which this node itself needs")
        return ListenerSecurity(
            mechanisms,
            settings.sasl_server_max_receive_size,
            settings.connection_failed_authentication_delay_ms / 1000,
            client,
            tls,
        )

    def _tls(self, listener: str, protocol: str) -> Tls | None:
        """Return the TLS contexts of a listener."""
        of = self.tls_of(listener, protocol == "SASL_SSL")
        try:
            return tls_settings.listener_tls(of, listener == self._settings.inter_broker_listener_name)
        except ValueError as error:
            self._error(f"TLS of listener {listener} is wrong: {error}")
            return None

    def tls_of(self, listener: str, is_sasl: bool) -> tls_settings.Of:
        """Return the ssl.* settings of a listener."""

        def value_of(name: str, default: str = "") -> str:
            if name == "ssl.client.auth" and is_sasl:  # it needs the listener's prefix, as in Kafka
                return self._value_of(listener, name, default)
            return self._shared_value_of(listener, name, default)

        return value_of

    def zookeeper(self) -> StoreSecurity:
        """Return how the session with ZooKeeper is protected."""
        self.honoured.update(name for name in KNOWN if name.startswith("zookeeper.ssl."))
        self.honoured |= {SET_ACL, SASL_USER, SASL_PASSWORD}
        try:
            return zookeeper_security(self._properties)
        except ValueError as error:
            self._error(f"The security of ZooKeeper is wrong: {error}")
            return StoreSecurity()

    def _error(self, text: str) -> None:
        self.errors.append(text)

    def _value_of(self, listener: str, name: str, default: str) -> str:
        """Return the value of a setting of a listener (rule 1)."""
        own = f"listener.name.{listener.lower()}.{name}"
        self.honoured.add(own)
        return self._properties.get(own, default).strip()

    def _number(self, listener: str, name: str, default: int, type: SettingType) -> int:
        text = self._value_of(listener, name, str(default))
        try:
            return int(str(type.parse(text)))
        except ValueError:
            self._error(f"listener.name.{listener.lower()}.{name}={text} is wrong: it takes {type.allowed}")
            return default

    def _lifetime(self, listener: str, mechanism: str) -> int:
        """Return connections.max.reauth.ms of a mechanism."""
        name = "connections.max.reauth.ms"
        of_listener = self._number(listener, name, self._settings.connections_max_reauth_ms, _TYPES[name])
        return self._number(listener, f"{mechanism.lower()}.{name}", of_listener, _TYPES[name])

    def _jaas(self, listener: str, mechanism: str) -> JaasEntry:
        """Return the JAAS entry of a mechanism."""
        name = _jaas_name(listener, mechanism)
        self.honoured.add(name)
        try:
            if name not in self._properties:
                raise ValueError(f"it is missing, and listener {listener} has enabled {mechanism}")
            entry = parse_jaas(self._properties[name])
            if entry.module != MODULES[mechanism]:
                raise ValueError(f"its login module must be {MODULES[mechanism]}")
            if "username" in entry.options and "password" not in entry.options:
                raise ValueError("it has a username and no password")
        except ValueError as error:
            self._error(f"{name} is wrong: {error}")
            return JaasEntry(MODULES[mechanism], {})
        return entry

    def _validation(self, listener: str, entry: JaasEntry) -> Callable[[str, float], SaslIdentity]:
        """Return how a listener validates OAUTHBEARER tokens: unsecured ones, or those that local keys have signed."""
        handler = self._value_of(listener, _HANDLER, VALIDATOR).rpartition(".")[2]
        try:
            if handler == VALIDATOR:
                return partial(validate_token, rules=token_rules(entry))
            if handler != SIGNED:
                raise ValueError(f"{_HANDLER} is {VALIDATOR} or {SIGNED}")
            if listener == self._settings.inter_broker_listener_name:
                raise ValueError("nodes cannot sign tokens, so another listener must be for nodes")
            own = {
                name: self._shared_value_of(listener, f"sasl.oauthbearer.{name}", text)
                for name, text in _OF_SIGNED.items()
            }
            url = urllib.parse.urlparse(own["jwks.endpoint.url"])
            if url.scheme != "file":
                raise ValueError("sasl.oauthbearer.jwks.endpoint.url must be a file: URL")
            audiences, skew = items(own["expected.audience"]), float(own["clock.skew.seconds"])
            path = Path(urllib.parse.unquote(url.path))
            return SignedTokens(path, audiences, own["expected.issuer"], skew, own["sub.claim.name"]).validate_token
        except (ValueError, OSError) as error:
            self._error(f"OAUTHBEARER of listener {listener} is wrong: {error}")
            return validate_token

    def _shared_value_of(self, listener: str, name: str, default: str) -> str:
        """Return a setting of a listener that may also be set for all listeners."""
        self.honoured.add(name)
        return self._value_of(listener, name, self._properties.get(name, default))

    def _messages(self, listener: str, mechanism: str, entry: JaasEntry) -> Messages | None:
        try:
            return client_messages(mechanism, entry)
        except ValueError as error:
            self._error(f"{_jaas_name(listener, mechanism)} has a claim that is no number: {error}")
            return None

    def _exchange(self, listener: str, mechanism: str, entry: JaasEntry) -> Callable[[], Exchange]:
        """Return the function that starts an exchange of a mechanism."""
        if mechanism in HASHES:
            key, credentials = self.vault.key, partial(self.vault.credential, mechanism)
            return lambda: ScramServer(mechanism, credentials, _nonce(), key).respond
        if mechanism == OAUTHBEARER:
            validate = self._validation(listener, entry)
            return lambda: oauthbearer(validate, time.time)
        users = {name.removeprefix(USER): word for name, word in entry.options.items() if name.startswith(USER)}
        return lambda: plain(users)


def _is_true(words: Mapping[str, str], name: str) -> bool:
    """Return a setting that is true or false. Raises ValueError."""
    text = words.get(name, "").lower()
    if text not in ("", "true", "false"):
        raise ValueError(f"{name}={text} is not true or false")
    return text == "true"


def _jaas_name(listener: str, mechanism: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
