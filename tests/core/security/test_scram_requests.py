"""Requests about SCRAM credentials: which changes are refused, with Kafka's codes, and what is described."""

from __future__ import annotations

from typing import Any

import pytest

from actors.core.security.scram_requests import describe_users, refusals
from messages.apis.user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

KNOWN = {"alice": {"SCRAM-SHA-256": "sealed=x,iterations=8192"}, "bob": {"SCRAM-SHA-512": "sealed=y,iterations=4096"}}


def put(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name, mechanism, iterations)


def drop(name: str, mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name, mechanism)


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ((put("new"), put("new", 2), drop("alice"), put("alice", 2)), {}),
        (
            (put("a", iterations=4095), put("b", iterations=16385), put("c", 3), drop("", 1)),
            {"a": 93, "b": 93, "c": 33, "": 93},
        ),
        ((put("a"), put("a"), drop("b"), drop("alice", 2)), {"a": 92, "b": 91, "alice": 91}),
        ((put("a", 0), put("a"), put("a"), put("b")), {"a": 33}),
    ],
)
def test_changes_are_refused_user_by_user(changes: Any, codes: dict[str, int]) -> None:
    deletions = tuple(each for each in changes if isinstance(each, ScramCredentialDeletion))
    upsertions = tuple(each for each in changes if isinstance(each, ScramCredentialUpsertion))
    found = refusals(AlterUserScramCredentialsRequest(0, deletions, upsertions), KNOWN)
    assert {each.user: each.error_code for each in found} == codes
    assert all(each.error_message for each in found)


def test_users_are_described_with_their_iterations() -> None:
    def seen(users: list[str] | None) -> list[Any]:
        return [
            (each.user, each.error_code, [(info.mechanism, info.iterations) for info in each.credential_infos])
            for each in describe_users(users, KNOWN)
        ]

    assert seen(None) == [("alice", 0, [(1, 8192)]), ("bob", 0, [(2, 4096)])]
    assert seen(["bob", "carol", "", "alice", "alice"]) == [
        ("bob", 0, [(2, 4096)]),
        ("carol", 91, []),
        ("", 91, []),
        ("alice", 92, []),
    ]
