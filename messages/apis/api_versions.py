"""ApiVersions: the APIs of a broker, with their versions."""

from __future__ import annotations

from messages.apis.declaration import OPEN, REQUEST_HANDLER, Api
from messages.vocabulary import Message, message


@message
class ApiVersionRange(Message):
    """The versions of one API that a broker supports."""

    api_key: int
    min_version: int
    max_version: int


@message
class ApiVersionsRequest(Message):
    """A client's request for the APIs that a broker supports (API key 18).

    `version` can be a version that the broker does not support.
    """

    version: int
    client_software_name: str = ""
    client_software_version: str = ""


@message
class ApiVersionsResponse(Message):
    """The response to ApiVersions; a response with error code 35 is encoded in version 0."""

    error_code: int
    api_keys: tuple[ApiVersionRange, ...]
    throttle_time_ms: int = 0


API = Api(
    key=18,
    versions=(0, 4),
    request=ApiVersionsRequest,
    response=ApiVersionsResponse,
    answerer=REQUEST_HANDLER,
    access=OPEN,
    codes="NONE UNSUPPORTED_VERSION INVALID_REQUEST",
    sample=lambda about: ApiVersionsRequest(3, "simulation", "1.0"),
    odd="version=99 client_software_name=-;client_software_version=-",
    refuse=lambda request, code: ApiVersionsResponse(code, ()),
)
