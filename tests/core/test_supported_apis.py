"""The API versions with which a broker presents itself as an older Kafka release (`api.versions.max`)."""

from __future__ import annotations

import pytest

from actors.core.supported_apis import api_versions, lacks
from messages import errors
from messages.apis import API_BY_KEY
from messages.apis.api_versions import ApiVersionRange, ApiVersionsRequest
from messages.releases import MAXIMA, NEWEST, RELEASES

FETCH, LEADER_AND_ISR, API_VERSIONS, DESCRIBE_CLUSTER = 1, 4, 18, 60


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_lists_what_it_has_and_we_serve(release: str) -> None:
    listed = api_versions(ApiVersionsRequest(0), release)
    served = {key: api for key, api in API_BY_KEY.items() if api.is_listed and key in MAXIMA[release]}
    wanted = {key: (api.min_version, min(api.max_version, MAXIMA[release][key])) for key, api in served.items()}
    assert listed.error_code == errors.NONE
    assert {each.api_key: (each.min_version, each.max_version) for each in listed.api_keys} == wanted
    assert wanted[FETCH] == (0, {"2.1": 10, "2.4": 11, "2.8": 12, "3.3": 13, "3.9": 17}.get(release, wanted[FETCH][1]))
    assert (DESCRIBE_CLUSTER in wanted) == (release >= "2.8")


def test_the_newest_release_lists_all_that_is_served() -> None:
    listed = {each.api_key for each in api_versions(ApiVersionsRequest(0), NEWEST).api_keys}
    assert listed == {key for key, api in API_BY_KEY.items() if api.is_listed}


@pytest.mark.parametrize(("release", "own"), [("2.1", ()), ("2.4", (ApiVersionRange(18, 0, 3),))])
def test_a_version_above_the_release(release: str, own: tuple[ApiVersionRange, ...]) -> None:
    refused = api_versions(ApiVersionsRequest(4, "a", "1"), release)
    assert (refused.error_code, refused.api_keys) == (errors.UNSUPPORTED_VERSION, own)
    assert [lacks(release, FETCH, version, "client") for version in (10, 12)] == [False, True]
    assert lacks(release, DESCRIBE_CLUSTER, 0, "client")
    assert not lacks(release, API_VERSIONS, 4, "client"), "it is answered"


def test_requests_between_brokers_are_not_affected() -> None:
    broker = "broker-3-fetcher-0"
    assert not lacks("2.1", FETCH, 11, broker)
    assert not lacks("2.1", LEADER_AND_ISR, 4, "3")
    assert api_versions(ApiVersionsRequest(0), "2.1", broker) == api_versions(ApiVersionsRequest(0))
