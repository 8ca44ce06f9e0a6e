"""The response to ApiVersions, which a client may request before it authenticates."""

from __future__ import annotations

import re

from messages import errors
from messages.apis import API_BY_KEY, API_BY_REQUEST, ranges_of_release
from messages.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from messages.releases import MAXIMA, NEWEST, OLDEST

NAMED_SINCE = 3
"""The first ApiVersions version with the name of the client's software."""

_API_VERSIONS = API_BY_REQUEST[ApiVersionsRequest]
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


_EXEMPT = re.compile(r"broker-\d+-.+|kafka[_-]actors.*")
"""Client ids of brokers (Kafka's and ours), of our commands, and of the cluster for tests."""


def lacks(release: str, key: int, version: int, client_id: str) -> bool:
    """Return whether a broker that presents itself as this release refuses a client's request.

    It closes the connection, except after ApiVersions.
    """
    if key == _API_VERSIONS.key or API_BY_KEY[key].control or _EXEMPT.fullmatch(client_id):
        return False
    return version > MAXIMA[release].get(key, -1)


def api_versions(request: ApiVersionsRequest, release: str = NEWEST, client_id: str = "") -> ApiVersionsResponse:
    """Return the supported APIs, for a client of a broker that presents itself as this release.

    A request of an unknown version is answered with the supported versions (broker.md 6.2, row 18), from 2.4 on.
    """
    listed = ranges_of_release(NEWEST if _EXEMPT.fullmatch(client_id) else release)
    [known] = [each for each in listed if each.api_key == _API_VERSIONS.key]
    if not known.min_version <= request.version <= known.max_version:
        return ApiVersionsResponse(errors.UNSUPPORTED_VERSION, () if release == OLDEST else (known,))
    software = (request.client_software_name, request.client_software_version)
    if request.version >= NAMED_SINCE and not all(_SOFTWARE.fullmatch(text) for text in software):
        return ApiVersionsResponse(errors.INVALID_REQUEST, ())
    return ApiVersionsResponse(errors.NONE, listed)
