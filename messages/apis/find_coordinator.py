"""FindCoordinator: the coordinator of a group or a transactional id."""

from __future__ import annotations

from messages import errors
from messages.acls import Operation, ResourceType
from messages.apis.declaration import COORDINATOR_FINDER, UNAUTHORIZED, Access, Api
from messages.vocabulary import Message, message

GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = 0, 1, 2
"""Key types of FindCoordinator: a group id, a transactional id, a share group's partition."""


@message
class FindCoordinatorRequest(Message):
    """A client's request to any broker for the coordinator of a group or transaction (API key 10).

    From version 4 on, `coordinator_keys` replaces `key`.
    """

    version: int
    key: str = ""
    key_type: int = GROUP_KEY
    coordinator_keys: tuple[str, ...] = ()


@message
class FoundCoordinator(Message):
    """The coordinator of one key; the node id is -1 if there is an error."""

    key: str
    node_id: int = -1
    host: str = ""
    port: int = -1
    error_code: int = 0
    error_message: str | None = None


@message
class FindCoordinatorResponse(Message):
    """The response to FindCoordinator: the coordinator's address; the node id is -1 if there is an error.

    From version 4 on, `coordinators` has the coordinator of each key, and the other fields are not used.
    """

    error_code: int
    error_message: str | None = None
    node_id: int = -1
    host: str = ""
    port: int = -1
    throttle_time_ms: int = 0
    coordinators: tuple[FoundCoordinator, ...] = ()


KEYS_SINCE = 4
"""The first version whose requests have several keys."""
SHARE_GROUPS_SINCE = 6
"""The first version with the key type of share groups, which have no coordinator here."""


def _refuse(request: FindCoordinatorRequest, code: int) -> FindCoordinatorResponse:
    if request.version < KEYS_SINCE:
        return FindCoordinatorResponse(code, UNAUTHORIZED.get(code))
    found = [
        FoundCoordinator(key, error_code=code, error_message=UNAUTHORIZED.get(code)) for key in request.coordinator_keys
    ]
    return FindCoordinatorResponse(errors.NONE, coordinators=tuple(found))


def _on_keys(resource: ResourceType, key_type: int) -> tuple[Access, Access]:
    """Return the needs of the only key, and of each of several keys."""

    def has_one(request: FindCoordinatorRequest) -> bool:
        return request.key_type == key_type and request.version < KEYS_SINCE

    def has_several(request: FindCoordinatorRequest) -> bool:
        return request.key_type == key_type and request.version >= KEYS_SINCE

    return (
        Access(Operation.DESCRIBE, resource, lambda request: request.key, when=has_one),
        Access(Operation.DESCRIBE, resource, str, "coordinator_keys", "coordinators", has_several),
    )


API = Api(
    key=10,
    versions=(0, 6),
    request=FindCoordinatorRequest,
    response=FindCoordinatorResponse,
    answerer=COORDINATOR_FINDER,
    access=(
        *_on_keys(ResourceType.GROUP, GROUP_KEY),
        *_on_keys(ResourceType.TRANSACTIONAL_ID, TRANSACTION_KEY),
    ),
    codes="NONE COORDINATOR_NOT_AVAILABLE INVALID_REQUEST",
    sample=lambda about: FindCoordinatorRequest(2, "own"),
    odd="key=transaction;key_type=1 key_type=7"
    " version=4;coordinator_keys=own version=6;coordinator_keys=own;key_type=2",
    refuse=_refuse,
    awaits_metadata=True,
)
