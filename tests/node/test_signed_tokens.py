"""Signed OAUTHBEARER tokens: the keys, issuer and audience of a listener decide."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from actors.core.security.oauthbearer import Unacceptable
from actors.node.settings import SettingsError, settings_of
from actors.node.signed_tokens import SignedTokens
from tests.gateway.test_sasl import PLAIN, PROPERTIES

KEY, OTHER = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
CLAIMS = {"sub": "oscar", "aud": "kafka", "iss": "us", "exp": 2**40}
Sign = Callable[..., str]


def write_keys(file: Path, **keys: Any) -> None:
    found = [ECAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": id} for id, key in keys.items()]
    file.write_text(json.dumps({"keys": found}))


def signed(key: Any = KEY, id: str = "one", **claims: Any) -> str:
    kept = {name: value for name, value in (CLAIMS | claims).items() if value is not None}
    return jwt.encode(kept, key, "ES256", {"kid": id})


def test_only_a_token_of_a_known_key_with_the_right_claims_counts(tmp_path: Path) -> None:
    write_keys(file := tmp_path / "keys", one=KEY)
    tokens = SignedTokens(file, ["kafka", "x"], "us", 30.0, "sub")
    found = tokens.validate_token(signed(), 2**40 - 60)
    assert (found.user, found.lifetime_ms) == ("oscar", 60_000)
    unsigned = base64.urlsafe_b64encode(b'{"alg":"none","kid":"one"}').decode().rstrip("=")
    for token in (
        *(signed(OTHER), signed(KEY, "two"), signed(sub=" "), signed(sub=7), signed(exp=1000), signed(exp=None)),
        *(signed(aud="other"), signed(aud=None), signed(iss="them"), signed(iss=None), "a.b.c", ""),
        f"{unsigned}.{signed().split('.')[1]}.",
        jwt.encode(CLAIMS, file.read_text() * 2, "HS256", {"kid": "one"}),
    ):
        with pytest.raises(Unacceptable):
            tokens.validate_token(token, 0.0)
    write_keys(file, two=OTHER)
    assert tokens.validate_token(signed(OTHER, "two"), 0.0).user == "oscar"


def test_a_listener_takes_signed_tokens_and_no_unsecured_ones(tmp_path: Path) -> None:
    write_keys(file := tmp_path / "keys", one=KEY)
    module = PLAIN.replace("plain.PlainLoginModule", "oauthbearer.OAuthBearerLoginModule")
    handler = "listener.name.int.oauthbearer.sasl.server.callback.handler.class"
    properties = {name: value for name, value in PROPERTIES.items() if "plain" not in name} | {
        "listeners": "INT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.int.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.int.oauthbearer.sasl.jaas.config": f"{module};",
        handler: "x.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": file.as_uri(),
    }
    loaded = settings_of(properties)
    exchange = loaded.security["INT"].mechanisms["OAUTHBEARER"].begin()
    assert exchange(f"n,,\x01auth=Bearer {signed()}\x01\x01".encode())[1] is not None
    assert not [warning for warning in loaded.warnings if "OAUTHBEARER" in warning]
    for changes in (
        {"sasl.oauthbearer.jwks.endpoint.url": "https://h/keys"},
        {"sasl.oauthbearer.scope.claim.name": "x"},
    ):
        with pytest.raises(SettingsError, match=r"oauthbearer|OAUTHBEARER"):
            settings_of(properties | changes)
