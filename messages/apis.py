"""The Kafka APIs that a node serves, with their versions.

A new API needs its messages (`messages.requests`), its layouts (`wire/schemas.py`, generated), a declaration here, and
an actor that handles it. `wire/bindings.py` maps the fields whose names differ from Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from messages.admin_requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectedPartition,
    ElectedTopic,
    ElectLeadersRequest,
    ElectLeadersResponse,
    GrownTopic,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from messages.broker import METADATA_CACHE
from messages.cluster import TopicPartition
from messages.config_requests import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredResource,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedResource,
    IncrementalAlterConfigsRequest,
)
from messages.data_requests import (
    DeletedRecords,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    EpochEnd,
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListedOffset,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProducedPartition,
    ProduceRequest,
    ProduceResponse,
)
from messages.error_codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NONE,
    NOT_CONTROLLER,
    STALE_BROKER_EPOCH,
    STALE_CONTROLLER_EPOCH,
)
from messages.group_requests import (
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchedOffset,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from messages.log_dir_requests import DescribeLogDirsRequest, DescribeLogDirsResponse
from messages.requests import (
    ApiVersionRange,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    PartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from messages.security_requests import (
    AclCreationResult,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
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
from messages.transaction_requests import (
    AddedPartition,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    DescribedProducers,
    DescribedTransaction,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    WritableTxnMarkerResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
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
    elsewhere: int = NONE
    advertised: bool = True
    control: bool = False
    carries_records: bool = False
    awaits_metadata: bool = False


def _refuse_metadata(request: MetadataRequest, code: int) -> MetadataResponse:
    topics = tuple(MetadataTopic(code, topic, False, ()) for topic in request.topics or ())
    return MetadataResponse((), None, -1, topics)


def _refuse_leader_and_isr(request: LeaderAndIsrRequest, code: int) -> LeaderAndIsrResponse:
    return LeaderAndIsrResponse(code, _each(request, code))


def _refuse_stop_replica(request: StopReplicaRequest, code: int) -> StopReplicaResponse:
    """Return the response that rejects a request.

    The response has no partitions if `code` means a stale epoch; otherwise it has all partitions of the request.
    """
    bare = code in (STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH)
    return StopReplicaResponse(code, () if bare else _each(request, code))


def _each(request: LeaderAndIsrRequest | StopReplicaRequest, code: int) -> tuple[PartitionError, ...]:
    return tuple([PartitionError(state.partition, code) for state in request.partition_states])


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


def _refuse_delete_topics(request: DeleteTopicsRequest, code: int) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(tuple([DeletedTopic(name, code) for name in request.topics]))


def _refuse_elect_leaders(request: ElectLeadersRequest, code: int) -> ElectLeadersResponse:
    """Return a response with the error code for each partition and at top level.

    If the request names partitions, the error code NOT_CONTROLLER is returned only for the partitions.
    """
    topics = (
        ElectedTopic(topic.name, tuple([ElectedPartition(number, code) for number in topic.partitions]))
        for topic in request.topics or ()
    )
    whole = code if request.topics is None or code != NOT_CONTROLLER else NONE
    return ElectLeadersResponse(tuple(topics), whole)


def _refuse_sasl_authenticate(request: SaslAuthenticateRequest, code: int) -> SaslAuthenticateResponse:
    """Return a response with Kafka's error message for a listener without SASL."""
    return SaslAuthenticateResponse(code, "SaslAuthenticate request received after successful authentication")


def _refuse_create_acls(request: CreateAclsRequest, code: int) -> CreateAclsResponse:
    return CreateAclsResponse((AclCreationResult(code, NO_AUTHORIZER),) * len(request.creations))


def _refuse_delete_acls(request: DeleteAclsRequest, code: int) -> DeleteAclsResponse:
    return DeleteAclsResponse((DeleteAclsFilterResult(code, NO_AUTHORIZER),) * len(request.filters))


NO_AUTHORIZER = "No Authorizer is configured."
"""Kafka's error message for changes of ACLs."""

PROTOCOL_NAME_SINCE = 7
"""The first JoinGroup version with a nullable protocol name; older versions send an empty string."""

TOP_LEVEL_ERROR_SINCE = 2
"""The first OffsetFetch version with a top-level error code."""


def _refuse_join(request: JoinGroupRequest, code: int) -> JoinGroupResponse:
    name = None if request.version >= PROTOCOL_NAME_SINCE else ""
    return JoinGroupResponse(code, protocol_name=name, member_id=request.member_id)


def _refuse_offset_fetch(request: OffsetFetchRequest, code: int) -> OffsetFetchResponse:
    if request.version >= TOP_LEVEL_ERROR_SINCE:
        return OffsetFetchResponse(code)
    partitions = [
        TopicPartition(topic.name, number) for topic in request.topics or () for number in topic.partition_indexes
    ]
    return OffsetFetchResponse(NONE, tuple([FetchedOffset(each, -1, error_code=code) for each in partitions]))


def _refuse_add_partitions(request: AddPartitionsToTxnRequest, code: int) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnResult(each.transactional_id, _added(each.partitions, code)) for each in request.transactions
    ]
    return AddPartitionsToTxnResponse(_added(request.partitions, code), transactions=tuple(results))


def _added(partitions: Iterable[TopicPartition], code: int) -> tuple[AddedPartition, ...]:
    return tuple([AddedPartition(each, code) for each in partitions])


def _refuse_write_markers(request: WriteTxnMarkersRequest, code: int) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        tuple(
            [
                WritableTxnMarkerResult(
                    each.producer_id, tuple([PartitionError(partition, code) for partition in each.partitions])
                )
                for each in request.markers
            ]
        )
    )


LOADING_KNOWN_SINCE = 2
"""The first TxnOffsetCommit version whose clients support COORDINATOR_LOAD_IN_PROGRESS (14); older versions get
COORDINATOR_NOT_AVAILABLE (15).
"""


def _refuse_txn_offset_commit(request: TxnOffsetCommitRequest, code: int) -> TxnOffsetCommitResponse:
    if code == COORDINATOR_LOAD_IN_PROGRESS and request.version < LOADING_KNOWN_SINCE:
        code = COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponse(tuple([PartitionError(each.partition, code) for each in request.partitions]))


APIS: tuple[Api, ...] = (
    Api(
        *(0, "Produce", 3, 8, ProduceRequest, ProduceResponse, PARTITIONS),
        refusal=_partitions_with(ProduceResponse, ProducedPartition),
        carries_records=True,
    ),
    Api(
        *(1, "Fetch", 4, 11, FetchRequest, FetchResponse, PARTITIONS),
        refusal=_partitions_with(FetchResponse, FetchedPartition),
        carries_records=True,
    ),
    Api(
        *(2, "ListOffsets", 1, 5, ListOffsetsRequest, ListOffsetsResponse, PARTITIONS),
        refusal=_partitions_with(ListOffsetsResponse, ListedOffset),
    ),
    Api(
        *(3, "Metadata", 0, 9, MetadataRequest, MetadataResponse, METADATA_CACHE, _refuse_metadata),
        awaits_metadata=True,
    ),
    Api(
        *(4, "LeaderAndIsr", 0, 7, LeaderAndIsrRequest, LeaderAndIsrResponse, REPLICA_MANAGER, _refuse_leader_and_isr),
        advertised=False,
        control=True,
    ),
    Api(
        *(5, "StopReplica", 0, 4, StopReplicaRequest, StopReplicaResponse, REPLICA_MANAGER, _refuse_stop_replica),
        advertised=False,
        control=True,
    ),
    Api(
        *(6, "UpdateMetadata", 0, 8, UpdateMetadataRequest, UpdateMetadataResponse, REPLICA_MANAGER),
        refusal=lambda request, code: UpdateMetadataResponse(code),
        advertised=False,
        control=True,
    ),
    Api(
        *(7, "ControlledShutdown", 0, 3, ControlledShutdownRequest, ControlledShutdownResponse, CONTROLLER),
        refusal=lambda request, code: ControlledShutdownResponse(code),
        elsewhere=STALE_CONTROLLER_EPOCH,
        advertised=False,
        control=True,
    ),
    Api(
        *(8, "OffsetCommit", 2, 8, OffsetCommitRequest, OffsetCommitResponse, GROUPS),
        refusal=_partitions_with(OffsetCommitResponse, PartitionError),
    ),
    Api(9, "OffsetFetch", 1, 7, OffsetFetchRequest, OffsetFetchResponse, GROUPS, _refuse_offset_fetch),
    Api(
        *(10, "FindCoordinator", 0, 3, FindCoordinatorRequest, FindCoordinatorResponse, COORDINATOR_FINDER),
        refusal=lambda request, code: FindCoordinatorResponse(code),
        awaits_metadata=True,
    ),
    Api(11, "JoinGroup", 0, 7, JoinGroupRequest, JoinGroupResponse, GROUPS, _refuse_join),
    Api(
        *(12, "Heartbeat", 0, 4, HeartbeatRequest, HeartbeatResponse, GROUPS),
        refusal=lambda request, code: HeartbeatResponse(code),
    ),
    Api(
        *(13, "LeaveGroup", 0, 4, LeaveGroupRequest, LeaveGroupResponse, GROUPS),
        refusal=lambda request, code: LeaveGroupResponse(code),
    ),
    Api(
        *(14, "SyncGroup", 0, 5, SyncGroupRequest, SyncGroupResponse, GROUPS),
        refusal=lambda request, code: SyncGroupResponse(code),
    ),
    Api(
        *(15, "DescribeGroups", 0, 5, DescribeGroupsRequest, DescribeGroupsResponse, GROUPS),
        refusal=lambda request, code: DescribeGroupsResponse(
            tuple([DescribedGroup(code, group) for group in request.groups])
        ),
    ),
    Api(
        *(16, "ListGroups", 0, 4, ListGroupsRequest, ListGroupsResponse, GROUPS),
        refusal=lambda request, code: ListGroupsResponse(code),
    ),
    Api(
        *(42, "DeleteGroups", 0, 2, DeleteGroupsRequest, DeleteGroupsResponse, GROUPS),
        refusal=lambda request, code: DeleteGroupsResponse(
            tuple([DeletedGroup(group, code) for group in request.groups])
        ),
    ),
    Api(
        *(47, "OffsetDelete", 0, 0, OffsetDeleteRequest, OffsetDeleteResponse, GROUPS),
        refusal=lambda request, code: OffsetDeleteResponse(code),
    ),
    Api(
        *(21, "DeleteRecords", 0, 2, DeleteRecordsRequest, DeleteRecordsResponse, PARTITIONS),
        refusal=_partitions_with(DeleteRecordsResponse, DeletedRecords),
    ),
    Api(
        *(22, "InitProducerId", 0, 3, InitProducerIdRequest, InitProducerIdResponse, TRANSACTIONS),
        refusal=lambda request, code: InitProducerIdResponse(code),
    ),
    Api(
        *(24, "AddPartitionsToTxn", 0, 4, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, TRANSACTIONS),
        refusal=_refuse_add_partitions,
    ),
    Api(
        *(25, "AddOffsetsToTxn", 0, 3, AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, TRANSACTIONS),
        refusal=lambda request, code: AddOffsetsToTxnResponse(code),
    ),
    Api(
        *(26, "EndTxn", 0, 3, EndTxnRequest, EndTxnResponse, TRANSACTIONS),
        refusal=lambda request, code: EndTxnResponse(code),
    ),
    Api(
        *(27, "WriteTxnMarkers", 0, 1, WriteTxnMarkersRequest, WriteTxnMarkersResponse, PARTITIONS),
        refusal=_refuse_write_markers,
    ),
    Api(
        *(28, "TxnOffsetCommit", 0, 3, TxnOffsetCommitRequest, TxnOffsetCommitResponse, GROUPS),
        refusal=_refuse_txn_offset_commit,
    ),
    Api(
        *(61, "DescribeProducers", 0, 0, DescribeProducersRequest, DescribeProducersResponse, PARTITIONS),
        refusal=lambda request, code: DescribeProducersResponse(
            tuple([DescribedProducers(each, code) for each in request.partitions])
        ),
    ),
    Api(
        *(65, "DescribeTransactions", 0, 0, DescribeTransactionsRequest, DescribeTransactionsResponse, TRANSACTIONS),
        refusal=lambda request, code: DescribeTransactionsResponse(
            tuple([DescribedTransaction(code, each) for each in request.transactional_ids])
        ),
    ),
    Api(
        *(66, "ListTransactions", 0, 1, ListTransactionsRequest, ListTransactionsResponse, TRANSACTIONS),
        refusal=lambda request, code: ListTransactionsResponse(code),
    ),
    Api(
        *(23, "OffsetForLeaderEpoch", 0, 3, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, PARTITIONS),
        refusal=_partitions_with(OffsetForLeaderEpochResponse, EpochEnd),
    ),
    Api(
        *(19, "CreateTopics", 0, 5, CreateTopicsRequest, CreateTopicsResponse, CONTROLLER),
        refusal=_topics_with(CreateTopicsResponse, CreatedTopic),
        elsewhere=NOT_CONTROLLER,
        awaits_metadata=True,
    ),
    Api(
        *(20, "DeleteTopics", 0, 4, DeleteTopicsRequest, DeleteTopicsResponse, CONTROLLER, _refuse_delete_topics),
        elsewhere=NOT_CONTROLLER,
    ),
    Api(
        *(32, "DescribeConfigs", 0, 3, DescribeConfigsRequest, DescribeConfigsResponse, CONFIGS),
        refusal=_resources_with(DescribeConfigsResponse, DescribedResource),
    ),
    Api(
        *(33, "AlterConfigs", 0, 1, AlterConfigsRequest, AlterConfigsResponse, CONFIGS),
        refusal=_resources_with(AlterConfigsResponse, AlteredResource),
    ),
    Api(
        *(44, "IncrementalAlterConfigs", 0, 1, IncrementalAlterConfigsRequest, AlterConfigsResponse, CONFIGS),
        refusal=_resources_with(AlterConfigsResponse, AlteredResource),
    ),
    Api(
        *(35, "DescribeLogDirs", 0, 2, DescribeLogDirsRequest, DescribeLogDirsResponse, REPLICA_MANAGER),
        refusal=lambda request, code: DescribeLogDirsResponse(()),
    ),
    Api(
        *(37, "CreatePartitions", 0, 2, CreatePartitionsRequest, CreatePartitionsResponse, CONTROLLER),
        refusal=_topics_with(CreatePartitionsResponse, GrownTopic),
        elsewhere=NOT_CONTROLLER,
    ),
    Api(
        *(43, "ElectLeaders", 0, 2, ElectLeadersRequest, ElectLeadersResponse, CONTROLLER, _refuse_elect_leaders),
        elsewhere=NOT_CONTROLLER,
    ),
    Api(
        *(45, "AlterPartitionReassignments", 0, 0),
        *(AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, CONTROLLER),
        refusal=lambda request, code: AlterPartitionReassignmentsResponse(code),
        elsewhere=NOT_CONTROLLER,
    ),
    Api(
        *(46, "ListPartitionReassignments", 0, 0),
        *(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, CONTROLLER),
        refusal=lambda request, code: ListPartitionReassignmentsResponse(code),
        elsewhere=NOT_CONTROLLER,
    ),
    Api(
        *(17, "SaslHandshake", 0, 1, SaslHandshakeRequest, SaslHandshakeResponse, REQUEST_HANDLER),
        refusal=lambda request, code: SaslHandshakeResponse(code),
    ),
    Api(
        *(36, "SaslAuthenticate", 0, 2, SaslAuthenticateRequest, SaslAuthenticateResponse, REQUEST_HANDLER),
        refusal=_refuse_sasl_authenticate,
    ),
    Api(
        *(29, "DescribeAcls", 0, 2, DescribeAclsRequest, DescribeAclsResponse, REQUEST_HANDLER),
        refusal=lambda request, code: DescribeAclsResponse(code, "No Authorizer is configured on the broker"),
    ),
    Api(30, "CreateAcls", 0, 2, CreateAclsRequest, CreateAclsResponse, REQUEST_HANDLER, _refuse_create_acls),
    Api(31, "DeleteAcls", 0, 2, DeleteAclsRequest, DeleteAclsResponse, REQUEST_HANDLER, _refuse_delete_acls),
    Api(
        *(38, "CreateDelegationToken", 0, 2),
        *(CreateDelegationTokenRequest, CreateDelegationTokenResponse, REQUEST_HANDLER),
        refusal=lambda request, code: CreateDelegationTokenResponse(code),
    ),
    Api(
        *(39, "RenewDelegationToken", 0, 2),
        *(RenewDelegationTokenRequest, RenewDelegationTokenResponse, REQUEST_HANDLER),
        refusal=lambda request, code: RenewDelegationTokenResponse(code),
    ),
    Api(
        *(40, "ExpireDelegationToken", 0, 2),
        *(ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, REQUEST_HANDLER),
        refusal=lambda request, code: ExpireDelegationTokenResponse(code),
    ),
    Api(
        *(41, "DescribeDelegationToken", 0, 2),
        *(DescribeDelegationTokenRequest, DescribeDelegationTokenResponse, REQUEST_HANDLER),
        refusal=lambda request, code: DescribeDelegationTokenResponse(code),
    ),
    Api(
        *(57, "UpdateFeatures", 0, 1, UpdateFeaturesRequest, UpdateFeaturesResponse, CONTROLLER),
        refusal=lambda request, code: UpdateFeaturesResponse(
            code, "This is not the correct controller for this cluster." if code == NOT_CONTROLLER else None
        ),
        elsewhere=NOT_CONTROLLER,
    ),
    Api(
        *(68, "ConsumerGroupHeartbeat", 0, 0),
        *(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, REQUEST_HANDLER),
        refusal=lambda request, code: ConsumerGroupHeartbeatResponse(code),
    ),
    Api(
        *(69, "ConsumerGroupDescribe", 0, 0),
        *(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, REQUEST_HANDLER),
        refusal=lambda request, code: ConsumerGroupDescribeResponse(
            tuple([UndescribedGroup(code, group_id) for group_id in request.group_ids])
        ),
    ),
    Api(
        *(18, "ApiVersions", 0, 3, ApiVersionsRequest, ApiVersionsResponse, REQUEST_HANDLER),
        refusal=lambda request, code: ApiVersionsResponse(code, ()),
    ),
)

API_BY_KEY: dict[int, Api] = {api.key: api for api in APIS}
API_BY_REQUEST: dict[type, Api] = {api.request: api for api in APIS}

ADVERTISED: tuple[ApiVersionRange, ...] = tuple(
    ApiVersionRange(api.key, api.min_version, api.max_version) for api in APIS if api.advertised
)
"""The APIs that ApiVersions lists."""

CARRIERS: frozenset[type] = frozenset(api.request for api in APIS if api.carries_records)
"""The requests that listeners send directly to PartitionRequestsActor: Produce and Fetch."""
