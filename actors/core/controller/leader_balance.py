"""Elect preferred leaders, when an admin tool requests it or when leaders are imbalanced (controller.md 7.6, 1.4, 1.5).

Rule 1: On request. A tool writes the partitions to /admin/preferred_replica_election. After the election the znode is
        deleted, whatever the results. It is then read again, because the watch reports only the creation of the znode.
        A client of ElectLeaders receives the result of each partition when this node's metadata contains the elected
        leaders. The client can also request an unclean election.
Rule 2: Periodically. Preferred leaders are elected if a broker leads too few of the partitions for which it is the
        preferred replica. Only partitions whose preferred replica is in the cached ISR are moved. Elections also take
        place during ongoing reassignments, as in 3.9.1 (in 2.6 an endless reassignment prevents them for ever,
        KAFKA-10149). The next check is scheduled before the current check starts, so a failed check does not end the
        checks.
Rule 3: A partition whose preferred replica leads is skipped: an election would only cost a leader epoch
        (controller.md, trap T11). A partition that never had a leader is logged, and does not affect the others (trap
        T8).

Kafka: `KafkaController.processReplicaLeaderElection`, `checkAndTriggerAutoLeaderRebalance`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from actors.core.controller import elections, log_text
from actors.core.controller.context import ControllerContext, Handler, ReplicasByBroker
from actors.core.controller.elections import Candidates, Strategy
from actors.core.controller.instructions import DelayedResponse, Enqueue
from actors.core.controller.leadership import record_refusals
from actors.core.controller.partition_state_machine import move_partitions
from actors.core.controller.states import PartitionState
from actors.core.refusal import Refused
from messages import errors
from messages.apis import API_BY_REQUEST
from messages.apis.elect_leaders import (
    PREFERRED,
    UNCLEAN,
    ElectedPartition,
    ElectedTopic,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from messages.broker import ExpectedTopicState
from messages.cluster import TopicPartition
from messages.events import AutoPreferredReplicaLeaderElection, PreferredReplicaLeaderElection
from messages.flow.conversation import Flow, ask, for_each
from messages.probes import probe
from messages.vocabulary import Message
from messages.zookeeper import DeletePreferredElections, GetPreferredElections

log = logging.getLogger("kafka.controller")

FIRST_CHECK_SECONDS = 5.0


class ElectionType(NamedTuple):
    """An election type of the ElectLeaders API: its strategy, and the error if no replica can lead."""

    strategy: Strategy
    unclean: bool
    no_leader_code: int


ELECTION_TYPES = {
    PREFERRED: ElectionType(elections.elect_preferred, False, errors.PREFERRED_LEADER_NOT_AVAILABLE),
    UNCLEAN: ElectionType(elections.offline, True, errors.ELIGIBLE_LEADERS_NOT_AVAILABLE),
}


def begin(context: ControllerContext) -> Flow[None]:
    """Begin this node's term as controller: handle a request that is already in ZooKeeper; schedule the first check."""
    yield from elect_requested(context, PreferredReplicaLeaderElection())
    if context.settings.auto_leader_rebalance_enable:
        yield Enqueue(AutoPreferredReplicaLeaderElection(), FIRST_CHECK_SECONDS)


def elect_requested(context: ControllerContext, event: PreferredReplicaLeaderElection) -> Flow[None]:
    """Elect the preferred leaders of the partitions in /admin/preferred_replica_election."""
    wanted = yield from ask(GetPreferredElections())
    if not wanted.requested:
        return
    yield from _elect(context, wanted.partitions, "ZkTriggered")
    yield from ask(DeletePreferredElections(context.epoch_zk_version))
    yield Enqueue(PreferredReplicaLeaderElection())


def elect_leaders(context: ControllerContext, request: ElectLeadersRequest) -> Flow[Message | DelayedResponse]:
    """Handle ElectLeaders for the given partitions or for all.

    If all partitions are requested, the response leaves out partitions that need no election.
    """
    wanted = ELECTION_TYPES.get(request.election_type)
    if wanted is None:
        return API_BY_REQUEST[type(request)].refusal(request, errors.UNKNOWN_SERVER_ERROR)
    asked = [TopicPartition(topic.name, number) for topic in request.topics or () for number in topic.partitions]
    everything = request.topics is None
    electable, refusals = yield from _check_partitions(
        context, context.leadership if everything else dict.fromkeys(asked), wanted
    )
    results = refusals
    if everything:
        results = {
            tp: each
            for tp, each in refusals.items()
            if each.error_code not in (errors.ELECTION_NOT_NEEDED, errors.INVALID_TOPIC)
        }
    failures = yield from move_partitions(
        context, electable, PartitionState.ONLINE, wanted.strategy, allow_unclean=wanted.unclean
    )
    expected: dict[tuple[str, int], list[int]] = {}

    def collect(part: Sequence[TopicPartition]) -> None:
        for partition in part:
            topic, number = partition
            if partition in failures:
                results[partition] = ElectedPartition(number, wanted.no_leader_code, failures[partition])
            else:
                results[partition] = ElectedPartition(number, errors.NONE)
                expected.setdefault((topic, context.leadership[partition].leader), []).append(number)

    yield from for_each(electable, collect)
    by_topic: dict[str, list[ElectedPartition]] = {}
    for partition, result in results.items():
        by_topic.setdefault(partition.topic, []).append(result)
    response = ElectLeadersResponse(tuple(ElectedTopic(name, tuple(each)) for name, each in by_topic.items()))
    if not expected:
        return response
    leaders = tuple(ExpectedTopicState(topic, tuple(numbers), leader) for (topic, leader), numbers in expected.items())
    return DelayedResponse(response, leaders, request.timeout_ms)


def _check_partitions(
    context: ControllerContext, partitions: Iterable[TopicPartition], wanted: ElectionType
) -> Flow[tuple[list[TopicPartition], dict[TopicPartition, ElectedPartition]]]:
    """Return the partitions that need an election, and the results of the others."""
    electable: list[TopicPartition] = []
    refusals: dict[TopicPartition, ElectedPartition] = {}

    def check_all(part: Sequence[TopicPartition]) -> None:
        for partition in part:
            try:
                _check(context, partition, wanted)
                electable.append(partition)
            except Refused as refused:
                refusals[partition] = ElectedPartition(partition.partition, refused.code, str(refused))

    yield from for_each(partitions, check_all)
    return electable, refusals


def _check(context: ControllerContext, partition: TopicPartition, wanted: ElectionType) -> None:
    """Check that a partition needs an election.

    In Kafka, the whole request fails if one partition has never had a leader (trap T8).

    Raises:
        Refused: The partition does not exist, is being deleted, has never had a leader, or needs no election.
    """
    if partition not in context.assignments:
        raise Refused("The partition does not exist.", errors.UNKNOWN_TOPIC_OR_PARTITION)
    if partition.topic in context.queued:
        raise Refused("The topic is being deleted", errors.INVALID_TOPIC)
    leadership = context.leadership.get(partition)
    if leadership is None:
        probe("T8 an election is requested for a partition that has never had a leader")
        raise Refused(f"{partition} has never had a leader", wanted.no_leader_code)
    led = leadership.leader in context.online_brokers if wanted.unclean else _led_by_preferred(context, partition)
    if led:
        raise Refused("Leader election not needed for topic partition.", errors.ELECTION_NOT_NEEDED)


def check(context: ControllerContext, event: AutoPreferredReplicaLeaderElection) -> Flow[None]:
    """Elect preferred leaders for brokers that lead too few of their preferred partitions (rule 2)."""
    settings = context.settings
    log.info("%s Processing automatic preferred replica leader election", context.tag)
    yield Enqueue(event, settings.leader_imbalance_check_interval_seconds)
    preferred, imbalanced = Counter[int](), Counter[int]()
    wanted: ReplicasByBroker = {}

    def count(part: Sequence[TopicPartition]) -> None:
        for partition in part:
            replicas = context.assignments[partition].replicas
            if replicas and partition.topic not in context.queued:
                preferred[replicas[0]] += 1
                if not _led_by_preferred(context, partition):
                    imbalanced[replicas[0]] += 1
                    if _can_lead(context, partition):
                        wanted.setdefault(replicas[0], []).append(partition)

    yield from for_each(context.assignments, count)
    for broker_id in sorted(imbalanced):
        if 100 * imbalanced[broker_id] > settings.leader_imbalance_per_broker_percentage * preferred[broker_id]:
            ratio = imbalanced[broker_id] / preferred[broker_id]
            log.info("%s Leader imbalance ratio for broker %d is %s", context.tag, broker_id, ratio)
            yield from _elect(context, wanted.get(broker_id, []), "AutoTriggered")


def _elect(context: ControllerContext, partitions: Sequence[TopicPartition], trigger: str) -> Flow[None]:
    """Elect the preferred leader of each of these partitions that needs an election (rule 3)."""
    if partitions:
        log.info(
            "%s Starting replica leader election (PREFERRED) for partitions %s triggered by %s",
            *(context.tag, log_text.join_values(partitions[: log_text.MOST]), trigger),
        )
    imbalanced, refusals = yield from _check_partitions(context, partitions, ELECTION_TYPES[PREFERRED])
    unfit = [tp for tp, refused in refusals.items() if refused.error_code != errors.ELECTION_NOT_NEEDED]
    if unfit:
        log.error(
            "%s Skipping replica leader election (PREFERRED) for partitions that are unknown, new or being deleted: %s",
            context.tag,
            ", ".join(map(str, unfit)),
        )
        reasons = {tp: refusals[tp].error_message or "it is unknown, new or being deleted" for tp in unfit}
        yield from record_refusals("elect the preferred leader", reasons)
    if len(unfit) < len(refusals):
        probe("T11 a preferred leader is not elected again")
    yield from move_partitions(context, imbalanced, PartitionState.ONLINE, elections.elect_preferred)


def _led_by_preferred(context: ControllerContext, partition: TopicPartition) -> bool:
    """Return whether the preferred replica leads; true also for a partition that has never had a leader."""
    leadership = context.leadership.get(partition)
    return leadership is None or leadership.leader in context.assignments[partition].replicas[:1]


def _can_lead(context: ControllerContext, partition: TopicPartition) -> bool:
    """Return whether the preferred replica would be elected with the cached ISR."""
    candidates = Candidates(
        context.assignments[partition].replicas,
        context.leadership[partition].isr,
        context.online_for(partition),
        context.reachable_for(partition),
    )
    return elections.elect_preferred(candidates) is not None


EVENTS: dict[type, Handler] = {
    PreferredReplicaLeaderElection: elect_requested,
    AutoPreferredReplicaLeaderElection: check,
}
