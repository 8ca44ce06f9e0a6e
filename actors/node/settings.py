"""Read NodeSettings from a server.properties file, and report all errors before the node starts.

Rule 1: an error for an invalid value contains the setting, the value and the allowed values. All errors are reported
        together.
Rule 2: an unsupported security setting is an error, because a node that ignored it would be open to all clients. One
        error lists all of them, and `insecure=True` turns this error into a warning.
Rule 3: settings of the old client quotas are named in one warning, because clients notice
        that they have no effect. One warning states how many other unsupported Kafka settings there are. Each unknown
        name has its own warning, with a similar known name if one exists.
Rule 4: a file of KRaft mode is refused with one error. process.roles without controller.quorum.voters does not mean
        KRaft mode: it is a setting of this project.
Rule 5: missing settings are derived as in Kafka 3.9 (verified with its KafkaConfig): advertised.listeners from
        listeners, log.dirs from log.dir, the connection timeout from the session timeout. As in Kafka 2.6, listeners
        are derived from host.name and port.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from actors.core.config.advertised_listeners import security_protocols
from actors.core.security.listener_security import Security
from actors.gateway.vault import Vault
from actors.node import settings_table
from actors.node.properties import read_properties
from actors.node.security_settings import SPOKEN_PROTOCOLS, StoresAdapter, read_security
from messages.cluster import Endpoint
from messages.node_settings import SETTINGS, NodeSettings, items
from zk_bridge.store import StoreSecurity

ANY_ADDRESS = ("0.0.0.0", "::")
NEAR = 0.85
"""Minimum similarity (difflib's ratio) at which an unknown name counts as a misspelt known one."""

KRAFT = ("controller.quorum.voters", "controller.quorum.bootstrap.servers", "controller.listener.names")
"""Names in a server.properties of KRaft mode. With zookeeper.connect and without process.roles, the file belongs to a
broker in ZooKeeper mode that is being migrated, and they are ignored."""
_OF_KRAFT = (
    "these are settings of KRaft mode, and this node runs in ZooKeeper mode only: {}. Remove them, and name the"
    " ZooKeeper servers in zookeeper.connect; process.roles may stay"
)

_ACTING = {setting.name: setting for setting in SETTINGS}
_ENDPOINT = re.compile(
    r"(?P<listener>[^:/]+)://(\[(?P<ipv6>[0-9a-fA-F:%.]+)\]|(?P<host>[^:/\[\]]*)):(?P<port>-?[0-9]+)"
)
_SERVER = re.compile(r"(\[[0-9a-fA-F:]+\]|[^\s:\[\]/]+)(:([0-9]+))?")


class SettingsError(Exception):
    """The settings are invalid; `messages` has one sentence for each error."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__("; ".join(messages))
        self.messages = messages


class LoadedSettings(NamedTuple):
    """The valid settings of a node, and notes about settings that have no effect.

    Attributes:
        settings: The valid settings.
        ignored: Names of settings that Kafka has but this node does not support.
        unknown: A sentence for each unknown name.
        insecure: Names of the ignored settings that request security.
        security: The protection of the listeners.
        exposed: A sentence for each listener that discloses passwords.
        vault: Keeps the credentials of users.
        stores: Reads the stores of listeners anew.
        zookeeper: How the session with ZooKeeper is protected.
    """

    settings: NodeSettings
    ignored: tuple[str, ...]
    unknown: tuple[str, ...]
    insecure: tuple[str, ...]
    security: Security
    exposed: tuple[str, ...]
    vault: Vault
    stores: StoresAdapter
    zookeeper: StoreSecurity

    @property
    def warnings(self) -> tuple[str, ...]:
        """The lines to log at the start."""
        lines = []
        if self.insecure:
            lines.append(f"without effect, so every client has full access: {', '.join(self.insecure)}")
        others = set(self.ignored) - set(self.insecure)
        for pattern, text in settings_table.NOT_DONE:
            if names := [name for name in self.ignored if pattern.fullmatch(name)]:
                lines.append(f"{text}, so these settings have no effect: {', '.join(names)}")
                others -= set(names)
        if others:
            lines.append(
                f"{len(others)} of Kafka's settings are not acted on here (kafka-actors broker --check names them)"
            )
        return (*lines, *self.exposed, *self.unknown)


def load_settings(
    path: str | Path, overrides: Mapping[str, str] | None = None, insecure: bool | None = None
) -> LoadedSettings:
    """Read a server.properties file.

    Args:
        path: The file.
        overrides: Settings that replace those of the file.
        insecure: As in `settings_of`.

    Raises:
        SettingsError: With all errors of the file.
    """
    try:
        properties = read_properties(Path(path))
    except OSError as error:
        raise SettingsError([f"{path} cannot be read: {error.strerror}"]) from None
    except ValueError as error:
        raise SettingsError([f"{path}, {error}"]) from None
    return settings_of({**properties, **(overrides or {})}, insecure)


def settings_of(properties: Mapping[str, str], insecure: bool | None = None) -> LoadedSettings:
    """Return the settings of these properties.

    Args:
        properties: Names and texts.
        insecure: Whether unsupported security settings are only a warning. None means no, and that the caller has no
            option --insecure, which the error would name.

    Raises:
        SettingsError: With all errors of the properties.
    """
    quorum = [f"{name}={properties[name]}" for name in KRAFT if properties.get(name, "").strip()]
    if quorum and ("process.roles" in properties or "zookeeper.connect" not in properties):
        raise SettingsError([_OF_KRAFT.format(", ".join(quorum))])
    reader = _PropertiesReader(properties)
    settings = reader.settings()
    security = read_security(properties, settings)
    idle = [name for name in properties if name not in _ACTING and name not in security.honoured]
    ignored = [
        name
        for name in idle
        if name in settings_table.KNOWN
        or name.startswith(settings_table.KNOWN_PREFIXES)
        or settings_table.SECURITY.fullmatch(name)
    ]
    asking = tuple(
        name
        for name in ignored
        if settings_table.SECURITY.fullmatch(name)
        and properties[name].strip() not in ("", settings_table.SECURITY_NOT_ASKED.get(name))
    )
    errors = [*dict.fromkeys(reader.errors), *security.errors]
    if asking and not insecure:
        errors.append(
            f"Unsupported security settings: {', '.join(asking)}. Any client that reaches the node could do anything."
            f" Remove them{'' if insecure is None else ' or pass --insecure'}."
        )
    if errors:
        raise SettingsError(errors)
    unknown = (_unknown(name) for name in idle if name not in ignored)
    protection = security.listeners, tuple(security.warnings), security.vault, security.stores, security.zookeeper
    return LoadedSettings(settings, tuple(ignored), tuple(unknown), asking, *protection)


def fields_of(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of the NodeSettings fields that these properties set, by field name.

    Raises:
        SettingsError: Some properties do not correspond to a field, or, if all do, some values are invalid.
    """
    errors = [
        f"{name} cannot be set here" if name in _ACTING else _unknown(name)
        for name in properties
        if not (name in _ACTING and _ACTING[name].field)
    ]
    if not errors:
        reader = _PropertiesReader(properties)
        errors = [error for error in reader.errors if error.partition("=")[0] in properties]
        fields = {_ACTING[name].field: reader.value(name) for name in properties}
    if errors:
        raise SettingsError(errors)
    return fields


def _unknown(name: str) -> str:
    from difflib import get_close_matches  # only a wrong name needs it

    nearest = get_close_matches(name, [*_ACTING, *sorted(settings_table.KNOWN)], n=1, cutoff=NEAR)
    return f"{name} is no known setting" + (f"; did you mean {nearest[0]}?" if nearest else "")


class _PropertiesReader:
    """A reader of properties, which collects all errors before it reports them."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._texts = {name: properties[name].strip() for name in _ACTING if name in properties}
        self.errors: list[str] = []
        self._values = {setting.name: self._parse(setting.name) for setting in SETTINGS}

    def value(self, name: str) -> Any:
        """Return the value of a setting."""
        return self._values[name]

    def settings(self) -> NodeSettings:
        """Return all settings. They are valid only if `errors` is empty afterwards."""
        fields: dict[str, Any] = {setting.field: self._values[setting.name] for setting in SETTINGS if setting.field}
        self._follow_host_and_port()
        listeners = self._endpoints("listeners")
        advertised = self._advertised_listeners(listeners)
        log_dirs = self._log_dirs()
        self._check_queued_bytes()
        return NodeSettings(
            node_id=self._node_id(),
            listeners=listeners,
            advertised_listeners=advertised,
            inter_broker_listener_name=(between := self._inter_broker_listener_name(advertised)),
            control_plane_listener_name=self._control_plane_listener_name(listeners, advertised, between),
            log_dirs=log_dirs,
            zookeeper_connect=self._zookeeper_connect(),
            zookeeper_connection_timeout_ms=self._values["zookeeper.connection.timeout.ms"]
            or self._values["zookeeper.session.timeout.ms"],
            trace_dir=self._trace_dir(log_dirs),
            **fields,
        )

    def _check_queued_bytes(self) -> None:
        """If the pool for received requests is limited, check that it has space for the largest request."""
        queued, largest = self._values["queued.max.request.bytes"], self._values["socket.request.max.bytes"]
        if 0 <= queued < largest:
            self._wrong("queued.max.request.bytes", f"it takes -1, or at least socket.request.max.bytes={largest}")

    def _wrong(self, name: str, allowed: str) -> None:
        self.errors.append(f"{name}={self._texts.get(name, _ACTING[name].default)} is wrong: {allowed}")

    def _parse(self, name: str) -> Any:
        setting = _ACTING[name]
        text = self._texts.get(name, setting.default)
        if text is None:
            return None
        try:
            return setting.type.parse(text)
        except ValueError:
            self._wrong(name, f"it takes {setting.type.allowed}")
            return None if setting.default is None else setting.type.parse(setting.default)

    def _node_id(self) -> int:
        """Return the id in broker.id or node.id, or -1 if the node has no id yet and may get a generated one."""
        broker_id, node_id = self._values["broker.id"], self._values["node.id"]
        if broker_id is not None and node_id is not None and broker_id != node_id:
            self._wrong("node.id", f"broker.id={broker_id}, and the two must be equal")
        configured = broker_id if broker_id is not None else node_id
        highest = self._values["reserved.broker.max.id"]
        if any(self._texts.get(name) and self._values[name] is None for name in ("broker.id", "node.id")):
            return 0
        if configured is None or configured < 0:
            if self._values["broker.id.generation.enable"]:
                return -1
            self.errors.append("broker.id is missing: without broker.id.generation.enable every node needs its own")
            return 0
        if self._values["broker.id.generation.enable"] and configured > highest:
            self._wrong(
                "broker.id",
                f"it takes a whole number up to reserved.broker.max.id={highest},"
                " or any with broker.id.generation.enable=false",
            )
        return int(configured)

    def _follow_host_and_port(self) -> None:
        """If listeners or advertised.listeners is missing, derive it from the host and port settings."""
        configured = self._values
        host, port = configured["host.name"], configured["port"]
        if (
            configured["advertised.listeners"] is None
            and {"advertised.host.name", "advertised.port"} & self._texts.keys()
        ):
            public = configured["advertised.port"]
            place = f"{configured['advertised.host.name'] or host}:{port if public is None else public}"
            self._texts["advertised.listeners"] = configured["advertised.listeners"] = f"PLAINTEXT://{place}"
        if configured["listeners"] is None:
            self._texts["listeners"] = configured["listeners"] = f"PLAINTEXT://{host}:{port}"

    def _protocols(self) -> dict[str, str]:
        """Return the security protocol of each listener (listener.security.protocol.map)."""
        try:
            return security_protocols(self._values["listener.security.protocol.map"])
        except ValueError:
            self._wrong("listener.security.protocol.map", "it takes LISTENER:PROTOCOL pairs, separated by commas")
            return {}

    def _endpoints(self, name: str) -> tuple[Endpoint, ...]:
        """Return the listeners of a setting.

        There must be at least one. Names must be distinct. In `listeners`, ports must be distinct too.
        """
        protocols = self._protocols()
        endpoints: list[Endpoint] = []
        for item in items(self._values[name]):
            match = _ENDPOINT.fullmatch(item)
            port = int(match["port"]) if match else -1
            if match is None or not 0 <= port <= 65535:
                self._wrong(name, f"'{item}' should be LISTENER://host:port with a port from 0 to 65535")
                continue
            listener = match["listener"].upper()
            protocol = protocols.get(listener)
            if protocol is None:
                self._wrong(name, f"listener.security.protocol.map has no security protocol for listener {listener}")
            elif protocol not in SPOKEN_PROTOCOLS:
                spoken = ", ".join(SPOKEN_PROTOCOLS)
                self._wrong(name, f"listener {listener} wants {protocol}; only {spoken} are spoken here")
            else:
                endpoints.append(Endpoint(listener, match["ipv6"] or match["host"] or "", port, protocol))
        if not items(self._values[name]):
            self._wrong(name, "it takes at least one LISTENER://host:port")
        if len({endpoint.listener for endpoint in endpoints}) < len(endpoints):
            self._wrong(name, "each listener must have a different name")
        bound = [endpoint.port for endpoint in endpoints if endpoint.port]
        if name == "listeners" and len(set(bound)) < len(bound):
            self._wrong(name, "each listener must have a different port")
        return tuple(endpoints)

    def _advertised_listeners(self, listeners: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        """Return advertised.listeners or, if it is not set, `listeners`.

        A missing host is replaced by this machine's name.
        """
        configured = self._values["advertised.listeners"] is not None
        endpoints = self._endpoints("advertised.listeners") if configured else listeners
        if any(endpoint.host in ANY_ADDRESS for endpoint in endpoints):
            self._wrong(
                "advertised.listeners" if configured else "listeners",
                "clients cannot connect to the wildcard address; set a host in advertised.listeners",
            )
        bound = {endpoint.listener for endpoint in listeners}
        if bound and any(endpoint.listener not in bound for endpoint in endpoints):
            self._wrong("advertised.listeners", f"it may name only what listeners binds: {', '.join(sorted(bound))}")
        here = socket.getfqdn() if any(not endpoint.host for endpoint in endpoints) else ""
        return tuple(
            Endpoint(endpoint.listener, endpoint.host or here, endpoint.port, endpoint.security_protocol)
            for endpoint in endpoints
        )

    def _inter_broker_listener_name(self, advertised: tuple[Endpoint, ...]) -> str:
        """Return the name of the listener for connections between nodes. It must be advertised."""
        name = self._values["inter.broker.listener.name"]
        if name is not None and "security.inter.broker.protocol" in self._texts:
            self._wrong("inter.broker.listener.name", "security.inter.broker.protocol is set too; only one may be")
        listener = str(name or self._values["security.inter.broker.protocol"]).upper()
        names = [endpoint.listener for endpoint in advertised]
        if names and listener not in names:
            setting = "inter.broker.listener.name" if name is not None else "security.inter.broker.protocol"
            self._wrong(setting, f"it must name one of the advertised listeners: {', '.join(names)}")
        return listener

    def _control_plane_listener_name(
        self, listeners: tuple[Endpoint, ...], advertised: tuple[Endpoint, ...], between: str
    ) -> str | None:
        """Return the name of the listener that is reserved for the controller's requests; None if there is none.

        It must be advertised.
        """
        name = self._values["control.plane.listener.name"]
        if name is None:
            return None
        listener = str(name).upper()
        for endpoints, what in ((listeners, "listeners"), (advertised, "advertised.listeners")):
            if listener not in [endpoint.listener for endpoint in endpoints]:
                self._wrong("control.plane.listener.name", f"{what} has no listener {listener}")
        if listener == between:
            self._wrong("control.plane.listener.name", f"{listener} is the listener of brokers; it takes another one")
        return listener

    def _log_dirs(self) -> tuple[str, ...]:
        """Return log.dirs, or log.dir: at least one folder, without duplicates."""
        name = "log.dirs" if self._values["log.dirs"] is not None else "log.dir"
        log_dirs = settings_table.folders(self._values[name])
        if not log_dirs:
            self._wrong(name, "it takes at least one folder")
        if len({_absolute(log_dir) for log_dir in log_dirs}) < len(log_dirs):
            self._wrong(name, "it contains a folder twice")
        return tuple(log_dirs)

    def _trace_dir(self, log_dirs: tuple[str, ...]) -> str:
        """Return trace.dir, by default next to the first log directory.

        It must not lie in a log directory, where it would be mistaken for a partition's log.
        """
        configured = self._values["trace.dir"]
        if not log_dirs:
            return ""
        trace_dir = configured or f"{log_dirs[0].rstrip('/')}.trace"
        for log_dir in log_dirs:
            if _absolute(trace_dir).is_relative_to(_absolute(log_dir)):
                self._wrong("trace.dir", f"it must not lie in a log dir, and {log_dir} is one")
        return str(trace_dir)

    def _zookeeper_connect(self) -> str:
        """Return host:port[,host:port]*[/chroot], without a trailing slash."""
        text = self._values["zookeeper.connect"]
        if text is None:
            self.errors.append("zookeeper.connect is missing: it names the ZooKeeper servers, as host:port[/chroot]")
            return ""
        servers, slash, chroot = text.partition("/")
        chroot = chroot.rstrip("/")
        if zookeeper_places(servers) is None or "//" in chroot:
            self._wrong("zookeeper.connect", "it takes host:port, several separated by commas, and may end in /chroot")
        return f"{servers}{slash}{chroot}" if chroot else servers


def zookeeper_places(text: str) -> list[tuple[str, int]] | None:
    """Return host and port of each server in host[:port][,host[:port]]*; None if the text is invalid."""
    found = [_SERVER.fullmatch(item) for item in items(text)]
    places = [(match[1].strip("[]"), int(match[3] or 2181)) for match in found if match]
    if not places or len(places) < len(found) or not all(0 < port <= 65535 for _, port in places):
        return None
    return places


def _absolute(path: str) -> Path:
    return Path(path).resolve()
