"""Handle brokers that start, fail or register again (controller.md 7.5).

Rule 1: Channels are changed first. New and bounced brokers have a channel before any request is sent; channels of dead
        brokers are closed.
Rule 2: A broker has bounced if it registers again before the controller has seen that its old registration is gone.
        Only the larger broker epoch (a czxid) of the new registration shows this. A bounced broker is treated as dead
        and then as new.
Rule 3: If replicas go offline, leaders are elected before ISRs shrink. So the loss of a partition's leader raises the
        leader epoch only once.
Rule 4: An unreadable registration changes nothing: a live broker keeps its last registration, a new broker is not
        added. The registration is watched, and handled as soon as it can be read.

Kafka: `KafkaController.processBrokerChange`, `onBrokerStartup`, `onBrokerFailure`, `onReplicasBecomeOffline`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Sequence

from actors.core.controller import deletion_steps, log_text, reassignment
from actors.core.controller.batch import announce
from actors.core.controller.context import BrokerEndpointNotAvailable, ControllerContext, Handler, ReplicasByBroker
from actors.core.controller.instructions import CloseChannel, OpenChannel, RedirectChannel
from actors.core.controller.partition_state_machine import move_partitions, trigger_online
from actors.core.controller.replica_state_machine import move_replicas
from actors.core.controller.states import PartitionState, ReplicaState
from messages.cluster import Broker, TopicPartition
from messages.events import BrokerChange, BrokerModifications
from messages.flow.conversation import Flow, ask
from messages.probes import probe
from messages.zookeeper import GetBroker, GetBrokers, StopWatching, WatchBrokers

log = logging.getLogger("kafka.controller")


def handle_broker_change(context: ControllerContext, event: BrokerChange) -> Flow[None]:
    """Read /brokers/ids after a change of its children; handle new, bounced and dead brokers."""
    answer = yield from ask(GetBrokers())
    current = {broker.id: broker for broker in sorted(answer.brokers, key=lambda broker: broker.id)}
    known = context.brokers
    joined = [broker for broker in current.values() if broker.id not in known]
    bounced = [broker for broker in current.values() if broker.id in known and broker.epoch > known[broker.id].epoch]
    dead = [broker_id for broker_id in known if broker_id not in current and broker_id not in answer.unreadable]
    if answer.unreadable:
        yield from ask(WatchBrokers(answer.unreadable))
    if not (joined or bounced or dead):
        return
    log.info(
        "%s Newly added brokers: %s, deleted brokers: %s, bounced brokers: %s, all live brokers: %s",
        context.tag,
        log_text.join_values(broker.id for broker in joined),
        log_text.join_values(dead),
        log_text.join_values(broker.id for broker in bounced),
        log_text.join_values(current),
    )
    opened = [OpenChannel(broker.id, context.endpoint(broker)) for broker in (*joined, *bounced)]
    for broker_id in (*(broker.id for broker in bounced), *dead):
        yield CloseChannel(broker_id)
    yield from opened
    if joined:
        yield from on_broker_startup(context, joined)
    if bounced:
        probe("a broker registers again before its absence is seen")
        yield from on_broker_failure(context, [broker.id for broker in bounced])
        yield from on_broker_startup(context, bounced)
    if dead:
        yield from on_broker_failure(context, dead)


def handle_broker_modifications(context: ControllerContext, event: BrokerModifications) -> Flow[None]:
    """Read /brokers/ids/N after a change of its data, and send changed endpoints to all brokers.

    A changed rack alone is not sent. If the registration was unreadable before, or has a newer epoch, the event is
    handled as a BrokerChange.
    """
    answer = yield from ask(GetBroker(event.broker_id))
    old = context.brokers.get(event.broker_id)
    for new in answer.brokers:
        if old is None or new.epoch > old.epoch:
            yield from handle_broker_change(context, BrokerChange())
        elif new.endpoints != old.endpoints:
            log.info("%s Updated broker metadata: %s -> %s", context.tag, old, new)
            with contextlib.suppress(BrokerEndpointNotAvailable):  # the old endpoint stays if there is no new one
                yield RedirectChannel(new.id, context.endpoint(new))
            context.add_broker(new)
            yield from announce(context)


def on_replicas_become_offline(context: ControllerContext, lost: ReplicasByBroker) -> Flow[None]:
    """Elect leaders for partitions without an online leader, then move the lost replicas to Offline.

    Lost replicas of topics queued for deletion are handled as failed deletions instead.
    """
    leadership, online, offline_dirs = context.leadership, context.online_brokers, context.offline_dirs

    def is_not_deleted(tp: TopicPartition) -> bool:
        return not context.is_queued_for_deletion(tp)

    def has_offline_leader(tp: TopicPartition) -> bool:
        if leadership[tp].leader in online and not offline_dirs:  # so for most partitions
            return False
        return not context.is_online(leadership[tp].leader, tp) and is_not_deleted(tp)

    def has_new_leader(tp: TopicPartition) -> bool:
        return tp in waiting and tp not in context.leaderless

    yield from move_partitions(context, leadership, PartitionState.OFFLINE, where=has_offline_leader)
    waiting = set(context.leaderless)
    yield from trigger_online(context)
    moved = yield from move_replicas(context, lost, ReplicaState.OFFLINE, settled=has_new_leader, where=is_not_deleted)
    if context.queued:
        yield from deletion_steps.fail(context, lost)
    if not moved and len(context.leaderless) == len(waiting):  # no UpdateMetadata has announced the live brokers
        yield from announce(context)


def replicas_came_online(context: ControllerContext, broker_ids: Iterable[int]) -> Flow[ReplicasByBroker]:
    """Move all replicas of these brokers to Online, send their roles in LeaderAndIsr, and return these replicas."""
    hosted = context.replicas_on(broker_ids)
    yield from move_replicas(context, hosted, ReplicaState.ONLINE)
    if context.queued:
        yield from deletion_steps.correct(context, _topics(hosted))
    return hosted


def on_broker_startup(context: ControllerContext, brokers: Sequence[Broker]) -> Flow[None]:
    """Handle started brokers.

    The metadata is sent first, then the roles. Then elections, reassignments and deletions resume.
    """
    ids = [broker.id for broker in brokers]
    log.info("%s New broker startup callback for %s", context.tag, ",".join(map(str, ids)))
    existing = list(context.brokers)
    for broker in brokers:
        context.add_broker(broker)
        context.set_offline_dirs(broker.id, {})
    yield from announce(context, existing)
    known: Iterable[TopicPartition] = context.leadership
    if context.queued:
        known = (tp for tp in known if not context.is_queued_for_deletion(tp))
    yield from announce(context, ids, known)
    hosted = yield from replicas_came_online(context, ids)
    yield from trigger_online(context)
    yield from reassignment.resume(context, ids)
    if context.queued:
        yield from deletion_steps.resume(context, [topic for topic in _topics(hosted) if topic in context.queued])
    yield from ask(WatchBrokers(tuple(ids)))


def on_broker_failure(context: ControllerContext, broker_ids: Sequence[int]) -> Flow[None]:
    """Handle brokers whose registration is gone."""
    log.info("%s Broker failure callback for %s", context.tag, ",".join(map(str, broker_ids)))
    for broker_id in broker_ids:
        context.remove_broker(broker_id)
    yield from on_replicas_become_offline(context, context.replicas_on(broker_ids))
    yield from ask(StopWatching((BrokerModifications.__name__,), tuple(map(str, broker_ids))))


def _topics(hosted: ReplicasByBroker) -> dict[str, None]:
    return dict.fromkeys(tp.topic for partitions in hosted.values() for tp in partitions)


EVENTS: dict[type, Handler] = {BrokerChange: handle_broker_change, BrokerModifications: handle_broker_modifications}
