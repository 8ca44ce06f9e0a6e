"""The response to ApiVersions, which a client may request before it authenticates."""

from __future__ import annotations

import re

from messages import apis, errors
from messages.apis.api_versions import ApiVersionRange, ApiVersionsRequest, ApiVersionsResponse

NAMED_SINCE = 3
"""The first ApiVersions version with the name of the client's software."""

_API_VERSIONS = apis.API_BY_REQUEST[ApiVersionsRequest]
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def api_versions(request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Return the supported APIs.

    A request of an unknown version is answered with the supported versions (broker.md 6.2, row 18).
    """
    if request.version > _API_VERSIONS.max_version or request.version < _API_VERSIONS.min_version:
        known = ApiVersionRange(_API_VERSIONS.key, _API_VERSIONS.min_version, _API_VERSIONS.max_version)
        return ApiVersionsResponse(errors.UNSUPPORTED_VERSION, (known,))
    software = (request.client_software_name, request.client_software_version)
    if request.version >= NAMED_SINCE and not all(_SOFTWARE.fullmatch(text) for text in software):
        return ApiVersionsResponse(errors.INVALID_REQUEST, ())
    return ApiVersionsResponse(errors.NONE, apis.ADVERTISED)
