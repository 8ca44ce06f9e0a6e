"""OAUTHBEARER: which unsecured tokens a listener accepts, and how long they are valid."""

from __future__ import annotations

import base64
import json
from functools import partial
from typing import Any

import pytest

from actors.core.security.jaas import parse_jaas
from actors.core.security.oauthbearer import TokenRules, login, oauthbearer, token_rules, validate_token
from actors.core.security.sasl_exchange import OTHER_AUTHORIZATION_ID, AuthenticationFailed, SaslIdentity

NOW = 1_000_000.0
GOOD = {"sub": "oscar", "iat": NOW - 1, "exp": NOW + 500}
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


def part(value: object) -> str:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.b64encode(text).decode().rstrip("=")


def jws(claims: object = GOOD, header: object = {"alg": "none"}, signature: str = "") -> str:
    return f"{part(header)}.{part(claims)}.{signature}"


def exchanged(token: str, authzid: str = "", scheme: str = "Bearer", rules: TokenRules = TokenRules()) -> Any:
    """Return the identity; otherwise the status in the response, which an acknowledgement turns into a failure."""
    exchange = oauthbearer(partial(validate_token, rules=rules), lambda: NOW)
    response, identity = exchange(f"n,{authzid},\x01auth={scheme} {token}\x01ext=x\x01\x01".encode())
    if identity is not None:
        assert response == b""
        return identity
    with pytest.raises(AuthenticationFailed, match=response.decode().replace("[", r"\[")):
        exchange(b"\x01")
    return json.loads(response)["status"]


def test_a_good_token_is_valid_until_it_expires_in_both_alphabets() -> None:
    odd = jws(GOOD | {"x": "~~~~~~"})
    assert "+" in odd
    for token in (jws(), odd, odd.replace("+", "-").replace("/", "_")):
        assert exchanged(token, "a=oscar", "bEARER") == SaslIdentity("oscar", 500_000)
    with pytest.raises(AuthenticationFailed, match=OTHER_AUTHORIZATION_ID):
        exchanged(jws(), "a=admin")
    for odd in (partial(exchanged, scheme="Basic", token=jws()), partial(exchanged, jws(header={}))):
        with pytest.raises(AuthenticationFailed):
            odd()


@pytest.mark.parametrize(
    "token",
    [
        jws(header={"alg": "HS256"}),
        jws(header={"alg": "None"}),
        jws(header=b"hello"),
        jws(header=b"[" * 9000),
        jws(signature="c2ln"),
        jws(b"hello"),
        jws().removesuffix("."),
        jws().replace(".", "..", 1),
        jws({"sub": "admin"}),
        *(
            jws(GOOD | wrong)
            for wrong in (
                {"exp": NOW},
                {"exp": str(NOW + 99)},
                {"exp": True},
                {"exp": float("nan")},
                {"exp": float("inf")},
                {"iat": NOW + 500, "exp": NOW + 900},
                {"iat": "x"},
                {"sub": 7},
                {"sub": " "},
                {"sub": None},
            )
        ),
    ],
)
def test_any_other_token_is_invalid(token: str) -> None:
    assert exchanged(token) == "invalid_token"


def test_a_listener_may_demand_scopes_another_claim_and_tolerate_clocks() -> None:
    options = 'unsecuredValidatorRequiredScope="kafka write" unsecuredValidatorPrincipalClaimName=name'
    rules = token_rules(parse_jaas(f'{MODULE} {options} unsecuredValidatorAllowableClockSkewMs="2000";'))
    claims = {"name": "olga", "iat": NOW + 1, "exp": NOW + 5}
    assert exchanged(jws(claims | {"scope": ["write", "kafka"]}), rules=rules) == SaslIdentity("olga", 5000)
    for scope in ("kafka", "kafka write", []):
        assert exchanged(jws(claims | {"scope": scope}), rules=rules) == "insufficient_scope"
    with pytest.raises(ValueError, match="takes milliseconds"):
        token_rules(parse_jaas(f"{MODULE} unsecuredValidatorAllowableClockSkewMs=soon;"))


def test_a_node_logs_in_with_the_claims_of_its_entry() -> None:
    options = 'unsecuredLoginStringClaim_sub=node unsecuredLoginListClaim_scope=",a,b" unsecuredLoginExtension_x=y'
    client = login(parse_jaas(f'{MODULE} {options} unsecuredLoginLifetimeSeconds="60";'), lambda: NOW)
    assert client is not None
    rules = TokenRules(scopes=("a", "b"))
    messages, server = client(), oauthbearer(partial(validate_token, rules=rules), lambda: NOW + 1)
    assert server(next(messages)) == (b"", SaslIdentity("node", 59_000))
    assert [*messages] == [], "no further message follows a success"
    assert login(parse_jaas(f"{MODULE};"), lambda: NOW) is None
