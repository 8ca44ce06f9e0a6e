"""A table of the error codes that each API can return (broker.md 6.2); coverage shows which of them occur.

A test compares the table with the source: each error code that is mentioned in an API's modules must be in the API's
row or in `NOT_ANSWERED`. An error code that occurs in a run and is missing in the table is an error of the table. The
table omits UNKNOWN_SERVER_ERROR where only a failed handler returns it; an invariant forbids such failures.
"""

from __future__ import annotations

from collections.abc import Mapping

from messages.apis import (
    CONFIGS,
    CONTROLLER,
    COORDINATOR_FINDER,
    GROUPS,
    METADATA_CACHE,
    PARTITIONS,
    REPLICA_MANAGER,
    TRANSACTIONS,
)
from messages.apis import REQUEST_HANDLER as HANDLER

_LEADERSHIP = "UNKNOWN_TOPIC_OR_PARTITION NOT_LEADER_OR_FOLLOWER KAFKA_STORAGE_ERROR"
_EPOCHS = "FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH"
_PLACES = "INVALID_GROUP_ID COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR"
_MEMBER = "UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID"
_LOG = "NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE"
_ID = "INVALID_REQUEST COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE"
_TRANSACTION = "INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_EPOCH PRODUCER_FENCED CONCURRENT_TRANSACTIONS"
_CONTROLLER = "NOT_CONTROLLER"
_ASSIGNED = "INVALID_PARTITIONS INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT"
_CONFIGS = "NONE UNKNOWN_TOPIC_OR_PARTITION INVALID_REQUEST"

_CODES: Mapping[str, str] = {
    "Produce": f"NONE {_LEADERSHIP} CORRUPT_MESSAGE REQUEST_TIMED_OUT MESSAGE_TOO_LARGE INVALID_TOPIC"
    " RECORD_LIST_TOO_LARGE NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND INVALID_REQUIRED_ACKS"
    " INVALID_TIMESTAMP OUT_OF_ORDER_SEQUENCE INVALID_PRODUCER_EPOCH UNSUPPORTED_COMPRESSION_TYPE INVALID_RECORD"
    " TRANSACTIONAL_ID_AUTHORIZATION_FAILED INVALID_TXN_STATE INVALID_PRODUCER_ID_MAPPING",
    "Fetch": f"NONE {_LEADERSHIP} {_EPOCHS} OFFSET_OUT_OF_RANGE FETCH_SESSION_ID_NOT_FOUND"
    " INVALID_FETCH_SESSION_EPOCH UNSUPPORTED_COMPRESSION_TYPE",
    "ListOffsets": f"NONE {_LEADERSHIP} {_EPOCHS} OFFSET_NOT_AVAILABLE LEADER_NOT_AVAILABLE",
    "OffsetForLeaderEpoch": f"NONE {_LEADERSHIP} {_EPOCHS}",
    "DeleteRecords": f"NONE {_LEADERSHIP} OFFSET_OUT_OF_RANGE POLICY_VIOLATION REQUEST_TIMED_OUT",
    "Metadata": "NONE UNKNOWN_TOPIC_OR_PARTITION LEADER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE INVALID_TOPIC"
    " INVALID_REPLICATION_FACTOR LISTENER_NOT_FOUND UNKNOWN_SERVER_ERROR",
    "LeaderAndIsr": "NONE STALE_BROKER_EPOCH STALE_CONTROLLER_EPOCH UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC"
    " KAFKA_STORAGE_ERROR",
    "StopReplica": "NONE STALE_BROKER_EPOCH STALE_CONTROLLER_EPOCH FENCED_LEADER_EPOCH KAFKA_STORAGE_ERROR",
    "UpdateMetadata": "NONE STALE_BROKER_EPOCH STALE_CONTROLLER_EPOCH",
    "ControlledShutdown": "NONE BROKER_NOT_AVAILABLE STALE_BROKER_EPOCH STALE_CONTROLLER_EPOCH",
    "DescribeLogDirs": "NONE KAFKA_STORAGE_ERROR",
    "InitProducerId": f"NONE {_ID} INVALID_TRANSACTION_TIMEOUT INVALID_PRODUCER_EPOCH CONCURRENT_TRANSACTIONS"
    " PRODUCER_FENCED UNKNOWN_SERVER_ERROR",
    "AddPartitionsToTxn": f"NONE {_ID} {_TRANSACTION} UNKNOWN_TOPIC_OR_PARTITION TOPIC_AUTHORIZATION_FAILED"
    " OPERATION_NOT_ATTEMPTED TRANSACTION_ABORTABLE",
    "AddOffsetsToTxn": f"NONE {_ID} {_TRANSACTION}",
    "EndTxn": f"NONE {_ID} {_TRANSACTION} INVALID_TXN_STATE",
    "DescribeTransactions": "NONE INVALID_REQUEST COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR"
    " TRANSACTIONAL_ID_NOT_FOUND",
    "ListTransactions": "NONE COORDINATOR_LOAD_IN_PROGRESS",
    "FindCoordinator": "NONE COORDINATOR_NOT_AVAILABLE INVALID_REQUEST",
    "JoinGroup": f"NONE {_PLACES} {_MEMBER} COORDINATOR_NOT_AVAILABLE INVALID_SESSION_TIMEOUT MEMBER_ID_REQUIRED"
    " INCONSISTENT_GROUP_PROTOCOL GROUP_MAX_SIZE_REACHED REBALANCE_IN_PROGRESS",
    "SyncGroup": f"NONE INVALID_GROUP_ID NOT_COORDINATOR {_MEMBER} COORDINATOR_NOT_AVAILABLE ILLEGAL_GENERATION"
    " REBALANCE_IN_PROGRESS INCONSISTENT_GROUP_PROTOCOL",
    "Heartbeat": f"NONE INVALID_GROUP_ID NOT_COORDINATOR {_MEMBER} COORDINATOR_NOT_AVAILABLE ILLEGAL_GENERATION"
    " REBALANCE_IN_PROGRESS",
    "LeaveGroup": f"NONE {_PLACES} {_MEMBER} COORDINATOR_NOT_AVAILABLE",
    "OffsetCommit": f"NONE COORDINATOR_LOAD_IN_PROGRESS {_LOG} {_MEMBER} ILLEGAL_GENERATION REBALANCE_IN_PROGRESS"
    " UNKNOWN_TOPIC_OR_PARTITION OFFSET_METADATA_TOO_LARGE INVALID_COMMIT_OFFSET_SIZE REQUEST_TIMED_OUT",
    "TxnOffsetCommit": f"NONE INVALID_GROUP_ID COORDINATOR_LOAD_IN_PROGRESS {_LOG} {_MEMBER} ILLEGAL_GENERATION"
    " UNKNOWN_TOPIC_OR_PARTITION OFFSET_METADATA_TOO_LARGE INVALID_COMMIT_OFFSET_SIZE REQUEST_TIMED_OUT"
    " INVALID_PRODUCER_EPOCH INVALID_PRODUCER_ID_MAPPING INVALID_TXN_STATE",
    "OffsetFetch": "NONE COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR UNSTABLE_OFFSET_COMMIT",
    "OffsetDelete": f"NONE {_PLACES} GROUP_ID_NOT_FOUND NON_EMPTY_GROUP UNKNOWN_TOPIC_OR_PARTITION"
    " GROUP_SUBSCRIBED_TO_TOPIC",
    "DescribeGroups": "NONE COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR",
    "ListGroups": "NONE COORDINATOR_LOAD_IN_PROGRESS",
    "DeleteGroups": "NONE COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR GROUP_ID_NOT_FOUND NON_EMPTY_GROUP",
    "CreateTopics": f"NONE {_CONTROLLER} {_ASSIGNED} TOPIC_ALREADY_EXISTS INVALID_REQUEST INVALID_TOPIC"
    " INVALID_CONFIG REQUEST_TIMED_OUT",
    "DeleteTopics": f"NONE {_CONTROLLER} UNKNOWN_TOPIC_OR_PARTITION TOPIC_DELETION_DISABLED INVALID_REQUEST"
    " REQUEST_TIMED_OUT",
    "CreatePartitions": f"NONE {_CONTROLLER} INVALID_REPLICATION_FACTOR INVALID_PARTITIONS INVALID_REPLICA_ASSIGNMENT"
    " UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC INVALID_REQUEST REASSIGNMENT_IN_PROGRESS REQUEST_TIMED_OUT",
    "ElectLeaders": f"NONE {_CONTROLLER} PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE"
    " ELECTION_NOT_NEEDED UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC UNKNOWN_SERVER_ERROR REQUEST_TIMED_OUT",
    "AlterPartitionReassignments": f"NONE {_CONTROLLER} INVALID_REPLICA_ASSIGNMENT NO_REASSIGNMENT_IN_PROGRESS"
    " UNKNOWN_TOPIC_OR_PARTITION",
    "ListPartitionReassignments": f"NONE {_CONTROLLER}",
    "DescribeConfigs": f"{_CONFIGS} INVALID_TOPIC",
    "AlterConfigs": f"{_CONFIGS} INVALID_CONFIG",
    "IncrementalAlterConfigs": f"{_CONFIGS} INVALID_CONFIG",
    "SaslHandshake": "ILLEGAL_SASL_STATE",
    "SaslAuthenticate": "ILLEGAL_SASL_STATE",
    "DescribeAcls": "SECURITY_DISABLED",
    "CreateAcls": "SECURITY_DISABLED",
    "DeleteAcls": "SECURITY_DISABLED",
    "CreateDelegationToken": "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
    "RenewDelegationToken": "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
    "ExpireDelegationToken": "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
    "DescribeDelegationToken": "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
    "UpdateFeatures": "INVALID_REQUEST NOT_CONTROLLER",
    "ConsumerGroupHeartbeat": "UNSUPPORTED_VERSION",
    "ConsumerGroupDescribe": "UNSUPPORTED_VERSION",
    "ApiVersions": "NONE UNSUPPORTED_VERSION INVALID_REQUEST",
    "WriteTxnMarkers": f"NONE {_LEADERSHIP} INVALID_PRODUCER_EPOCH TRANSACTION_COORDINATOR_FENCED REQUEST_TIMED_OUT"
    " NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND UNKNOWN_SERVER_ERROR",
    "DescribeProducers": f"NONE {_LEADERSHIP} INVALID_TOPIC",
}

ANSWERS: Mapping[str, tuple[str, ...]] = {
    api: tuple(dict.fromkeys(names.split())) for api, names in sorted(_CODES.items())
}
"""The error codes of each API, by name."""

VERIFICATION = "actors.core.broker.verification"

CODE_MODULES: Mapping[str, tuple[str, ...]] = {
    PARTITIONS: (
        *("actors.broker.partition_requests", "actors.core.broker.partition", "actors.storage.log_manager"),
        *("actors.core.broker.leader", "actors.core.broker.produce", "actors.core.broker.fetches"),
        *("actors.core.broker.fetch_sessions", "actors.core.broker.partition_reads", VERIFICATION),
        "actors.core.broker.delayed_delete_records",
    ),
    METADATA_CACHE: (
        *("actors.broker.metadata_cache", "actors.core.broker.metadata_cache", "actors.broker.auto_topic_creation"),
        "actors.core.broker.auto_topic_creation",
    ),
    REPLICA_MANAGER: (
        *("actors.broker.replica_manager", "actors.core.broker.replica_manager", "actors.core.broker.state_changes"),
        *("actors.core.broker.log_dirs", "actors.core.broker.replica_role"),
    ),
    CONTROLLER: (
        *("actors.controller.controller", "actors.core.controller.topic_requests", "actors.core.controller.shutdown"),
        *(
            "actors.core.controller.reassignment",
            "actors.core.controller.leader_balance",
            "actors.core.topic.topic_admin",
        ),
        *("actors.core.topic.replica_assignment", "actors.core.config.topic_config", "actors.core.refusal"),
        "actors.core.topic.topic_name",
    ),
    GROUPS: (
        *("actors.coordinator.group_coordinator", VERIFICATION),
        *(
            "actors.core.coordinator.request_checks",
            "actors.core.coordinator.group",
            "actors.core.coordinator.membership",
        ),
        *(
            "actors.core.coordinator.group_states",
            "actors.core.coordinator.offsets",
            "actors.core.coordinator.log_codes",
        ),
    ),
    COORDINATOR_FINDER: ("actors.coordinator.coordinator_finder",),
    TRANSACTIONS: (
        *("actors.coordinator.transaction_coordinator", "actors.broker.producer_ids"),
        *("actors.core.transaction.decisions", "actors.core.transaction.transaction_states"),
        *("actors.core.transaction.transactions", "actors.core.coordinator.log_codes"),
    ),
    CONFIGS: (
        "actors.broker.config_requests",
        "actors.core.config.topic_config",
        "actors.core.topic.topic_name",
        "actors.core.refusal",
    ),
    HANDLER: ("actors.broker.request_handler",),
}
"""Modules that name the error codes of the APIs of a handler (`messages.apis`)."""

_FAILED = "Only a handler that fails, or a ZooKeeper that refuses what was checked before, makes it an answer."
_OF_A_LOG = "An error of the log of a group; clients see another one."
_OF_A_COORDINATOR = "A coordinator's answer to a leader that verifies a transaction; clients see another one."

NOT_ANSWERED: Mapping[tuple[str, str], str] = {
    **{
        (GROUPS, code): _OF_A_LOG
        for code in (
            *("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "NOT_LEADER_OR_FOLLOWER"),
            *("KAFKA_STORAGE_ERROR", "MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "NETWORK_EXCEPTION"),
        )
    },
    **{
        (TRANSACTIONS, code): _OF_A_LOG
        for code in (
            *("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "NOT_LEADER_OR_FOLLOWER"),
            *("KAFKA_STORAGE_ERROR", "MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "REQUEST_TIMED_OUT"),
        )
    },
    **{
        (handler, code): _OF_A_COORDINATOR
        for handler, codes in {
            PARTITIONS: ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"),
            GROUPS: ("OUT_OF_ORDER_SEQUENCE",),
        }.items()
        for code in (*codes, "CONCURRENT_TRANSACTIONS", "NETWORK_EXCEPTION", "PRODUCER_FENCED", "TRANSACTION_ABORTABLE")
    },
    **{
        (handler, "UNKNOWN_SERVER_ERROR"): _FAILED
        for handler in (REPLICA_MANAGER, CONTROLLER, GROUPS, CONFIGS, TRANSACTIONS)
    },
    (METADATA_CACHE, "REQUEST_TIMED_OUT"): "It answers requests of the controller that wait for metadata.",
}
"""The reason for which no API of a handler returns a code that its modules name, by (handler, code)."""
