"""Table of requests that a broker must refuse or ignore, such as stale ones; `client_requests` sends them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actors.simulation.request_target import BAD_NAME, Make, RequestTarget
from actors.simulation.simulated_cluster import PORT, host_of
from messages.apis.controlled_shutdown import ControlledShutdownRequest
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest, LiveLeader
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.cluster import TopicPartition
from messages.vocabulary import AnyMessage, Message
from zk_bridge import paths


def _orders(
    epoch: Callable[[RequestTarget], tuple[int, int]] = lambda about: (about.controller[1], about.broker_epoch),
    topic: str = "",
    leader_epoch: int = 0,
) -> tuple[Make, Make, Make]:
    """Return functions that make LeaderAndIsr, StopReplica and UpdateMetadata requests about one partition.

    `epoch` returns the requests' controller epoch and broker epoch; `leader_epoch` is added to the partition's leader
    epoch.
    """

    def partition(about: RequestTarget) -> TopicPartition:
        return TopicPartition(topic or about.topic, about.number)

    def lead(about: RequestTarget) -> Message:
        controller_epoch, broker_epoch = epoch(about)
        state = LeaderAndIsrPartitionState(
            *(partition(about), controller_epoch, 90, about.leader_epoch + leader_epoch, (90,), 0, (90,))
        )
        return LeaderAndIsrRequest(4, about.controller[0], controller_epoch, broker_epoch, (state,), ())

    def stop(about: RequestTarget) -> AnyMessage | None:
        if leader_epoch and not about.leader_epoch:
            return None
        state = StopReplicaPartitionState(partition(about), about.leader_epoch + leader_epoch)
        return StopReplicaRequest(3, about.controller[0], *epoch(about), (state,))

    def publish(about: RequestTarget) -> Message:
        return UpdateMetadataRequest(6, about.controller[0], *epoch(about), (), ())

    return lead, stop, publish


def _of_old_state(leads: bool) -> Make:
    """Return a function that makes a LeaderAndIsr request with the next leader epoch but an old znode version.

    The returned function makes no request (None) if the topic is queued for deletion, or if the broker has no replica.
    If a broker has already deleted its replica of a queued topic, the request would create that replica again. Kafka's
    brokers behave in the same way.
    """

    def make(about: RequestTarget) -> AnyMessage | None:
        brokers = about.replicas
        if about.node not in brokers or paths.delete_topic(about.topic) in about.cluster.zookeeper.nodes:
            return None
        leader = about.node if leads else next((each for each in brokers if each != about.node), 90)
        state = LeaderAndIsrPartitionState(
            *(about.partition, about.controller[1], leader, about.leader_epoch + 1, brokers, -2, brokers)
        )
        # This leader may be offline. If it is, the broker that receives the request creates the partition's log, and
        # does nothing else (broker.md 1.4).
        live = LiveLeader(leader, host_of(leader), PORT)
        return LeaderAndIsrRequest(4, *about.controller, about.broker_epoch, (state,), (live,))

    return make


def _old_controller(about: RequestTarget) -> tuple[int, int]:
    return about.controller[1] - 1, about.broker_epoch


def _old_registration(about: RequestTarget) -> tuple[int, int]:
    return about.controller[1], max(about.broker_epoch - 1, 0)


def _shutdown(node: int | None, stale: bool) -> Make:
    return lambda about: ControlledShutdownRequest(
        3, about.node if node is None else node, max(about.broker_epoch - 1, 0) if stale else about.broker_epoch
    )


_BY_OLD_CONTROLLER = _orders(_old_controller)
_FOR_OLD_REGISTRATION = _orders(_old_registration)

STALE: Mapping[str, Make] = {
    "lead-old-controller": _BY_OLD_CONTROLLER[0],
    "stop-old-controller": _BY_OLD_CONTROLLER[1],
    "publish-old-controller": _BY_OLD_CONTROLLER[2],
    "lead-old-registration": _FOR_OLD_REGISTRATION[0],
    "stop-old-registration": _FOR_OLD_REGISTRATION[1],
    "publish-old-registration": _FOR_OLD_REGISTRATION[2],
    "lead-old-epoch": _orders(leader_epoch=-1)[0],
    "lead-elsewhere": _orders(leader_epoch=1)[0],
    "lead-on-old-state": _of_old_state(leads=True),
    "follow-on-old-state": _of_old_state(leads=False),
    "lead-bad-name": _orders(topic=BAD_NAME, leader_epoch=1)[0],
    "stop-old-epoch": _orders(leader_epoch=-1)[1],
    "stop-bad-name": _orders(topic=BAD_NAME)[1],
    "shutdown-old-registration": _shutdown(None, stale=True),
    "shutdown-of-unknown": _shutdown(90, stale=False),
}
"""Requests of a controller, and of a broker that leaves, that must be refused: by an old epoch, or for a partition
that is not there."""
