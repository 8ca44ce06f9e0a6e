"""Describe the SCRAM credentials of users, and check changes of them (KIP-554).

Rule 1: all changes of a user are made, or none.
Rule 2: if several errors apply to a user, the first of these is returned: an unknown mechanism or an unacceptable
        credential, a credential that is changed twice, a credential to delete that does not exist.

Kafka: `AdminManager` (`ZkAdminManager`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from actors.core.security.scram import MAX_ITERATIONS, MIN_ITERATIONS
from messages import errors
from messages.apis.user_scram_credentials import (
    MECHANISMS,
    AlteredScramUser,
    AlterUserScramCredentialsRequest,
    DescribedScramUser,
    ScramCredentialDeletion,
    ScramCredentialInfo,
    ScramCredentialUpsertion,
)

Change = ScramCredentialUpsertion | ScramCredentialDeletion

Known = Mapping[str, Mapping[str, str]]
"""User -> mechanism -> seal of the credential."""

NO_NAME = "Username must not be empty"


def describe_users(users: list[str] | None, known: Known) -> Iterator[DescribedScramUser]:
    """Yield the credentials of these users, or of all users that have any."""
    times = Counter(users)
    for user in times if users else sorted(known):
        infos = tuple(
            [
                ScramCredentialInfo(number, int(known[user][mechanism].rpartition("iterations=")[2]))
                for number, mechanism in MECHANISMS.items()
                if mechanism in known.get(user, ())
            ]
        )
        if users and not user:
            yield DescribedScramUser(user, errors.RESOURCE_NOT_FOUND, NO_NAME)
        elif users and times[user] > 1:
            text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
            yield DescribedScramUser(user, errors.DUPLICATE_RESOURCE, text)
        elif users and not infos:
            text = f"Attempt to describe a user credential that does not exist: {user}"
            yield DescribedScramUser(user, errors.RESOURCE_NOT_FOUND, text)
        elif infos:
            yield DescribedScramUser(user, credential_infos=infos)


def refusals(request: AlterUserScramCredentialsRequest, known: Known) -> list[AlteredScramUser]:
    """Return the results of the users whose changes are refused (rule 2)."""
    found: dict[str, AlteredScramUser] = {}
    changes: list[Change] = [*request.upsertions, *request.deletions]
    times = Counter((each.name, each.mechanism) for each in changes)
    problems: tuple[Callable[[Change], tuple[int, str] | None], ...] = (
        _invalid,
        lambda change: (
            (errors.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
            if times[change.name, change.mechanism] > 1
            else None
        ),
        lambda change: (
            (errors.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
            if isinstance(change, ScramCredentialDeletion)
            and MECHANISMS[change.mechanism] not in known.get(change.name, ())
            else None
        ),
    )
    for problem in problems:
        for change in changes:
            if change.name not in found and (reason := problem(change)) is not None:
                found[change.name] = AlteredScramUser(change.name, *reason)
    return list(found.values())


def _invalid(change: Change) -> tuple[int, str] | None:
    if not change.name:
        return errors.UNACCEPTABLE_CREDENTIAL, NO_NAME
    if change.mechanism not in MECHANISMS:
        return errors.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if isinstance(change, ScramCredentialUpsertion) and not MIN_ITERATIONS <= change.iterations <= MAX_ITERATIONS:
        return (
            errors.UNACCEPTABLE_CREDENTIAL,
            f"Too {'few' if change.iterations < MIN_ITERATIONS else 'many'} iterations",
        )
    return None
