"""ClusterSecurity secures a cluster for tests: throw-away certificates, users, ACLs, and what clients need to connect.

Rule 1: all listeners have the same protocol and mechanism. Nodes are the user BROKER, a super user with a random
        password.
Rule 2: certificates are made for each cluster, and are valid for a day. With the protocol SSL, a client certificate is
        its user. Certificates need the package cryptography.
Rule 3: users of SCRAM and ACLs are written to ZooKeeper before the first node starts.
"""

from __future__ import annotations

import datetime
import ipaddress
import secrets
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from actors.core.security import scram
from actors.core.security.access import Authorizer
from actors.public.operations import ClusterError, check
from messages.acls import (
    KAFKA_CLUSTER,
    WILDCARD,
    Acl,
    AclResource,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    member_named,
)
from messages.client_quotas import QuotaEntity, sanitize
from messages.node_settings import ACL_AUTHORIZER
from messages.security import Secret
from messages.vocabulary import AnyMessage, Message
from messages.zookeeper import ChangeAcls, QuotaSetting, SetClientQuotas
from zk_bridge.client import Client

BROKER = "broker"
"""The user that the nodes are."""
DEFAULT_MECHANISM = "SCRAM-SHA-512"
RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
}
"""Words for the resource of an ACL, in addition to "cluster"."""
LIFETIME = datetime.timedelta(days=1)

_PYTHON = {
    "servers": "bootstrap_servers",
    "protocol": "security_protocol",
    "mechanism": "sasl_mechanism",
    "user": "sasl_plain_username",
    "password": "sasl_plain_password",
    "authority": "ssl_cafile",
    "certificate": "ssl_certfile",
}
_NAMES: Mapping[str, Mapping[str, str]] = {
    "librdkafka": {
        "servers": "bootstrap.servers",
        "protocol": "security.protocol",
        "mechanism": "sasl.mechanisms",
        "user": "sasl.username",
        "password": "sasl.password",
        "authority": "ssl.ca.location",
        "certificate": "ssl.certificate.location",
    },
    "kafka-python": _PYTHON,
    "aiokafka": _PYTHON,
    "java": {
        "servers": "bootstrap.servers",
        "protocol": "security.protocol",
        "mechanism": "sasl.mechanism",
        "authority": "ssl.truststore.location",
        "certificate": "ssl.keystore.location",
    },
}
"""Client library -> how it names what a client needs."""


class ClusterSecurity:
    """The security of one cluster.

    Args:
        directory: Folder for the certificates.
        protocol: One of `operations.PROTOCOLS`.
        mechanism: One of `operations.MECHANISMS`; None means DEFAULT_MECHANISM.
        users: Passwords by user; with SSL and OAUTHBEARER a password has no meaning.
        acls: The ACLs, each as `acl_of` takes it; None if there is no authorizer.
        names: Host names and addresses at which clients connect.

    Raises:
        ClusterError: An argument is invalid, or cryptography is not installed.
    """

    def __init__(
        self,
        directory: Path,
        protocol: str,
        mechanism: str | None = None,
        users: Mapping[str, str] | None = None,
        acls: Sequence[Mapping[str, Any]] | None = None,
        names: Iterable[str] = (),
    ) -> None:
        check("security", security=protocol, mechanism=mechanism)
        self.protocol, self.mechanism = protocol, mechanism or DEFAULT_MECHANISM
        self.users = {BROKER: secrets.token_urlsafe(16), **(users or {})}
        self._acls = None if acls is None else [acl_of(each) for each in acls]
        self._directory = directory / "certificates"
        self._certify: Callable[[str], None]
        """Writes a new certificate of a user."""
        if protocol.endswith("SSL"):
            self._make_certificates(("localhost", "127.0.0.1", *names))

    # ------------------------------------------------------------------------------------------------ nodes

    def properties(self, listeners: Iterable[str]) -> dict[str, str]:
        """Return the settings of each node, with these names of listeners."""
        found = {"security.inter.broker.protocol": self.protocol}
        if self._acls is not None:
            found["authorizer.class.name"] = ACL_AUTHORIZER
            found["super.users"] = f"User:{BROKER}"
        if self.protocol.endswith("SSL"):
            found |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self._directory / f"{BROKER}.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.authority),
            }
        if self.protocol == "SSL":
            found |= {"ssl.client.auth": "required", "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/"}
        else:
            found |= {
                "sasl.enabled.mechanisms": self.mechanism,
                "sasl.mechanism.inter.broker.protocol": self.mechanism,
                **{
                    f"listener.name.{name.lower()}.{self.mechanism.lower()}.sasl.jaas.config": self._jaas(
                        BROKER, serves=True
                    )
                    for name in listeners
                },
            }
        return found

    def _jaas(self, user: str, serves: bool = False) -> str:
        """Return the JAAS entry of a user, which has the passwords of PLAIN if it `serves` others."""
        if self.mechanism == "OAUTHBEARER":
            module, options = "oauthbearer.OAuthBearerLoginModule", {"unsecuredLoginStringClaim_sub": user}
        else:
            module = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
            options = {"username": user, "password": self.users[user]}
            if serves and self.mechanism == "PLAIN":
                options |= {f"user_{each}": password for each, password in self.users.items()}
        texts = "".join(
            f" {name if name.isidentifier() else _quote(name)}={_quote(value)}" for name, value in options.items()
        )
        return f"org.apache.kafka.common.security.{module} required{texts};"

    def questions(self) -> Iterator[AnyMessage]:
        """Yield the requests to ZooKeeper that must be made before the first node starts (rule 3)."""
        if self._has_credentials:
            for user, password in self.users.items():
                yield _user_question(user, self.mechanism, self._credential(password))
        yield from _changes(self._acls or ())

    @property
    def _has_credentials(self) -> bool:
        """Whether ZooKeeper has the credentials of users."""
        return self.protocol != "SSL" and self.mechanism in scram.HASHES

    def _credential(self, password: str) -> scram.ScramCredential:
        salt = secrets.token_bytes(20)
        key = scram.salt_password(self.mechanism, Secret(password.encode()), salt, scram.MIN_ITERATIONS)
        return scram.credential_of(self.mechanism, key, salt, scram.MIN_ITERATIONS)

    def add_user(self, user: str, password: str) -> tuple[scram.ScramCredential, AnyMessage] | None:
        """Add a user, or change the password of one.

        Returns:
            The credential, and the request to ZooKeeper that makes it current; None if nodes need none.

        Raises:
            ClusterError: The nodes cannot learn of the user while they run.
        """
        if user == BROKER:
            raise ClusterError(f"{BROKER} is the user of the nodes: its password cannot be changed")
        if self.protocol != "SSL" and self.mechanism == "PLAIN":
            raise ClusterError("the users of PLAIN are settings of the nodes: choose a SCRAM mechanism to add users")
        self.users[user] = password
        if self.protocol == "SSL":
            self._certify(user)
        if not self._has_credentials:
            return None
        credential = self._credential(password)
        return credential, _user_question(user, self.mechanism, credential)

    # ------------------------------------------------------------------------------------------------ clients

    @property
    def authority(self) -> Path:
        """The file with the certificate of the authority that has issued all others."""
        return self._directory / "authority.pem"

    def client_config(self, user: str, client: str, servers: str) -> dict[str, Any]:
        """Return the settings with which a client connects as a user.

        Args:
            user: One of the users.
            client: One of `operations.CLIENTS`.
            servers: The addresses of the brokers.

        Raises:
            ClusterError: There is no such user.
        """
        if user not in self.users:
            raise ClusterError(f"there is no user {user!r}; the users are {', '.join(self.users)}")
        values = {"servers": servers, "protocol": self.protocol}
        if self.protocol.endswith("SSL"):
            values["authority"] = str(self.authority)
        if self.protocol == "SSL":
            values["certificate"] = str(self._directory / f"{sanitize(user)}.pem")
        else:
            values |= {"mechanism": self.mechanism, "user": user, "password": self.users[user]}
        found = {name: values[value] for value, name in _NAMES[client].items() if value in values}
        if client == "librdkafka":
            if "certificate" in values:
                found["ssl.key.location"] = values["certificate"]
            if values.get("mechanism") == "OAUTHBEARER":
                found |= {
                    "enable.sasl.oauthbearer.unsecure.jwt": "true",
                    "sasl.oauthbearer.config": f"principal={user}",
                }
        elif client == "java":
            stores = [store for store in ("truststore", "keystore") if f"ssl.{store}.location" in found]
            found |= {f"ssl.{store}.type": "PEM" for store in stores}
            if "mechanism" in values:
                found["sasl.jaas.config"] = self._jaas(user)
        return found

    # ------------------------------------------------------------------------------------------------ certificates

    def _make_certificates(self, names: Iterable[str]) -> None:
        """Write the certificates of the authority, the nodes and, if they need one, the users (rule 2)."""
        try:
            from cryptography import x509
            from cryptography.hazmat.primitives import hashes, serialization
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError:
            raise ClusterError("certificates need cryptography: pip install 'kafka-actors[security]'") from None
        now = datetime.datetime.now(datetime.UTC)
        authority_key = ec.generate_private_key(ec.SECP256R1())

        def name_of(name: str) -> Any:
            return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])

        def issue(name: str, key: Any, is_authority: bool = False, hosts: Iterable[str] = ()) -> bytes:
            issuer = authority_key.public_key()
            builder = (
                x509.CertificateBuilder(name_of("kafka-actors"), name_of(name), key.public_key())
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - LIFETIME)
                .not_valid_after(now + LIFETIME)
                .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
                .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
                .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), critical=False)
            )
            if is_authority:  # of the nine usages, the sixth is the signature of certificates
                builder = builder.add_extension(x509.KeyUsage(*[place == 5 for place in range(9)]), critical=True)
            if hosts:
                builder = builder.add_extension(
                    x509.SubjectAlternativeName([_general_name(x509, each) for each in dict.fromkeys(hosts)]),
                    critical=False,
                )
            certificate = builder.sign(authority_key, hashes.SHA256())
            text: bytes = certificate.public_bytes(serialization.Encoding.PEM)
            return text

        self._directory.mkdir(parents=True, exist_ok=True)
        authority = issue("kafka-actors", authority_key, is_authority=True)
        self.authority.write_bytes(authority)

        def certify(user: str) -> None:
            key = ec.generate_private_key(ec.SECP256R1())
            private = key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            hosts = (*names, socket.gethostname()) if user == BROKER else ()
            path = self._directory / f"{sanitize(user)}.pem"
            path.touch(0o600)
            path.write_bytes(private + issue(user, key, hosts=hosts) + authority)

        self._certify = certify
        for user in self.users if self.protocol == "SSL" else (BROKER,):
            certify(user)


def _user_question(user: str, mechanism: str, credential: scram.ScramCredential) -> Message:
    setting = QuotaSetting(mechanism, scram.format_credential(credential))
    return SetClientQuotas(QuotaEntity(sanitize(user)), (setting,))


def _general_name(x509: Any, name: str) -> Any:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _changes(acls: Iterable[tuple[AclResource, Acl]], removed: bool = False) -> Iterator[AnyMessage]:
    """Yield the requests to ZooKeeper that add ACLs, or remove them."""
    for resource, acl in acls:
        yield ChangeAcls(resource, remove=(acl,)) if removed else ChangeAcls(resource, (acl,))


def change_acls(
    client: Client,
    entries: Sequence[Mapping[str, Any]],
    removed: bool,
    authorizers: Callable[[], Sequence[Authorizer | None]],
) -> Callable[[], bool]:
    """Add the ACLs of entries, or remove them. Return a function that says whether all authorizers apply that.

    Raises:
        ClusterError: An ACL is invalid (`acl_of`), or a node has no authorizer.
    """
    acls = [acl_of(each) for each in entries]
    if None in authorizers():
        raise ClusterError(
            f"the cluster has no authorizer: start it with acls=[...] or authorizer.class.name={ACL_AUTHORIZER}"
        )
    for question in _changes(acls, removed):
        client.ask(question)
    return lambda: all(each is not None and each.has(*acl) != removed for each in authorizers() for acl in acls)


def acl_of(entry: Mapping[str, Any]) -> tuple[AclResource, Acl]:
    """Return the ACL in an entry such as {"allow": "alice", "operation": "Read", "topic": "orders"}.

    The keys are `allow` or `deny` with a user or "*"; `operation`; one of `topic`, `group`, `transactional_id` with a
    name or "*", or `cluster` with true; and, if needed, `prefixed` (true: the name is a prefix) and `host`.

    Raises:
        ClusterError: The entry is invalid.
    """
    known = {"allow", "deny", "operation", "cluster", "prefixed", "host", *RESOURCES}
    whom, what = entry.keys() & {"allow", "deny"}, entry.keys() & {"cluster", *RESOURCES}
    operation = member_named(Operation, str(entry.get("operation", "")))
    is_complete = entry.keys() <= known and len(whom) == len(what) == 1
    if not is_complete or operation is None or operation < Operation.ALL:
        raise ClusterError(
            f"{dict(entry)!r} is no ACL: it takes allow or deny, operation, and one of topic, group, transactional_id"
            " and cluster, such as {'allow': 'alice', 'operation': 'Read', 'topic': 'orders'}"
        )
    (verb,), (kind,) = whom, what
    pattern = PatternType.PREFIXED if entry.get("prefixed") else PatternType.LITERAL
    resource = AclResource(ResourceType.CLUSTER, KAFKA_CLUSTER)
    if kind != "cluster":
        if not (name := str(entry[kind])) or "/" in name:
            raise ClusterError(f"{dict(entry)!r} is no ACL: the name of a {kind} is not empty and contains no /")
        resource = AclResource(RESOURCES[kind], name, pattern)
    permission = Permission.ALLOW if verb == "allow" else Permission.DENY
    return resource, Acl(f"User:{entry[verb]}", str(entry.get("host", WILDCARD)), operation, permission)
