"""IsrKeeperActor writes the ISR changes of all leaders of this broker to ZooKeeper (broker.md 3.3, 3.4).

Rule 1: leaders' changes are gathered while a write is under way, and written together. Each is independent: the
        znode must have the version that its leader knows.
Rule 2: a leader receives the outcome: the new version, or -1 if the write was refused. While it is unknown, because
        the session was lost, nothing is sent, and the write is retried: the leader must count the replicas that
        ZooKeeper may have admitted (broker.md 3.3; what is written already is found to be ours).
Rule 3: the controller hears of changes by a notification: when they have been quiet for 5 s, or the last notification
        is more than 60 s ago; looked at every 2.5 s. One notification names every partition once.
Rule 4: leaders whose followers are behind are reminded of it every half lag, all at the same moments, some at a time
        (broker.md 3.3). Were each to set a timer, all would be due at once, and other actors would wait.
Rule 5: writes of a deleted partition are dropped, and the replica manager is answered after the write in flight: the
        znode of a topic that is created again has the version that the old write expects.

Kafka: `ZkIsrManager`, `ReplicaManager.maybePropagateIsrChanges`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from thespian.actors import ActorAddress, WakeupMessage

from actors.runtime import FlowActor
from messages.cluster import LeaderIsrAndControllerEpoch, Leadership, TopicPartition
from messages.conversation import SLICE, Answer, Ask, AskFailed, Done, Flow, ask, in_slices
from messages.metrics import Count, Counts
from messages.node import StartIsrKeeper
from messages.partition import (
    ChangeIsr,
    CheckFollowers,
    DropIsrChanges,
    IsrChanged,
    ScheduleFollowerCheck,
    WriteIsrChanges,
)
from messages.probes import probe
from messages.store import OK
from messages.vocabulary import Message
from messages.zookeeper import NotifyIsrChange, UpdatePartitionStates

log = logging.getLogger("kafka.cluster.Partition")

LEADERS_AT_ONCE = 50
"""Leaders reminded before others of the node get their turn."""

LOOK_SECONDS = 2.5
QUIET_SECONDS = 5.0
LONGEST_SECONDS = 60.0
AGAIN_SECONDS = 1.0

COUNTERS = EXPANDS, SHRINKS, FAILED = tuple(
    f"kafka_server_replicamanager_{what}_total" for what in ("isrexpands", "isrshrinks", "failedisrupdates")
)
"""What is counted of writes of ISRs (conventions.md 7)."""

REFUSED = -1


def _outcome(change: ChangeIsr, written: bool) -> str:
    """Which counter a write counts for."""
    return FAILED if not written else EXPANDS if change.grows else SHRINKS


class IsrKeeperActor(FlowActor):
    """This actor writes ISR changes to ZooKeeper and notifies the controller of them; each broker has one."""

    def __init__(self) -> None:
        super().__init__()
        self._metrics: ActorAddress | None = None
        self._wanted: list[tuple[ActorAddress, ChangeIsr]] = []
        """Changes without an outcome, those in flight first."""
        self._changed: dict[TopicPartition, None] = {}
        self._last_change = 0.0
        self._last_notification = 0.0
        self._looking = False
        self._watching: dict[float, list[ActorAddress]] = {}
        """Whom to remind, by the moment."""

    def receiveMsg_StartIsrKeeper(self, message: StartIsrKeeper, sender: ActorAddress) -> None:
        """Learn who writes to ZooKeeper; both clocks of rule 3 start now."""
        self.peers = {"bridge": message.bridge}
        self._metrics = message.metrics
        self._last_change = self._last_notification = self.now

    def receiveMsg_ChangeIsr(self, message: ChangeIsr, sender: ActorAddress) -> None:
        """A leader wants another ISR (rule 1)."""
        self._wanted.append((sender, message))
        if len(self._wanted) == 1:
            self.send(self.myAddress, WriteIsrChanges())

    def receiveMsg_ScheduleFollowerCheck(self, message: ScheduleFollowerCheck, sender: ActorAddress) -> None:
        """Leaders want to be reminded (rule 4)."""
        if message.at not in self._watching:
            self._watching[message.at] = []
            self.wake_at(message.at, CheckFollowers(message.at))
        self._watching[message.at] += message.leaders

    def flow(self, message: Message) -> Flow[None] | None:
        """Write the pending ISRs, or check whether to notify the controller."""
        match message:
            case WriteIsrChanges() | WakeupMessage(payload=WriteIsrChanges()):
                return self._write()
            case Ask(id, DropIsrChanges(partitions)):
                self._drop(frozenset(partitions))
                self.send(self.sender, Answer(id, Done()))
                return None
            case WakeupMessage(payload=CheckFollowers() as reminder):
                return self._remind(reminder)
            case WakeupMessage():
                self._looking = False
                return self._look()
        return super().flow(message)

    def _drop(self, partitions: frozenset[TopicPartition]) -> None:
        """Rule 5. As an event it comes after the write in flight, which succeeds, fails, or is queued again."""
        self._wanted = [(leader, change) for leader, change in self._wanted if change.partition not in partitions]

    def _remind(self, reminder: CheckFollowers) -> Flow[None]:
        """Rule 4."""

        def tell(leaders: Sequence[ActorAddress]) -> None:
            for leader in leaders:
                self.send(leader, reminder)

        yield from in_slices(tell, self._watching.pop(reminder.at), LEADERS_AT_ONCE)

    def _write(self) -> Flow[None]:
        """Write what is wanted, a slice at a time."""
        while self._wanted:
            wanted = self._wanted[:SLICE]
            if not (yield from self._write_some(wanted)):
                self.wakeupAfter(timedelta(seconds=AGAIN_SECONDS), WriteIsrChanges())
                return
            self._wanted = self._wanted[len(wanted) :]

    def _write_some(self, wanted: list[tuple[ActorAddress, ChangeIsr]]) -> Flow[bool]:
        """Whether it could be said what became of these."""
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
            self.send(leader, IsrChanged(change.leader_epoch, change.number, version))
            if result.code == OK:
                self._changed[change.partition] = None
                self._last_change = self.now
        self._look_later()
        return True

    def _look(self) -> Flow[None]:
        """Rule 3."""
        quiet = self._last_change + QUIET_SECONDS < self.now
        if self._changed and (quiet or self._last_notification + LONGEST_SECONDS < self.now):
            partitions, self._changed = tuple(self._changed), {}
            try:
                yield from ask(NotifyIsrChange(partitions))
                self._last_notification = self.now
            except AskFailed as error:
                log.warning("Failed to notify the controller of ISR changes, retrying: %s", error)
                self._changed = dict.fromkeys(partitions) | self._changed
        self._look_later()

    def _look_later(self) -> None:
        """Look at the next multiple of 2.5 s, while there are changes to propagate."""
        if self._changed and not self._looking:
            self._looking = True
            self.wake_at(self.now + LOOK_SECONDS - self.now % LOOK_SECONDS)
