"""Delegation tokens: when they expire, and who may change that."""

from __future__ import annotations

import pytest

from actors.core.refusal import Refused
from actors.core.security.delegation_tokens import create_token, prolong
from messages.delegation_tokens import DelegationToken
from tests.broker.harness import settings

NOW = 1_000_000
SETTINGS = settings("/nowhere", delegation_token_max_lifetime_ms=1000, delegation_token_expiry_time_ms=100)


def token(lifetime_ms: int = -1) -> DelegationToken:
    return create_token("id", "User:alice", "User:alice", ("User:bob",), lifetime_ms, NOW, SETTINGS)


@pytest.mark.parametrize(
    ("lifetime", "expires", "longest"), [(-1, 100, 1000), (0, 100, 1000), (50, 50, 50), (5000, 100, 1000)]
)
def test_a_new_token_expires_in_time(lifetime: int, expires: int, longest: int) -> None:
    made = token(lifetime)
    assert (made.expires_ms - NOW, made.max_ms - NOW) == (expires, longest)
    with pytest.raises(Refused) as refused:
        create_token("id", "User:alice", "User:alice", ("Group:x",), -1, NOW, SETTINGS)
    assert refused.value.code == 67


@pytest.mark.parametrize(
    ("principal", "period", "later", "outcome"),
    [
        ("User:alice", -1, 50, 150),
        ("User:bob", -1, 50, 150),
        ("User:alice", 5, 50, 55),
        ("User:alice", 2**63 - 1, 50, 1000),
        ("User:carol", -1, 50, "63"),
        ("User:alice", -1, 101, "66"),
        ("User:carol", -1, 101, "63"),
    ],
)
def test_a_token_is_prolonged_for_its_owner_and_renewers(
    principal: str, period: int, later: int, outcome: int | str
) -> None:
    if isinstance(outcome, int):
        assert prolong(token(), principal, period, NOW + later, 100).expires_ms == NOW + outcome
        return
    with pytest.raises(Refused) as refused:
        prolong(token(), principal, period, NOW + later, 100)
    assert refused.value.code == int(outcome)


def test_an_unknown_token_is_not_found() -> None:
    with pytest.raises(Refused) as refused:
        prolong(None, "User:alice", -1, NOW, 100)
    assert refused.value.code == 62
