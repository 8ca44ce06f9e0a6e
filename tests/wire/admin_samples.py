"""Samples of the admin client APIs: messages, their fields in kio, and the fields that versions lack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from hypothesis import strategies as st

from messages.admin_requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatableAssignment,
    CreatableConfig,
    CreatableTopic,
    CreatedConfig,
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectableTopic,
    ElectedPartition,
    ElectedTopic,
    ElectLeadersRequest,
    ElectLeadersResponse,
    GrowingTopic,
    GrownTopic,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
    WantedReplicas,
)
from messages.config_requests import (
    DEFAULT_CONFIG,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredResource,
    ChangedResource,
    ConfigChange,
    ConfigSynonym,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribedConfig,
    DescribedResource,
    IncrementalAlterConfigsRequest,
)
from messages.log_dir_requests import (
    DescribableLogDirTopic,
    DescribedLog,
    DescribedLogDir,
    DescribedLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 19, 20, 37
DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 32, 33, 44
ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS = 45, 46
ELECT_LEADERS = 43
DESCRIBE_LOG_DIRS = 35

MODULES = {
    CREATE_TOPICS: "create_topics",
    DELETE_TOPICS: "delete_topics",
    CREATE_PARTITIONS: "create_partitions",
    DESCRIBE_CONFIGS: "describe_configs",
    ALTER_CONFIGS: "alter_configs",
    INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
    ELECT_LEADERS: "elect_leaders",
    DESCRIBE_LOG_DIRS: "describe_log_dirs",
    ALTER_REASSIGNMENTS: "alter_partition_reassignments",
    LIST_REASSIGNMENTS: "list_partition_reassignments",
}
"""API key -> kio's module."""

SINCE: dict[type, dict[str, int]] = {
    CreateTopicsRequest: {"validate_only": 1},
    CreateTopicsResponse: {"throttle_time_ms": 2},
    CreatedTopic: {"error_message": 1, "num_partitions": 5, "replication_factor": 5, "configs": 5},
    DeleteTopicsResponse: {"throttle_time_ms": 1},
    ElectLeadersRequest: {"election_type": 1},
    ElectLeadersResponse: {"error_code": 1},
    DescribeConfigsRequest: {"include_synonyms": 1, "include_documentation": 3},
    DescribedConfig: {"config_source": 1, "synonyms": 1, "config_type": 3, "documentation": 3},
}
"""Message class -> field -> the first version that has it."""

RENAMED = {
    "throttle_time_ms": "throttle_time",
    "timeout_ms": "timeout",
    (DeleteTopicsRequest, "topics"): "topic_names",
    (DeleteTopicsResponse, "topics"): "responses",
    (CreatePartitionsResponse, "topics"): "results",
    (ElectLeadersRequest, "topics"): "topic_partitions",
    (ElectLeadersResponse, "topics"): "replica_election_results",
    (ElectableTopic, "name"): "topic",
    (ElectedTopic, "name"): "topic",
    (ElectedTopic, "partitions"): "partition_result",
    (ElectedPartition, "partition_index"): "partition_id",
}
"""Field -> kio's name, if it differs from ours."""


def samples(int16: Any, int32: Any, texts: Any, ids: Any, codes: Any, several: Any) -> tuple[Any, Any]:
    """Return strategies for (requests by key and version, responses by key), made of the given strategies."""
    spans, maybe = st.integers(0, 2**31 - 1), st.none() | texts
    config = st.builds(CreatableConfig, texts, maybe)
    assignment = st.builds(CreatableAssignment, int32, ids)
    topic = st.builds(CreatableTopic, texts, int32, int16, several(assignment), several(config))
    moved = st.builds(ReassignableTopic, texts, several(st.builds(ReassignablePartition, int32, st.none() | ids)))
    asked = st.builds(ListPartitionReassignmentsTopics, texts, ids)
    electable = st.builds(ElectableTopic, texts, ids)
    described_of = st.builds(DescribableLogDirTopic, texts, ids)
    growing = st.builds(GrowingTopic, texts, int32, st.none() | several(st.builds(WantedReplicas, ids)))

    int8 = st.integers(-128, 127)
    wanted = st.builds(DescribeConfigsResource, int8, texts, st.none() | several(texts))
    replacing = st.builds(ChangedResource, int8, texts, several(st.builds(ConfigChange, texts, maybe)))
    changing = st.builds(ChangedResource, int8, texts, several(st.builds(ConfigChange, texts, maybe, int8)))

    def requests(version: int) -> dict[int, Any]:
        this = st.just(version)
        return {
            CREATE_TOPICS: st.builds(CreateTopicsRequest, this, several(topic), spans, st.booleans()),
            DELETE_TOPICS: st.builds(DeleteTopicsRequest, this, several(texts), spans),
            CREATE_PARTITIONS: st.builds(CreatePartitionsRequest, this, several(growing), spans, st.booleans()),
            DESCRIBE_CONFIGS: st.builds(DescribeConfigsRequest, this, several(wanted), st.booleans(), st.booleans()),
            ALTER_CONFIGS: st.builds(AlterConfigsRequest, this, several(replacing), st.booleans()),
            INCREMENTAL_ALTER_CONFIGS: st.builds(
                IncrementalAlterConfigsRequest, this, several(changing), st.booleans()
            ),
            ELECT_LEADERS: st.builds(ElectLeadersRequest, this, st.none() | several(electable), spans, int8),
            DESCRIBE_LOG_DIRS: st.builds(DescribeLogDirsRequest, this, st.none() | several(described_of)),
            ALTER_REASSIGNMENTS: st.builds(AlterPartitionReassignmentsRequest, this, spans, several(moved)),
            LIST_REASSIGNMENTS: st.builds(ListPartitionReassignmentsRequest, this, spans, st.none() | several(asked)),
        }

    created_config = st.builds(CreatedConfig, texts, maybe, st.booleans(), int8, st.booleans())
    created = st.builds(CreatedTopic, texts, codes, maybe, int32, int16, st.none() | several(created_config))
    synonym = st.builds(ConfigSynonym, texts, maybe, int8)
    described = st.builds(
        *(DescribedConfig, texts, maybe, st.booleans(), int8, st.booleans(), several(synonym), int8, maybe)
    )
    resource = st.builds(DescribedResource, codes, maybe, int8, texts, several(described))
    altered = st.builds(AlterConfigsResponse, several(st.builds(AlteredResource, codes, maybe, int8, texts)), spans)
    begun = st.builds(
        ReassignableTopicResponse, texts, several(st.builds(ReassignablePartitionResponse, int32, codes, maybe))
    )
    elected = st.builds(ElectedTopic, texts, several(st.builds(ElectedPartition, int32, codes, maybe)))
    sizes = st.integers(-(2**63), 2**63 - 1)
    log_topic = st.builds(
        DescribedLogDirTopic, texts, several(st.builds(DescribedLog, int32, sizes, sizes, st.booleans()))
    )
    log_dir = st.builds(DescribedLogDir, codes, texts, several(log_topic))
    ongoing = st.builds(
        OngoingTopicReassignment, texts, several(st.builds(OngoingPartitionReassignment, int32, ids, ids, ids))
    )
    responses = {
        DESCRIBE_LOG_DIRS: st.builds(DescribeLogDirsResponse, several(log_dir), spans),
        DESCRIBE_CONFIGS: st.builds(DescribeConfigsResponse, several(resource), spans),
        ALTER_CONFIGS: altered,
        INCREMENTAL_ALTER_CONFIGS: altered,
        ELECT_LEADERS: st.builds(ElectLeadersResponse, several(elected), codes, spans),
        ALTER_REASSIGNMENTS: st.builds(AlterPartitionReassignmentsResponse, codes, maybe, several(begun), spans),
        LIST_REASSIGNMENTS: st.builds(ListPartitionReassignmentsResponse, codes, maybe, several(ongoing), spans),
        CREATE_TOPICS: st.builds(CreateTopicsResponse, several(created), spans),
        DELETE_TOPICS: st.builds(DeleteTopicsResponse, several(st.builds(DeletedTopic, texts, codes)), spans),
        CREATE_PARTITIONS: st.builds(
            CreatePartitionsResponse, several(st.builds(GrownTopic, texts, codes, maybe)), spans
        ),
    }
    by_key: dict[int, Callable[[int], Any]] = {key: lambda v, key=key: requests(v)[key] for key in MODULES}
    return by_key, responses


def is_mine(message: Any) -> bool:
    """Return whether a message belongs to these APIs."""
    return type(message).__module__ in (
        "messages.admin_requests",
        "messages.config_requests",
        "messages.log_dir_requests",
    )


def words(message: Any) -> dict[str, Any]:
    """Return kio's fields of a message, including those that the version lacks."""
    kind = type(message)
    said = {}
    if isinstance(message, DescribedConfig):
        said["is_default"] = message.config_source == DEFAULT_CONFIG
    for field in attrs.fields(kind):
        value = getattr(message, field.name)
        name = RENAMED.get((kind, field.name), RENAMED.get(field.name, field.name))
        said[name] = [words(each) if is_mine(each) else each for each in value] if isinstance(value, tuple) else value
    return said


def as_read(message: Any, version: int) -> Any:
    """Return a message as its receiver decodes it: without the fields that the version lacks."""
    changes: dict[str, Any] = {}
    for field in attrs.fields(type(message)):
        value = getattr(message, field.name)
        if version < SINCE.get(type(message), {}).get(field.name, 0):
            changes[field.name] = field.default
        elif isinstance(value, tuple):
            changes[field.name] = tuple(as_read(each, version) if is_mine(each) else each for each in value)
    return attrs.evolve(message, **changes)
