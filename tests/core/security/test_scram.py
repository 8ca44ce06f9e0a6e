"""SCRAM: the exchange of RFC 7677, forged messages, and credentials in Kafka's text form."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from typing import Any

import pytest

from actors.core.security.sasl_exchange import OTHER_AUTHORIZATION_ID, AuthenticationFailed, SaslIdentity
from actors.core.security.scram import (
    HASHES,
    ScramClient,
    ScramCredential,
    ScramServer,
    credential_of,
    format_credential,
    parse_credential,
    salt_password,
)
from messages.security import Secret

MECHANISM, PASSWORD = "SCRAM-SHA-256", Secret(b"pencil")
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT, SERVER = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
USERS = {
    "user": credential_of(MECHANISM, salt_password(MECHANISM, PASSWORD, SALT, 4096), SALT, 4096),
    "weak": credential_of(MECHANISM, salt_password(MECHANISM, PASSWORD, SALT, 1000), SALT, 1000),
}


def credential(name: str, is_token: bool) -> tuple[ScramCredential, SaslIdentity] | None:
    """Return a user's credential; "user" is a token, too."""
    return (USERS[name], SaslIdentity("owner" if is_token else name, by_token=is_token)) if name in USERS else None


def server(nonce: str = SERVER) -> ScramServer:
    return ScramServer(MECHANISM, credential, nonce, Secret(b"key"))


@pytest.mark.parametrize("hash", HASHES.values())
def test_signatures_are_the_hmacs_of_the_standard_library(hash: str) -> None:
    for size in (0, 1, 32, 63, 64, 65, 127, 128, 129, 300):
        keys, data = (b"k" * size, b"l" * size), b"d" * (300 - size)
        credential = ScramCredential(SALT, *keys, 4096)
        for _ in range(2):
            assert credential.signatures(hash, data) == [hmac.digest(key, data, hash) for key in keys]


def test_the_exchange_of_the_rfc() -> None:
    client, serving = ScramClient(MECHANISM, "user", PASSWORD, CLIENT), server()
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge, _ = serving.respond(client.first())
    assert challenge == f"r={CLIENT}{SERVER},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    final = client.final(challenge)
    assert final.endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature, user = serving.respond(final)
    assert (signature, user) == (b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", SaslIdentity("user"))
    client.verify(signature)
    with pytest.raises(AuthenticationFailed):
        client.verify(b"v=" + base64.b64encode(bytes(32)))
    with pytest.raises(AuthenticationFailed):
        server("another").respond(final)


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        ("y,,n=user,r=abc", ""),
        ("p=tls-unique,,n=user,r=abc", ""),
        ("n,,m=x,n=user,r=abc", ""),
        ("n,,n=us=er,r=abc", ""),
        ("n,,n=us,er,r=abc", ""),
        ("n,,n=\xfc,r=abc", ""),
        ("n,,n=user", ""),
        ("n,,n=user,r=", ""),
        ("c=biws,r=abc,p=AAAA", ""),
        ("n,a=other,n=user,r=abc", OTHER_AUTHORIZATION_ID),
    ],
)
def test_a_first_message_that_is_refused(first: str, reason: str) -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        server().respond(first.encode())
    assert str(caught.value) == reason


def exchange(user: str, forge: Callable[[bytes], bytes], prefix: bytes = b"n,,", extension: bytes = b"") -> Any:
    """Return the authenticated client; the client's final message is changed by `forge`."""
    client, serving = ScramClient(MECHANISM, user, PASSWORD, CLIENT), server()
    client._bare += extension.decode()
    challenge, _ = serving.respond(client.first().replace(b"n,,", prefix))
    return serving.respond(forge(client.final(challenge)))[1]


@pytest.mark.parametrize(
    ("user", "forge"),
    [
        ("stranger", bytes),
        ("weak", bytes),
        ("user", lambda final: final.replace(b"r=", b"r=junk")),
        ("user", lambda final: final.replace(b"k0,p", b"k,p")),
        ("user", lambda final: final.replace(b"c=biws", b"c=eSws")),
        ("user", lambda final: final[:-4] + b"AAA="),
        ("user", lambda final: final.partition(b",p=")[0] + b",p=AAAA"),
        ("user", lambda final: b"garbage"),
    ],
)
def test_a_final_message_that_is_refused(user: str, forge: Callable[[bytes], bytes]) -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        exchange(user, forge)
    assert str(caught.value) == ""


def test_only_the_extension_of_delegation_tokens_counts() -> None:
    for extension in (b",x=y", b",xtokenauth=true", b",tokenauth=false"):
        assert exchange("user", bytes, extension=extension) == SaslIdentity("user")
    assert exchange("user", bytes, extension=b",a=b,tokenauth=True") == SaslIdentity("owner", by_token=True)


@pytest.mark.parametrize("iterations", [1000, 2_000_000_000])
def test_a_client_proves_nothing_to_a_server_with_other_iterations(iterations: int) -> None:
    client = ScramClient(MECHANISM, "user", PASSWORD, CLIENT)
    client.first()
    with pytest.raises(AuthenticationFailed):
        client.final(f"r={CLIENT}x,s=AAAA,i={iterations}".encode())


def test_credentials_in_kafkas_form() -> None:
    text = format_credential(USERS["user"])
    assert text.startswith("salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=") and text.endswith(",iterations=4096")
    assert parse_credential(text) == USERS["user"]
    for torn in ("", text + ",x=y", text.replace("salt=", "salt=?"), text.replace("4096", "many"), text[5:]):
        with pytest.raises(ValueError):
            parse_credential(torn)
    assert "pencil" not in repr(USERS) and "stored_key" not in repr(USERS)
