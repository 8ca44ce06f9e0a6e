"""A client that attacks a secured broker, ours or Apache's. What it sends and receives are values for a table."""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import hmac
import ipaddress
import json
import secrets
import ssl
import struct
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from actors.core.security.scram import HASHES, credential_of, format_credential, salt_password
from actors.node.cluster_security import acl_of
from messages.acls import Acl, AclResource
from messages.apis.acls import AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest
from messages.apis.create_topics import CreatableTopic, CreateTopicsRequest
from messages.apis.delegation_tokens import CreateDelegationTokenRequest
from messages.apis.metadata import MetadataRequest
from messages.apis.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from messages.apis.sasl_handshake import SaslHandshakeRequest
from messages.response_codes import codes_of
from messages.security import Secret
from tests.cluster.processes import Running, free_ports
from tests.waiting import until
from tests.wire_client import WireClient
from tests.zookeeper_client import PatientZooKeeperClient

CLOSED = "closed"
LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "INT": "SASL_PLAINTEXT",
    "SSL": "SSL",
    "MTLS": "SSL",
    "REQ": "SSL",
    "MAP": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "SASLS": "SASL_SSL",
    "RE": "SASL_PLAINTEXT",
}
"""INT is the listener of brokers. MTLS demands client certificates, and REQ asks for them; MAP has rules for their
names. Sessions of RE last LIFETIME seconds."""
LIFETIME = 3
IDLE = 8
"""Seconds after which an idle connection is closed."""
SUPER_USERS = "User:admin;User:ops@dev;User:CN=admin"
USERS = ("alice", "bob", "dave", "admin")
RULES = (
    r"RULE:^CN=svc-([a-z]+),OU=([A-Za-z]+)$/$1@$2/L, RULE:CN=part/partial/, RULE:^CN=([a-z]+),O=Nine$/$1x$9/, DEFAULT"
)


class Client(WireClient):
    """A connection to a listener of a broker."""

    def __init__(self, broker: Broker, listener: str, tls: ssl.SSLContext | None = None) -> None:
        super().__init__("127.0.0.1", broker.ports[listener], timeout=60)
        self.broker = broker
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")

    def end(self) -> object:
        """Return CLOSED once the broker closes the connection, or the bytes that it sends before."""
        received = bytearray()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while more := self.socket.recv(1 << 16):
                received += more
        return bytes(received) or CLOSED

    def stays(self, seconds: float = 1.5) -> bool:
        """Return whether the broker neither sends a byte nor closes the connection for so long."""
        self.socket.settimeout(seconds)
        try:
            self.socket.recv(1)
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(60)
        return False

    def token(self, token: bytes) -> Any:
        """Send a token of the mechanism."""
        return self.call(SaslAuthenticateRequest(1, Secret(token)))

    @property
    def principal(self) -> str:
        """The principal that the broker knows."""
        made: Any = self.call(CreateDelegationTokenRequest(1))
        return f"{made.principal_type}:{made.principal_name}"


Step = Callable[[Client], object]
"""What an attacker does on a connection, and what it sees."""


def outcome(response: Any) -> object:
    """Return the only error code of a response, or all; with its text if it is SASL's.

    The codes of partitions go before that of the response.
    """
    if isinstance(response, SaslAuthenticateResponse):
        return (response.error_code, response.error_message) if response.error_code else 0
    codes = set(codes_of(getattr(response, "partitions", ()))) or set(codes_of(response))
    return codes.pop() if len(codes) == 1 else codes


def play(broker: Broker, listener: str, steps: Sequence[Any], tls: Any = None) -> list[object]:
    """Take steps on one connection: requests, frames as bytes, or functions. Return what comes back."""
    seen: list[object] = []
    try:
        with Client(broker, listener, None if tls is None else tls(broker)) as client:
            for step in steps:
                if isinstance(step, bytes):
                    client.send_frame(step)
                    seen.append(client.receive_frame())
                elif callable(step):
                    seen.append(step(client))
                else:
                    seen.append(outcome(client.call(step)))
    except TimeoutError:
        raise
    except OSError:
        seen.append(CLOSED)
    return seen


# ---------------------------------------------------------------------------------------------------- mechanisms


def plain(user: str, password: str = "", authorization_id: str = "", version: int = 1) -> list[Any]:
    """Return the steps of PLAIN; by default the password is the user's."""
    token = f"{authorization_id}\0{user}\0{password or user + '-pw'}".encode()
    return [SaslHandshakeRequest(1, "PLAIN"), SaslAuthenticateRequest(version, Secret(token))]


def scram(
    user: str,
    password: str = "",
    mechanism: str = "SCRAM-SHA-256",
    header: str = "n,,",
    binding: str = "",
    name: str = "",
    extension: str = "",
    nonce: Callable[[str], str] = lambda whole: whole,
    own: str = "",
    final: bytes = b"",
    sent: list[Any] | None = None,
) -> Step:
    """Return a whole exchange, each part of which may be forged; its outcome is the last error code.

    Args:
        user: The user.
        password: The password; by default it is the user's.
        mechanism: The mechanism.
        header: The header of GS2.
        binding: The channel binding that the final message repeats; by default the header.
        name: The name as the message contains it.
        extension: What follows the nonce in the first message.
        nonce: Makes the nonce of the final message.
        own: The client's nonce.
        final: The whole final message.
        sent: Gets the server's nonce and the final message.
    """

    def step(client: Client) -> object:
        assert outcome(client.call(SaslHandshakeRequest(1, mechanism))) == 0
        hash, mine = HASHES[mechanism], own or secrets.token_hex(12)
        bare = f"n={name or user},r={mine}{extension}"
        challenge = client.token((header + bare).encode())
        if challenge.error_code:
            return challenge.error_code
        text = challenge.auth_bytes.decode()
        fields = dict(part.split("=", 1) for part in text.split(","))
        assert fields["r"].startswith(mine)

        def mac(key: bytes, data: bytes) -> bytes:
            return hmac.new(key, data, hash).digest()

        known = (password or f"{user}-pw").encode()
        key = hashlib.pbkdf2_hmac(hash, known, base64.b64decode(fields["s"]), int(fields["i"]))
        client_key = mac(key, b"Client Key")
        bound = base64.b64encode((binding or header).encode()).decode()
        unproven = f"c={bound},r={nonce(fields['r'])}"
        message = f"{bare},{text},{unproven}".encode()
        signature = mac(hashlib.new(hash, client_key).digest(), message)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        last = final or f"{unproven},p={base64.b64encode(proof).decode()}".encode()
        if sent is not None:
            sent.extend((fields["r"], last))
        answer = client.token(last)
        if not answer.error_code:
            expected = base64.b64encode(mac(mac(key, b"Server Key"), message))
            assert answer.auth_bytes == b"v=" + expected
        code: int = answer.error_code
        return code

    return step


def bearer(token: Callable[[], str], authorization_id: str = "", scheme: str = "Bearer") -> Step:
    """Return an exchange of OAUTHBEARER; its outcome is the last code and what the broker says first."""

    def step(client: Client) -> object:
        assert outcome(client.call(SaslHandshakeRequest(1, "OAUTHBEARER"))) == 0
        who = f"a={authorization_id}" if authorization_id else ""
        answer = client.token(f"n,{who},\x01auth={scheme} {token()}\x01\x01".encode())
        if answer.auth_bytes:
            status = json.loads(answer.auth_bytes)["status"]
            return answer.error_code, status, client.token(b"\x01").error_code
        return answer.error_code

    return step


def jws(header: Any = None, signature: str = "", **changes: object) -> Callable[[], str]:
    """Return a function that makes an unsecured token; `exp` and `iat` are seconds from now, and None leaves out."""

    def part(value: object) -> str:
        return base64.b64encode(json.dumps(value).encode()).decode().rstrip("=")

    def make() -> str:
        claims: dict[str, object] = {"sub": "oscar", "iat": -1, "exp": 600, **changes}
        for name in ("iat", "exp"):
            if isinstance(seconds := claims[name], int):
                claims[name] = time.time() + seconds
        kept = {name: value for name, value in claims.items() if value is not None}
        return f"{part({'alg': 'none'} if header is None else header)}.{part(kept)}.{signature}"

    return make


# ---------------------------------------------------------------------------------------------------- certificates


@attrs.frozen
class Certificate:
    """A client's certificate, made when it is used.

    Attributes:
        subject: Pairs (short name of the type, value) in the order of their encoding.
        by: The name of the authority; None: the client has no certificate.
        days: First and last day from now.
        usage: What the certificate is for; None: anything.
        alternative: A critical alternative name.
        version: The client's only version of TLS.
        revoked: Whether the certificate names a list of revoked certificates.
    """

    subject: tuple[tuple[str, str], ...] = (("CN", "client"),)
    by: str | None = "authority"
    days: tuple[int, int] = (-1, 1)
    usage: x509.ObjectIdentifier | None = None
    alternative: str = ""
    version: ssl.TLSVersion | None = None
    revoked: bool = False

    def __call__(self, broker: Broker) -> ssl.SSLContext:
        """Return a client's context with this certificate."""
        authorities = broker.authorities
        context = ssl.create_default_context(cadata=authorities["authority"].pem.decode())
        if self.by is not None:
            file = broker.folder / f"{secrets.token_hex(6)}.pem"
            file.write_bytes(authorities[self.by].issue(self))
            context.load_cert_chain(file)
        if self.version is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                context.set_ciphers("ALL:@SECLEVEL=0")
                context.minimum_version = context.maximum_version = self.version
        return context


TYPES = {
    "CN": x509.NameOID.COMMON_NAME,
    "OU": x509.NameOID.ORGANIZATIONAL_UNIT_NAME,
    "O": x509.NameOID.ORGANIZATION_NAME,
    "E": x509.NameOID.EMAIL_ADDRESS,
}


class Authority:
    """An authority that issues certificates."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.pem = self._signed(Certificate(), self._name, self._key, is_authority=True)

    def issue(self, what: Certificate, hosts: Sequence[x509.GeneralName] = ()) -> bytes:
        """Return a new key and its certificate, in PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(TYPES[kind], value) for kind, value in what.subject])
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return private + self._signed(what, subject, key, hosts) + self.pem

    def _signed(
        self, what: Certificate, subject: x509.Name, key: Any, hosts: Any = (), is_authority: bool = False
    ) -> bytes:
        now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
        builder = (
            x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now + what.days[0] * day)
            .not_valid_after(now + what.days[1] * day)
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if is_authority:  # of the nine usages, the sixth is the signature of certificates
            builder = builder.add_extension(x509.KeyUsage(*[place == 5 for place in range(9)]), critical=True)
        names = [*hosts, *([x509.DNSName(what.alternative)] if what.alternative else ())]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=bool(what.alternative))
        if what.usage is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([what.usage]), critical=False)
        if what.revoked:
            where = [x509.UniformResourceIdentifier("http://127.0.0.1:1/revoked.crl")]
            point = x509.DistributionPoint(where, None, None, None)
            builder = builder.add_extension(x509.CRLDistributionPoints([point]), critical=False)
        text: bytes = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        return text


# ---------------------------------------------------------------------------------------------------- the broker


class Broker:
    """A broker with all LISTENERS, an authorizer, users and topics."""

    def __init__(self, kind: str, folder: Path, zookeeper: str, start: Callable[..., Running]) -> None:
        self.kind, self.folder = kind, folder
        folder.mkdir()
        self.authorities = {name: Authority(name) for name in ("authority", "stranger")}
        self.ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
        self.zk = PatientZooKeeperClient(zookeeper)
        self.zk.start(20)
        for user in ("alice", "bob"):
            self.set_user(user, "SCRAM-SHA-256", "SCRAM-SHA-512")
        self.set_user("carol", "SCRAM-SHA-256")
        self.set_user("weak", "SCRAM-SHA-256", iterations=1000)
        self.running = start(folder, 0, self.ports["PLAINTEXT"], zookeeper, **self._settings())

    def _settings(self) -> dict[str, object]:
        def jaas(module: str, **options: str) -> str:
            texts = "".join(f' {name}="{value}"' for name, value in options.items())
            return f"org.apache.kafka.common.security.{module} required{texts};"

        hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        keys, trusted = self.folder / "keys.pem", self.folder / "trusted.pem"
        keys.write_bytes(self.authorities["authority"].issue(Certificate((("CN", "localhost"),)), hosts))
        trusted.write_bytes(self.authorities["authority"].pem)
        passwords = {f"user_{user}": f"{user}-pw" for user in USERS}
        mechanisms = {
            "int": ("PLAIN",),
            "sasl": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
            "sasls": ("PLAIN",),
            "re": ("PLAIN", "SCRAM-SHA-256"),
        }
        modules = {
            "PLAIN": jaas("plain.PlainLoginModule", username="admin", password="admin-pw", **passwords),
            "OAUTHBEARER": jaas("oauthbearer.OAuthBearerLoginModule", unsecuredLoginStringClaim_sub="broker"),
        }
        settings: dict[str, object] = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in LISTENERS.items()),
            "inter.broker.listener.name": "INT",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": SUPER_USERS,
            "delegation.token.master.key": "token-secret",
            "connections.max.idle.ms": IDLE * 1000,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": keys,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": trusted,
            "listener.name.mtls.ssl.client.auth": "required",
            "listener.name.req.ssl.client.auth": "requested",
            "listener.name.map.ssl.client.auth": "required",
            "listener.name.map.ssl.principal.mapping.rules": RULES.replace("\\", "\\\\"),
            "listener.name.re.connections.max.reauth.ms": LIFETIME * 1000,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
        }
        for listener, names in mechanisms.items():
            prefix = f"listener.name.{listener}"
            settings[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(names)
            for name in names:
                module = modules.get(name) or jaas("scram.ScramLoginModule")
                settings[f"{prefix}.{name.lower()}.sasl.jaas.config"] = module
        return {name.replace(".", "__"): value for name, value in settings.items()}

    def set_user(self, name: str, *mechanisms: str, iterations: int = 4096) -> None:
        """Write the credentials of a user to ZooKeeper."""
        texts = {}
        for mechanism in mechanisms:
            salt = secrets.token_bytes(20)
            key = salt_password(mechanism, Secret(f"{name}-pw".encode()), salt, iterations)
            texts[mechanism] = format_credential(credential_of(mechanism, key, salt, iterations))
        self.zk.ensure_path(f"/config/users/{name}")
        self.zk.set(f"/config/users/{name}", json.dumps({"version": 1, "config": texts}).encode())

    def admin(self, request: Any) -> Any:
        """Send a request as the super user."""
        with Client(self, "INT") as client:
            for step in plain("admin"):
                assert outcome(client.call(step)) == 0
            return client.call(request)

    def create_topics(self, *names: str) -> None:
        """Create topics, and wait for their leaders."""
        new = tuple([CreatableTopic(name, 1, 1) for name in names])
        until(
            lambda: outcome(self.admin(CreateTopicsRequest(5, new, 20_000))),
            lambda code: code in (0, 36),
            "topics",
            timeout=90,
            ignore=(OSError,),
        )

        def leaders() -> list[int]:
            found = self.admin(MetadataRequest(8, names)).topics
            return [part.leader for topic in found for part in topic.partitions]

        until(leaders, lambda found: found == [0] * len(names), "leaders", ignore=(OSError,))

    @contextlib.contextmanager
    def granted(self, *entries: Any) -> Iterator[None]:
        """Let ACLs exist meanwhile: dictionaries as `acl_of` takes them, or pairs (resource, ACL)."""
        pairs: list[tuple[AclResource, Acl]] = [acl_of(each) if isinstance(each, dict) else each for each in entries]
        made = [AclCreation(*kind[:2], *acl, kind.pattern) for kind, acl in pairs]
        assert outcome(self.admin(CreateAclsRequest(2, tuple(made)))) == 0
        try:
            yield
        finally:
            filters = tuple([DeleteAclsFilter(*kind[:2], *acl, kind.pattern) for kind, acl in pairs])
            assert outcome(self.admin(DeleteAclsRequest(2, filters))) == 0

    @cached_property
    def is_apache(self) -> bool:
        """Whether this is Apache's broker."""
        return self.kind == "apache"

    def stop(self) -> None:
        """Kill the broker."""
        self.running.kill()
        self.zk.stop()
        self.zk.close()


def header(key: int, version: int) -> bytes:
    """Return the header of a request, with the correlation id 7 and the client's id "x"."""
    return struct.pack(">hhih", key, version, 7, 1) + b"x"
