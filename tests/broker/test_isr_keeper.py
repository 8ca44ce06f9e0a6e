"""Many leaders whose followers are silent: one timer, reminders some at a time, writes some at a time."""

from __future__ import annotations

from pathlib import Path

from actors.broker.isr_keeper import LEADERS_AT_ONCE
from messages.conversation import SLICE
from messages.zookeeper import UpdatePartitionStates
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
    assert queued <= 2 * LEADERS_AT_ONCE + 2, "those reminded, and what they say"
    broker.base.simulate(1.5 * LAG + 0.1)
    [write] = [question for question in broker.questions if isinstance(question, UpdatePartitionStates)]
    assert len(write.states) == SLICE
    assert {leadership.isr for _, leadership in write.states} == {(0,)}
    broker.base.shutdown()
