"""Table of the requests that `client_requests` sends for simulated admin clients."""

from __future__ import annotations

from collections.abc import Mapping

from actors.core.topic.topic_name import GROUP_METADATA
from actors.simulation import request_target
from messages.apis import (
    alter_configs,
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    unserved,
    update_features,
)
from messages.apis.api_versions import ApiVersionsRequest
from messages.apis.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from messages.apis.metadata import MetadataRequest
from messages.vocabulary import AnyMessage, Message


def _create(*topics: create_topics.CreatableTopic, validate_only: bool = True) -> request_target.Make:
    return lambda about: create_topics.CreateTopicsRequest(5, topics, request_target.TIMEOUT_MS, validate_only)


def _grow(
    by: int, *replicas: tuple[int, ...], topic: str = "", twice: bool = False, validate_only: bool = True
) -> request_target.Make:
    def make(about: request_target.RequestTarget) -> Message:
        wanted = tuple(map(create_partitions.WantedReplicas, replicas)) if replicas else None
        growing = create_partitions.GrowingTopic(topic or about.topic, about.partitions + by, wanted)
        return create_partitions.CreatePartitionsRequest(
            1, (growing,) * (2 if twice else 1), request_target.TIMEOUT_MS, validate_only
        )

    return make


def _elect(topic: str = "", kind: int = 0) -> request_target.Make:
    return lambda about: elect_leaders.ElectLeadersRequest(
        1, (elect_leaders.ElectableTopic(topic or about.topic, (about.number,)),), request_target.TIMEOUT_MS, kind
    )


def _reassign(replicas: tuple[int, ...] | None, topic: str = "") -> request_target.Make:
    return lambda about: alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        0,
        request_target.TIMEOUT_MS,
        (
            alter_partition_reassignments.ReassignableTopic(
                topic or about.topic, (alter_partition_reassignments.ReassignablePartition(about.number, replicas),)
            ),
        ),
    )


def _describe(kind: int, name: str | None = None) -> request_target.Make:
    return lambda about: describe_configs.DescribeConfigsRequest(
        3,
        (describe_configs.DescribeConfigsResource(kind, about.topic if name is None else name),),
        include_synonyms=True,
    )


def _configure(
    kind: int, name: str | None, key: str, value: str, whole: bool = False, validate_only: bool = True
) -> request_target.Make:
    def make(about: request_target.RequestTarget) -> Message:
        changed = alter_configs.ChangedResource(
            kind, about.topic if name is None else name, (alter_configs.ConfigChange(key, value),)
        )
        request = (
            alter_configs.AlterConfigsRequest if whole else incremental_alter_configs.IncrementalAlterConfigsRequest
        )
        return request(1, (changed,), validate_only)

    return make


def _log_dirs(about: request_target.RequestTarget) -> Message:
    return DescribeLogDirsRequest(2, (DescribableLogDirTopic(about.topic, (about.number,)),))


_TWICE = create_topics.CreatableTopic("twice", 1, 1)

LATE = "late"
"""A topic whose only replica is on a broker that does not exist: it never has a leader."""


def _create_late(about: request_target.RequestTarget) -> Message:
    return create_topics.CreateTopicsRequest(
        5, (create_topics.CreatableTopic(LATE, assignments=(create_topics.CreatableAssignment(0, (90,)),)),), 1
    )


def _own_topic(about: request_target.RequestTarget) -> list[request_target.Step]:
    """Return requests that create, change and delete a topic, without waiting for results."""
    name, brokers = f"own-{about.number}", sorted(about.cluster.machines)
    one = tuple(create_topics.CreatableAssignment(number, (brokers[0],)) for number in range(2))
    moved = alter_partition_reassignments.ReassignableTopic(
        name, (alter_partition_reassignments.ReassignablePartition(0, (brokers[-1], brokers[0])),)
    )
    growing = create_partitions.GrowingTopic(name, 3)
    return [
        create_topics.CreateTopicsRequest(5, (create_topics.CreatableTopic(name, assignments=one),), 1),
        alter_partition_reassignments.AlterPartitionReassignmentsRequest(0, request_target.TIMEOUT_MS, (moved,)),
        create_partitions.CreatePartitionsRequest(1, (growing,), 1),
        elect_leaders.ElectLeadersRequest(1, (elect_leaders.ElectableTopic(name, (0,)),), 1),
        delete_topics.DeleteTopicsRequest(4, (name,), 1),
        create_partitions.CreatePartitionsRequest(1, (growing,), 1),
        elect_leaders.ElectLeadersRequest(1, (elect_leaders.ElectableTopic(name, (0,)),), 1),
    ]


def _moving_topic(about: request_target.RequestTarget) -> tuple[AnyMessage, ...]:
    """Return requests to add partitions to a topic during a reassignment; the controller must refuse the addition."""
    brokers = sorted(about.cluster.machines)
    moved = alter_partition_reassignments.ReassignableTopic(
        about.topic, (alter_partition_reassignments.ReassignablePartition(about.number, tuple(brokers)),)
    )
    return (
        alter_partition_reassignments.AlterPartitionReassignmentsRequest(0, request_target.TIMEOUT_MS, (moved,)),
        create_partitions.CreatePartitionsRequest(
            1, (create_partitions.GrowingTopic(about.topic, about.partitions + 1),), request_target.TIMEOUT_MS, True
        ),
        _reassign(None)(about),
    )


def _late_topic(about: request_target.RequestTarget) -> list[request_target.Step]:
    """Return requests for leader elections of a partition that never has a leader.

    The partition's only replica is on a broker that does not exist, so the deletion of its topic never ends.
    """
    elections = [
        elect_leaders.ElectLeadersRequest(
            1, (elect_leaders.ElectableTopic(LATE, (0,)),), request_target.TIMEOUT_MS, kind
        )
        for kind in (elect_leaders.PREFERRED, elect_leaders.UNCLEAN)
    ]
    return [_create_late(about), *elections, delete_topics.DeleteTopicsRequest(4, (LATE,), 1)]


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
    "create-valid": _create(create_topics.CreatableTopic("valid", 2, 1)),
    "create-existing": lambda about: create_topics.CreateTopicsRequest(
        5, (create_topics.CreatableTopic(about.topic, 1, 1),), request_target.TIMEOUT_MS, True
    ),
    "create-twice": _create(_TWICE, _TWICE),
    "create-bad-name": _create(create_topics.CreatableTopic(request_target.BAD_NAME, 1, 1)),
    "create-no-partitions": _create(create_topics.CreatableTopic("none", 0, 1)),
    "create-many-replicas": _create(create_topics.CreatableTopic("many", 1, 90)),
    "create-bad-replicas": _create(
        create_topics.CreatableTopic("bad", assignments=(create_topics.CreatableAssignment(0, (0, 0)),))
    ),
    "create-bad-config": _create(
        create_topics.CreatableTopic("bad", 1, 1, configs=(create_topics.CreatableConfig("no.such.config", "1"),))
    ),
    "late-topic": _late_topic,
    "own-topic": _own_topic,
    "moving-topic": _moving_topic,
    "elect-unknown-type": _elect(kind=9),
    "metadata-internal": lambda about: MetadataRequest(9, (GROUP_METADATA,), True),
    "delete-absent": lambda about: delete_topics.DeleteTopicsRequest(
        4, (request_target.ABSENT_TOPIC,), request_target.TIMEOUT_MS
    ),
    "delete-absent-old-version": lambda about: delete_topics.DeleteTopicsRequest(
        2, (request_target.ABSENT_TOPIC,), request_target.TIMEOUT_MS
    ),
    "grow-valid": _grow(1),
    "grow-by-nothing": _grow(0),
    "grow-bad-replicas": _grow(1, (90,)),
    "grow-absent": _grow(1, topic=request_target.ABSENT_TOPIC),
    "grow-twice": _grow(1, twice=True),
    "elect": _elect(),
    "elect-absent": _elect(request_target.ABSENT_TOPIC),
    "elect-unclean-absent": _elect(request_target.ABSENT_TOPIC, elect_leaders.UNCLEAN),
    "elect-all": lambda about: elect_leaders.ElectLeadersRequest(1, None, request_target.TIMEOUT_MS),
    "reassign-cancel": _reassign(None),
    "reassign-absent": _reassign((0,), request_target.ABSENT_TOPIC),
    "reassign-nowhere": _reassign(()),
    "list-reassignments": lambda about: list_partition_reassignments.ListPartitionReassignmentsRequest(
        0, request_target.TIMEOUT_MS
    ),
    "list-reassignment": lambda about: list_partition_reassignments.ListPartitionReassignmentsRequest(
        0,
        request_target.TIMEOUT_MS,
        (list_partition_reassignments.ListPartitionReassignmentsTopics(about.topic, (about.number,)),),
    ),
    "describe-topic": _describe(describe_configs.TOPIC),
    "describe-absent": _describe(describe_configs.TOPIC, request_target.ABSENT_TOPIC),
    "describe-bad-name": _describe(describe_configs.TOPIC, request_target.BAD_NAME),
    "describe-brokers": _describe(describe_configs.BROKER, ""),
    "describe-broker": _describe(describe_configs.BROKER, "0"),
    "alter-whole": _configure(describe_configs.TOPIC, None, "retention.ms", "900000000", whole=True),
    "alter-whole-absent": _configure(
        describe_configs.TOPIC, request_target.ABSENT_TOPIC, "retention.ms", "1", whole=True
    ),
    "alter-whole-bad": _configure(describe_configs.TOPIC, None, "retention.ms", "soon", whole=True),
    "alter-whole-unknown": _configure(describe_configs.BROKER, "unknown", "num.replica.fetchers", "1", whole=True),
    "alter": _configure(describe_configs.TOPIC, None, "retention.ms", "900000000"),
    "alter-absent": _configure(describe_configs.TOPIC, request_target.ABSENT_TOPIC, "retention.ms", "1"),
    "alter-bad": _configure(describe_configs.TOPIC, None, "retention.ms", "soon"),
    "alter-broker": _configure(describe_configs.BROKER, "1", "num.replica.fetchers", "1"),
    "sasl-handshake": lambda about: unserved.SaslHandshakeRequest(1, "PLAIN"),
    "sasl": lambda about: unserved.SaslAuthenticateRequest(2),
    "update-features": lambda about: update_features.UpdateFeaturesRequest(1),
    "consumer-heartbeat": lambda about: unserved.ConsumerGroupHeartbeatRequest(0, about.topic, "member", 0),
    "consumer-describe": lambda about: unserved.ConsumerGroupDescribeRequest(0, (about.topic,)),
    "describe-acls": lambda about: unserved.DescribeAclsRequest(2, 1, None, None, None, 1, 1),
    "create-acls": lambda about: unserved.CreateAclsRequest(
        2, (unserved.AclCreation(2, about.topic, "User:a", "*", 2, 3),)
    ),
    "delete-acls": lambda about: unserved.DeleteAclsRequest(2, (unserved.DeleteAclsFilter(1, None, None, None, 1, 1),)),
    "create-token": lambda about: unserved.CreateDelegationTokenRequest(2),
    "renew-token": lambda about: unserved.RenewDelegationTokenRequest(2),
    "expire-token": lambda about: unserved.ExpireDelegationTokenRequest(2),
    "describe-token": lambda about: unserved.DescribeDelegationTokenRequest(2, None),
}
"""Requests of admin clients, of which most are only validated (`client_requests`, rule 2)."""
