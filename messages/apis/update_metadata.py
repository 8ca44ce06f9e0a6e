"""UpdateMetadata: update the metadata cache (controller.md 4).

Early versions lack endpoints or listener names. v0 has one host and port per broker, which are those of its first
PLAINTEXT endpoint. v1 and v2 have endpoints without listener names; the name of the security protocol is read as the
listener name.
"""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import REPLICA_MANAGER, Api, Binding, on_cluster
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.stop_replica import StopReplicaRequest
from messages.cluster import Endpoint, TopicId, TopicPartition
from messages.vocabulary import Message, message


@message
class UpdateMetadataPartitionState(Message):
    """A partition in an UpdateMetadata request, with its leader, ISR and replicas."""

    partition: TopicPartition
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


@message
class UpdateMetadataBroker(Message):
    """A live broker in an UpdateMetadata request, with all its endpoints."""

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


@message
class UpdateMetadataRequest(Message):
    """The controller's request to a broker to update its metadata cache (API key 6).

    The request has all live brokers, some partitions, and from version 7 on the ids of their topics, if they have any.
    """

    version: int
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partition_states: tuple[UpdateMetadataPartitionState, ...]
    live_brokers: tuple[UpdateMetadataBroker, ...]
    topic_ids: tuple[TopicId, ...] = ()


ControllerRequest = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
"""The controller's requests to brokers."""


@message
class UpdateMetadataResponse(Message):
    """The response to UpdateMetadata."""

    error_code: int


SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Kafka's security protocols; the index is the id on the wire."""


def _protocol_id(endpoint: Endpoint) -> int:
    if endpoint.security_protocol not in SECURITY_PROTOCOLS:
        raise ValueError(f"unknown security protocol {endpoint.security_protocol!r}")
    return SECURITY_PROTOCOLS.index(endpoint.security_protocol)


def _protocol(security_protocol: int) -> str:
    if not 0 <= security_protocol < len(SECURITY_PROTOCOLS):
        raise ValueError(f"unknown security protocol {security_protocol}")
    return SECURITY_PROTOCOLS[security_protocol]


def _listener(security_protocol: int, listener: str | None = None) -> str:
    return _protocol(security_protocol) if listener is None else listener


def _plaintext(broker: UpdateMetadataBroker) -> Endpoint:
    for endpoint in broker.endpoints:
        if endpoint.security_protocol == "PLAINTEXT":
            return endpoint
    raise ValueError(f"broker {broker.id} has no PLAINTEXT endpoint, which version 0 of the request requires")


def _v0_host(broker: UpdateMetadataBroker) -> str:
    return _plaintext(broker).host


def _v0_port(broker: UpdateMetadataBroker) -> int:
    return _plaintext(broker).port


def _endpoints(
    endpoints: tuple[Endpoint, ...] = (), v0_host: str | None = None, v0_port: int = 0
) -> tuple[Endpoint, ...]:
    return endpoints if v0_host is None else (Endpoint("PLAINTEXT", v0_host, v0_port),)


API = Api(
    key=6,
    versions=(0, 8),
    request=UpdateMetadataRequest,
    response=UpdateMetadataResponse,
    answerer=REPLICA_MANAGER,
    access=(on_cluster(Operation.CLUSTER_ACTION),),
    codes="NONE STALE_BROKER_EPOCH STALE_CONTROLLER_EPOCH",
    sample=lambda about: UpdateMetadataRequest(
        6, about.controller, about.controller_epoch - 1, about.broker_epoch, (), ()
    ),
    odd="controller_epoch+1;broker_epoch-1",
    bindings={
        UpdateMetadataRequest: Binding(
            gathered={"partition_states": ("ungrouped_partition_states", "topic_states.partition_states")},
        ),
        UpdateMetadataBroker: Binding(
            written={"v0_host": _v0_host, "v0_port": _v0_port}, read={"endpoints": _endpoints}
        ),
        Endpoint: Binding(
            written={"security_protocol": _protocol_id}, read={"security_protocol": _protocol, "listener": _listener}
        ),
    },
    control=True,
)
