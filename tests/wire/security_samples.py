"""Samples of the APIs that a node always rejects: messages, their fields in kio, and fields versions lack."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import attrs
from hypothesis import strategies as st

from messages.security_requests import (
    LITERAL,
    AclCreation,
    AclCreationResult,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DelegationTokenOwner,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
    UndescribedGroup,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

MODULES = {
    17: "sasl_handshake",
    36: "sasl_authenticate",
    29: "describe_acls",
    30: "create_acls",
    31: "delete_acls",
    38: "create_delegation_token",
    39: "renew_delegation_token",
    40: "expire_delegation_token",
    41: "describe_delegation_token",
    57: "update_features",
    68: "consumer_group_heartbeat",
    69: "consumer_group_describe",
}
"""API key -> kio's module."""

SINCE = {"pattern_type_filter": (1, LITERAL), "resource_pattern_type": (1, LITERAL), "session_lifetime_ms": (1, 0)}
"""Field -> (the first version that has it, the decoded value in earlier versions)."""

UNREAD: dict[type, dict[str, Any]] = {
    SaslAuthenticateRequest: {"auth_bytes": b""},
    CreateDelegationTokenRequest: {"renewers": [], "max_lifetime": 0},
    RenewDelegationTokenRequest: {"hmac": b"", "renew_period": 0},
    ExpireDelegationTokenRequest: {"hmac": b"", "expiry_time_period": 0},
    DescribeAclsResponse: {"resources": []},
    DeleteAclsFilterResult: {"matching_acls": []},
    DescribeDelegationTokenResponse: {"tokens": []},
    UpdateFeaturesRequest: {"timeout": 60_000, "feature_updates": [], "validate_only": False},
    UpdateFeaturesResponse: {"results": []},
    ConsumerGroupHeartbeatRequest: {
        **dict.fromkeys(("instance_id", "rack_id", "subscribed_topic_names", "server_assignor", "topic_partitions")),
        "rebalance_timeout": -1,
    },
    ConsumerGroupHeartbeatResponse: {"member_id": None, "member_epoch": 0, "heartbeat_interval": 0, "assignment": None},
    ConsumerGroupDescribeRequest: {"include_authorized_operations": False},
    UndescribedGroup: {
        "error_message": None,
        "group_state": "",
        "group_epoch": 0,
        "assignment_epoch": 0,
        "assignor_name": "",
        "members": [],
        "authorized_operations": -(2**31),
    },
}
"""Message class -> the values that are encoded for fields that our messages lack."""


def samples(int32: Any, texts: Any, codes: Any, several: Any) -> tuple[Any, Any]:
    """Return strategies for (requests by key and version, responses by key), made of the given strategies."""
    spans, when, maybe, blobs = (
        st.integers(0, 2**31 - 1),
        st.integers(0, 2**40),
        st.none() | texts,
        st.binary(max_size=6),
    )
    int8 = st.integers(-128, 127)
    wanted = (int8, maybe, maybe, maybe, int8, int8, int8)
    creation = st.builds(AclCreation, int8, texts, texts, texts, int8, int8, int8)
    owners = several(st.builds(DelegationTokenOwner, texts, texts))

    def requests(version: int) -> dict[int, Any]:
        this = st.just(version)
        return {
            17: st.builds(SaslHandshakeRequest, this, texts),
            36: st.builds(SaslAuthenticateRequest, this),
            29: st.builds(DescribeAclsRequest, this, *wanted),
            30: st.builds(CreateAclsRequest, this, several(creation)),
            31: st.builds(DeleteAclsRequest, this, several(st.builds(DeleteAclsFilter, *wanted))),
            38: st.builds(CreateDelegationTokenRequest, this),
            39: st.builds(RenewDelegationTokenRequest, this),
            40: st.builds(ExpireDelegationTokenRequest, this),
            41: st.builds(DescribeDelegationTokenRequest, this, st.none() | owners),
            57: st.builds(UpdateFeaturesRequest, this),
            68: st.builds(ConsumerGroupHeartbeatRequest, this, texts, texts, int32),
            69: st.builds(ConsumerGroupDescribeRequest, this, several(texts)),
        }

    responses = {
        17: st.builds(SaslHandshakeResponse, codes, several(texts)),
        36: st.builds(SaslAuthenticateResponse, codes, maybe, blobs, when),
        29: st.builds(DescribeAclsResponse, codes, maybe, spans),
        30: st.builds(CreateAclsResponse, several(st.builds(AclCreationResult, codes, maybe)), spans),
        31: st.builds(DeleteAclsResponse, several(st.builds(DeleteAclsFilterResult, codes, maybe)), spans),
        38: st.builds(CreateDelegationTokenResponse, codes, texts, texts, when, when, when, texts, blobs, spans),
        39: st.builds(RenewDelegationTokenResponse, codes, when, spans),
        40: st.builds(ExpireDelegationTokenResponse, codes, when, spans),
        41: st.builds(DescribeDelegationTokenResponse, codes, spans),
        57: st.builds(UpdateFeaturesResponse, codes, maybe, spans),
        68: st.builds(ConsumerGroupHeartbeatResponse, codes, maybe, spans),
        69: st.builds(ConsumerGroupDescribeResponse, several(st.builds(UndescribedGroup, codes, texts)), spans),
    }
    by_key: dict[int, Callable[[int], Any]] = {key: lambda v, key=key: requests(v)[key] for key in MODULES}
    return by_key, responses


def is_mine(message: Any) -> bool:
    """Return whether a message belongs to these APIs."""
    return type(message).__module__ == "messages.security_requests"


def words(message: Any) -> dict[str, Any]:
    """Return kio's fields of a message, including those that the version lacks."""
    said: dict[str, Any] = dict(UNREAD.get(type(message), {}))
    for field in attrs.fields(type(message)):
        value: Any = getattr(message, field.name)
        if field.name.endswith("timestamp_ms"):
            value = datetime.datetime.fromtimestamp(value / 1000, datetime.UTC)
        name = field.name.removesuffix("_ms")
        said[name] = [words(each) if is_mine(each) else each for each in value] if isinstance(value, tuple) else value
    return said


def as_read(message: Any, version: int) -> Any:
    """Return a message as its receiver decodes it: without the fields that the version lacks."""
    changes: dict[str, Any] = {}
    for field in attrs.fields(type(message)):
        value = getattr(message, field.name)
        since, instead = SINCE.get(field.name, (0, None))
        if version < since:
            changes[field.name] = instead
        elif isinstance(value, tuple):
            changes[field.name] = tuple(as_read(each, version) if is_mine(each) else each for each in value)
    return attrs.evolve(message, **changes)
