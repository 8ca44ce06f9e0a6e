"""44 attacks on a secured broker, ours and Apache's: what the attacker sees of each.

The second expectation of a row is ours where Kafka's behaviour is a weakness that our broker does not have, or where
the two refuse in another way (docs/reference/kafka-map.md).
"""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import attrs
import psutil
import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from messages.acls import KAFKA_CLUSTER, Acl, AclResource, Operation, PatternType, Permission, ResourceType
from messages.apis import APIS, delegation_tokens
from messages.apis.acls import AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest, DescribeAclsRequest
from messages.apis.api_versions import ApiVersionsRequest
from messages.apis.declaration import Target
from messages.apis.delete_topics import DeleteTopicsRequest
from messages.apis.fetch import CONSUMER, FetchPartition, FetchRequest
from messages.apis.find_coordinator import FindCoordinatorRequest
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from messages.apis.list_offsets import ListOffsetsRequest, OffsetQuery
from messages.apis.metadata import MetadataRequest
from messages.apis.offset_fetch import OffsetFetchRequest, OffsetFetchTopic
from messages.apis.produce import ProducePartition, ProduceRequest
from messages.apis.sasl_authenticate import SaslAuthenticateRequest
from messages.apis.sasl_handshake import SaslHandshakeRequest
from messages.cluster import TopicPartition
from messages.records import LATEST, Records, body
from messages.security import Secret
from tests.cluster.attacker import (
    CLOSED,
    IDLE,
    LIFETIME,
    Broker,
    Certificate,
    Client,
    bearer,
    header,
    jws,
    outcome,
    plain,
    play,
    scram,
)
from tests.cluster.processes import ApacheBroker, OurNode
from tests.storage.batches import batch
from tests.waiting import until
from zk_bridge.embedded import EmbeddedZooKeeper

pytestmark = [pytest.mark.soak, pytest.mark.long]

Attack = Callable[[Broker], object]
ROWS: list[Any] = []
AS_APACHE: Any = object()


def row(id: str, what: str, attack: Attack, apache: object, ours: object = AS_APACHE) -> None:
    """Add an attack, with what the attacker sees of Apache's broker and of ours."""
    ROWS.append(pytest.param(attack, apache, apache if ours is AS_APACHE else ours, id=f"{id} {what}"))


def steps(id: str, what: str, where: str, taken: Sequence[Any], apache: object, ours: object = AS_APACHE) -> None:
    """Add an attack on one connection to a listener, which tries to go on until it is closed."""
    tls = Certificate(by=None) if where in ("SSL", "SASLS") else None
    row(id, what, partial(play, listener=where, steps=[*taken], tls=tls), apache, ours)


def presenting(id: str, what: str, where: str, certificate: Certificate, apache: Any, ours: Any = AS_APACHE) -> None:
    """Add an attack by a certificate: the client's principal, or CLOSED."""
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        made = attrs.evolve(certificate, version=version)
        taken = partial(play, listener=where, steps=[who], tls=made)
        row(id, f"{what}, {version.name}", taken, [apache], AS_APACHE if ours is AS_APACHE else [ours])


def who(client: Client) -> str:
    return client.principal


def end(client: Client) -> object:
    return client.end()


def stays(client: Client) -> bool:
    return client.stays()


def outlast(client: Client) -> bool:
    """Wait until the session has expired: the broker sends nothing meanwhile."""
    return client.stays(LIFETIME + 0.3)


def topic(name: str, *numbers: int) -> list[TopicPartition]:
    return [TopicPartition(name, number) for number in numbers or (0,)]


def metadata(*names: str) -> MetadataRequest:
    return MetadataRequest(8, names, False)


def fetch(name: str, replica: int = CONSUMER, numbers: tuple[int, ...] = (0,)) -> FetchRequest:
    wanted = [FetchPartition(each, 0, 1 << 16) for each in topic(name, *numbers)]
    return FetchRequest(11, replica, 0, 0, tuple(wanted), 1 << 16)


def produce(name: str) -> ProduceRequest:
    records = Records((), body(batch(b"v", timestamp=round(time.time() * 1000)), 0))
    return ProduceRequest(8, None, 1, 5000, (ProducePartition(*topic(name), records),))


def describe(name: str) -> ListOffsetsRequest:
    return ListOffsetsRequest(5, CONSUMER, (OffsetQuery(*topic(name), LATEST),))


def token(data: bytes, version: int = 1) -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(version, Secret(data))


def shake(mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeRequest:
    return SaslHandshakeRequest(version, mechanism)


VERSIONS = ApiVersionsRequest(0)
ALICE = plain("alice")
FAILED = "Authentication failed: "
INVALID = "Authentication failed during authentication due to invalid credentials with SASL mechanism "
OTHER = f"{FAILED}Client requested an authorization id that is different from username"
WRONG = (58, f"{FAILED}Invalid username or password")

# ---------------------------------------------------------------------------------------------------- SASL

ORDER = next(api for api in APIS if api.request is LeaderAndIsrRequest).sample(Target())
for first in (metadata("t"), produce("t"), ORDER, token(b"\0alice\0alice-pw")):
    steps("X1", f"{type(first).__name__} first", "SASL", [first], [CLOSED])
steps("X2", "ApiVersions twice", "SASL", [VERSIONS, VERSIONS], [0, CLOSED])


def unknown_version(client: Client) -> object:
    client.send_frame(header(18, 99) + b"\0")
    answer = client.receive_frame()
    code, count = struct.unpack_from(">hi", answer, 4)
    return code, [struct.unpack_from(">hhh", answer, 10 + 6 * place) for place in range(count)]


steps("X3", "unknown version", "SASL", [unknown_version, VERSIONS, shake()], [(35, [(18, 0, 4)]), 0, 0])


def enabled(name: str, version: int) -> Callable[[Client], object]:
    def step(client: Client) -> object:
        answer: Any = client.call(shake(name, version))
        return answer.error_code, set(answer.mechanisms)

    return step


ALL = {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"}
for name in ("CRAM-MD5", "GSSAPI", "plain", ""):
    for version in (0, 1):
        steps("X4", f"{name!r} v{version}", "SASL", [enabled(name, version), end], [(33, ALL), CLOSED])
steps("X5", "bare token after v1", "SASL", [shake(), b"\0alice\0alice-pw"], [0, CLOSED])
steps("X6", "v0", "SASL", [shake(version=0), b"\0alice\0alice-pw", who], [0, b"", "User:alice"])
steps("X6", "v0, wrong", "SASL", [shake(version=0), b"\0alice\0wrong"], [0, CLOSED])
for other in (metadata("t"), shake(), VERSIONS):
    steps("X7", f"{type(other).__name__} between", "SASL", [shake(), other, end], [0, 34, CLOSED])
for user, password in (("alice", "wrong"), ("unknown", "alice-pw"), ("Alice", "alice-pw"), ("alice", "alice-pw ")):
    steps("X8", f"{user} {password!r}", "SASL", [*plain(user, password), end], [0, WRONG, CLOSED])
steps("X9", "another id", "SASL", [*plain("alice", authorization_id="bob"), end], [0, (58, OTHER), CLOSED])
steps("X9", "own id", "SASL", [*plain("alice", authorization_id="alice"), who], [0, 0, "User:alice"])
for data, text in (
    (b"alice\0alice-pw", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
    (b"\0alice\0alice-pw\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    (b"\0\0alice-pw", f"{FAILED}username not specified"),
    (b"\0alice\0", f"{FAILED}password not specified"),
    (b"\0alice\0alice-pw\xff", f"{FAILED}Invalid username or password"),
    (b"\0ali\xffce\0alice-pw", f"{FAILED}Invalid username or password"),
):
    steps("X10", repr(data), "SASL", [shake(), token(data), end], [0, (58, text), CLOSED])


def announce(size: int, data: bytes = b"\0\x11\0\x01") -> Callable[[Client], object]:
    def step(client: Client) -> object:
        client.socket.sendall(struct.pack(">i", size) + data)
        return "waits" if size in (524288, 600000) and client.stays() else client.end()

    return step


for size, seen in ((524289, CLOSED), (2**31 - 1, CLOSED), (-1, CLOSED), (0, CLOSED), (524288, "waits")):
    steps("X11", f"{size} bytes", "SASL", [announce(size)], [seen])
steps("X11", "600000 bytes later", "SASL", [*ALICE, announce(600000, b"\0\x03\0\x08")], [0, 0, "waits"])

# ---------------------------------------------------------------------------------------------------- SCRAM


def replayed(broker: Broker) -> object:
    """A second exchange with the final message of the first one."""
    first: list[Any] = []
    second: list[Any] = []
    seen = play(broker, "SASL", [scram("alice", own="same", sent=first)])
    seen += play(broker, "SASL", [scram("alice", own="same", final=first[1], sent=second)])
    return seen, first[0] != second[0]


row("X12", "replay", replayed, ([0, 58], True))
steps("X13", "final message first", "SASL", [shake("SCRAM-SHA-256"), token(b"c=biws,r=abc,p=YWJj"), end],
      [0, (58, INVALID + "SCRAM-SHA-256"), CLOSED])  # fmt: skip
for what, nonce in {"cut": lambda n: n[:-1], "longer": lambda n: n + "x", "own": lambda n: n[:24]}.items():
    steps("X14", f"nonce {what}", "SASL", [scram("alice", nonce=nonce), end], [58, CLOSED])
steps("X14", "junk before the nonce", "SASL", [scram("alice", nonce=lambda whole: "junk" + whole)], [0], [58])
for gs2 in ("y,,", "p=tls-unique,,"):
    steps("X15", gs2, "SASL", [scram("alice", header=gs2), end], [58, CLOSED])
steps("X15", "contradiction", "SASL", [scram("alice", binding="y,,")], [0], [58])
steps("X15", "another id", "SASL", [scram("alice", header="n,a=bob,")], [58])
steps("X15", "own id", "SASL", [scram("alice", header="n,a=alice,"), who], [0, "User:alice"])
steps("X16", "1000 iterations", "SASL", [scram("weak"), end], [58, CLOSED])
steps("X17", "own mechanism", "SASL", [scram("carol"), who], [0, "User:carol"])
steps("X17", "other mechanism", "SASL", [scram("carol", mechanism="SCRAM-SHA-512"), end], [58, CLOSED])
for name in ("al=ice", "ali,ce", "älice", "alice=2", ""):
    steps("X18", repr(name), "SASL", [scram("alice", name=name) if name else scram("", "x"), end], [58, CLOSED])
steps("X18", "mandatory extension", "SASL", [scram("alice", header="n,,m=x,"), who], [0, "User:alice"], [58, CLOSED])

# ---------------------------------------------------------------------------------------------------- tokens


def create_token(broker: Broker, user: str = "alice", renewers: tuple[Any, ...] = ()) -> Any:
    """Create a token, and wait until its owner can use it."""
    with Client(broker, "SASL") as client:
        assert [outcome(client.call(step)) for step in plain(user)] == [0, 0]
        made: Any = client.call(delegation_tokens.CreateDelegationTokenRequest(1, renewers))
    until(lambda: play(broker, "SASL", [by_token(made)]), lambda seen: seen == [0], "the token is usable")
    return made


def by_token(made: Any, **changes: Any) -> Callable[[Client], object]:
    password = base64.b64encode(made.hmac.value).decode()
    return scram(made.token_id, password, **{"extension": ",tokenauth=true", **changes})


def with_token(taken: Callable[[Any], Sequence[Any]], **more: Any) -> Attack:
    """Return an attack on one connection with a new token."""
    return lambda broker: play(broker, "SASL", taken(create_token(broker, **more)))


row("X19", "by PLAIN", with_token(lambda t: plain(t.token_id, base64.b64encode(t.hmac.value).decode())), [0, WRONG])
row("X19", "no extension", with_token(lambda t: [by_token(t, extension="")]), [58])
steps("X19", "password of a user", "SASL", [scram("alice", extension=",tokenauth=true")], [58])
MORE = [delegation_tokens.CreateDelegationTokenRequest(1), delegation_tokens.DescribeDelegationTokenRequest(1, None)]
row("X20", "tokens by a token", with_token(lambda t: [by_token(t), *MORE]), [0, 64, 64])
steps("X21", "on PLAINTEXT", "PLAINTEXT", MORE, [64, 64])
steps("X21", "on SSL", "SSL", MORE, [64, 64])
GROUP = delegation_tokens.TokenPrincipal("Group", "x")
steps("X21", "renewer", "SASL", [*ALICE, delegation_tokens.CreateDelegationTokenRequest(1, (GROUP,))], [0, 0, 67])


def renewal(made: Any, hmac: Secret | None = None) -> Any:
    return delegation_tokens.RenewDelegationTokenRequest(1, hmac or made.hmac, -1)


def expiry(made: Any, milliseconds: int) -> Any:
    return delegation_tokens.ExpireDelegationTokenRequest(1, made.hmac, milliseconds)


row("X22", "stranger", with_token(lambda t: [*plain("bob"), renewal(t), expiry(t, -1)]), [0, 0, 63, 63])
row("X22", "unknown", with_token(lambda t: [*ALICE, renewal(t, Secret(b"x" * 64))]), [0, 0, 62])
row("X22", "expired", with_token(lambda t: [*ALICE, expiry(t, 1), stays, renewal(t)]), [0, 0, 0, True, 66])


def expires(broker: Broker) -> object:
    """A connection that was opened with a token which expires meanwhile."""
    made = create_token(broker)
    assert play(broker, "SASL", [*ALICE, expiry(made, 1000 * LIFETIME)])[-1] == 0

    def shortened() -> Any:
        with Client(broker, "SASL") as client:
            assert outcome(client.call(shake("SCRAM-SHA-256"))) == 0
        with contextlib.ExitStack() as stack:
            client = stack.enter_context(Client(broker, "SASL"))
            lifetimes: list[int] = []
            call = client.token
            client.token = lambda data: lifetimes.append((answer := call(data)).session_lifetime_ms) or answer  # type: ignore[method-assign,func-returns-value]
            code = by_token(made)(client)
            if code or not 0 < lifetimes[-1] <= 1000 * LIFETIME:
                return None
            return client, stack.pop_all()

    client, stack = until(shortened, what="the token's new expiry")
    with stack:
        seen: list[object] = [outcome(client.call(metadata())), outlast(client)]
        try:
            return [*seen, outcome(client.call(metadata()))]
        except ConnectionError:
            return [*seen, CLOSED]


row("X23", "expiry", expires, [set(), True, CLOSED])


def expired(broker: Broker) -> object:
    made = create_token(broker)
    assert play(broker, "SASL", [*ALICE, expiry(made, 1), stays])[-1] is True
    return play(broker, "SASL", [by_token(made), metadata()])


row("X24", "expired", expired, [0, CLOSED], [58, CLOSED])

# ---------------------------------------------------------------------------------------------------- OAUTHBEARER

steps("X25", "good", "SASL", [bearer(jws()), who], [0, "User:oscar"])
for what, made in {
    "HS256": jws({"alg": "HS256"}),
    "None": jws({"alg": "None"}),
    "signed": jws({"alg": "HS256"}, "c2ln"),
    "signature": jws(signature="c2ln"),
    "exp past": jws(exp=-5),
    "iat future": jws(iat=500, exp=900),
    "no exp": jws(exp=None),
    "exp text": jws(exp="9999999999"),
    "sub number": jws(sub=7),
    "blank sub": jws(sub=" "),
    "no sub": jws(sub=None),
}.items():
    steps("X25", what, "SASL", [bearer(made), end], [(0, "invalid_token", 58), CLOSED])
for what, head in {"no algorithm": {"typ": "JWT"}, "no header": "none"}.items():
    steps("X25", what, "SASL", [bearer(jws(head)), end], [CLOSED], [58, CLOSED])
steps("X26", "another id", "SASL", [bearer(jws(), "bob"), end], [58, CLOSED])
steps("X26", "own id", "SASL", [bearer(jws(), "oscar"), who], [0, "User:oscar"])
steps("X26", "Basic", "SASL", [bearer(jws(), scheme="Basic")], [CLOSED], [58])
steps("X26", "..", "SASL", [bearer(lambda: jws()().replace(".", "..", 1)), end], [(0, "invalid_token", 58), CLOSED])

# ---------------------------------------------------------------------------------------------------- sessions

LATE = (34, "SaslAuthenticate request received after successful authentication")
STILL = [shake(), token(b"\0alice\0alice-pw")]
steps("X27", "again", "SASL", [*ALICE, *STILL, who], [0, 0, 34, LATE, "User:alice"])
steps("X27", "on PLAINTEXT", "PLAINTEXT", [*STILL, who], [34, LATE, "User:ANONYMOUS"])
steps("X27", "on SSL", "SSL", [*STILL, who], [34, LATE, "User:ANONYMOUS"])
CHANGED = (58, "Cannot change principals during re-authentication from User.alice: User.bob")
steps("X28", "the same", "RE", [*ALICE, *ALICE, who], [0, 0, 0, 0, "User:alice"])
steps("X28", "another user", "RE", [*ALICE, *plain("bob"), end], [0, 0, 0, CHANGED, CLOSED])
steps("X28", "mechanism", "RE", [*ALICE, shake("SCRAM-SHA-256"), token(b"n,,n=alice,r=a")], [0, 0, 0, CLOSED])
steps("X28", "wrong", "RE", [*ALICE, *plain("alice", "wrong"), end], [0, 0, 0, WRONG, CLOSED])
steps("X28", "request between", "RE", [*ALICE, shake(), metadata("t"), end], [0, 0, 0, 34, CLOSED])
steps("X29", "twice", "RE", [*ALICE, *ALICE, shake(), who], [0, 0, 0, 0, 34, "User:alice"])
for after in (metadata("t"), VERSIONS, fetch("f"), token(b"\0alice\0alice-pw")):
    steps("X30", type(after).__name__, "RE", [*ALICE, outlast, after], [0, 0, True, CLOSED])
steps("X30", "v0", "RE", [shake(version=0), b"\0alice\0alice-pw", outlast, metadata("t")], [0, b"", True, CLOSED])
steps("X30", "SaslAuthenticate v0", "RE", [*plain("alice", version=0), outlast, metadata()], [0, 0, True, CLOSED])
steps("X31", "handshake first", "RE", [*ALICE, outlast, *ALICE, who], [0, 0, True, 0, 0, "User:alice"])

# ---------------------------------------------------------------------------------------------------- TLS

presenting("X32", "none", "MTLS", Certificate(by=None), CLOSED)
presenting("X32", "untrusted", "MTLS", Certificate(by="stranger"), CLOSED)
presenting("X32", "expired", "MTLS", Certificate(days=(-9, -1)), CLOSED)
presenting("X32", "not yet valid", "MTLS", Certificate(days=(2, 9)), CLOSED)
presenting("X32", "of a server", "MTLS", Certificate(usage=ExtendedKeyUsageOID.SERVER_AUTH), CLOSED)
presenting("X32", "of a client", "MTLS", Certificate(usage=ExtendedKeyUsageOID.CLIENT_AUTH), "User:CN=client")
presenting("X32", "no name", "MTLS", Certificate(()), CLOSED)
presenting("X32", "alternative name", "MTLS", Certificate((), alternative="client"), "User:", CLOSED)
presenting("X33", "none", "REQ", Certificate(by=None), "User:ANONYMOUS")
presenting("X33", "good", "REQ", Certificate((("O", "Suite"), ("CN", "dora"))), "User:CN=dora,O=Suite")
presenting("X33", "untrusted", "REQ", Certificate(by="stranger"), CLOSED)
presenting("X33", "not asked for", "SSL", Certificate(), "User:ANONYMOUS")


def named(id: str, what: str, where: str, subject: tuple[tuple[str, str], ...], principal: str, code: int) -> None:
    """Add an attack by a name: the client's principal, and the code of what only super users may."""
    taken = partial(play, listener=where, steps=[who, EVERY_ACL], tls=Certificate(subject))
    row(id, what, taken, [f"User:{principal}", code])


EVERY_ACL = DescribeAclsRequest(2, ResourceType.ANY, None, None, None, Operation.ANY, Permission.ANY, PatternType.ANY)
named("X34", "admin itself", "MTLS", (("CN", "admin"),), "CN=admin", 0)
named("X34", "comma", "MTLS", (("CN", "x,OU=Eng"),), r"CN=x\,OU\=Eng", 31)
named("X34", "space", "MTLS", (("CN", " admin"),), r"CN=\ admin", 31)
MAIL = "CN=admin,1.2.840.113549.1.9.1=#16056140622e63"
named("X34", "e-mail", "MTLS", (("E", "a@b.c"), ("CN", "admin")), MAIL, 31)
named("X34", "in another", "MTLS", (("O", "A, CN=admin"),), r"O=A\, CN\=admin", 31)
named("X34", "more", "MTLS", (("CN", "admin"), ("O", "x")), "O=x,CN=admin", 31)
named("X35", "a part", "MAP", (("CN", "part"), ("O", "Suite")), "O=Suite,CN=part", 31)
named("X35", "whole", "MAP", (("CN", "part"),), "partial", 31)
named("X35", "no such group", "MAP", (("O", "Nine"), ("CN", "abc")), "abcx$9", 31)
named("X35", "lower case", "MAP", (("OU", "DEV"), ("CN", "svc-ops")), "ops@dev", 0)
presenting("X36", "revoked", "MTLS", Certificate(revoked=True), "User:CN=client")
for place in ("SSL", "MTLS", "SASLS"):
    row("X37", f"plain text on {place}", partial(play, listener=place, steps=[VERSIONS]), [CLOSED])
HELLO = Certificate(by=None)
for place in ("PLAINTEXT", "SASL"):
    row("X37", f"TLS on {place}", partial(play, listener=place, steps=[VERSIONS], tls=HELLO), [CLOSED])
OLD = Certificate(by=None, version=ssl.TLSVersion.TLSv1_1)
row("X37", "TLS 1.1", partial(play, listener="SSL", steps=[VERSIONS], tls=OLD), [CLOSED])


def renegotiates(broker: Broker) -> object:
    command = ("openssl", "s_client", "-connect", f"127.0.0.1:{broker.ports['SSL']}", "-tls1_2")
    with (broker.folder / "openssl").open("wb") as out:
        client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT)
    said = (broker.folder / "openssl").read_bytes
    assert client.stdin is not None
    try:
        until(lambda: b"Verify return code" in said(), what="a connection")
        client.stdin.write(b"R\n")
        client.stdin.flush()
        until(lambda: client.poll() is not None or b"no renegotiation" in said().lower(), what="a refusal")
    finally:
        client.kill()
        client.wait()
    return b"RENEGOTIATING" in said()


row("X37", "renegotiation", renegotiates, True)

# ---------------------------------------------------------------------------------------------------- slow clients


def silent(client: Client, data: bytes) -> object:
    client.socket.sendall(data)
    return client.end()


def dribbling(client: Client, data: bytes) -> object:
    """Send a byte every 0.6 seconds."""
    deadline, left = time.monotonic() + 1.5 * IDLE, iter(data)
    while time.monotonic() < deadline:
        try:
            client.socket.sendall(bytes([next(left)]))
            if not client.stays(0.6):
                return CLOSED
        except ConnectionError:
            return CLOSED
    return "open"


RECORD = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200)
FRAME = struct.pack(">i", 300) + header(17, 1) + bytes(200)


def slowly(step: Callable[[Client, bytes], object]) -> Attack:
    def attack(broker: Broker) -> object:
        def one(where: tuple[str, bytes]) -> object:
            with Client(broker, where[0]) as client:
                return step(client, where[1])

        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(one, (("SSL", RECORD), ("SASL", FRAME))))

    return attack


row("X38", "silence", slowly(silent), [CLOSED] * 2)
row("X38", "a byte now and then", slowly(dribbling), ["open"] * 2, [CLOSED] * 2)

# ---------------------------------------------------------------------------------------------------- rights

CONTROL = [api.sample(Target(TopicPartition("f", 0))) for api in APIS if api.control or api.key == 27]
for request in CONTROL:
    what = type(request).__name__
    steps("X39", f"{what} by alice", "SASL", [*ALICE, request], [0, 0, 31])
    for place in ("PLAINTEXT", "SSL"):
        steps("X39", f"{what} on {place}", place, [request], [31])
RIGHTS = {"allow": "alice", "operation": "ClusterAction", "cluster": True}


def orders(broker: Broker) -> object:
    with broker.granted(RIGHTS):
        return play(broker, "SASL", [*ALICE, CONTROL[0]])


row("X39", "with ClusterAction", orders, [0, 0, 77])
MEGABYTES = 1 << 20


def heavy(broker: Broker) -> object:
    process = psutil.Process(broker.running.process.pid)

    def used() -> int:
        return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))

    state = LeaderAndIsrPartitionState(TopicPartition("f", 0), 99, 7, 99, (7,), 0, (0,) * 2_500_000)
    request = LeaderAndIsrRequest(4, 0, 99, 1, (state,), ())
    before = used()
    seen = [play(broker, "SASL", [*ALICE, request]) for _ in range(4)]
    return seen, used() - before < (500 if broker.is_apache else 150) * MEGABYTES


row("X39", "10 MB", heavy, ([[0, 0, 31]] * 4, True))


def follower(broker: Broker) -> object:
    with broker.granted({"allow": "alice", "operation": "Read", "topic": "f"}):
        return play(broker, "SASL", [*ALICE, fetch("f"), fetch("f", 2, (0, 1))])


row("X40", "follower", follower, [0, 0, 0, 29])


def entry(
    name: str,
    operation: Operation = Operation.READ,
    principal: str = "User:alice",
    permission: Permission = Permission.ALLOW,
    host: str = "*",
    prefixed: bool = False,
) -> tuple[AclResource, Acl]:
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return AclResource(ResourceType.TOPIC, name, pattern), Acl(principal, host, operation, permission)


DENY = Permission.DENY
ASKED = {"Read": fetch, "Write": produce, "Describe": describe}
READ = entry("fo")
SOUP: list[tuple[list[Any], str]] = [
    ([entry("fo", prefixed=True)], "Read fo, Read foobar"),
    ([entry("*", prefixed=True)], ""),
    ([entry("*")], "Read f, Read fo, Read foobar"),
    ([READ, entry("f", permission=DENY, prefixed=True)], "Describe fo"),
    ([READ, entry("*", permission=DENY)], "Describe fo"),
    ([READ, entry("fo", principal="User:*", permission=DENY)], "Describe fo"),
    ([READ, entry("fo", principal="User:bob", permission=DENY)], "Read fo"),
    ([entry("fo", principal="User:*")], "Read fo"),
    ([entry("fo", principal=name) for name in ("user:alice", "User:Alice", "Group:alice", "alice:User")], ""),
    ([entry("fo", host="10.1.2.3")], ""),
    ([entry("fo", host="localhost")], ""),
    ([entry("fo", host="127.0.0.1")], "Read fo"),
    ([READ, entry("fo", host="127.0.0.1", permission=DENY)], "Describe fo"),
    ([READ, entry("fo", host="10.1.2.3", permission=DENY)], "Read fo"),
    ([entry("fo", Operation.ALL)], "Read fo, Write fo, Describe fo"),
    ([entry("fo", Operation.ALL, permission=DENY), READ], ""),
    ([entry("fo", Operation.WRITE)], "Write fo, Describe fo"),
    ([entry("fo", Operation.DELETE)], "Describe fo"),
    ([entry("fo", Operation.ALTER)], "Describe fo"),
    ([entry("fo", Operation.CREATE), entry("fo", Operation.ALTER_CONFIGS)], ""),
    ([entry("fo", permission=DENY), entry("fo", Operation.WRITE)], "Write fo, Describe fo"),
    ([entry("fo", Operation.DESCRIBE, permission=DENY), READ], "Read fo"),
    ([entry("fo", Operation.DESCRIBE)], "Describe fo"),
    ([(AclResource(ResourceType.GROUP, "fo"), READ[1])], ""),
]


def judged(acls: list[Any], allowed: str) -> Attack:
    def attack(broker: Broker) -> object:
        """Return whether exactly what is named is allowed (and whatever that implies)."""
        named = set(filter(None, allowed.split(", ")))
        implied = {f"Describe {each.split()[1]}" for each in named if not each.startswith("Describe")}
        with broker.granted(*acls):
            asked = [f"{operation} {name}" for operation in ASKED for name in ("f", "fo", "foobar")]
            made = [ASKED[each.split()[0]](each.split()[1]) for each in asked]
            codes = play(broker, "SASL", [*ALICE, *made])[2:]
        found = {each for each, code in zip(asked, codes, strict=True) if code != 29}
        return found - (implied - named), named - found

    return attack


for number, (acls, allowed) in enumerate(SOUP):
    row("X41", f"{number}: {allowed}", judged(acls, allowed), (set(filter(None, allowed.split(", "))), set()))


def super_user(broker: Broker) -> object:
    everyone = Acl("User:*", "*", Operation.ALL, DENY)
    cluster = AclResource(ResourceType.CLUSTER, KAFKA_CLUSTER), everyone
    with broker.granted(
        entry("fo", Operation.ALL, "User:admin", DENY), entry("fo", Operation.ALL, "User:*", DENY), cluster
    ):
        return play(broker, "SASL", [*plain("admin"), fetch("fo"), EVERY_ACL])


row("X41", "super user", super_user, [0, 0, 0, 0])


def hidden(name: str) -> Sequence[Any]:
    return [
        metadata(name),
        DeleteTopicsRequest(4, (name,), 1000),
        produce(name),
        describe(name),
        fetch(name),
        OffsetFetchRequest(6, "g", (OffsetFetchTopic(name, (0,)),)),
    ]


def fetched_offsets(broker: Broker) -> object:
    until(lambda: outcome(broker.admin(FindCoordinatorRequest(2, "g"))) == 0, what="a coordinator", timeout=60)
    with broker.granted({"allow": "dave", "operation": "Describe", "group": "g"}):
        seen = []
        for name in ("f", "absent"):
            until(
                lambda name=name: play(broker, "SASL", [*plain("dave"), hidden(name)[-1]])[2],
                lambda code: code not in (14, 15, 16),
                "the coordinator",
                timeout=60,
            )
            seen.append(play(broker, "SASL", [*plain("dave"), hidden(name)[-1]])[2:])
        return seen


for name in ("f", "absent"):
    steps("X42", name, "SASL", [*plain("dave"), *hidden(name)[:-1]], [0, 0, 29, 29, 29, 29, 29])
row("X42", "offsets", fetched_offsets, [[29]] * 2)


def creation(
    name: str, kind: int = ResourceType.TOPIC, who: str = "User:eve", what: int = Operation.READ, **more: int
) -> AclCreation:
    pattern, permission = more.get("pattern", PatternType.LITERAL), more.get("permission", Permission.ALLOW)
    return AclCreation(kind, name, who, "*", what, permission, pattern)


def created(*creations: AclCreation) -> Callable[[Client], object]:
    def step(client: Client) -> object:
        answer: Any = client.call(CreateAclsRequest(2, creations))
        return [each.error_code for each in answer.results]

    return step


def of_eve(client: Client) -> object:
    """Return the resources that have ACLs of eve, and remove these."""
    filter = DeleteAclsFilter(ResourceType.ANY, None, "User:eve", None, Operation.ANY, Permission.ANY, PatternType.ANY)
    answer: Any = client.call(DeleteAclsRequest(2, (filter,)))
    return sorted({each.resource_name for each in answer.filter_results[0].matching_acls})


MIXED = [
    creation("a/b"),
    creation("good"),
    creation(""),
    creation("x", ResourceType.CLUSTER),
    creation("t", what=99),
    creation("t2", who="alice"),
    creation(".."),
]
ADMIN = plain("admin")
steps("X43", "mixed", "SASL", [*ADMIN, created(*MIXED), of_eve], [0, 0, [42, 0, 42, 42, 42, -1, -1], ["good"]])
ONE = creation("same"), creation("same", who="alice"), creation("other")
steps("X43", "one resource", "SASL", [*ADMIN, created(*ONE), of_eve], [0, 0, [-1, -1, 0], ["other"]])
for what, bad in {
    "operation": creation("t", what=Operation.ANY),
    "permission": creation("t", permission=Permission.ANY),
    "pattern": creation("t", pattern=PatternType.ANY),
    "match": creation("t", pattern=PatternType.MATCH),
    "type": creation("t", ResourceType.ANY),
}.items():
    steps("X43", f"any {what}", "SASL", [*ADMIN, created(bad, creation("u")), of_eve], [0, 0, [-1, -1], []])
steps("X43", "code 0", "SASL", [*ADMIN, created(creation("t", what=0))], [0, 0, CLOSED])
steps("X43", "without rights", "SASL", [*ALICE, created(*MIXED[:2]), EVERY_ACL], [0, 0, [31, 31], 31])


def stored(data: bytes | None, *before: bytes, rubbish: bool = False) -> Attack:
    """Return an attack that writes the ACLs of a topic to ZooKeeper, and sees what alice may read then."""

    def attack(broker: Broker) -> object:
        zk = broker.zk

        def write(name: str, content: bytes | None) -> None:
            path = f"/kafka-acl/Topic/{name}"
            if content is None:
                if zk.exists(path):
                    zk.delete(path)
            else:
                zk.ensure_path(path)
                zk.set(path, content)
            zk.create("/kafka-acl-changes/acl_changes_", f"TOPIC:{name}".encode(), sequence=True)

        def reads(name: str) -> object:
            return play(broker, "SASL", [*ALICE, fetch(name)])[2]

        try:
            for content in (*before, data):
                if rubbish:
                    for note in (b"rubbish", b""):
                        zk.create("/kafka-acl-changes/acl_changes_", note, sequence=True)
                write("fo", content)
                write("foobar", acls_of("Read"))  # this notification comes later
                until(lambda: reads("foobar"), lambda code: code == 0, "the notification")
                write("foobar", None)
                until(lambda: reads("foobar"), lambda code: code == 29, "the notification")
            return reads("fo")
        finally:
            write("fo", None)
            until(lambda: reads("fo"), lambda code: code == 29, "the ACLs are gone")

    return attack


def acls_of(*operations: str, permission: str = "Allow", version: int = 1) -> bytes:
    acls = [
        {"principal": "User:alice", "permissionType": permission, "host": "*", "operation": operation}
        for operation in operations
    ]
    return json.dumps({"version": version, "acls": acls}).encode()


GOOD = acls_of("Read")
row("X44", "good", stored(GOOD), 0)
row("X44", "garbage", stored(b"garbage", GOOD), 29, 0)
row("X44", "garbage from the start", stored(b"garbage"), 29)
row("X44", "version 2", stored(acls_of("Write", version=2), GOOD), 0)
row("X44", "unknown operation", stored(acls_of("Fly")), 29)
row("X44", "unknown operation too", stored(acls_of("Fly", "Read")), 0)
row("X44", "lower case", stored(acls_of("read", permission="allow")), 0)
row("X44", "after rubbish", stored(GOOD, rubbish=True), 0)


# ---------------------------------------------------------------------------------------------------- the test


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"), force_sync=False) as server:
        yield f"127.0.0.1:{server.port}"


@pytest.fixture(scope="module", params=["ours", pytest.param("apache", marks=pytest.mark.apache)])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, zookeeper: str
) -> Iterator[Broker]:
    start: Any = OurNode
    if request.param == "apache":
        start = partial(ApacheBroker, request.getfixturevalue("apache_jars"))
    folder = tmp_path_factory.mktemp("broker") / request.param
    made = Broker(request.param, folder, f"{zookeeper}/{request.param}", start)
    try:
        made.create_topics("f", "fo", "foobar")
        yield made
    finally:
        made.stop()


@pytest.mark.parametrize(("attack", "apache", "ours"), ROWS)
def test_an_attacker_sees_what_the_table_says(broker: Broker, attack: Attack, apache: object, ours: object) -> None:
    assert attack(broker) == (apache if broker.is_apache else ours)
    assert broker.running.process.poll() is None
