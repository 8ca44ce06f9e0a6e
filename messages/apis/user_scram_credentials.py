"""DescribeUserScramCredentials and AlterUserScramCredentials: the SCRAM credentials of users (KIP-554).

The listener that receives a new credential puts a seal in its place, so that no actor and no trace sees it.
"""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import CONFIGS, Api, on_cluster
from messages.security import Secret
from messages.vocabulary import Message, message

MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""The mechanisms by their numbers in requests."""


@message
class ScramUser(Message):
    """A user that a client asks about."""

    name: str


@message
class DescribeUserScramCredentialsRequest(Message):
    """A client's request for the credentials of users, or of all users if there is none (API key 50)."""

    version: int
    users: tuple[ScramUser, ...] | None = None


@message
class ScramCredentialInfo(Message):
    """What a client may know of a credential."""

    mechanism: int
    iterations: int


@message
class DescribedScramUser(Message):
    """The credentials of a user, or an error."""

    user: str
    error_code: int = 0
    error_message: str | None = None
    credential_infos: tuple[ScramCredentialInfo, ...] = ()


@message
class DescribeUserScramCredentialsResponse(Message):
    """The response to DescribeUserScramCredentials."""

    error_code: int
    error_message: str | None = None
    results: tuple[DescribedScramUser, ...] = ()
    throttle_time_ms: int = 0


@message
class ScramCredentialDeletion(Message):
    """A credential to delete."""

    name: str
    mechanism: int


@message
class ScramCredentialUpsertion(Message):
    """A credential to create or to replace; `sealed` is the listener's seal in place of salt and password."""

    name: str
    mechanism: int
    iterations: int
    salt: Secret = Secret(b"")
    salted_password: Secret = Secret(b"")
    sealed: str = ""


@message
class AlterUserScramCredentialsRequest(Message):
    """A client's request to change credentials of users (API key 51)."""

    version: int
    deletions: tuple[ScramCredentialDeletion, ...] = ()
    upsertions: tuple[ScramCredentialUpsertion, ...] = ()


@message
class AlteredScramUser(Message):
    """The result of the changes of a user's credentials: all were made, or none."""

    user: str
    error_code: int
    error_message: str | None = None


@message
class AlterUserScramCredentialsResponse(Message):
    """The response to AlterUserScramCredentials."""

    results: tuple[AlteredScramUser, ...]
    throttle_time_ms: int = 0


def _refuse(request: AlterUserScramCredentialsRequest, code: int) -> AlterUserScramCredentialsResponse:
    users = dict.fromkeys([*(each.name for each in request.upsertions), *(each.name for each in request.deletions)])
    return AlterUserScramCredentialsResponse(tuple([AlteredScramUser(user, code) for user in users]))


DESCRIBE = Api(
    key=50,
    versions=(0, 0),
    request=DescribeUserScramCredentialsRequest,
    response=DescribeUserScramCredentialsResponse,
    answerer=CONFIGS,
    access=(on_cluster(Operation.DESCRIBE),),
    codes="NONE RESOURCE_NOT_FOUND DUPLICATE_RESOURCE",
    sample=lambda about: DescribeUserScramCredentialsRequest(0, (ScramUser("unknown"),)),
    odd="users=null",
)
ALTER = Api(
    key=51,
    versions=(0, 0),
    request=AlterUserScramCredentialsRequest,
    response=AlterUserScramCredentialsResponse,
    answerer=CONFIGS,
    access=(on_cluster(Operation.ALTER),),
    codes="NONE RESOURCE_NOT_FOUND UNSUPPORTED_SASL_MECHANISM UNACCEPTABLE_CREDENTIAL DUPLICATE_RESOURCE",
    sample=lambda about: AlterUserScramCredentialsRequest(0, (ScramCredentialDeletion("unknown", 1),)),
    odd="mechanism=9 name=",
    refuse=_refuse,
)
