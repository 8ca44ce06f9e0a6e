"""ISR changes of a broker: lag checks by one timer, grouped writes, notifications of the controller.

A deletion waits for the ISR writes of its partitions that are in flight.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from thespian.actors import ActorAddress

from actors.broker.isr_keeper import LEADERS_AT_ONCE, IsrKeeperActor
from actors.runtime import LocalBase, VirtualClock, local_system
from actors.runtime.trace.recorder import Recorder
from actors.runtime.trace.replayer import replay_directory
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest
from messages.ask import Answer, Ask, Done, Failure, SessionLost
from messages.cluster import TopicPartition
from messages.flow.conversation import SLICE
from messages.node import StartIsrKeeper
from messages.partition import ChangeIsr, DropIsrChanges
from messages.store import OK
from messages.vocabulary import Message
from messages.zookeeper import NotifyIsrChange, UpdatePartitionStates, WriteResult, WriteResults
from tests.broker.harness import CONTROLLER, Broker, order, settings
from tests.broker.test_replay import ACTORS

LAG = 30.0


def test_many_leaders_are_reminded_of_silent_followers_by_one_timer_some_at_a_time(tmp_path: Path) -> None:
    """broker.md 3.3: all silent followers leave the ISR at the first check after the lag.

    One timer reminds the leaders in groups, so other actors wait behind few messages only.
    """
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
    """Run the ISR keeper alone on virtual time.

    ZooKeeper accepts each write, or holds back its answers if `holds`. The first `failing` notifications fail.
    """

    def __init__(self, holds: bool = False, failing: int = 0) -> None:
        self.holds = holds
        self.failing = failing
        self.held: list[tuple[ActorAddress, int]] = []
        self.written: list[TopicPartition] = []
        self.base = LocalBase(clock=VirtualClock())
        self.bridge = self.base.external_endpoint("bridge", self._asked)
        self.leader = self.base.external_endpoint("leader", lambda message, sender: None)
        self.notified: list[tuple[int, tuple[TopicPartition, ...]]] = []
        """(time in ms, partitions) of each notification."""
        self.keeper = local_system(self.base).createActor(IsrKeeperActor)
        self.base.inject(self.keeper, StartIsrKeeper(self.bridge))
        self.base.run()

    def _asked(self, message: Ask, sender: ActorAddress) -> None:
        question = message.question
        answer: Message = Done()
        if isinstance(question, UpdatePartitionStates):
            answer = WriteResults(tuple(WriteResult(partition, OK, 1) for partition, _ in question.states))
            self.written += [partition for partition, _ in question.states]
            if self.holds:
                self.held.append((sender, message.id))
                return
        elif isinstance(question, NotifyIsrChange):
            self.notified.append((round(self.base.clock.now() * 1000), question.partitions))
            if len(self.notified) <= self.failing:
                answer = Failure(SessionLost.__name__, "session 0x1 expired")
        self.base.inject(sender, Answer(message.id, answer), self.bridge)

    def lose_session(self) -> None:
        """Fail the oldest held write with a lost ZooKeeper session."""
        asker, id = self.held.pop(0)
        self.base.inject(asker, Answer(id, Failure(SessionLost.__name__, "session 0x1 expired")), self.bridge)
        self.base.run()

    def change(self, at_ms: int, partition: int = 0) -> None:
        """Let a leader change its ISR at this time."""
        self.base.simulate(at_ms / 1000)
        self.base.inject(self.keeper, ChangeIsr(TopicPartition("t", partition), 1, 0, 1, 1, (0,), 0), self.leader)
        self.base.run()


@pytest.mark.parametrize(
    ("changes_ms", "notified_ms"),
    [((0,), 7_500), ((2_499,), 7_500), (tuple(range(0, 120_000, 4_000)), 62_500), ((61_000,), 62_500)],
)
def test_row_67_the_controller_is_notified_after_a_quiet_interval_or_a_minute(
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


def test_a_failed_notification_of_the_controller_is_sent_again_with_later_changes() -> None:
    keeper = Keeper(failing=1)
    keeper.change(0)
    keeper.base.simulate(8)
    keeper.change(8_000, 1)
    keeper.base.simulate(20)
    assert [partitions for _, partitions in keeper.notified] == [
        (TopicPartition("t", 0),),
        (TopicPartition("t", 0), TopicPartition("t", 1)),
    ]
    keeper.base.shutdown()


class HeldWrites(Broker):
    """Hold the ISR writes of a broker until the test answers them."""

    def __init__(self, *log_dirs: Path, **fields: Any) -> None:
        self.held: list[tuple[ActorAddress, Ask]] = []
        super().__init__(*log_dirs, **fields)

    def _asked(self, message: Ask, sender: ActorAddress) -> None:
        if isinstance(message.question, UpdatePartitionStates):
            self.held.append((sender, message))
        else:
            super()._asked(message, sender)

    def shrink(self, *numbers: int) -> None:
        """Lead these partitions of t until the silent follower leaves the ISR."""
        self.lead(*(order("t", number, isr=(0, 1), replicas=(0, 1), is_new=True) for number in numbers))
        self.base.simulate(self.clock.now() + 1.5 * LAG + 0.1)

    def end_write(self, lost: bool) -> None:
        """Answer the oldest held write: with a lost session, or with success."""
        asker, ask = self.held.pop(0)
        result: Message = Failure(SessionLost.__name__, "session 0x1 expired")
        if not lost:
            assert isinstance(ask.question, UpdatePartitionStates)
            states = ask.question.states
            result = WriteResults(
                tuple(WriteResult(partition, OK, state.zk_version + 1) for partition, state in states)
            )
        self.base.inject(asker, Answer(ask.id, result), self._bridge)
        self.run()

    def delete(self, *numbers: int) -> int:
        """Send StopReplica with delete for these partitions of t and return its correlation id."""
        states = tuple(StopReplicaPartitionState(TopicPartition("t", number), -2, True) for number in numbers)
        id = self.post(StopReplicaRequest(3, CONTROLLER, 1, -1, states))
        self.run()
        return id

    def answered(self, id: int) -> bool:
        return any(answer.correlation_id == id for answer in self.answers)


@pytest.mark.parametrize("still_leads", [False, True])
@pytest.mark.parametrize("lost", [False, True])
def test_no_isr_write_of_a_deleted_partition_reaches_the_next_topic_of_its_name(
    tmp_path: Path, lost: bool, still_leads: bool
) -> None:
    """A recreated topic's znode has version 0 again, which the old write expects.

    Kafka's StopReplica waits for the partition's lock, which is held during the write.
    """
    clock = VirtualClock()
    recorder = Recorder(str(tmp_path / "trace"), 0, ("broker",), settings(tmp_path / "data"), now=clock.now)
    broker = HeldWrites(tmp_path / "data", clock=clock, observer=recorder)
    broker.run()
    broker.shrink(0, 1)
    assert len(broker.held) == 1
    if not still_leads:
        broker.lead(order("t", 0, leader=1, epoch=1, isr=(1, 0), replicas=(1, 0)))
    id = broker.delete(0)
    assert not broker.answered(id), "the write in flight may still pass"
    broker.end_write(lost)
    assert broker.answered(id)
    broker.base.simulate(broker.clock.now() + 10)
    again = [partition for _, ask in broker.held for partition, _ in ask.question.states]  # type: ignore[attr-defined]
    assert again == ([TopicPartition("t", 1)] if lost else []), "only the partition that is left is written again"
    broker.end()
    recorder.close()
    (run,) = replay_directory(tmp_path / "trace", ACTORS).runs
    assert run.ok, run.divergence


def test_a_queued_isr_write_of_a_deleted_partition_is_dropped() -> None:
    """The queued write waits behind a write in flight, whose ZooKeeper session is lost."""
    keeper = Keeper(holds=True)
    for partition in range(3):
        keeper.change(0, partition)
    answers: list[Answer] = []
    manager = keeper.base.external_endpoint("manager", lambda message, sender: answers.append(message))
    keeper.base.inject(keeper.keeper, Ask(7, DropIsrChanges((TopicPartition("t", 0), TopicPartition("t", 1)))), manager)
    keeper.base.run()
    assert not answers
    keeper.lose_session()
    assert answers == [Answer(7, Done())]
    keeper.base.simulate(10)
    assert keeper.written == [TopicPartition("t", 0), TopicPartition("t", 2)]
    keeper.base.shutdown()


def test_a_deletion_without_isr_writes_waits_for_none(tmp_path: Path) -> None:
    """A deletion waits only for ISR writes of its own partitions.

    Without any, it also works while ZooKeeper is down.
    """
    broker = HeldWrites(tmp_path)
    broker.run()
    broker.shrink(0)
    broker.end_write(lost=False)
    broker.shrink(1)
    assert broker.answered(broker.delete(0)), "its write has ended, that of t-1 has not"
    broker.end()
