"""The Kafka APIs that a node serves, with their versions.

A new API needs its messages (`messages.requests`), its layouts (`wire/schemas.py`, generated), a declaration here, and
an actor that handles it. `wire/bindings.py` maps the fields whose names differ from Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from messages import (
    admin_requests,
    config_requests,
    data_requests,
    errors,
    group_requests,
    requests,
    security_requests,
    transaction_requests,
)
from messages.broker import METADATA_CACHE
from messages.cluster import TopicPartition
from messages.log_dir_requests import DescribeLogDirsRequest, DescribeLogDirsResponse
from messages.vocabulary import AnyMessage, Message

REQUEST_HANDLER = "request_handler"
REPLICA_MANAGER = "replica_manager"
CONTROLLER = "controller"
PARTITIONS = "partition_requests"
CONFIGS = "configs"
GROUPS = "group_coordinator"
COORDINATOR_FINDER = "coordinator_finder"
TRANSACTIONS = "transaction_coordinator"
"""Names of the actors that handle requests, besides METADATA_CACHE. Each broker has all of them, except that only the
active controller handles requests to CONTROLLER.
"""


Refusal: TypeAlias = Callable[[AnyMessage, int], Message]
"""Function (request, error code) -> the response that rejects the whole request."""


class Api(NamedTuple):
    """A Kafka API that a node serves.

    Attributes:
        key: The API key.
        name: Kafka's name of the API.
        min_version: The lowest supported version.
        max_version: The highest supported version.
        request: The message class of requests.
        response: The message class of responses.
        answerer: The name of the actor that handles the requests.
        refusal: The function that returns the response for a rejected request.
        elsewhere: The error code of the response if the handler is not on this node. NONE means that the connection is
            closed without a response.
        advertised: Whether ApiVersions lists the API. The broker-to-broker APIs are never listed: the configured
            inter.broker.protocol.version fixes their versions (broker.md 4.1).
        control: Whether only controllers and brokers may send the request.
        carries_records: Whether the request or response consists mostly of record batches. If so, the trace keeps only
            the headers of the batches.
        awaits_metadata: Whether a request to a broker that has just started waits for its first UpdateMetadata.
    """

    key: int
    name: str
    min_version: int
    max_version: int
    request: type[AnyMessage]
    response: type[AnyMessage]
    answerer: str
    refusal: Refusal
    elsewhere: int = errors.NONE
    advertised: bool = True
    control: bool = False
    carries_records: bool = False
    awaits_metadata: bool = False


def _refuse_metadata(request: requests.MetadataRequest, code: int) -> requests.MetadataResponse:
    topics = tuple(requests.MetadataTopic(code, topic, False, ()) for topic in request.topics or ())
    return requests.MetadataResponse((), None, -1, topics)


def _refuse_leader_and_isr(request: requests.LeaderAndIsrRequest, code: int) -> requests.LeaderAndIsrResponse:
    return requests.LeaderAndIsrResponse(code, _each(request, code))


def _refuse_stop_replica(request: requests.StopReplicaRequest, code: int) -> requests.StopReplicaResponse:
    """Return the response that rejects a request.

    The response has no partitions if `code` means a stale epoch; otherwise it has all partitions of the request.
    """
    bare = code in (errors.STALE_BROKER_EPOCH, errors.STALE_CONTROLLER_EPOCH)
    return requests.StopReplicaResponse(code, () if bare else _each(request, code))


def _each(
    request: requests.LeaderAndIsrRequest | requests.StopReplicaRequest, code: int
) -> tuple[requests.PartitionError, ...]:
    return tuple([requests.PartitionError(state.partition, code) for state in request.partition_states])


def _partitions_with(response: type[AnyMessage], entry: Callable[[TopicPartition, int], object]) -> Refusal:
    """Return a function that makes a response with an error for each partition of the request."""
    return lambda request, code: response(tuple([entry(each.partition, code) for each in request.partitions]))


def _topics_with(response: type[AnyMessage], entry: Callable[[str, int], object]) -> Refusal:
    """Return a function that makes a response with an error for each topic of the request."""
    return lambda request, code: response(tuple([entry(topic.name, code) for topic in request.topics]))


def _resources_with(response: type[AnyMessage], entry: Callable[[int, None, int, str], object]) -> Refusal:
    """Return a function that makes a response with an error for each resource of the request."""
    return lambda request, code: response(
        tuple([entry(code, None, each.resource_type, each.resource_name) for each in request.resources])
    )


def _refuse_delete_topics(
    request: admin_requests.DeleteTopicsRequest, code: int
) -> admin_requests.DeleteTopicsResponse:
    return admin_requests.DeleteTopicsResponse(
        tuple([admin_requests.DeletedTopic(name, code) for name in request.topics])
    )


def _refuse_elect_leaders(
    request: admin_requests.ElectLeadersRequest, code: int
) -> admin_requests.ElectLeadersResponse:
    """Return a response with the error code for each partition and at top level.

    If the request names partitions, the error code NOT_CONTROLLER is returned only for the partitions.
    """
    topics = (
        admin_requests.ElectedTopic(
            topic.name, tuple([admin_requests.ElectedPartition(number, code) for number in topic.partitions])
        )
        for topic in request.topics or ()
    )
    whole = code if request.topics is None or code != errors.NOT_CONTROLLER else errors.NONE
    return admin_requests.ElectLeadersResponse(tuple(topics), whole)


def _refuse_sasl_authenticate(
    request: security_requests.SaslAuthenticateRequest, code: int
) -> security_requests.SaslAuthenticateResponse:
    """Return a response with Kafka's error message for a listener without SASL."""
    return security_requests.SaslAuthenticateResponse(
        code, "SaslAuthenticate request received after successful authentication"
    )


def _refuse_create_acls(
    request: security_requests.CreateAclsRequest, code: int
) -> security_requests.CreateAclsResponse:
    return security_requests.CreateAclsResponse(
        (security_requests.AclCreationResult(code, NO_AUTHORIZER),) * len(request.creations)
    )


def _refuse_delete_acls(
    request: security_requests.DeleteAclsRequest, code: int
) -> security_requests.DeleteAclsResponse:
    return security_requests.DeleteAclsResponse(
        (security_requests.DeleteAclsFilterResult(code, NO_AUTHORIZER),) * len(request.filters)
    )


NO_AUTHORIZER = "No Authorizer is configured."
"""Kafka's error message for changes of ACLs."""

PROTOCOL_NAME_SINCE = 7
"""The first JoinGroup version with a nullable protocol name; older versions send an empty string."""

TOP_LEVEL_ERROR_SINCE = 2
"""The first OffsetFetch version with a top-level error code."""


def _refuse_join(request: group_requests.JoinGroupRequest, code: int) -> group_requests.JoinGroupResponse:
    name = None if request.version >= PROTOCOL_NAME_SINCE else ""
    return group_requests.JoinGroupResponse(code, protocol_name=name, member_id=request.member_id)


def _refuse_offset_fetch(request: group_requests.OffsetFetchRequest, code: int) -> group_requests.OffsetFetchResponse:
    if request.version >= TOP_LEVEL_ERROR_SINCE:
        return group_requests.OffsetFetchResponse(code)
    partitions = [
        TopicPartition(topic.name, number) for topic in request.topics or () for number in topic.partition_indexes
    ]
    return group_requests.OffsetFetchResponse(
        errors.NONE, tuple([group_requests.FetchedOffset(each, -1, error_code=code) for each in partitions])
    )


def _refuse_add_partitions(
    request: transaction_requests.AddPartitionsToTxnRequest, code: int
) -> transaction_requests.AddPartitionsToTxnResponse:
    results = [
        transaction_requests.AddPartitionsToTxnResult(each.transactional_id, _added(each.partitions, code))
        for each in request.transactions
    ]
    return transaction_requests.AddPartitionsToTxnResponse(
        _added(request.partitions, code), transactions=tuple(results)
    )


def _added(partitions: Iterable[TopicPartition], code: int) -> tuple[transaction_requests.AddedPartition, ...]:
    return tuple([transaction_requests.AddedPartition(each, code) for each in partitions])


def _refuse_write_markers(
    request: transaction_requests.WriteTxnMarkersRequest, code: int
) -> transaction_requests.WriteTxnMarkersResponse:
    return transaction_requests.WriteTxnMarkersResponse(
        tuple(
            [
                transaction_requests.WritableTxnMarkerResult(
                    each.producer_id, tuple([requests.PartitionError(partition, code) for partition in each.partitions])
                )
                for each in request.markers
            ]
        )
    )


LOADING_KNOWN_SINCE = 2
"""The first TxnOffsetCommit version whose clients support COORDINATOR_LOAD_IN_PROGRESS (14); older versions get
COORDINATOR_NOT_AVAILABLE (15).
"""


def _refuse_txn_offset_commit(
    request: transaction_requests.TxnOffsetCommitRequest, code: int
) -> transaction_requests.TxnOffsetCommitResponse:
    if code == errors.COORDINATOR_LOAD_IN_PROGRESS and request.version < LOADING_KNOWN_SINCE:
        code = errors.COORDINATOR_NOT_AVAILABLE
    return transaction_requests.TxnOffsetCommitResponse(
        tuple([requests.PartitionError(each.partition, code) for each in request.partitions])
    )


APIS: tuple[Api, ...] = (
    Api(
        *(0, "Produce", 3, 8, data_requests.ProduceRequest, data_requests.ProduceResponse, PARTITIONS),
        refusal=_partitions_with(data_requests.ProduceResponse, data_requests.ProducedPartition),
        carries_records=True,
    ),
    Api(
        *(1, "Fetch", 4, 11, data_requests.FetchRequest, data_requests.FetchResponse, PARTITIONS),
        refusal=_partitions_with(data_requests.FetchResponse, data_requests.FetchedPartition),
        carries_records=True,
    ),
    Api(
        *(2, "ListOffsets", 1, 5, data_requests.ListOffsetsRequest, data_requests.ListOffsetsResponse, PARTITIONS),
        refusal=_partitions_with(data_requests.ListOffsetsResponse, data_requests.ListedOffset),
    ),
    Api(
        *(3, "Metadata", 0, 9, requests.MetadataRequest, requests.MetadataResponse, METADATA_CACHE, _refuse_metadata),
        awaits_metadata=True,
    ),
    Api(
        *(
            4,
            "LeaderAndIsr",
            0,
            7,
            requests.LeaderAndIsrRequest,
            requests.LeaderAndIsrResponse,
            REPLICA_MANAGER,
            _refuse_leader_and_isr,
        ),
        advertised=False,
        control=True,
    ),
    Api(
        *(
            5,
            "StopReplica",
            0,
            4,
            requests.StopReplicaRequest,
            requests.StopReplicaResponse,
            REPLICA_MANAGER,
            _refuse_stop_replica,
        ),
        advertised=False,
        control=True,
    ),
    Api(
        *(6, "UpdateMetadata", 0, 8, requests.UpdateMetadataRequest, requests.UpdateMetadataResponse, REPLICA_MANAGER),
        refusal=lambda request, code: requests.UpdateMetadataResponse(code),
        advertised=False,
        control=True,
    ),
    Api(
        *(
            7,
            "ControlledShutdown",
            0,
            3,
            requests.ControlledShutdownRequest,
            requests.ControlledShutdownResponse,
            CONTROLLER,
        ),
        refusal=lambda request, code: requests.ControlledShutdownResponse(code),
        elsewhere=errors.STALE_CONTROLLER_EPOCH,
        advertised=False,
        control=True,
    ),
    Api(
        *(8, "OffsetCommit", 2, 8, group_requests.OffsetCommitRequest, group_requests.OffsetCommitResponse, GROUPS),
        refusal=_partitions_with(group_requests.OffsetCommitResponse, requests.PartitionError),
    ),
    Api(
        9,
        "OffsetFetch",
        1,
        7,
        group_requests.OffsetFetchRequest,
        group_requests.OffsetFetchResponse,
        GROUPS,
        _refuse_offset_fetch,
    ),
    Api(
        *(
            10,
            "FindCoordinator",
            0,
            3,
            group_requests.FindCoordinatorRequest,
            group_requests.FindCoordinatorResponse,
            COORDINATOR_FINDER,
        ),
        refusal=lambda request, code: group_requests.FindCoordinatorResponse(code),
        awaits_metadata=True,
    ),
    Api(11, "JoinGroup", 0, 7, group_requests.JoinGroupRequest, group_requests.JoinGroupResponse, GROUPS, _refuse_join),
    Api(
        *(12, "Heartbeat", 0, 4, group_requests.HeartbeatRequest, group_requests.HeartbeatResponse, GROUPS),
        refusal=lambda request, code: group_requests.HeartbeatResponse(code),
    ),
    Api(
        *(13, "LeaveGroup", 0, 4, group_requests.LeaveGroupRequest, group_requests.LeaveGroupResponse, GROUPS),
        refusal=lambda request, code: group_requests.LeaveGroupResponse(code),
    ),
    Api(
        *(14, "SyncGroup", 0, 5, group_requests.SyncGroupRequest, group_requests.SyncGroupResponse, GROUPS),
        refusal=lambda request, code: group_requests.SyncGroupResponse(code),
    ),
    Api(
        *(
            15,
            "DescribeGroups",
            0,
            5,
            group_requests.DescribeGroupsRequest,
            group_requests.DescribeGroupsResponse,
            GROUPS,
        ),
        refusal=lambda request, code: group_requests.DescribeGroupsResponse(
            tuple([group_requests.DescribedGroup(code, group) for group in request.groups])
        ),
    ),
    Api(
        *(16, "ListGroups", 0, 4, group_requests.ListGroupsRequest, group_requests.ListGroupsResponse, GROUPS),
        refusal=lambda request, code: group_requests.ListGroupsResponse(code),
    ),
    Api(
        *(42, "DeleteGroups", 0, 2, group_requests.DeleteGroupsRequest, group_requests.DeleteGroupsResponse, GROUPS),
        refusal=lambda request, code: group_requests.DeleteGroupsResponse(
            tuple([group_requests.DeletedGroup(group, code) for group in request.groups])
        ),
    ),
    Api(
        *(47, "OffsetDelete", 0, 0, group_requests.OffsetDeleteRequest, group_requests.OffsetDeleteResponse, GROUPS),
        refusal=lambda request, code: group_requests.OffsetDeleteResponse(code),
    ),
    Api(
        *(
            21,
            "DeleteRecords",
            0,
            2,
            data_requests.DeleteRecordsRequest,
            data_requests.DeleteRecordsResponse,
            PARTITIONS,
        ),
        refusal=_partitions_with(data_requests.DeleteRecordsResponse, data_requests.DeletedRecords),
    ),
    Api(
        *(
            22,
            "InitProducerId",
            0,
            3,
            data_requests.InitProducerIdRequest,
            data_requests.InitProducerIdResponse,
            TRANSACTIONS,
        ),
        refusal=lambda request, code: data_requests.InitProducerIdResponse(code),
    ),
    Api(
        *(
            24,
            "AddPartitionsToTxn",
            0,
            4,
            transaction_requests.AddPartitionsToTxnRequest,
            transaction_requests.AddPartitionsToTxnResponse,
            TRANSACTIONS,
        ),
        refusal=_refuse_add_partitions,
    ),
    Api(
        *(
            25,
            "AddOffsetsToTxn",
            0,
            3,
            transaction_requests.AddOffsetsToTxnRequest,
            transaction_requests.AddOffsetsToTxnResponse,
            TRANSACTIONS,
        ),
        refusal=lambda request, code: transaction_requests.AddOffsetsToTxnResponse(code),
    ),
    Api(
        *(26, "EndTxn", 0, 3, transaction_requests.EndTxnRequest, transaction_requests.EndTxnResponse, TRANSACTIONS),
        refusal=lambda request, code: transaction_requests.EndTxnResponse(code),
    ),
    Api(
        *(
            27,
            "WriteTxnMarkers",
            0,
            1,
            transaction_requests.WriteTxnMarkersRequest,
            transaction_requests.WriteTxnMarkersResponse,
            PARTITIONS,
        ),
        refusal=_refuse_write_markers,
    ),
    Api(
        *(
            28,
            "TxnOffsetCommit",
            0,
            3,
            transaction_requests.TxnOffsetCommitRequest,
            transaction_requests.TxnOffsetCommitResponse,
            GROUPS,
        ),
        refusal=_refuse_txn_offset_commit,
    ),
    Api(
        *(
            61,
            "DescribeProducers",
            0,
            0,
            transaction_requests.DescribeProducersRequest,
            transaction_requests.DescribeProducersResponse,
            PARTITIONS,
        ),
        refusal=lambda request, code: transaction_requests.DescribeProducersResponse(
            tuple([transaction_requests.DescribedProducers(each, code) for each in request.partitions])
        ),
    ),
    Api(
        *(
            65,
            "DescribeTransactions",
            0,
            0,
            transaction_requests.DescribeTransactionsRequest,
            transaction_requests.DescribeTransactionsResponse,
            TRANSACTIONS,
        ),
        refusal=lambda request, code: transaction_requests.DescribeTransactionsResponse(
            tuple([transaction_requests.DescribedTransaction(code, each) for each in request.transactional_ids])
        ),
    ),
    Api(
        *(
            66,
            "ListTransactions",
            0,
            1,
            transaction_requests.ListTransactionsRequest,
            transaction_requests.ListTransactionsResponse,
            TRANSACTIONS,
        ),
        refusal=lambda request, code: transaction_requests.ListTransactionsResponse(code),
    ),
    Api(
        *(
            23,
            "OffsetForLeaderEpoch",
            0,
            3,
            data_requests.OffsetForLeaderEpochRequest,
            data_requests.OffsetForLeaderEpochResponse,
            PARTITIONS,
        ),
        refusal=_partitions_with(data_requests.OffsetForLeaderEpochResponse, data_requests.EpochEnd),
    ),
    Api(
        *(
            19,
            "CreateTopics",
            0,
            5,
            admin_requests.CreateTopicsRequest,
            admin_requests.CreateTopicsResponse,
            CONTROLLER,
        ),
        refusal=_topics_with(admin_requests.CreateTopicsResponse, admin_requests.CreatedTopic),
        elsewhere=errors.NOT_CONTROLLER,
        awaits_metadata=True,
    ),
    Api(
        *(
            20,
            "DeleteTopics",
            0,
            4,
            admin_requests.DeleteTopicsRequest,
            admin_requests.DeleteTopicsResponse,
            CONTROLLER,
            _refuse_delete_topics,
        ),
        elsewhere=errors.NOT_CONTROLLER,
    ),
    Api(
        *(
            32,
            "DescribeConfigs",
            0,
            3,
            config_requests.DescribeConfigsRequest,
            config_requests.DescribeConfigsResponse,
            CONFIGS,
        ),
        refusal=_resources_with(config_requests.DescribeConfigsResponse, config_requests.DescribedResource),
    ),
    Api(
        *(33, "AlterConfigs", 0, 1, config_requests.AlterConfigsRequest, config_requests.AlterConfigsResponse, CONFIGS),
        refusal=_resources_with(config_requests.AlterConfigsResponse, config_requests.AlteredResource),
    ),
    Api(
        *(
            44,
            "IncrementalAlterConfigs",
            0,
            1,
            config_requests.IncrementalAlterConfigsRequest,
            config_requests.AlterConfigsResponse,
            CONFIGS,
        ),
        refusal=_resources_with(config_requests.AlterConfigsResponse, config_requests.AlteredResource),
    ),
    Api(
        *(35, "DescribeLogDirs", 0, 2, DescribeLogDirsRequest, DescribeLogDirsResponse, REPLICA_MANAGER),
        refusal=lambda request, code: DescribeLogDirsResponse(()),
    ),
    Api(
        *(
            37,
            "CreatePartitions",
            0,
            2,
            admin_requests.CreatePartitionsRequest,
            admin_requests.CreatePartitionsResponse,
            CONTROLLER,
        ),
        refusal=_topics_with(admin_requests.CreatePartitionsResponse, admin_requests.GrownTopic),
        elsewhere=errors.NOT_CONTROLLER,
    ),
    Api(
        *(
            43,
            "ElectLeaders",
            0,
            2,
            admin_requests.ElectLeadersRequest,
            admin_requests.ElectLeadersResponse,
            CONTROLLER,
            _refuse_elect_leaders,
        ),
        elsewhere=errors.NOT_CONTROLLER,
    ),
    Api(
        *(45, "AlterPartitionReassignments", 0, 0),
        *(
            admin_requests.AlterPartitionReassignmentsRequest,
            admin_requests.AlterPartitionReassignmentsResponse,
            CONTROLLER,
        ),
        refusal=lambda request, code: admin_requests.AlterPartitionReassignmentsResponse(code),
        elsewhere=errors.NOT_CONTROLLER,
    ),
    Api(
        *(46, "ListPartitionReassignments", 0, 0),
        *(
            admin_requests.ListPartitionReassignmentsRequest,
            admin_requests.ListPartitionReassignmentsResponse,
            CONTROLLER,
        ),
        refusal=lambda request, code: admin_requests.ListPartitionReassignmentsResponse(code),
        elsewhere=errors.NOT_CONTROLLER,
    ),
    Api(
        *(
            17,
            "SaslHandshake",
            0,
            1,
            security_requests.SaslHandshakeRequest,
            security_requests.SaslHandshakeResponse,
            REQUEST_HANDLER,
        ),
        refusal=lambda request, code: security_requests.SaslHandshakeResponse(code),
    ),
    Api(
        *(
            36,
            "SaslAuthenticate",
            0,
            2,
            security_requests.SaslAuthenticateRequest,
            security_requests.SaslAuthenticateResponse,
            REQUEST_HANDLER,
        ),
        refusal=_refuse_sasl_authenticate,
    ),
    Api(
        *(
            29,
            "DescribeAcls",
            0,
            2,
            security_requests.DescribeAclsRequest,
            security_requests.DescribeAclsResponse,
            REQUEST_HANDLER,
        ),
        refusal=lambda request, code: security_requests.DescribeAclsResponse(
            code, "No Authorizer is configured on the broker"
        ),
    ),
    Api(
        30,
        "CreateAcls",
        0,
        2,
        security_requests.CreateAclsRequest,
        security_requests.CreateAclsResponse,
        REQUEST_HANDLER,
        _refuse_create_acls,
    ),
    Api(
        31,
        "DeleteAcls",
        0,
        2,
        security_requests.DeleteAclsRequest,
        security_requests.DeleteAclsResponse,
        REQUEST_HANDLER,
        _refuse_delete_acls,
    ),
    Api(
        *(38, "CreateDelegationToken", 0, 2),
        *(
            security_requests.CreateDelegationTokenRequest,
            security_requests.CreateDelegationTokenResponse,
            REQUEST_HANDLER,
        ),
        refusal=lambda request, code: security_requests.CreateDelegationTokenResponse(code),
    ),
    Api(
        *(39, "RenewDelegationToken", 0, 2),
        *(
            security_requests.RenewDelegationTokenRequest,
            security_requests.RenewDelegationTokenResponse,
            REQUEST_HANDLER,
        ),
        refusal=lambda request, code: security_requests.RenewDelegationTokenResponse(code),
    ),
    Api(
        *(40, "ExpireDelegationToken", 0, 2),
        *(
            security_requests.ExpireDelegationTokenRequest,
            security_requests.ExpireDelegationTokenResponse,
            REQUEST_HANDLER,
        ),
        refusal=lambda request, code: security_requests.ExpireDelegationTokenResponse(code),
    ),
    Api(
        *(41, "DescribeDelegationToken", 0, 2),
        *(
            security_requests.DescribeDelegationTokenRequest,
            security_requests.DescribeDelegationTokenResponse,
            REQUEST_HANDLER,
        ),
        refusal=lambda request, code: security_requests.DescribeDelegationTokenResponse(code),
    ),
    Api(
        *(
            57,
            "UpdateFeatures",
            0,
            1,
            security_requests.UpdateFeaturesRequest,
            security_requests.UpdateFeaturesResponse,
            CONTROLLER,
        ),
        refusal=lambda request, code: security_requests.UpdateFeaturesResponse(
            code, "This is not the correct controller for this cluster." if code == errors.NOT_CONTROLLER else None
        ),
        elsewhere=errors.NOT_CONTROLLER,
    ),
    Api(
        *(68, "ConsumerGroupHeartbeat", 0, 0),
        *(
            security_requests.ConsumerGroupHeartbeatRequest,
            security_requests.ConsumerGroupHeartbeatResponse,
            REQUEST_HANDLER,
        ),
        refusal=lambda request, code: security_requests.ConsumerGroupHeartbeatResponse(code),
    ),
    Api(
        *(69, "ConsumerGroupDescribe", 0, 0),
        *(
            security_requests.ConsumerGroupDescribeRequest,
            security_requests.ConsumerGroupDescribeResponse,
            REQUEST_HANDLER,
        ),
        refusal=lambda request, code: security_requests.ConsumerGroupDescribeResponse(
            tuple([security_requests.UndescribedGroup(code, group_id) for group_id in request.group_ids])
        ),
    ),
    Api(
        *(18, "ApiVersions", 0, 3, requests.ApiVersionsRequest, requests.ApiVersionsResponse, REQUEST_HANDLER),
        refusal=lambda request, code: requests.ApiVersionsResponse(code, ()),
    ),
)

API_BY_KEY: dict[int, Api] = {api.key: api for api in APIS}
API_BY_REQUEST: dict[type, Api] = {api.request: api for api in APIS}

ADVERTISED: tuple[requests.ApiVersionRange, ...] = tuple(
    requests.ApiVersionRange(api.key, api.min_version, api.max_version) for api in APIS if api.advertised
)
"""The APIs that ApiVersions lists."""

CARRIERS: frozenset[type] = frozenset(api.request for api in APIS if api.carries_records)
"""The requests that listeners send directly to PartitionRequestsActor: Produce and Fetch."""
