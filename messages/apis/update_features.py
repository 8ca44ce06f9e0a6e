"""UpdateFeatures: change finalized feature levels, which do not exist with ZooKeeper."""

from __future__ import annotations

from messages import errors
from messages.acls import Operation
from messages.apis.declaration import CONTROLLER, Api, on_cluster
from messages.vocabulary import Message, message


@message
class UpdateFeaturesRequest(Message):
    """A client's request to change finalized feature levels (API key 57)."""

    version: int


@message
class UpdateFeaturesResponse(Message):
    """The response to UpdateFeatures; its list of results is always empty."""

    error_code: int
    error_message: str | None = None
    throttle_time_ms: int = 0


API = Api(
    key=57,
    versions=(0, 1),
    request=UpdateFeaturesRequest,
    response=UpdateFeaturesResponse,
    answerer=CONTROLLER,
    access=(on_cluster(Operation.ALTER),),
    codes="INVALID_REQUEST NOT_CONTROLLER",
    sample=lambda about: UpdateFeaturesRequest(1),
    refuse=lambda request, code: UpdateFeaturesResponse(
        code, "This is not the correct controller for this cluster." if code == errors.NOT_CONTROLLER else None
    ),
    elsewhere=errors.NOT_CONTROLLER,
)
