"""Table of the requests that `client_requests` sends for simulated admin clients."""

from __future__ import annotations

from collections.abc import Mapping

from actors.core.topic.topic_name import GROUP_METADATA
from actors.simulation.request_target import ABSENT_TOPIC, BAD_NAME, TIMEOUT_MS, Make, RequestTarget, Step, Wanted
from messages.admin_requests import (
    PREFERRED,
    UNCLEAN,
    AlterPartitionReassignmentsRequest,
    CreatableAssignment,
    CreatableConfig,
    CreatableTopic,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectableTopic,
    ElectLeadersRequest,
    GrowingTopic,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
    WantedReplicas,
)
from messages.config_requests import (
    BROKER,
    TOPIC,
    AlterConfigsRequest,
    ChangedResource,
    ConfigChange,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
)
from messages.log_dir_requests import DescribableLogDirTopic, DescribeLogDirsRequest
from messages.requests import (
    ApiVersionsRequest,
    MetadataRequest,
)
from messages.security_requests import (
    AclCreation,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    CreateAclsRequest,
    CreateDelegationTokenRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    UpdateFeaturesRequest,
)
from messages.vocabulary import AnyMessage, Message


def _create(*topics: CreatableTopic, validate_only: bool = True) -> Make:
    return lambda about: CreateTopicsRequest(5, topics, TIMEOUT_MS, validate_only)


def _grow(
    by: int, *replicas: tuple[int, ...], topic: str = "", twice: bool = False, validate_only: bool = True
) -> Make:
    def make(about: RequestTarget) -> Message:
        wanted = tuple(map(WantedReplicas, replicas)) if replicas else None
        growing = GrowingTopic(topic or about.topic, about.partitions + by, wanted)
        return CreatePartitionsRequest(1, (growing,) * (2 if twice else 1), TIMEOUT_MS, validate_only)

    return make


def _elect(topic: str = "", kind: int = 0) -> Make:
    return lambda about: ElectLeadersRequest(
        1, (ElectableTopic(topic or about.topic, (about.number,)),), TIMEOUT_MS, kind
    )


def _reassign(replicas: tuple[int, ...] | None, topic: str = "") -> Make:
    return lambda about: AlterPartitionReassignmentsRequest(
        0, TIMEOUT_MS, (ReassignableTopic(topic or about.topic, (ReassignablePartition(about.number, replicas),)),)
    )


def _describe(kind: int, name: str | None = None) -> Make:
    return lambda about: DescribeConfigsRequest(
        3, (DescribeConfigsResource(kind, about.topic if name is None else name),), include_synonyms=True
    )


def _configure(
    kind: int, name: str | None, key: str, value: str, whole: bool = False, validate_only: bool = True
) -> Make:
    def make(about: RequestTarget) -> Message:
        changed = ChangedResource(kind, about.topic if name is None else name, (ConfigChange(key, value),))
        request = AlterConfigsRequest if whole else IncrementalAlterConfigsRequest
        return request(1, (changed,), validate_only)

    return make


def _log_dirs(about: RequestTarget) -> Message:
    return DescribeLogDirsRequest(2, (DescribableLogDirTopic(about.topic, (about.number,)),))


_TWICE = CreatableTopic("twice", 1, 1)

LATE = "late"
"""A topic whose only replica is on a broker that does not exist: it never has a leader."""


def _create_late(about: RequestTarget) -> Message:
    return CreateTopicsRequest(5, (CreatableTopic(LATE, assignments=(CreatableAssignment(0, (90,)),)),), 1)


def _own_topic(about: RequestTarget) -> list[Step]:
    """Return requests that create, change and delete a topic, without waiting for results."""
    name, brokers = f"own-{about.number}", sorted(about.cluster.machines)
    one = tuple(CreatableAssignment(number, (brokers[0],)) for number in range(2))
    moved = ReassignableTopic(name, (ReassignablePartition(0, (brokers[-1], brokers[0])),))
    growing = GrowingTopic(name, 3)
    return [
        CreateTopicsRequest(5, (CreatableTopic(name, assignments=one),), 1),
        AlterPartitionReassignmentsRequest(0, TIMEOUT_MS, (moved,)),
        CreatePartitionsRequest(1, (growing,), 1),
        ElectLeadersRequest(1, (ElectableTopic(name, (0,)),), 1),
        DeleteTopicsRequest(4, (name,), 1),
        CreatePartitionsRequest(1, (growing,), 1),
        ElectLeadersRequest(1, (ElectableTopic(name, (0,)),), 1),
    ]


def _moving_topic(about: RequestTarget) -> tuple[AnyMessage, ...]:
    """Return requests to add partitions to a topic during a reassignment; the controller must refuse the addition."""
    brokers = sorted(about.cluster.machines)
    moved = ReassignableTopic(about.topic, (ReassignablePartition(about.number, tuple(brokers)),))
    return (
        AlterPartitionReassignmentsRequest(0, TIMEOUT_MS, (moved,)),
        CreatePartitionsRequest(1, (GrowingTopic(about.topic, about.partitions + 1),), TIMEOUT_MS, True),
        _reassign(None)(about),
    )


def _late_topic(about: RequestTarget) -> list[Step]:
    """Return requests for leader elections of a partition that never has a leader.

    The partition's only replica is on a broker that does not exist, so the deletion of its topic never ends.
    """
    elections = [
        ElectLeadersRequest(1, (ElectableTopic(LATE, (0,)),), TIMEOUT_MS, kind) for kind in (PREFERRED, UNCLEAN)
    ]
    return [_create_late(about), *elections, DeleteTopicsRequest(4, (LATE,), 1)]


ADMIN: Mapping[str, Wanted] = {
    "metadata": lambda about: MetadataRequest(9, (about.topic,), False),
    "metadata-old-version": lambda about: MetadataRequest(0, None, False),
    "metadata-absent": lambda about: MetadataRequest(9, (ABSENT_TOPIC,), False),
    "metadata-bad-name": lambda about: MetadataRequest(9, (BAD_NAME,), True),
    "metadata-creates": lambda about: MetadataRequest(9, (f"auto-{about.number}",), True),
    "api-versions": lambda about: ApiVersionsRequest(3, "simulation", "1.0"),
    "api-versions-unknown": lambda about: ApiVersionsRequest(99),
    "api-versions-bad-name": lambda about: ApiVersionsRequest(3, "-", "-"),
    "log-dirs": _log_dirs,
    "create-valid": _create(CreatableTopic("valid", 2, 1)),
    "create-existing": lambda about: CreateTopicsRequest(5, (CreatableTopic(about.topic, 1, 1),), TIMEOUT_MS, True),
    "create-twice": _create(_TWICE, _TWICE),
    "create-bad-name": _create(CreatableTopic(BAD_NAME, 1, 1)),
    "create-no-partitions": _create(CreatableTopic("none", 0, 1)),
    "create-many-replicas": _create(CreatableTopic("many", 1, 90)),
    "create-bad-replicas": _create(CreatableTopic("bad", assignments=(CreatableAssignment(0, (0, 0)),))),
    "create-bad-config": _create(CreatableTopic("bad", 1, 1, configs=(CreatableConfig("no.such.config", "1"),))),
    "late-topic": _late_topic,
    "own-topic": _own_topic,
    "moving-topic": _moving_topic,
    "elect-unknown-type": _elect(kind=9),
    "metadata-internal": lambda about: MetadataRequest(9, (GROUP_METADATA,), True),
    "delete-absent": lambda about: DeleteTopicsRequest(4, (ABSENT_TOPIC,), TIMEOUT_MS),
    "delete-absent-old-version": lambda about: DeleteTopicsRequest(2, (ABSENT_TOPIC,), TIMEOUT_MS),
    "grow-valid": _grow(1),
    "grow-by-nothing": _grow(0),
    "grow-bad-replicas": _grow(1, (90,)),
    "grow-absent": _grow(1, topic=ABSENT_TOPIC),
    "grow-twice": _grow(1, twice=True),
    "elect": _elect(),
    "elect-absent": _elect(ABSENT_TOPIC),
    "elect-unclean-absent": _elect(ABSENT_TOPIC, UNCLEAN),
    "elect-all": lambda about: ElectLeadersRequest(1, None, TIMEOUT_MS),
    "reassign-cancel": _reassign(None),
    "reassign-absent": _reassign((0,), ABSENT_TOPIC),
    "reassign-nowhere": _reassign(()),
    "list-reassignments": lambda about: ListPartitionReassignmentsRequest(0, TIMEOUT_MS),
    "list-reassignment": lambda about: ListPartitionReassignmentsRequest(
        0, TIMEOUT_MS, (ListPartitionReassignmentsTopics(about.topic, (about.number,)),)
    ),
    "describe-topic": _describe(TOPIC),
    "describe-absent": _describe(TOPIC, ABSENT_TOPIC),
    "describe-bad-name": _describe(TOPIC, BAD_NAME),
    "describe-brokers": _describe(BROKER, ""),
    "describe-broker": _describe(BROKER, "0"),
    "alter-whole": _configure(TOPIC, None, "retention.ms", "900000000", whole=True),
    "alter-whole-absent": _configure(TOPIC, ABSENT_TOPIC, "retention.ms", "1", whole=True),
    "alter-whole-bad": _configure(TOPIC, None, "retention.ms", "soon", whole=True),
    "alter-whole-unknown": _configure(BROKER, "unknown", "num.replica.fetchers", "1", whole=True),
    "alter": _configure(TOPIC, None, "retention.ms", "900000000"),
    "alter-absent": _configure(TOPIC, ABSENT_TOPIC, "retention.ms", "1"),
    "alter-bad": _configure(TOPIC, None, "retention.ms", "soon"),
    "alter-broker": _configure(BROKER, "1", "num.replica.fetchers", "1"),
    "sasl-handshake": lambda about: SaslHandshakeRequest(1, "PLAIN"),
    "sasl": lambda about: SaslAuthenticateRequest(2),
    "update-features": lambda about: UpdateFeaturesRequest(1),
    "consumer-heartbeat": lambda about: ConsumerGroupHeartbeatRequest(0, about.topic, "member", 0),
    "consumer-describe": lambda about: ConsumerGroupDescribeRequest(0, (about.topic,)),
    "describe-acls": lambda about: DescribeAclsRequest(2, 1, None, None, None, 1, 1),
    "create-acls": lambda about: CreateAclsRequest(2, (AclCreation(2, about.topic, "User:a", "*", 2, 3),)),
    "delete-acls": lambda about: DeleteAclsRequest(2, (DeleteAclsFilter(1, None, None, None, 1, 1),)),
    "create-token": lambda about: CreateDelegationTokenRequest(2),
    "renew-token": lambda about: RenewDelegationTokenRequest(2),
    "expire-token": lambda about: ExpireDelegationTokenRequest(2),
    "describe-token": lambda about: DescribeDelegationTokenRequest(2, None),
}
"""Requests of admin clients, of which most are only validated (`client_requests`, rule 2)."""
