"""IsrKeeperActor writes the ISR changes of all leaders on this broker to ZooKeeper (broker.md 3.3, 3.4).

Rule 1: changes that arrive during a write are collected and written together. Changes are independent: each expects the
        znode version that its leader knows.
Rule 2: the leader receives the outcome: the new version, or -1 if the write was refused. If a lost session leaves the
        outcome unknown, the leader receives nothing and the write is retried. The write may have added replicas: until
        its outcome is known, the leader must treat them as in-sync (broker.md 3.3). A retry recognises a change that
        was written already.
Rule 3: one notification informs the controller of all changed ISRs, and contains each changed partition once. It is
        sent after 5 s without a change, or more than 60 s after the last notification. The check runs every 2.5 s.
Rule 4: leaders whose followers are behind receive CheckFollowers at multiples of replica.lag.time.max.ms / 2
        (broker.md 3.1). This actor has one timer for all leaders, and sends the messages in slices. If each leader had
        its own timer, all these timers would fire at once and delay other actors.
Rule 5: pending changes of a deleted partition are dropped when the replica manager requests it. The reply is sent after
        the write in flight has ended. Otherwise this write could succeed on the znode of a recreated topic, because
        that znode has the version that the write expects.
Rule 6: from protocol version 2.7-IV2 on, the controller writes the changes (AlterPartition, KIP-497) and informs the
        other brokers; rule 3 does not apply then. After an error that only a new LeaderAndIsr request ends, the outcome
        stays open: the leader treats the added replicas as in-sync until then.

Kafka: `ZkIsrManager`, `ReplicaManager.maybePropagateIsrChanges`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from thespian.actors import ActorAddress, WakeupMessage

from actors.runtime import FlowActor
from messages import errors, partition
from messages.apis.alter_partition import (
    AlteredPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrOfPartition,
)
from messages.ask import Answer, Ask, AskFailed, Done
from messages.cluster import Endpoint, LeaderIsrAndControllerEpoch, Leadership, TopicPartition
from messages.flow.conversation import SLICE, Flow, ask, for_each
from messages.metrics import Count, Counts
from messages.network import Received, Transmit
from messages.node import NodeSettings, StartIsrKeeper
from messages.probes import probe
from messages.protocol_version import at_least
from messages.store import OK
from messages.vocabulary import Message
from messages.zookeeper import GetBrokers, GetController, NotifyIsrChange, UpdatePartitionStates

log = logging.getLogger("kafka.cluster.Partition")

LEADERS_AT_ONCE = 50
"""Maximum number of leaders reminded before other actors of the node get their turn."""

LOOK_SECONDS = 2.5
QUIET_SECONDS = 5.0
LONGEST_SECONDS = 60.0
AGAIN_SECONDS = 1.0

COUNTERS = EXPANDS, SHRINKS, FAILED = tuple(
    f"kafka_server_replicamanager_{what}_total" for what in ("isrexpands", "isrshrinks", "failedisrupdates")
)
"""Counters of ISR writes (conventions.md 7)."""

REFUSED = -1

BY_CONTROLLER = "2.7-IV2"
"""The first protocol version at which the controller writes ISR changes."""
ALTER_PARTITION_VERSION = 1
CHANNEL = "alter-partition"
FINAL = {
    errors.NONE: 0,
    errors.OPERATION_NOT_ATTEMPTED: REFUSED,
    **dict.fromkeys(
        (
            errors.UNKNOWN_TOPIC_OR_PARTITION,
            errors.FENCED_LEADER_EPOCH,
            errors.INVALID_UPDATE_VERSION,
            errors.INVALID_REQUEST,
        ),
        partition.UNRESOLVED,
    ),
}
"""Error code of a change that is not repeated -> the version in its outcome; after other codes it is repeated."""


def _version(altered: AlteredPartition) -> int:
    return altered.partition_epoch if altered.error_code == errors.NONE else FINAL[altered.error_code]


def _outcome(change: partition.ChangeIsr, written: bool) -> str:
    """Return the name of the counter to increase after a write: failed, expanded or shrunk."""
    return FAILED if not written else EXPANDS if change.grows else SHRINKS


def find_controller(settings: NodeSettings) -> Flow[tuple[Endpoint, int]]:
    """Return the controller's endpoint and the own broker epoch. Raises LookupError if they are not registered."""
    controller = yield from ask(GetController(watch=False))
    brokers = {each.id: each for each in (yield from ask(GetBrokers(watch=False))).brokers}
    if controller.broker_id not in brokers or settings.node_id not in brokers:
        raise LookupError("the controller or this broker is not registered")
    for endpoint in brokers[controller.broker_id].endpoints:
        if endpoint.listener == settings.inter_broker_listener_name:
            return endpoint, brokers[settings.node_id].epoch
    raise LookupError(f"controller {controller.broker_id} has no listener {settings.inter_broker_listener_name}")


class IsrKeeperActor(FlowActor):
    """This actor writes ISR changes to ZooKeeper and notifies the controller of them; each broker has one."""

    def __init__(self) -> None:
        super().__init__()
        self._metrics: ActorAddress | None = None
        self._wanted: list[tuple[ActorAddress, partition.ChangeIsr]] = []
        """Changes without an outcome, those in flight first."""
        self._changed: dict[TopicPartition, None] = {}
        self._last_change = 0.0
        self._last_notification = 0.0
        self._looking = False
        self._watching: dict[float, list[ActorAddress]] = {}
        """The leaders to remind, by time in seconds."""
        self._settings: NodeSettings | None = None
        """The settings if the controller writes the changes (rule 6)."""
        self._controller: tuple[Endpoint, int] | None = None
        """The controller's endpoint and the own broker epoch; None if they must be read."""
        self._correlation_id = 0

    def receiveMsg_StartIsrKeeper(self, message: StartIsrKeeper, sender: ActorAddress) -> None:
        """Set the bridge and the metrics gateway; the 5 s and the 60 s of rule 3 start now."""
        self.peers = {"bridge": message.bridge, "network": message.network}
        self._metrics = message.metrics
        if message.settings is not None and at_least(message.settings.inter_broker_protocol_version, BY_CONTROLLER):
            self._settings = message.settings
        self._last_change = self._last_notification = self.now

    def receiveMsg_ChangeIsr(self, message: partition.ChangeIsr, sender: ActorAddress) -> None:
        """Queue a leader's ISR change (rule 1)."""
        self._wanted.append((sender, message))
        if len(self._wanted) == 1:
            self.send(self.myAddress, partition.WriteIsrChanges())

    def receiveMsg_ScheduleFollowerCheck(self, message: partition.ScheduleFollowerCheck, sender: ActorAddress) -> None:
        """Schedule CheckFollowers to these leaders at the given time (rule 4)."""
        if message.at not in self._watching:
            self._watching[message.at] = []
            self.wake_at(message.at, partition.CheckFollowers(message.at))
        self._watching[message.at] += message.leaders

    def flow(self, message: Message) -> Flow[None] | None:
        """Write the pending ISRs, or check whether to notify the controller."""
        match message:
            case partition.WriteIsrChanges() | WakeupMessage(payload=partition.WriteIsrChanges()):
                return self._write()
            case Ask(id, partition.DropIsrChanges(partitions)):
                self._drop(frozenset(partitions))
                self.send(self.sender, Answer(id, Done()))
                return None
            case WakeupMessage(payload=partition.CheckFollowers() as reminder):
                return self._remind(reminder)
            case WakeupMessage():
                self._looking = False
                return self._notify_if_due()
        return super().flow(message)

    def _drop(self, partitions: frozenset[TopicPartition]) -> None:
        """Drop the changes of these partitions (rule 5).

        When this runs, no write is in flight: the last one has succeeded, failed or been queued again.
        """
        self._wanted = [(leader, change) for leader, change in self._wanted if change.partition not in partitions]

    def _remind(self, reminder: partition.CheckFollowers) -> Flow[None]:
        """Send CheckFollowers to the leaders that are due at this time, in slices (rule 4)."""

        def remind(leaders: Sequence[ActorAddress]) -> None:
            for leader in leaders:
                self.send(leader, reminder)

        yield from for_each(self._watching.pop(reminder.at), remind, LEADERS_AT_ONCE)

    def _write(self) -> Flow[None]:
        """Write the queued changes in slices."""
        while self._wanted:
            wanted = self._wanted[:SLICE]
            if not (yield from self._write_some(wanted)):
                self.wakeupAfter(timedelta(seconds=AGAIN_SECONDS), partition.WriteIsrChanges())
                return
            self._wanted = self._wanted[len(wanted) :]

    def _write_some(self, wanted: list[tuple[ActorAddress, partition.ChangeIsr]]) -> Flow[bool]:
        """Write these changes and send their outcomes; return False if the outcomes are unknown."""
        if self._settings is not None:
            versions = yield from self._ask_controller(self._settings, [change for _, change in wanted])
        else:
            versions = yield from self._write_to_zookeeper(wanted)
        if versions is None:
            probe("the outcome of an ISR change is unknown")
            return False
        outcomes = list(zip(wanted, versions, strict=True))
        counted = Counter(_outcome(change, version >= 0) for (_, change), version in outcomes)
        if self._metrics is not None:
            self.send(self._metrics, Counts(tuple(Count(kind, times) for kind, times in counted.items())))
        for (leader, change), version in outcomes:
            self.send(leader, partition.IsrChanged(change.leader_epoch, change.number, version))
            if version >= 0 and self._settings is None:
                self._changed[change.partition] = None
                self._last_change = self.now
        self._schedule_check()
        return True

    def _write_to_zookeeper(self, wanted: list[tuple[ActorAddress, partition.ChangeIsr]]) -> Flow[list[int] | None]:
        """Write changes to ZooKeeper; return the new versions of the znodes, None if the outcomes are unknown."""
        states = tuple(
            Leadership(
                change.partition,
                LeaderIsrAndControllerEpoch(
                    change.leader, change.leader_epoch, change.isr, change.controller_epoch, change.zk_version
                ),
            )
            for _, change in wanted
        )
        try:
            written = yield from ask(UpdatePartitionStates(states, None))
        except AskFailed as error:
            log.warning("Failed to write %d ISR changes, retrying: %s", len(wanted), error)
            return None
        return [result.zk_version if result.code == OK else REFUSED for result in written.results]

    def _ask_controller(self, settings: NodeSettings, wanted: list[partition.ChangeIsr]) -> Flow[list[int] | None]:
        """Let the controller write changes (rule 6); return the new versions, None if the request must be repeated."""
        newest = {change.partition: change for change in wanted}
        try:
            if self._controller is None:
                self._controller = yield from find_controller(settings)
            endpoint, broker_epoch = self._controller
        except (AskFailed, LookupError) as error:
            log.warning("Failed to find the controller for %d ISR changes, retrying: %s", len(wanted), error)
            return None
        states = tuple(
            IsrOfPartition(each.partition, each.leader_epoch, each.isr, each.zk_version) for each in newest.values()
        )
        self._correlation_id += 1
        outcome = yield from ask(
            Transmit(
                *(CHANNEL, endpoint, self._correlation_id, f"broker-{settings.node_id}-alter-partition"),
                AlterPartitionRequest(ALTER_PARTITION_VERSION, settings.node_id, broker_epoch, states),
                settings.controller_socket_timeout_ms / 1000,
            )
        )
        response = outcome.response if isinstance(outcome, Received) else outcome
        altered = {each.partition: each for each in getattr(response, "partitions", ())}
        again = [each for each in altered.values() if each.error_code not in FINAL]
        is_whole = isinstance(response, AlterPartitionResponse) and altered.keys() == newest.keys()
        if not is_whole or again:
            self._controller = None
            log.warning("The controller did not change %d ISRs, retrying: %s", len(wanted), response)
            return None
        return [
            _version(altered[change.partition]) if newest[change.partition] is change else REFUSED for change in wanted
        ]

    def _notify_if_due(self) -> Flow[None]:
        """Notify the controller of changed ISRs if it is time (rule 3)."""
        quiet = self._last_change + QUIET_SECONDS < self.now
        if self._changed and (quiet or self._last_notification + LONGEST_SECONDS < self.now):
            partitions, self._changed = tuple(self._changed), {}
            try:
                yield from ask(NotifyIsrChange(partitions))
                self._last_notification = self.now
            except AskFailed as error:
                log.warning("Failed to notify the controller of ISR changes, retrying: %s", error)
                self._changed = dict.fromkeys(partitions) | self._changed
        self._schedule_check()

    def _schedule_check(self) -> None:
        """Check again at the next multiple of 2.5 s, while there are changes to propagate."""
        if self._changed and not self._looking:
            self._looking = True
            self.wake_at(self.now + LOOK_SECONDS - self.now % LOOK_SECONDS)
