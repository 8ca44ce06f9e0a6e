"""Leaderships go back to the preferred replicas, the heads of the assignments (controller.md 7.6, 1.4).

Rule 1: on request, which stands in /admin/preferred_replica_election until it has been dealt with. The node goes
        whatever came of it; then it is looked at again, because only its creation is told.
Rule 2: by itself, where a broker leads too little of what it is preferred for; only what the ISR as it is known lets go
        back, and nothing while a partition is being reassigned. The next look is arranged before this one, so that
        nothing that goes wrong in it ends them.
Rule 3: a partition whose preferred replica leads already is left alone: an election would cost a leader epoch for
        nothing (trap T11). One that has never had a leader is named in the log, and costs the others nothing (trap T8).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from actors.core.controller import elections
from actors.core.controller.context import ControllerContext
from actors.core.controller.elections import Candidates
from actors.core.controller.instructions import Enqueue
from actors.core.controller.partition_state_machine import move_partitions
from actors.core.controller.slicing import chosen
from actors.core.controller.states import PartitionState
from messages.cluster import TopicPartition
from messages.conversation import Flow, ask, in_slices
from messages.events import AutoPreferredReplicaLeaderElection, PreferredReplicaLeaderElection
from messages.zookeeper import ForgetPreferredElections, GetPreferredElections

log = logging.getLogger("kafka.controller")

FIRST_CHECK_SECONDS = 5.0


def begin(context: ControllerContext) -> Flow[None]:
    """A term begins: see to what was asked for before it, and look after the balance from now on."""
    yield from requested(context, PreferredReplicaLeaderElection())
    if context.settings.auto_leader_rebalance_enable:
        yield Enqueue(AutoPreferredReplicaLeaderElection(), FIRST_CHECK_SECONDS)


def requested(context: ControllerContext, event: PreferredReplicaLeaderElection) -> Flow[None]:
    """Somebody asks for the preferred leaders of these partitions."""
    wanted = yield from ask(GetPreferredElections())
    if not wanted.requested:
        return
    yield from _elect(context, wanted.partitions)
    yield from ask(ForgetPreferredElections(context.epoch_zk_version))
    yield Enqueue(PreferredReplicaLeaderElection())


def check(context: ControllerContext, event: AutoPreferredReplicaLeaderElection) -> Flow[None]:
    """Give each broker back what it is preferred for, if too much of that is led by others."""
    settings = context.settings
    yield Enqueue(event, settings.leader_imbalance_check_interval_seconds)
    if context.reassigning:
        return
    preferred: dict[int, list[TopicPartition]] = {}

    def sort(part: Sequence[TopicPartition]) -> None:
        for partition in part:
            replicas = context.assignments[partition].replicas
            if replicas and partition.topic not in context.queued:
                preferred.setdefault(replicas[0], []).append(partition)

    yield from in_slices(sort, tuple(context.assignments))
    for broker_id in sorted(preferred):
        mine = preferred[broker_id]
        astray = yield from chosen(lambda tp: not _led_by_preferred(context, tp), mine)
        if 100 * len(astray) > settings.leader_imbalance_per_broker_percentage * len(mine):
            log.info("%s Broker %d leads too little: %d of %d not", context.tag, broker_id, len(astray), len(mine))
            yield from _elect(context, (yield from chosen(lambda tp: _may_go_back(context, tp), astray)))


def _elect(context: ControllerContext, partitions: Sequence[TopicPartition]) -> Flow[None]:
    """Elect the preferred leaders of those partitions that can be, and need to be, elected for (rule 3)."""
    fit = yield from chosen(lambda tp: tp in context.leadership and tp.topic not in context.queued, partitions)
    if len(fit) < len(partitions):
        unfit = yield from chosen(lambda tp: tp not in context.leadership or tp.topic in context.queued, partitions)
        names = ", ".join(map(str, unfit))
        log.error("%s No preferred leaders for what is unknown, never led or being deleted: %s", context.tag, names)
    astray = yield from chosen(lambda tp: not _led_by_preferred(context, tp), fit)
    yield from move_partitions(context, astray, PartitionState.ONLINE, elections.preferred)


def _led_by_preferred(context: ControllerContext, partition: TopicPartition) -> bool:
    """Also true where there has never been a leader: that is nothing to be balanced."""
    leadership = context.leadership.get(partition)
    return leadership is None or leadership.leader in context.assignments[partition].replicas[:1]


def _may_go_back(context: ControllerContext, partition: TopicPartition) -> bool:
    """Would the preferred replica be elected by what is known?"""
    candidates = Candidates(
        context.assignments[partition].replicas,
        context.leadership[partition].isr,
        context.online_for(partition),
        context.reachable_for(partition),
    )
    return elections.preferred(candidates) is not None


EVENTS: dict[type, Callable[..., Flow[None]]] = {
    PreferredReplicaLeaderElection: requested,
    AutoPreferredReplicaLeaderElection: check,
}
