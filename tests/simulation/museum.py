"""The museum: Kafka's old bugs, each as a patch that puts it into our code, and a schedule on which it goes wrong.

Rule: a patch belongs to a test, never to the product. `put` takes pytest's monkeypatch; the schedule is as small as if
the shrinker had cut it down. `python -m tests.simulation.museum` says after how many seeds each is met.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from actors.core.controller import brokers, deletion_plan, failover, leadership, reassignment
from actors.core.controller.context import ControllerContext
from actors.core.controller.events import HANDLERS
from actors.simulation.deeds import FAULTS, invent
from actors.simulation.run import run
from actors.simulation.schedule import Schedule, parse
from messages.cluster import LeaderIsrAndControllerEpoch
from messages.conversation import Flow
from messages.events import BrokerChange, BrokerModifications
from messages.zookeeper import Brokers
from zk_bridge import partition_states


@attrs.frozen
class Incident:
    """A bug that Kafka had: where it is told, what puts it in, the invariant that it breaks, and on which schedule.

    `seeds` is after how many seeds, from 0 on, the simulation meets it by itself (as measured once).
    """

    name: str
    jira: str
    put: Callable[[pytest.MonkeyPatch], None]
    breaks: str
    seeds: int
    schedule: str


# ---------------------------------------------------------------------------------------------------- the bugs


def _unfenced(patch: pytest.MonkeyPatch) -> None:
    """Writes of states do not look at the controller's epoch, nor whose state it is."""
    patch.setattr(partition_states, "fence", lambda epoch_zk_version: ())


def _unseen(patch: pytest.MonkeyPatch) -> None:
    """A broker that is registered again counts as the same one."""
    right = brokers.changed

    def changed(context: ControllerContext, event: Any) -> Flow[None]:
        flow = right(context, event)
        step = next(flow)
        while True:
            answer = yield step
            if isinstance(answer, Brokers):
                known = context.brokers
                found = [attrs.evolve(each, epoch=known.get(each.id, each).epoch) for each in answer.brokers]
                answer = attrs.evolve(answer, brokers=tuple(found))
            try:
                step = flow.send(answer)
            except StopIteration:
                return

    patch.setitem(HANDLERS, BrokerChange, changed)
    patch.setitem(HANDLERS, BrokerModifications, lambda context, event: None)


def _in_name_only(patch: pytest.MonkeyPatch) -> None:
    """Who resigns leaves /controller as it is."""

    def clear(context: ControllerContext, current: Any) -> Flow[Any]:
        yield from ()
        return current

    patch.setattr(failover, "_clear", clear)


def _stale_epochs(patch: pytest.MonkeyPatch) -> None:
    """The epoch that a reassignment raises is written, and not remembered."""
    right = leadership.write_states

    def write(context: ControllerContext, updates: Any, failures: Any) -> Flow[Any]:
        before = dict(context.leadership)
        written = yield from right(context, updates, failures)
        context.leadership.clear()
        context.leadership.update(before)
        return written

    patch.setattr(reassignment, "write_states", write)


def _left_behind(patch: pytest.MonkeyPatch) -> None:
    """What was reassigned stays in /admin/reassign_partitions."""

    def forget(context: ControllerContext, requests: Any) -> Flow[None]:
        yield from ()

    patch.setattr(reassignment, "_forget", forget)


def _stuck(patch: pytest.MonkeyPatch) -> None:
    """A broker that dies under a deletion is nobody's concern."""

    def fail(context: ControllerContext, replicas: Any) -> Flow[None]:
        yield from ()

    patch.setattr(deletion_plan, "fail", fail)


def _meeting(patch: pytest.MonkeyPatch) -> None:
    """A topic that is to be deleted gets no leaders, though a reassignment holds its deletion up."""
    patch.setattr(ControllerContext, "is_dying", lambda self, partition: partition.topic in self.queued)


def _superset(patch: pytest.MonkeyPatch) -> None:
    """The ISR that the controller remembers is written over what the leader has made of it."""
    right = leadership.read_states

    def read(context: ControllerContext, partitions: Any, failures: Any) -> Flow[Any]:
        states = yield from right(context, partitions, failures)
        for partition, state in states.items():
            known = context.leadership.get(partition)
            if known is not None:
                states[partition] = LeaderIsrAndControllerEpoch(
                    state.leader, state.leader_epoch, known.isr, state.controller_epoch, state.zk_version
                )
        return states

    for module in ("partition_state_machine", "replica_state_machine", "reassignment"):
        patch.setattr(f"actors.core.controller.{module}.read_states", read)


INCIDENTS: tuple[Incident, ...] = (
    Incident(
        *("zombie writes", "KAFKA-6082", _unfenced, "only the controller elects", 54),
        "2 create a 0 0\n3 reassign a 1 0\n3 move-controller",
    ),
    Incident(
        *("unseen bounce", "KAFKA-7235", _unseen, "the controller knows", 8),
        "2 create a 0,1 2,0\n4 slow 1 zk 1 for 3\n4.5 expire 0",
    ),
    Incident(
        *("controller in name only", "KAFKA-13407", _in_name_only, "everybody is there", 163),
        "2 put /controller_epoch 2\n4 create a 0,1",
    ),
    Incident(
        *("stale metadata by an old epoch", "KAFKA-9212", _stale_epochs, "what is told never goes back", 1),
        "2 create a 0,1\n4 ask-reassign a 0 1,0",
    ),
    Incident(
        *("reassignment znode left behind", "KAFKA-9478", _left_behind, "nothing is left waiting", 1),
        "2 create a 0,1\n4 reassign a 0 2,1",
    ),
    Incident(
        *("deletion stuck by a broker's death", "KAFKA-10548", _stuck, "the deleted is gone", 4),
        "2 create a 0,1,2\n3.9 pause 0 for 20\n4 delete a",
    ),
    Incident(
        *("deletion and reassignment meet", "KAFKA-8249", _meeting, "the deleted is gone", 32),
        "1 create a 1 1 1\n2 reassign a 2 0,1,2\n2.1 kill 1 for 0.001\n2.1 delete a",
    ),
    Incident(
        *("ISR superset", "KAFKA-9672", _superset, "only a leader enlarges the ISR", 1),
        "records yes\n2 create a 0,1,2\n6 cut 0 2 for 22\n22 roll 0 for 5",
    ),
)

PARTS = tuple(part for part in FAULTS if part != "disk")


def scenario(incident: Incident) -> Schedule:
    """The schedule on which the bug shows."""
    return parse(f"brokers 3\nduration 30\nsteady yes\n{incident.schedule}")


def seeds_until_met(incident: Incident, most: int = 1000) -> int | None:
    """After how many seeds the simulation meets the bug, when it is put in; None where so many are not enough."""
    with pytest.MonkeyPatch.context() as patch:
        incident.put(patch)
        for seed in range(most):
            if run(invent(seed, faults=PARTS, records="records yes" in incident.schedule)).violation is not None:
                return seed + 1
    return None


if __name__ == "__main__":
    for each in INCIDENTS:
        print(f"{each.name}: {seeds_until_met(each)}", flush=True)
