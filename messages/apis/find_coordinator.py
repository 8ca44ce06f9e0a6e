"""FindCoordinator: the coordinator of a group or a transactional id."""

from __future__ import annotations

from messages.apis.declaration import COORDINATOR_FINDER, Api
from messages.vocabulary import Message, message

GROUP_KEY, TRANSACTION_KEY = 0, 1
"""Key types of FindCoordinator: a group id, a transactional id."""


@message
class FindCoordinatorRequest(Message):
    """A client's request to any broker for the coordinator of a group or transaction (API key 10)."""

    version: int
    key: str
    key_type: int = GROUP_KEY


@message
class FindCoordinatorResponse(Message):
    """The response to FindCoordinator: the coordinator's address; the node id is -1 if there is an error."""

    error_code: int
    error_message: str | None = None
    node_id: int = -1
    host: str = ""
    port: int = -1
    throttle_time_ms: int = 0


API = Api(
    key=10,
    versions=(0, 3),
    request=FindCoordinatorRequest,
    response=FindCoordinatorResponse,
    answerer=COORDINATOR_FINDER,
    codes="NONE COORDINATOR_NOT_AVAILABLE INVALID_REQUEST",
    sample=lambda about: FindCoordinatorRequest(2, "own"),
    odd="key=transaction;key_type=1 key_type=7",
    awaits_metadata=True,
)
