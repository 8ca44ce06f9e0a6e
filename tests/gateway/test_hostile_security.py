"""Hostile bytes in TLS, SASL, certificates and ACLs: an error at most, and no memory beyond the input."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from random import Random
from typing import Any

import attrs
import psutil
import pytest

from actors.core.security.distinguished_name import MappingRule, alternative_names_of, principal_of
from actors.core.security.sasl_exchange import AuthenticationFailed, plain
from actors.core.security.scram import ScramClient, ScramServer
from actors.gateway.tls_stream import TlsSocket
from actors.node.tls_settings import listener_tls
from messages.acls import Acl, AclResource, AclsChanged, Operation, PatternType, Permission, ResourceAcls, ResourceType
from messages.security import Secret
from tests.core.security.test_acls import table
from tests.node.test_key_stores import DER, STORES, stored
from zk_bridge.acls import _resource_in, decode_acls, encode_acls
from zk_bridge.znodes import BadZnode


@attrs.frozen(repr=False)
class Target:
    """A reader of hostile bytes: valid inputs, the reader, and the errors that it may raise."""

    inputs: list[bytes]
    read: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]


class FakeSocket:
    """A socket that receives these bytes, a few at a time, and then waits."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def recv_into(self, buffer: Any) -> int:
        if not self._data:
            raise BlockingIOError
        part, self._data = self._data[:700], self._data[700:]
        buffer[: len(part)] = part
        return len(part)

    def send(self, data: bytes) -> int:
        return len(data)

    def close(self) -> None:
        pass


def decide(data: bytes) -> None:
    """Let a principal, a host and a name from outside be judged."""
    text = data.decode("utf-8", "replace")
    acls = Acl(text, text, Operation.READ, Permission.ALLOW), Acl("User:*", text, Operation.ALL, Permission.DENY)
    decider = table(ResourceAcls(AclResource(ResourceType.TOPIC, text, PatternType.PREFIXED), acls))
    assert not decider.allows("User:x", "127.0.0.1", Operation.READ, ResourceType.TOPIC, f"a{text}" if text else "")
    decider.change(AclsChanged((), all=True))
    assert not decider.allows(text, text, Operation.READ, ResourceType.TOPIC, "topic")


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> list[Target]:
    words = stored(tmp_path_factory.mktemp("stores"), *STORES["PEM"], "PEM")
    tls = listener_tls(lambda name, default="": words.get(name, default), is_between=True)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.client.wrap_bio(back, there, server_hostname="localhost").do_handshake()

    def shake(data: bytes) -> None:
        received: Any = FakeSocket(data)
        buffer = bytearray(1000)
        with contextlib.closing(TlsSocket(received, tls.server, lambda certificate: None)) as server:
            for _ in range(5):
                server.recv_into(buffer)
        raise AssertionError("a request was read before the handshake")

    scram = ScramClient("SCRAM-SHA-256", "alice", Secret(b"pw"), "nonce")

    def exchange(data: bytes) -> None:
        first, _, last = data.partition(b"\n")
        server = ScramServer("SCRAM-SHA-256", lambda *_: None, "server", Secret(b"key"))
        server.respond(first)
        server.respond(last)
        raise AssertionError("an unknown user has authenticated")

    def authenticate(data: bytes) -> None:
        plain({"alice": Secret(b"alice-pw")})(data)

    acls = encode_acls((Acl("User:alice", "*", Operation.READ, Permission.ALLOW),))
    return [
        Target([there.read(), b"\x16\x03\x01\x40\x00", b"GET / HTTP/1.1\r\n"], shake, (OSError,)),
        Target(
            DER,
            lambda data: (principal_of(data, [MappingRule()]), alternative_names_of(data)),
            (ValueError,),
        ),
        Target([scram.first() + b"\nc=biws,r=nonceserver,p=YWJj"], exchange, (AuthenticationFailed,)),
        Target([b"\0alice\0alice-pw", b"a\0b\0c\0d"], authenticate, (AuthenticationFailed,)),
        Target([acls], lambda data: decode_acls("/kafka-acl/Topic/t", data), (BadZnode,)),
        Target(
            [b"TOPIC:t", b'{"version":1,"resourceType":"TOPIC","name":"t","patternType":"PREFIXED"}'],
            lambda data: _resource_in("/kafka-acl-changes/acl_changes_1", data),
            (BadZnode,),
        ),
        Target([b"User:alice", b"::1", b"\xff"], decide, ()),
    ]


async def attack(target: Target, random: Random, count: int) -> None:
    """Let the reader read valid inputs with other bytes in a place, until it has read this many bytes.

    A TLS handshake needs a running loop.
    """
    while count > 0:
        valid = random.choice(target.inputs)
        at = random.randrange(len(valid) + 1)
        hostile = valid[:at] + random.randbytes(random.randrange(40)) + valid[at + random.randrange(20) :]
        count -= len(hostile)
        with contextlib.suppress(target.errors):
            target.read(hostile)


def test_hostile_bytes_are_errors_at_most(targets: list[Target]) -> None:
    for target in targets:
        asyncio.run(attack(target, Random(0), 10_000))


@pytest.mark.soak
@pytest.mark.long
def test_a_million_hostile_bytes_are_errors_at_most(targets: list[Target], pytestconfig: pytest.Config) -> None:
    random, process = Random(pytestconfig.getoption("soak_seed")), psutil.Process()
    for target in targets:
        asyncio.run(attack(target, random, 100_000))
        before = process.memory_info().rss
        asyncio.run(attack(target, random, 1_000_000))
        assert process.memory_info().rss - before < 4 << 20
