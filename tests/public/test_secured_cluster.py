"""Secured clusters: each kind starts, and clients with the settings of `client_config` do what the ACLs allow."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.cli.app import run
from actors.core.security.scram import ScramClient, salt_password
from actors.node.properties import write_properties
from actors.public.kafka_cluster import ClusterError, KafkaCluster
from messages.apis import delegation_tokens as tokens
from messages.apis import user_scram_credentials as users
from messages.apis.metadata import MetadataRequest
from messages.apis.sasl_authenticate import SaslAuthenticateRequest
from messages.apis.sasl_handshake import SaslHandshakeRequest
from messages.security import Secret
from messages.trace.files.frames import read_frames
from messages.trace.text import decompress
from tests.waiting import until
from tests.wire_client import WireClient

Tool = Callable[..., list[str]]
MECHANISM = "SCRAM-SHA-256"
USERS = {"alice": "alice-pw", "bob": "bob-pw", "carol": "carol-pw"}
HMACS: list[str] = []
"""The secrets of the delegation tokens that were created."""
ACLS = [
    {"allow": "alice", "operation": "Read", "topic": "or", "prefixed": True},
    {"deny": "carol", "operation": "All", "topic": "*"},
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    settings = {"delegation.token.secret.key": "token-key", "delegation.token.max.lifetime.ms": 100_000}
    with KafkaCluster(
        2, security="SASL_SSL", mechanism=MECHANISM, users=USERS, acls=ACLS, settings=settings
    ) as cluster:
        cluster.create_topic("orders")
        yield cluster


def connection(cluster: KafkaCluster, user: str, password: str = "", by_token: bool = False, node: int = 0) -> Any:
    """Return an authenticated connection, or the error code."""
    host, _, port = cluster.bootstrap_servers.split(",")[node].rpartition(":")
    client: Any = WireClient(host, int(port))
    context = ssl.create_default_context(cafile=cluster.client_config("alice")["ssl.ca.location"])
    client.socket = context.wrap_socket(client.socket, server_hostname=host)
    assert client.call(SaslHandshakeRequest(1, MECHANISM)).error_code == 0
    scram = ScramClient(MECHANISM, user, Secret((password or USERS[user]).encode()), "nonce")
    scram._bare += ",tokenauth=true" if by_token else ""
    challenge = client.call(SaslAuthenticateRequest(1, Secret(scram.first())))
    if not challenge.error_code:
        challenge = client.call(SaslAuthenticateRequest(1, Secret(scram.final(challenge.auth_bytes))))
    if challenge.error_code:
        client.close()
        return challenge.error_code
    client.lifetime_ms = challenge.session_lifetime_ms
    return client


def test_acls_apply_from_the_start(cluster: KafkaCluster) -> None:
    for user, code in (("alice", 0), ("bob", 29), ("carol", 29)):
        with connection(cluster, user) as client:
            found: Any = client.call(MetadataRequest(8, ("orders",), False))
            assert [topic.error_code for topic in found.topics] == [code]
    with pytest.raises(ClusterError, match="no user 'dave'"):
        cluster.client_config("dave")


def test_a_user_logs_in_once_created_and_no_more_once_deleted(cluster: KafkaCluster) -> None:
    password = cluster.client_config("broker")["sasl.password"]
    number, salt = 1, Secret(b"salt")
    new = users.ScramCredentialUpsertion(
        "d v", number, 4096, salt, salt_password(MECHANISM, Secret(b"dave-pw"), salt.value, 4096)
    )
    with connection(cluster, "broker", password) as admin, connection(cluster, "alice") as alice:

        def alter(*changes: Any, client: Any = admin) -> list[int]:
            deletions = tuple(each for each in changes if isinstance(each, users.ScramCredentialDeletion))
            upsertions = tuple(each for each in changes if each not in deletions)
            response = client.call(users.AlterUserScramCredentialsRequest(0, deletions, upsertions))
            return [each.error_code for each in response.results]

        assert alter(new, client=alice) == [31]
        assert alter(new) == [0]
        until(lambda: not isinstance(connection(cluster, "d v", "dave-pw", node=1), int))
        described = admin.call(users.DescribeUserScramCredentialsRequest(0))
        infos = {
            each.user: [(info.mechanism, info.iterations) for info in each.credential_infos]
            for each in described.results
        }
        assert infos == {user: [(number, 4096)] for user in ("d v", "broker", *USERS)}
        assert alter(users.ScramCredentialDeletion("d v", number)) == [0]
        until(lambda: connection(cluster, "d v", "dave-pw") == 58)
        assert alter(users.ScramCredentialDeletion("d v", number)) == [91]


def test_users_and_acls_are_added_while_the_cluster_runs(cluster: KafkaCluster) -> None:
    def code(node: int) -> int:
        with connection(cluster, "fay", cluster.client_config("fay")["sasl.password"], node=node) as client:
            found: Any = client.call(MetadataRequest(8, ("orders",), False))
        return int(found.topics[0].error_code)

    rights = [{"allow": "fay", "operation": "Read", "topic": "orders"}]
    for password in ("fay-pw", "another"):
        cluster.add_user("fay", password)
        assert [code(node) for node in (0, 1)] == [29, 29]
    assert connection(cluster, "fay", "fay-pw") == 58
    cluster.add_acls(rights)
    assert [code(node) for node in (0, 1)] == [0, 0]
    cluster.remove_acls(rights)
    assert [code(node) for node in (0, 1)] == [29, 29]
    for call in (lambda: cluster.add_acls([{"allow": "fay"}]), lambda: cluster.add_user("broker", "x")):
        with pytest.raises(ClusterError):
            call()


@pytest.fixture
def tool(cluster: KafkaCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Tool:
    """Return a function that runs a command as a user, and returns its lines."""

    def call(user: str, *arguments: str, code: int = 0) -> list[str]:
        file = tmp_path / user
        write_properties(file, cluster.client_config(user, "java"))
        name, *options = arguments
        to = ["--bootstrap-server", cluster.bootstrap_servers, "--command-config", str(file)]
        assert run([name, *to, *options]) == code
        said = capsys.readouterr()
        return [line.strip() for line in (said.out + said.err).splitlines() if line.strip()]

    return call


def test_commands_authenticate_and_change_acls_and_users(cluster: KafkaCluster, tool: Tool) -> None:
    assert tool("alice", "topics", "--list") == ["orders"]
    assert tool("bob", "topics", "--list") == []
    added = tool("broker", *"acls --add --allow-principal User:bob --operation describe --topic orders".split())
    entry = "(principal=User:bob, host=*, operation=DESCRIBE, permissionType=ALLOW)"
    place = "ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)"
    assert added == [f"Adding ACLs for resource `{place}`:", entry]
    until(lambda: tool("bob", "topics", "--list") == ["orders"])
    listed = tool("broker", *"acls --list --principal User:alice".split())
    assert listed[0] == "ACLs for principal `User:alice`" and "name=or, patternType=PREFIXED" in listed[1]
    assert tool("broker", *"acls --remove --force --topic orders".split()) == []
    assert "AUTHORIZATION_FAILED" in tool("bob", *"acls --list".split(), code=1)[0].replace(" ", "_").upper()
    assert tool("broker", *"acls --add --topic t --producer".split(), code=2)
    add = "SCRAM-SHA-256=[iterations=8192,password=erin=pw]"
    tool("broker", *f"configs --alter --entity-type users --entity-name erin --add-config {add}".split())
    until(lambda: not isinstance(connection(cluster, "erin", "erin=pw"), int))
    described = tool("broker", *"configs --describe --entity-type users --entity-name erin".split())
    assert described == ["SCRAM credential configs for user-principal 'erin' are SCRAM-SHA-256=iterations=8192"]
    tool("broker", *"configs --alter --user erin --delete-config SCRAM-SHA-256".split())


def test_a_delegation_token_authenticates_its_owner_on_every_broker_until_it_is_deleted(cluster: KafkaCluster) -> None:
    with connection(cluster, "alice") as alice, connection(cluster, "bob") as bob:
        renewers = (tokens.TokenPrincipal("User", "bob"),)
        made = alice.call(tokens.CreateDelegationTokenRequest(2, renewers))
        assert (made.error_code, made.principal_name) == (0, "alice")
        assert made.max_timestamp_ms - made.issue_timestamp_ms == 100_000
        password = base64.b64encode(made.hmac.value).decode()
        HMACS.append(password)

        def login(node: int) -> Any:
            return connection(cluster, made.token_id, password, True, node)

        until(lambda: not isinstance(login(1), int))
        with login(0) as client:
            assert 0 < client.lifetime_ms <= 100_000
            assert client.call(MetadataRequest(8, ("orders",), False)).topics[0].error_code == 0
            assert client.call(tokens.CreateDelegationTokenRequest(2)).error_code == 64
        assert connection(cluster, made.token_id, password) == 58, "not without the extension"
        assert connection(cluster, "alice", "alice-pw", True) == 58, "a password is no token"
        with connection(cluster, "carol") as carol:
            assert carol.call(tokens.RenewDelegationTokenRequest(2, made.hmac)).error_code == 63
            assert carol.call(tokens.DescribeDelegationTokenRequest(2, None)).tokens == ()
        assert bob.call(tokens.RenewDelegationTokenRequest(2, made.hmac)).error_code == 0
        assert bob.call(tokens.RenewDelegationTokenRequest(2, Secret(b"x"))).error_code == 62
        (seen,) = bob.call(tokens.DescribeDelegationTokenRequest(2, None)).tokens
        assert (seen.token_id, seen.hmac, seen.renewers) == (made.token_id, made.hmac, renewers)
        assert alice.call(tokens.ExpireDelegationTokenRequest(2, made.hmac, -1)).error_code == 0
        assert login(0) == 58
        until(lambda: login(1) == 58)
        assert alice.call(tokens.DescribeDelegationTokenRequest(2, None)).tokens == ()


def test_why_names_what_a_client_lacks_and_no_output_of_the_run_has_a_secret(
    cluster: KafkaCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """This test is the last one: the secrets of all tests before it must not be in what they wrote."""
    for user in ("bob", "carol"):
        with connection(cluster, user) as client:
            client.call(MetadataRequest(8, ("orders",), False))
    cluster._ask("flush_traces")
    reasons = {
        "User:bob": "User:bob may not Describe Topic orders, which Metadata of client test needed: no ACL allows it",
        "carol": "an ACL denies it (Deny All to User:carol from host * on Topic:LITERAL:*)",
    }
    for name, reason in reasons.items():
        assert run(["why", "client", name, str(cluster.trace_dir)]) == 0
        assert reason in capsys.readouterr().out
    assert run(["why", "client", "unknown", str(cluster.trace_dir)]) == 0
    assert "was refused, but clients failed to authenticate with SCRAM-SHA-256 on listener" in capsys.readouterr().out
    assert run(["why", "cluster", str(cluster.trace_dir)]) == 0
    written = [cluster.log_file.read_bytes(), capsys.readouterr().out.encode()]
    assert b"User:bob" in written[1]
    for path in cluster.trace_dir.glob("**/*"):
        if path.is_file():
            with path.open("rb") as stream:
                written += [decompress(frame.content) for frame in read_frames(stream, path)]
    assert any(b"ClientsAuthenticated" in each for each in written) and any(b"SetToken" in each for each in written)
    secrets = {
        *USERS.values(),
        "fay-pw",
        "token-key",
        cluster.client_config("broker")["sasl.password"],
        "stored_key=",
        *HMACS,
    }
    for secret in secrets:
        assert not [each for each in written if secret.encode() in each], secret
    assert run(["replay", str(cluster.trace_dir)]) == 0, "a replay needs no secret"
