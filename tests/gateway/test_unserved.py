"""Requests of unsupported features are refused at once, with Kafka's code and text, and logged once per feature."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from messages.apis import ADVERTISED, API_BY_REQUEST, acls, delegation_tokens, unserved
from messages.apis.api_versions import ApiVersionsRequest
from messages.apis.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from messages.apis.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from messages.errors import NONE
from messages.security import Secret
from tests.broker.harness import ServedBroker
from tests.wire_client import WireClient

FILTER = (2, None, None, None, 1, 1)
NO_AUTHORIZER = "No Authorizer is configured."
CASES: list[tuple[str, Any, Any]] = [
    (
        "ACLs",
        acls.DescribeAclsRequest(2, *FILTER),
        acls.DescribeAclsResponse(54, "No Authorizer is configured on the broker"),
    ),
    (
        "ACLs",
        acls.CreateAclsRequest(2, (acls.AclCreation(2, "t", "User:a", "*", 3, 3),) * 2),
        acls.CreateAclsResponse((acls.AclCreationResult(54, NO_AUTHORIZER),) * 2),
    ),
    (
        "ACLs",
        acls.DeleteAclsRequest(2, (acls.DeleteAclsFilter(*FILTER),)),
        acls.DeleteAclsResponse((acls.DeleteAclsFilterResult(54, NO_AUTHORIZER),)),
    ),
    (
        "the consumer rebalance protocol",
        unserved.ConsumerGroupHeartbeatRequest(0, "g", "", 0),
        unserved.ConsumerGroupHeartbeatResponse(35),
    ),
    (
        "the consumer rebalance protocol",
        unserved.ConsumerGroupDescribeRequest(0, ("g", "h", "g")),
        unserved.ConsumerGroupDescribeResponse(tuple(unserved.UndescribedGroup(35, each) for each in "ghg")),
    ),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path_factory.mktemp("unserved") / "data") as served:
        yield served


@pytest.mark.parametrize(("feature", "request_", "refusal"), CASES, ids=lambda each: type(each).__name__)
def test_refused_at_once_and_the_connection_goes_on(
    broker: ServedBroker, feature: str, request_: Any, refusal: Any
) -> None:
    api = API_BY_REQUEST[type(request_)]
    assert api.key in {each.api_key for each in ADVERTISED}, "clients ask only for what is advertised"
    with WireClient("127.0.0.1", broker.port, timeout=10) as connection:
        for _ in range(2):
            assert connection.call(request_) == refusal
        assert connection.call(ApiVersionsRequest(0)).api_keys == ADVERTISED


def test_the_log_names_each_feature_once(
    tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "kafka.server.KafkaApis"):
        with ServedBroker(tmp_path_factory.mktemp("unserved") / "data") as broker:
            with WireClient("127.0.0.1", broker.port, timeout=10) as connection:
                for _, request, _ in CASES * 2:
                    connection.call(request)
    lines = [record.getMessage() for record in caplog.records]
    codes = {"ACLs": 54, "the consumer rebalance protocol": 35}
    for feature, code in codes.items():
        (line,) = [line for line in lines if f"this broker does not serve {feature}." in line]
        assert f"error code {code}" in line
    assert len(lines) == len(codes)


def test_no_refusal_is_a_success() -> None:
    assert NONE not in {getattr(refusal, "error_code", 1) for _, _, refusal in CASES}


@pytest.mark.parametrize(
    "request_",
    [
        delegation_tokens.CreateDelegationTokenRequest(2),
        delegation_tokens.RenewDelegationTokenRequest(2),
        delegation_tokens.ExpireDelegationTokenRequest(2),
        delegation_tokens.DescribeDelegationTokenRequest(2, None),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_client_that_has_not_authenticated_gets_no_delegation_token(broker: ServedBroker, request_: Any) -> None:
    with WireClient("127.0.0.1", broker.port, timeout=10) as connection:
        assert connection.call(request_) == API_BY_REQUEST[type(request_)].response(64)


def test_sasl_on_a_listener_without_it_is_refused_with_kafkas_code(broker: ServedBroker) -> None:
    with WireClient("127.0.0.1", broker.port, timeout=10) as connection:
        assert connection.call(SaslHandshakeRequest(1, "PLAIN")) == SaslHandshakeResponse(34)
        refused = connection.call(SaslAuthenticateRequest(2, Secret(b"x")))
        assert refused == SaslAuthenticateResponse(
            34, "SaslAuthenticate request received after successful authentication"
        )
