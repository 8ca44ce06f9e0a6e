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

Kafka: `ZkIsrManager`, `ReplicaManager.maybePropagateIsrChanges`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from thespian.actors import ActorAddress, WakeupMessage

from actors.runtime import FlowActor
from messages import partition
from messages.ask import Answer, Ask, AskFailed, Done
from messages.cluster import LeaderIsrAndControllerEpoch, Leadership, TopicPartition
from messages.flow.conversation import SLICE, Flow, ask, for_each
from messages.metrics import Count, Counts
from messages.node import StartIsrKeeper
from messages.probes import probe
from messages.store import OK
from messages.vocabulary import Message
from messages.zookeeper import NotifyIsrChange, UpdatePartitionStates

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


def _outcome(change: partition.ChangeIsr, written: bool) -> str:
    """Return the name of the counter to increase after a write: failed, expanded or shrunk."""
    return FAILED if not written else EXPANDS if change.grows else SHRINKS


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

    def receiveMsg_StartIsrKeeper(self, message: StartIsrKeeper, sender: ActorAddress) -> None:
        """Set the bridge and the metrics gateway; the 5 s and the 60 s of rule 3 start now."""
        self.peers = {"bridge": message.bridge}
        self._metrics = message.metrics
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
            probe("the outcome of an ISR change is unknown")
            log.warning("Failed to write %d ISR changes, retrying: %s", len(wanted), error)
            return False
        outcomes = zip(wanted, written.results, strict=True)
        counted = Counter(_outcome(change, result.code == OK) for (_, change), result in outcomes)
        if self._metrics is not None:
            self.send(self._metrics, Counts(tuple(Count(kind, times) for kind, times in counted.items())))
        for (leader, change), result in zip(wanted, written.results, strict=True):
            version = result.zk_version if result.code == OK else REFUSED
            self.send(leader, partition.IsrChanged(change.leader_epoch, change.number, version))
            if result.code == OK:
                self._changed[change.partition] = None
                self._last_change = self.now
        self._schedule_check()
        return True

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
