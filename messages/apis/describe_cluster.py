"""DescribeCluster: the brokers and the controller of the cluster (KIP-700)."""

from __future__ import annotations

from messages.apis.declaration import METADATA_CACHE, OPEN, PERMITTED_ON_CLUSTER, Api
from messages.apis.metadata import NOT_REQUESTED, MetadataBroker
from messages.vocabulary import Message, message

BROKERS, CONTROLLERS = 1, 2
"""Endpoint types: a cluster with ZooKeeper only has brokers."""


@message
class DescribeClusterRequest(Message):
    """A client's request for the brokers of the cluster (API key 60)."""

    version: int
    include_cluster_authorized_operations: bool = False
    endpoint_type: int = BROKERS


@message
class DescribeClusterResponse(Message):
    """The response to DescribeCluster; the brokers have their endpoints on the client's listener."""

    error_code: int
    error_message: str | None = None
    cluster_id: str = ""
    controller_id: int = -1
    brokers: tuple[MetadataBroker, ...] = ()
    cluster_authorized_operations: int = NOT_REQUESTED
    throttle_time_ms: int = 0


API = Api(
    key=60,
    versions=(0, 1),
    request=DescribeClusterRequest,
    response=DescribeClusterResponse,
    answerer=METADATA_CACHE,
    access=OPEN,
    permitted=(PERMITTED_ON_CLUSTER,),
    codes="NONE MISMATCHED_ENDPOINT_TYPE UNSUPPORTED_ENDPOINT_TYPE",
    sample=lambda about: DescribeClusterRequest(1),
    odd="version=0;include_cluster_authorized_operations=yes endpoint_type=2 endpoint_type=9",
)
