"""Table of the requests that `client_requests` sends for simulated admin clients."""

from __future__ import annotations

from collections.abc import Mapping

from actors.core.topic.topic_name import GROUP_METADATA
from actors.simulation import request_target
from messages import admin_requests, config_requests, security_requests
from messages.log_dir_requests import DescribableLogDirTopic, DescribeLogDirsRequest
from messages.requests import (
    ApiVersionsRequest,
    MetadataRequest,
)
from messages.vocabulary import AnyMessage, Message


def _create(*topics: admin_requests.CreatableTopic, validate_only: bool = True) -> request_target.Make:
    return lambda about: admin_requests.CreateTopicsRequest(5, topics, request_target.TIMEOUT_MS, validate_only)


def _grow(
    by: int, *replicas: tuple[int, ...], topic: str = "", twice: bool = False, validate_only: bool = True
) -> request_target.Make:
    def make(about: request_target.RequestTarget) -> Message:
        wanted = tuple(map(admin_requests.WantedReplicas, replicas)) if replicas else None
        growing = admin_requests.GrowingTopic(topic or about.topic, about.partitions + by, wanted)
        return admin_requests.CreatePartitionsRequest(
            1, (growing,) * (2 if twice else 1), request_target.TIMEOUT_MS, validate_only
        )

    return make


def _elect(topic: str = "", kind: int = 0) -> request_target.Make:
    return lambda about: admin_requests.ElectLeadersRequest(
        1, (admin_requests.ElectableTopic(topic or about.topic, (about.number,)),), request_target.TIMEOUT_MS, kind
    )


def _reassign(replicas: tuple[int, ...] | None, topic: str = "") -> request_target.Make:
    return lambda about: admin_requests.AlterPartitionReassignmentsRequest(
        0,
        request_target.TIMEOUT_MS,
        (
            admin_requests.ReassignableTopic(
                topic or about.topic, (admin_requests.ReassignablePartition(about.number, replicas),)
            ),
        ),
    )


def _describe(kind: int, name: str | None = None) -> request_target.Make:
    return lambda about: config_requests.DescribeConfigsRequest(
        3,
        (config_requests.DescribeConfigsResource(kind, about.topic if name is None else name),),
        include_synonyms=True,
    )


def _configure(
    kind: int, name: str | None, key: str, value: str, whole: bool = False, validate_only: bool = True
) -> request_target.Make:
    def make(about: request_target.RequestTarget) -> Message:
        changed = config_requests.ChangedResource(
            kind, about.topic if name is None else name, (config_requests.ConfigChange(key, value),)
        )
        request = config_requests.AlterConfigsRequest if whole else config_requests.IncrementalAlterConfigsRequest
        return request(1, (changed,), validate_only)

    return make


def _log_dirs(about: request_target.RequestTarget) -> Message:
    return DescribeLogDirsRequest(2, (DescribableLogDirTopic(about.topic, (about.number,)),))


_TWICE = admin_requests.CreatableTopic("twice", 1, 1)

LATE = "late"
"""A topic whose only replica is on a broker that does not exist: it never has a leader."""


def _create_late(about: request_target.RequestTarget) -> Message:
    return admin_requests.CreateTopicsRequest(
        5, (admin_requests.CreatableTopic(LATE, assignments=(admin_requests.CreatableAssignment(0, (90,)),)),), 1
    )


def _own_topic(about: request_target.RequestTarget) -> list[request_target.Step]:
    """Return requests that create, change and delete a topic, without waiting for results."""
    name, brokers = f"own-{about.number}", sorted(about.cluster.machines)
    one = tuple(admin_requests.CreatableAssignment(number, (brokers[0],)) for number in range(2))
    moved = admin_requests.ReassignableTopic(
        name, (admin_requests.ReassignablePartition(0, (brokers[-1], brokers[0])),)
    )
    growing = admin_requests.GrowingTopic(name, 3)
    return [
        admin_requests.CreateTopicsRequest(5, (admin_requests.CreatableTopic(name, assignments=one),), 1),
        admin_requests.AlterPartitionReassignmentsRequest(0, request_target.TIMEOUT_MS, (moved,)),
        admin_requests.CreatePartitionsRequest(1, (growing,), 1),
        admin_requests.ElectLeadersRequest(1, (admin_requests.ElectableTopic(name, (0,)),), 1),
        admin_requests.DeleteTopicsRequest(4, (name,), 1),
        admin_requests.CreatePartitionsRequest(1, (growing,), 1),
        admin_requests.ElectLeadersRequest(1, (admin_requests.ElectableTopic(name, (0,)),), 1),
    ]


def _moving_topic(about: request_target.RequestTarget) -> tuple[AnyMessage, ...]:
    """Return requests to add partitions to a topic during a reassignment; the controller must refuse the addition."""
    brokers = sorted(about.cluster.machines)
    moved = admin_requests.ReassignableTopic(
        about.topic, (admin_requests.ReassignablePartition(about.number, tuple(brokers)),)
    )
    return (
        admin_requests.AlterPartitionReassignmentsRequest(0, request_target.TIMEOUT_MS, (moved,)),
        admin_requests.CreatePartitionsRequest(
            1, (admin_requests.GrowingTopic(about.topic, about.partitions + 1),), request_target.TIMEOUT_MS, True
        ),
        _reassign(None)(about),
    )


def _late_topic(about: request_target.RequestTarget) -> list[request_target.Step]:
    """Return requests for leader elections of a partition that never has a leader.

    The partition's only replica is on a broker that does not exist, so the deletion of its topic never ends.
    """
    elections = [
        admin_requests.ElectLeadersRequest(
            1, (admin_requests.ElectableTopic(LATE, (0,)),), request_target.TIMEOUT_MS, kind
        )
        for kind in (admin_requests.PREFERRED, admin_requests.UNCLEAN)
    ]
    return [_create_late(about), *elections, admin_requests.DeleteTopicsRequest(4, (LATE,), 1)]


ADMIN: Mapping[str, request_target.Wanted] = {
    "metadata": lambda about: MetadataRequest(9, (about.topic,), False),
    "metadata-old-version": lambda about: MetadataRequest(0, None, False),
    "metadata-absent": lambda about: MetadataRequest(9, (request_target.ABSENT_TOPIC,), False),
    "metadata-bad-name": lambda about: MetadataRequest(9, (request_target.BAD_NAME,), True),
    "metadata-creates": lambda about: MetadataRequest(9, (f"auto-{about.number}",), True),
    "api-versions": lambda about: ApiVersionsRequest(3, "simulation", "1.0"),
    "api-versions-unknown": lambda about: ApiVersionsRequest(99),
    "api-versions-bad-name": lambda about: ApiVersionsRequest(3, "-", "-"),
    "log-dirs": _log_dirs,
    "create-valid": _create(admin_requests.CreatableTopic("valid", 2, 1)),
    "create-existing": lambda about: admin_requests.CreateTopicsRequest(
        5, (admin_requests.CreatableTopic(about.topic, 1, 1),), request_target.TIMEOUT_MS, True
    ),
    "create-twice": _create(_TWICE, _TWICE),
    "create-bad-name": _create(admin_requests.CreatableTopic(request_target.BAD_NAME, 1, 1)),
    "create-no-partitions": _create(admin_requests.CreatableTopic("none", 0, 1)),
    "create-many-replicas": _create(admin_requests.CreatableTopic("many", 1, 90)),
    "create-bad-replicas": _create(
        admin_requests.CreatableTopic("bad", assignments=(admin_requests.CreatableAssignment(0, (0, 0)),))
    ),
    "create-bad-config": _create(
        admin_requests.CreatableTopic("bad", 1, 1, configs=(admin_requests.CreatableConfig("no.such.config", "1"),))
    ),
    "late-topic": _late_topic,
    "own-topic": _own_topic,
    "moving-topic": _moving_topic,
    "elect-unknown-type": _elect(kind=9),
    "metadata-internal": lambda about: MetadataRequest(9, (GROUP_METADATA,), True),
    "delete-absent": lambda about: admin_requests.DeleteTopicsRequest(
        4, (request_target.ABSENT_TOPIC,), request_target.TIMEOUT_MS
    ),
    "delete-absent-old-version": lambda about: admin_requests.DeleteTopicsRequest(
        2, (request_target.ABSENT_TOPIC,), request_target.TIMEOUT_MS
    ),
    "grow-valid": _grow(1),
    "grow-by-nothing": _grow(0),
    "grow-bad-replicas": _grow(1, (90,)),
    "grow-absent": _grow(1, topic=request_target.ABSENT_TOPIC),
    "grow-twice": _grow(1, twice=True),
    "elect": _elect(),
    "elect-absent": _elect(request_target.ABSENT_TOPIC),
    "elect-unclean-absent": _elect(request_target.ABSENT_TOPIC, admin_requests.UNCLEAN),
    "elect-all": lambda about: admin_requests.ElectLeadersRequest(1, None, request_target.TIMEOUT_MS),
    "reassign-cancel": _reassign(None),
    "reassign-absent": _reassign((0,), request_target.ABSENT_TOPIC),
    "reassign-nowhere": _reassign(()),
    "list-reassignments": lambda about: admin_requests.ListPartitionReassignmentsRequest(0, request_target.TIMEOUT_MS),
    "list-reassignment": lambda about: admin_requests.ListPartitionReassignmentsRequest(
        0, request_target.TIMEOUT_MS, (admin_requests.ListPartitionReassignmentsTopics(about.topic, (about.number,)),)
    ),
    "describe-topic": _describe(config_requests.TOPIC),
    "describe-absent": _describe(config_requests.TOPIC, request_target.ABSENT_TOPIC),
    "describe-bad-name": _describe(config_requests.TOPIC, request_target.BAD_NAME),
    "describe-brokers": _describe(config_requests.BROKER, ""),
    "describe-broker": _describe(config_requests.BROKER, "0"),
    "alter-whole": _configure(config_requests.TOPIC, None, "retention.ms", "900000000", whole=True),
    "alter-whole-absent": _configure(
        config_requests.TOPIC, request_target.ABSENT_TOPIC, "retention.ms", "1", whole=True
    ),
    "alter-whole-bad": _configure(config_requests.TOPIC, None, "retention.ms", "soon", whole=True),
    "alter-whole-unknown": _configure(config_requests.BROKER, "unknown", "num.replica.fetchers", "1", whole=True),
    "alter": _configure(config_requests.TOPIC, None, "retention.ms", "900000000"),
    "alter-absent": _configure(config_requests.TOPIC, request_target.ABSENT_TOPIC, "retention.ms", "1"),
    "alter-bad": _configure(config_requests.TOPIC, None, "retention.ms", "soon"),
    "alter-broker": _configure(config_requests.BROKER, "1", "num.replica.fetchers", "1"),
    "sasl-handshake": lambda about: security_requests.SaslHandshakeRequest(1, "PLAIN"),
    "sasl": lambda about: security_requests.SaslAuthenticateRequest(2),
    "update-features": lambda about: security_requests.UpdateFeaturesRequest(1),
    "consumer-heartbeat": lambda about: security_requests.ConsumerGroupHeartbeatRequest(0, about.topic, "member", 0),
    "consumer-describe": lambda about: security_requests.ConsumerGroupDescribeRequest(0, (about.topic,)),
    "describe-acls": lambda about: security_requests.DescribeAclsRequest(2, 1, None, None, None, 1, 1),
    "create-acls": lambda about: security_requests.CreateAclsRequest(
        2, (security_requests.AclCreation(2, about.topic, "User:a", "*", 2, 3),)
    ),
    "delete-acls": lambda about: security_requests.DeleteAclsRequest(
        2, (security_requests.DeleteAclsFilter(1, None, None, None, 1, 1),)
    ),
    "create-token": lambda about: security_requests.CreateDelegationTokenRequest(2),
    "renew-token": lambda about: security_requests.RenewDelegationTokenRequest(2),
    "expire-token": lambda about: security_requests.ExpireDelegationTokenRequest(2),
    "describe-token": lambda about: security_requests.DescribeDelegationTokenRequest(2, None),
}
"""Requests of admin clients, of which most are only validated (`client_requests`, rule 2)."""
