"""ApiVersions (API key 18): versions 0-3, and an answer to every other version too (`codec`)."""

from __future__ import annotations

from messages.requests import ApiVersionRange, ApiVersionsRequest, ApiVersionsResponse
from messages.wire.api import Api, Fields
from messages.wire.schema import API_VERSIONS_REQUEST, API_VERSIONS_RESPONSE, Wire, present


def _request_fields(request: ApiVersionsRequest, version: int) -> Fields:
    return {
        "client_software_name": request.client_software_name,
        "client_software_version": request.client_software_version,
    }


def _read_request(body: Wire, version: int) -> ApiVersionsRequest:
    return ApiVersionsRequest(version, present(body.client_software_name), present(body.client_software_version))


def _response_fields(response: ApiVersionsResponse, version: int) -> Fields:
    row = API_VERSIONS_RESPONSE.row(version, ("api_keys",))
    return {"error_code": response.error_code, "api_keys": [row(span) for span in response.api_keys]}


def _read_response(body: Wire, version: int) -> ApiVersionsResponse:
    spans = (ApiVersionRange(span.api_key, span.min_version, span.max_version) for span in present(body.api_keys))
    return ApiVersionsResponse(body.error_code, tuple(spans))


API_VERSIONS = Api(
    18,
    "ApiVersions",
    0,
    3,
    ApiVersionsRequest,
    ApiVersionsResponse,
    API_VERSIONS_REQUEST,
    API_VERSIONS_RESPONSE,
    _request_fields,
    _read_request,
    _response_fields,
    _read_response,
)
