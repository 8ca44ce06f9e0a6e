"""Many leaders whose followers are silent: one timer, reminders some at a time, writes some at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from thespian.actors import ActorAddress

from actors.broker.isr_keeper import LEADERS_AT_ONCE, IsrKeeperActor
from actors.runtime import LocalBase, VirtualClock, local_system
from messages.cluster import TopicPartition
from messages.conversation import SLICE, Answer, Ask, Done
from messages.node import StartIsrKeeper
from messages.partition import ChangeIsr
from messages.store import OK
from messages.vocabulary import Message
from messages.zookeeper import NotifyIsrChange, UpdatePartitionStates, WriteResult, WriteResults
from tests.broker.harness import Broker, order

LAG = 30.0


def test_many_leaders_are_reminded_of_silent_followers_by_one_timer_some_at_a_time(tmp_path: Path) -> None:
    """broker.md 3.3: all go out of sync by the look after the lag; nobody else waits for more than a few of them."""
    broker = Broker(tmp_path)
    broker.run()
    count = SLICE + 2 * LEADERS_AT_ONCE
    broker.lead(*(order("t", number, isr=(0, 1), replicas=(0, 1), is_new=True) for number in range(count)))
    broker.base.simulate(LAG / 2 - 0.01)
    looks = [timer for timer in broker.base.timers if timer.receiver == broker.isr_keeper]
    assert len(looks) == 1
    assert broker.base.pending_timers < 10
    queued = 0
    broker.clock.advance_to(looks[0].due)
    while broker.base.run(1) == 0.0:
        queued = max(queued, broker.base.queued)
    assert queued <= 3 * LEADERS_AT_ONCE + 2, "those reminded, and the two things that each of them says"
    broker.base.simulate(1.5 * LAG + 0.1)
    [write] = [question for question in broker.questions if isinstance(question, UpdatePartitionStates)]
    assert len(write.states) == SLICE
    assert {leadership.isr for _, leadership in write.states} == {(0,)}
    broker.end()


class Keeper:
    """The keeper alone on virtual time; ZooKeeper grants everything."""

    def __init__(self) -> None:
        self.base = LocalBase(clock=VirtualClock())
        self.bridge = self.base.outsider("bridge", self._asked)
        self.leader = self.base.outsider("leader", lambda message, sender: None)
        self.notified: list[tuple[int, tuple[TopicPartition, ...]]] = []
        """(when, in ms, of which partitions)"""
        self.keeper = local_system(self.base).createActor(IsrKeeperActor)
        self.base.inject(self.keeper, StartIsrKeeper(self.bridge))
        self.base.run()

    def _asked(self, message: Ask, sender: ActorAddress) -> None:
        question = message.question
        answer: Message = Done()
        if isinstance(question, UpdatePartitionStates):
            answer = WriteResults(tuple(WriteResult(partition, OK, 1) for partition, _ in question.states))
        elif isinstance(question, NotifyIsrChange):
            self.notified.append((round(self.base.clock.now() * 1000), question.partitions))
        self.base.inject(sender, Answer(message.id, answer), self.bridge)

    def change(self, at_ms: int, partition: int = 0) -> None:
        """A leader changes its ISR at that time."""
        self.base.simulate(at_ms / 1000)
        self.base.inject(self.keeper, ChangeIsr(TopicPartition("t", partition), 1, 0, 1, 1, (0,), 0), self.leader)
        self.base.run()


@pytest.mark.parametrize(
    ("changes_ms", "notified_ms"),
    [((0,), 7_500), ((2_499,), 7_500), (tuple(range(0, 120_000, 4_000)), 62_500), ((61_000,), 62_500)],
)
def test_row_67_the_controller_hears_when_it_is_quiet_or_after_a_minute(
    changes_ms: tuple[int, ...], notified_ms: int
) -> None:
    keeper = Keeper()
    for number, at in enumerate(changes_ms):
        keeper.change(at, number % 2)
    keeper.base.simulate(changes_ms[-1] / 1000 + 10)
    when, partitions = keeper.notified[0]
    assert when == notified_ms
    assert list(partitions) == sorted({TopicPartition("t", number % 2) for number in range(len(changes_ms))})
    keeper.base.shutdown()
