"""TLS on real sockets: a node's listener and its network gateway, with certificates made for the test."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from actors.gateway import tls_stream
from actors.gateway.listener import ListenerGateway
from actors.gateway.network import NetworkGateway
from actors.node.process import raise_limit
from actors.node.settings import LoadedSettings, SettingsError, settings_of
from actors.runtime import LocalBase, RealClock
from messages import network
from messages.apis.api_versions import ApiVersionRange, ApiVersionsRequest, ApiVersionsResponse
from messages.cluster import Endpoint
from messages.node import ServeClients
from messages.wire import decode_response, encode_request
from tests.gateway.gateways import eventually, turns

LARGE = tuple(ApiVersionRange(key % 100, 0, 1) for key in range(100_000))
REQUEST = ApiVersionsRequest(3, "test", "1")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return PEM files with a key and a self-signed certificate each."""
    folder = tmp_path_factory.mktemp("certificates")
    return {name: str(made(folder, name)) for name in ("node", "stranger")}


NAMES = "subjectAltName=IP:127.0.0.1"


def made(folder: Path, name: str, alternatives: str = NAMES) -> Path:
    file = folder / f"{name}.pem"
    new = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    names = ("-subj", f"/O=Test/CN={name}", "-addext", alternatives)
    subprocess.run((*new, *names, "-keyout", str(file), "-out", str(folder / "cert")), check=True, capture_output=True)
    file.write_text(file.read_text() + (folder / "cert").read_text())
    return file


NODE = {
    "broker.id": "0",
    "zookeeper.connect": "h:2181",
    "log.dirs": "/nowhere",
    "listeners": "INT://127.0.0.1:0",
    "listener.security.protocol.map": "INT:SSL",
    "inter.broker.listener.name": "INT",
}
SASL = {
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.int.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="a" password="b" user_a="b";',
}


def loaded(keystore: str, truststore: str, **changes: str) -> LoadedSettings:
    return settings_of(
        {
            **NODE,
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.keystore.location": keystore,
            "listener.name.int.ssl.truststore.location": truststore,
            "listener.name.int.ssl.client.auth": "required",
            **{name.replace("__", "."): value for name, value in changes.items()},
        }
    )


def run(scenario: Any, server: LoadedSettings, client: LoadedSettings) -> list[Any]:
    """Run `scenario(endpoint, transmit)`; return what the listener sent to the actors."""
    seen: list[Any] = []

    async def main() -> None:
        base = LocalBase(clock=RealClock())
        listener = ListenerGateway(base, server.settings, server.security)
        outgoing = NetworkGateway(base, security=client.security)

        def handle(message: Any, sender: Any) -> None:
            seen.append(message)
            if isinstance(message, network.ClientRequest):
                base.inject(listener.address, message.reply(ApiVersionsResponse(0, LARGE)), handler)

        handler = base.external_endpoint("handler", handle)
        base.attach(asyncio.get_running_loop())
        await listener.bind()
        base.inject(listener.address, ServeClients(handler, None, None), handler)
        endpoint = Endpoint("INT", "127.0.0.1", listener.ports["INT"], "SSL")

        async def transmit() -> Any:
            base.inject(outgoing.address, network.Transmit("c", endpoint, 1, "me", REQUEST, 10.0), handler)
            outcomes = network.Received | network.TransmitFailed
            await eventually(lambda: any(isinstance(each, outcomes) for each in seen))
            return next(each for each in seen if isinstance(each, outcomes))

        try:
            await asyncio.wait_for(scenario(endpoint, transmit), 20)
        finally:
            await outgoing.stop()
            await listener.stop()
            base.detach()

    asyncio.run(main())
    return seen


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_large_response_arrives_whole_and_the_certificate_names_the_client(
    certificates: dict[str, str], version: str
) -> None:
    node = loaded(certificates["node"], certificates["node"], ssl__enabled__protocols=version)

    async def scenario(endpoint: Endpoint, transmit: Any) -> None:
        received = await transmit()
        assert received.response.api_keys == LARGE

    seen = run(scenario, node, node)
    (authenticated,) = next(each for each in seen if isinstance(each, network.ClientsAuthenticated)).authentications
    request = next(each for each in seen if isinstance(each, network.ClientRequest))
    assert authenticated.principal == request.principal == "User:CN=node,O=Test"


def test_pipelined_requests_in_one_record_are_all_answered(certificates: dict[str, str]) -> None:
    node = loaded(certificates["node"], certificates["node"])

    async def scenario(endpoint: Endpoint, transmit: Any) -> None:
        context = node.security["INT"].tls
        assert context is not None
        reader, writer = await asyncio.open_connection(
            endpoint.host, endpoint.port, ssl=context.client, server_hostname=endpoint.host
        )
        writer.write(b"".join(encode_request(REQUEST, number, "c") for number in range(4)))
        for number in range(4):
            frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            assert decode_response(ApiVersionsRequest, 3, frame)[0] == number
        writer.close()

    run(scenario, node, node)


def test_a_first_record_may_arrive_in_bytes(certificates: dict[str, str]) -> None:
    node = loaded(certificates["node"], certificates["node"])

    async def scenario(endpoint: Endpoint, transmit: Any) -> None:
        context = node.security["INT"].tls
        assert context is not None
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.client.wrap_bio(back, there, server_hostname=endpoint.host)
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        for byte in there.read():
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        while tls.version() is None:
            back.write(await reader.read(1 << 16))
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
        tls.write(encode_request(REQUEST, 5, "c"))
        writer.write(there.read())
        back.write(await reader.read(1 << 16))
        assert tls.read(8)[4:] == (5).to_bytes(4, "big")
        writer.close()

    run(scenario, node, node)


def test_few_steps_of_handshakes_run_in_a_turn(certificates: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    node = loaded(certificates["node"], certificates["node"])
    steps: list[int] = []
    turn = 0
    step = tls_stream.TlsSocket._read

    def counted(self: Any, read: Any) -> bytes:
        if not self.is_established:
            steps.append(turn)
        return step(self, read)

    monkeypatch.setattr(tls_stream.TlsSocket, "_read", counted)

    async def scenario(endpoint: Endpoint, transmit: Any) -> None:
        tls = node.security["INT"].tls
        assert tls is not None
        loop = asyncio.get_running_loop()

        def next_turn() -> None:
            nonlocal turn
            turn += 1
            loop.call_soon(next_turn)

        next_turn()
        opening = (
            asyncio.open_connection(endpoint.host, endpoint.port, ssl=tls.client, server_hostname=endpoint.host)
            for _ in range(12)
        )
        for _, writer in await asyncio.gather(*opening):
            writer.close()

    run(scenario, node, node)
    assert len(steps) >= 12
    assert max(Counter(steps).values()) <= tls_stream.HANDSHAKES


@cache
def hello() -> bytes:
    """Return a client's first record."""
    there = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), there, server_hostname="localhost").do_handshake()
    return there.read()


def test_a_handshake_waits_for_others_and_the_oldest_is_ended_for_it(
    certificates: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = loaded(certificates["node"], certificates["node"])
    monkeypatch.setattr(tls_stream, "MOST_HANDSHAKES", 2)
    monkeypatch.setattr(tls_stream, "PATIENCE", 0.2)

    async def scenario(endpoint: Endpoint, transmit: Any) -> None:
        silent = []
        for _ in range(2):
            silent.append(await asyncio.open_connection(endpoint.host, endpoint.port))
            silent[-1][1].write(hello())
            assert await silent[-1][0].readexactly(5)
        silent.append(await asyncio.open_connection(endpoint.host, endpoint.port))
        silent[-1][1].write(hello() + bytes(100_000))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(silent[-1][0].readexactly(5), 0.05)
        assert await silent[-1][0].readexactly(5)
        await silent[0][0].read()  # to the end
        silent.append(await asyncio.open_connection(endpoint.host, endpoint.port))
        silent[-1][1].write(hello())
        silent[-1][1].close()  # while it waits
        assert (await transmit()).response.api_keys == LARGE
        for _, writer in silent:
            writer.close()

    run(scenario, node, node)


HALF_A_HELLO = b"\x16\x03\x01\x02\x00" + bytes(100)


@pytest.mark.soak
@pytest.mark.long
@pytest.mark.parametrize(
    ("protocol", "sent", "kilobytes"),
    [
        ("PLAINTEXT", b"", 15),
        ("SASL_PLAINTEXT", b"", 15),
        ("SSL", b"", 15),
        ("SSL", HALF_A_HELLO, 35),
        ("SSL", None, 35),
    ],
    ids=["PLAINTEXT", "SASL", "TLS", "half a hello", "hello"],
)
def test_a_thousand_silent_clients_take_little_memory(
    certificates: dict[str, str], protocol: str, sent: bytes | None, kilobytes: int
) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    if protocol == "SSL":
        node = loaded(certificates["node"], certificates["node"])
    else:
        node = settings_of({**NODE, **SASL, "listener.security.protocol.map": f"INT:{protocol}"}, insecure=True)
    raise_limit()

    async def scenario(endpoint: Endpoint, transmit: Any) -> None:
        async def connected(count: int) -> list[socket.socket]:
            clients = []
            for _ in range(count):
                clients.append(socket.create_connection((endpoint.host, endpoint.port)))
                clients[-1].sendall(hello() if sent is None else sent)
                await asyncio.sleep(0)
            await turns(1000)
            return clients

        clients = await connected(100)
        before = resident()
        clients += await connected(1000)
        assert (resident() - before) / 1000 < kilobytes * 1024
        for client in clients:
            client.close()

    run(scenario, node, node)


@pytest.mark.parametrize(("server", "client"), [("node", "stranger"), ("stranger", "node")])
def test_a_stranger_gets_no_byte_and_no_actor_sees_it(certificates: dict[str, str], server: str, client: str) -> None:
    trusting = loaded(certificates[server], certificates[server]), loaded(certificates[client], certificates[client])

    async def scenario(endpoint: Endpoint, transmit: Any) -> None:
        assert isinstance(await transmit(), network.TransmitFailed)

    assert not [each for each in run(scenario, *trusting) if isinstance(each, network.ClientRequest)]


def test_plain_text_on_a_tls_port_is_closed(certificates: dict[str, str]) -> None:
    node = loaded(certificates["node"], certificates["node"])

    async def scenario(endpoint: Endpoint, transmit: Any) -> None:
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.write(encode_request(REQUEST, 1, "c"))
        assert (await reader.read())[:1] in (b"", b"\x15")
        writer.close()

    assert not [each for each in run(scenario, node, node) if isinstance(each, network.ClientRequest)]


def test_a_new_certificate_counts_for_new_connections(certificates: dict[str, str], tmp_path: Path) -> None:
    keystore = tmp_path / "keystore.pem"
    keystore.write_text(Path(certificates["node"]).read_text())
    renewed = made(tmp_path, "node").read_text()
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(keystore.read_text() + renewed)
    node = loaded(str(keystore), str(trusted))
    client = loaded(certificates["node"], str(trusted)).security["INT"].tls
    assert client is not None

    async def scenario(endpoint: Endpoint, transmit: Any) -> None:
        async def connected() -> Any:
            return await asyncio.open_connection(
                endpoint.host, endpoint.port, ssl=client.client, server_hostname=endpoint.host
            )

        def certificate(writer: Any) -> Any:
            return ssl.DER_cert_to_PEM_cert(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))

        old = await connected()
        assert node.stores.reload(()) == ""
        os.utime(keystore, (1, 1))  # the file has changed, its content has not
        keystore.write_text(renewed)
        unused = await connected()
        assert certificate(unused[1]) == certificate(old[1])
        assert node.stores.problem(()) == node.stores.reload(()) == ""
        new = await connected()
        assert certificate(new[1]) in renewed
        for reader, writer in (old, unused, new):
            writer.write(encode_request(REQUEST, 1, "c"))
            assert await reader.readexactly(4)
            writer.close()

    run(scenario, node, node)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("stranger", "", "Keystore DistinguishedName does not match: existing=CN=node,O=Test, new=CN=stranger,O=Test"),
        ("node", "subjectAltName=IP:127.0.0.2", "Keystore SubjectAltNames do not match"),
        ("", "garbage", "the key store cannot be used"),
    ],
)
def test_a_store_that_cannot_replace_the_old_one_leaves_it(
    certificates: dict[str, str], tmp_path: Path, name: str, content: str, problem: str
) -> None:
    other = tmp_path / "other.pem"
    if name:
        made(tmp_path, name, content or NAMES).rename(other)
    else:
        other.write_text(content)
    node = loaded(certificates["node"], certificates["node"])
    before = node.security["INT"]
    overrides = (
        ("listener.name.int.ssl.keystore.location", str(other)),
        ("listener.name.int.ssl.truststore.location", str(other)),
    )
    assert problem in node.stores.problem(overrides)
    assert problem in node.stores.reload(overrides)
    assert node.security["INT"] is before


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"ssl.keystore.type": "BKS"}, "ssl.keystore.type=BKS is not"),
        ({"ssl.keystore.location": "/missing"}, "No such file"),
        ({"listener.name.int.ssl.client.auth": "maybe"}, "ssl.client.auth=maybe"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.2 and TLSv1.3"),
        ({"ssl.principal.mapping.rules": "RULE:x"}, "Invalid rule"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "TLS_CHACHA20_POLY1305_SHA256: the suites of TLSv1.3"),
        ({"ssl.cipher.suites": "ALL"}, "Unsupported CipherSuite: ALL"),
        ({"ssl.engine.factory.class": "x"}, "Unsupported security settings: ssl.engine.factory.class"),
    ],
)
def test_what_is_not_supported_stops_the_start(
    certificates: dict[str, str], changes: dict[str, str], named: str
) -> None:
    with pytest.raises(SettingsError, match=named.replace(".", r"\.")):
        loaded(certificates["node"], certificates["node"], **changes)


def test_a_context_has_no_old_version_and_no_ticket(certificates: dict[str, str]) -> None:
    tls = loaded(certificates["node"], certificates["node"]).security["INT"].tls
    assert tls is not None
    assert (tls.server.minimum_version, tls.server.num_tickets) == (ssl.TLSVersion.TLSv1_2, 0)
    assert (tls.server.verify_mode, tls.client.check_hostname) == (ssl.CERT_REQUIRED, True)
