"""SASL on real sockets: a node's listener and its network gateway, and what the actors receive."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import struct
from typing import Any

import pytest

from actors.gateway.authentication import SaslAuthentication
from actors.gateway.connection import Connection
from actors.gateway.listener import ListenerGateway
from actors.gateway.network import NetworkGateway
from actors.node.settings import SettingsError, settings_of
from actors.runtime import LocalBase, RealClock
from messages import network
from messages.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from messages.apis.sasl_authenticate import SaslAuthenticateRequest
from messages.apis.sasl_handshake import SaslHandshakeRequest
from messages.cluster import Endpoint
from messages.node import ServeClients
from messages.security import Secret
from messages.trace.codec import encode
from messages.wire import decode_response, encode_request
from tests.gateway.gateways import eventually

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PROPERTIES = {
    "broker.id": "0",
    "zookeeper.connect": "h:2181",
    "log.dirs": "/nowhere",
    "listeners": "INT://127.0.0.1:0",
    "listener.security.protocol.map": "INT:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "INT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "connection.failed.authentication.delay.ms": "0",
    "listener.name.int.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.int.plain.sasl.jaas.config": f'{PLAIN} username="node" password="swordfish" user_node="swordfish";',
}
REQUEST = ApiVersionsRequest(3, "test", "1")
"""Any request of an authenticated client."""


def run(scenario: Any, **changes: str) -> None:
    """Run `scenario(endpoint, seen, transmit)`: a listener, what it sends to actors, and a node's outgoing request."""
    changed = PROPERTIES | {name.replace("__", "."): value for name, value in changes.items()}
    loaded = settings_of({name: value for name, value in changed.items() if value})

    async def main() -> None:
        base, seen = LocalBase(clock=RealClock()), list[Any]()
        listener = ListenerGateway(base, loaded.settings, loaded.security)
        outgoing = NetworkGateway(base, security=loaded.security)

        def handle(message: Any, sender: Any) -> None:
            seen.append(message)
            if isinstance(message, network.ClientRequest):
                base.inject(listener.address, message.reply(ApiVersionsResponse(0, ())), handler)

        handler = base.external_endpoint("handler", handle)
        base.attach(asyncio.get_running_loop())
        await listener.bind()
        base.inject(listener.address, ServeClients(handler, None, None), handler)
        endpoint = Endpoint("INT", "127.0.0.1", listener.ports["INT"], "SASL_PLAINTEXT")

        async def transmit() -> Any:
            base.inject(outgoing.address, network.Transmit("c", endpoint, 1, "me", REQUEST, 10.0), handler)
            outcomes = network.Received | network.TransmitFailed
            await eventually(lambda: isinstance(seen[-1] if seen else None, outcomes))
            return seen.pop()

        try:
            await asyncio.wait_for(scenario(endpoint, seen, transmit), 20)
        finally:
            await outgoing.stop()
            await listener.stop()
            base.detach()

    asyncio.run(main())


def test_a_node_authenticates_to_another_and_its_requests_name_it() -> None:
    async def scenario(endpoint: Endpoint, seen: list[Any], transmit: Any) -> None:
        assert isinstance(await transmit(), network.Received)
        reported, request = seen
        (authenticated,) = reported.authentications
        assert authenticated.principal == request.principal == "User:node"
        assert (authenticated.mechanism, authenticated.listener) == ("PLAIN", "INT")
        assert not any("swordfish" in repr(each) or b"swordfish" in encode(each)[1] for each in seen)

    run(scenario)


def test_nodes_authenticate_to_each_other_by_unsecured_tokens() -> None:
    async def scenario(endpoint: Endpoint, seen: list[Any], transmit: Any) -> None:
        assert isinstance(await transmit(), network.Received)
        (authenticated,) = seen[0].authentications
        assert (authenticated.principal, authenticated.mechanism) == ("User:node", "OAUTHBEARER")
        assert 3_590_000 < authenticated.lifetime_ms <= 3_600_000

    module = PLAIN.replace("plain.PlainLoginModule", "oauthbearer.OAuthBearerLoginModule")
    run(
        scenario,
        sasl__mechanism__inter__broker__protocol="OAUTHBEARER",
        listener__name__int__sasl__enabled__mechanisms="OAUTHBEARER",
        listener__name__int__plain__sasl__jaas__config="",
        listener__name__int__oauthbearer__sasl__jaas__config=f"{module} unsecuredLoginStringClaim_sub=node;",
    )


def test_a_channel_authenticates_again_before_its_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(endpoint: Endpoint, seen: list[Any], transmit: Any) -> None:
        assert isinstance(await transmit(), network.Received)
        await eventually(lambda: [type(each) for each in seen].count(network.ClientsAuthenticated) == 2)
        ((first,), (again,)) = (each.authentications for each in seen if isinstance(each, network.ClientsAuthenticated))
        assert first == again == ("INT", "PLAIN", "User:node", "127.0.0.1", 60_000, 1)

    monkeypatch.setattr("actors.gateway.network.REAUTHENTICATION", 0.0)
    monkeypatch.setattr("actors.gateway.paced_reports.SECONDS", 0.05)
    run(scenario, listener__name__int__connections__max__reauth__ms="60000")


def test_a_node_with_another_password_is_refused_and_only_the_number_of_failures_is_sent() -> None:
    async def scenario(endpoint: Endpoint, seen: list[Any], transmit: Any) -> None:
        failed = await transmit()
        assert failed.reason == "authentication failed: Authentication failed: Invalid username or password"
        await eventually(lambda: seen)
        assert seen == [network.AuthenticationsFailed((network.FailedAuthentications("INT", "PLAIN", 1),))]

    jaas = f'{PLAIN} username="node" password="guess" user_node="swordfish";'
    run(scenario, listener__name__int__plain__sasl__jaas__config=jaas)


HANDSHAKE = encode_request(SaslHandshakeRequest(1, "PLAIN"), 1, "c")
LOGIN = encode_request(SaslAuthenticateRequest(1, Secret(b"\0node\0swordfish")), 2, "c")


def test_a_client_that_logs_in_and_leaves_is_freed_without_the_garbage_collector() -> None:
    async def scenario(endpoint: Endpoint, seen: list[Any], transmit: Any) -> None:
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        for request in (HANDSHAKE, LOGIN):
            writer.write(request)
            assert await reader.read(1000)
        assert of_clients() == 2
        writer.close()
        await eventually(lambda: not of_clients())

    def of_clients() -> int:
        return sum(isinstance(each, Connection | SaslAuthentication) for each in gc.get_objects())

    gc.collect()  # of earlier tests
    gc.disable()
    try:
        run(scenario)
    finally:
        gc.enable()


def test_a_client_that_sends_a_byte_now_and_then_is_disconnected_at_its_own_deadline() -> None:
    async def scenario(endpoint: Endpoint, seen: list[Any], transmit: Any) -> None:
        loop, now, halfway = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        now.set()

        async def dribble(begin: asyncio.Event, logs_in: bool) -> float | None:
            """Return the seconds after which the client is disconnected, if it is."""
            await begin.wait()
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            began = loop.time()
            for request in (HANDSHAKE, LOGIN) if logs_in else ():
                writer.write(request)
                assert await reader.read(1000)
            for sent, byte in enumerate(struct.pack(">i", 99) + b"0123456789012345"):
                if sent == 4:
                    halfway.set()
                writer.write(bytes((byte,)))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.05):
                        assert not await reader.read(1000)
                        return loop.time() - began
            writer.close()
            return None

        first, client, last = await asyncio.gather(dribble(now, False), dribble(now, True), dribble(halfway, False))
        assert client is None
        assert first is not None and last is not None
        assert 0.4 <= first < 0.9 and 0.4 <= last < 0.9

    run(scenario, connections__max__idle__ms="400")


@pytest.mark.parametrize(
    "sent",
    [
        encode_request(SaslAuthenticateRequest(1, Secret(b"\0node\0swordfish")), 1, "c"),
        struct.pack(">i", 524289) + b"x",
        struct.pack(">i", 0),
        struct.pack(">i", -1),
        struct.pack(">ihh", 4, 99, 0),
        encode_request(SaslHandshakeRequest(1, "PLAIN"), 1, "c")[:-3] + b"abc" + struct.pack(">i", 3) + b"xyz",
    ],
)
def test_a_connection_that_sends_anything_else_first_is_closed_and_no_actor_sees_it(sent: bytes) -> None:
    async def scenario(endpoint: Endpoint, seen: list[Any], transmit: Any) -> None:
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.write(sent)
        answer = await reader.read()
        writer.close()
        assert not answer or decode_response(SaslHandshakeRequest, 1, answer[4:])[1].error_code == 33
        assert not [each for each in seen if not isinstance(each, network.AuthenticationsFailed)]

    run(scenario)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"listener.name.int.sasl.enabled.mechanisms": "GSSAPI"}, "GSSAPI needs a Kerberos library"),
        ({"listener.name.int.sasl.enabled.mechanisms": "PLAIN,X"}, "SASL mechanism X"),
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "must be included in sasl.enabled.mechanisms"),
        ({"listener.name.int.plain.sasl.jaas.config": "a.B required;"}, "its login module must be"),
        ({"listener.name.int.plain.sasl.jaas.config": f"{PLAIN};"}, "has no username and password"),
        ({"listener.name.int.plain.sasl.jaas.config": f"{PLAIN} username=a;"}, "no password"),
        ({"listener.name.int.connections.max.reauth.ms": "soon"}, "connections.max.reauth.ms=soon"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "file:/keys"}, "sasl.oauthbearer.jwks.endpoint.url"),
        ({"sasl.oauthbearer.token.endpoint.url": "http://h"}, "sasl.oauthbearer.token.endpoint.url"),
        ({"sasl.jaas.config": f"{PLAIN};"}, "Unsupported security settings: sasl.jaas.config"),
        ({"listener.name.int.ssl.keystore.location": "k"}, "listener.name.int.ssl.keystore.location"),
        ({"listener.name.other.sasl.enabled.mechanisms": "PLAIN"}, "listener.name.other.sasl.enabled.mechanisms"),
        ({"authorizer.class.name": "my.Authorizer"}, "authorizer.class.name=my.Authorizer"),
        ({"listener.security.protocol.map": "INT:QUIC"}, "listener INT wants QUIC"),
    ],
)
def test_what_is_not_honoured_stops_the_start_by_name_and_shows_no_password(
    changes: dict[str, str], named: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        settings_of(PROPERTIES | changes)
    assert named in str(caught.value) and "swordfish" not in str(caught.value)


def test_settings_and_warnings_hold_no_password() -> None:
    loaded = settings_of(PROPERTIES)
    assert "swordfish" not in f"{loaded} {encode(loaded.settings)} {loaded.warnings}"
    assert any("unencrypted" in warning for warning in loaded.warnings)
