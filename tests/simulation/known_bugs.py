"""The museum: Kafka's old bugs, each as a patch that puts it into our code, and a schedule on which it goes wrong.

Rule: a patch belongs to a test, never to the product. `put` takes pytest's monkeypatch; the schedule is as small as if
the shrinker had cut it down. `python -m tests.simulation.known_bugs` says after how many seeds each is met.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import attrs
import pytest

from actors.broker import partition as broker_partition
from actors.controller.controller import ControllerActor
from actors.core.broker import partition as core_partition
from actors.core.broker.replica_manager import Epochs
from actors.core.controller import (
    brokers,
    deletion_plan,
    failover,
    leader_balance,
    leadership,
    reassignment,
    replica_state_machine,
    topics,
)
from actors.core.controller.context import ControllerContext
from actors.core.controller.events import HANDLERS
from actors.core.controller.instructions import Enqueue
from actors.core.controller.states import PartitionState
from actors.simulation.actions import ABSENT, FAULTS, invent
from actors.simulation.run import run
from actors.simulation.schedule import Schedule, parse
from actors.storage.logs import _Directory
from messages.cluster import LeaderIsrAndControllerEpoch
from messages.conversation import Done, Failure, Flow, SessionLost, ask
from messages.errors import NONE
from messages.events import (
    AutoPreferredReplicaLeaderElection,
    BrokerChange,
    BrokerModifications,
    PartitionModifications,
    TopicDeletion,
)
from messages.requests import LeaderAndIsrRequest
from messages.store import DELETE, NO_NODE, WriteOp
from messages.zookeeper import Brokers, ResignController
from zk_bridge import partition_states, paths
from zk_bridge.conversations import transact
from zk_bridge.questions import CONVERSATIONS


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
    faults: tuple[str, ...] = ()
    """What is done besides `PARTS` while the seeds are counted."""


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


def _halted(patch: pytest.MonkeyPatch) -> None:
    """The deletion of a topic waits until no partition of it is being reassigned."""
    right = topics.deletion_requested

    def requested(context: ControllerContext, event: Any) -> Flow[None]:
        if context.reassigning:
            yield Enqueue(event, 1.0)
        else:
            yield from right(context, event)

    patch.setitem(HANDLERS, TopicDeletion, requested)


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


def _deadlocked(patch: pytest.MonkeyPatch) -> None:
    """An event that hears of its session's end waits for the next one, and the end of the session behind the event."""
    right = ControllerActor._answered

    def answered(self: ControllerActor, question: int, result: Any) -> None:
        if not (isinstance(result, Failure) and result.name == SessionLost.__name__):
            right(self, question, result)

    patch.setattr(ControllerActor, "_answered", answered)
    patch.setattr(ControllerActor, "preempts", lambda self, message: False)


def _obedient(patch: pytest.MonkeyPatch) -> None:
    """A broker obeys whichever LeaderAndIsr comes, of whatever controller epoch and leader epoch."""
    right = Epochs.verdict

    def verdict(self: Epochs, request: Any) -> int:
        return NONE if isinstance(request, LeaderAndIsrRequest) else right(self, request)

    patch.setattr(Epochs, "verdict", verdict)
    patch.setattr(broker_partition, "role_verdict", lambda known, order: NONE)
    for module in (broker_partition, core_partition):
        patch.setattr(module, "is_superseded", lambda known, order: False)


def _growing(patch: pytest.MonkeyPatch) -> None:
    """Partitions that are added to a topic which is being deleted are led like any others."""
    right = topics.modified

    def modified(context: ControllerContext, event: Any) -> Flow[None]:
        queued, context.queued = context.queued, frozenset()
        yield from right(context, event)
        context.queued = queued

    patch.setitem(HANDLERS, PartitionModifications, modified)


def _untold(patch: pytest.MonkeyPatch) -> None:
    """Who died is told where nobody waits for a leader, whether or not anybody has got one."""
    right, announce = brokers.on_replicas_become_offline, brokers.announce
    silent: list[ControllerContext] = []

    def become_offline(context: ControllerContext, lost: Any) -> Flow[None]:
        waiting = [tp for tp, state in context.leadership.items() if not context.is_online(state.leader, tp)]
        silent.extend([context] * bool(waiting))
        yield from right(context, lost)
        silent.clear()

    def tell(context: ControllerContext, *args: Any) -> Flow[None]:
        if context not in silent:
            yield from announce(context, *args)

    patch.setattr(brokers, "on_replicas_become_offline", become_offline)
    patch.setattr(brokers, "announce", tell)


def _half_used(patch: pytest.MonkeyPatch) -> None:
    """A batch that was half full when its move of replicas broke off stays so: no move after it sends anything."""
    right = replica_state_machine._move
    dirty: WeakSet[ControllerContext] = WeakSet()

    def move(context: ControllerContext, *args: Any) -> Flow[int]:
        if context in dirty:
            return 0
        dirty.add(context)
        moved = yield from right(context, *args)
        dirty.discard(context)
        return moved

    patch.setattr(replica_state_machine, "_move", move)


def _starved(patch: pytest.MonkeyPatch) -> None:
    """While anything is being reassigned, nothing goes back to its preferred leader."""
    right = leader_balance.check

    def check(context: ControllerContext, event: Any) -> Flow[None]:
        flow = right(context, event)
        if not context.reassigning:
            yield from flow
        else:
            yield next(flow)

    patch.setitem(HANDLERS, AutoPreferredReplicaLeaderElection, check)


def _storming(patch: pytest.MonkeyPatch) -> None:
    """Whoever gives a term up deletes /controller, whoever's it is by then."""

    def resign_controller(question: Any) -> Any:
        yield from transact((WriteOp(DELETE, paths.CONTROLLER),), NO_NODE)
        return Done()

    def give_up(context: ControllerContext) -> Flow[None]:
        if context.active:
            yield from failover.resign(context)
            yield from ask(ResignController())

    patch.setitem(CONVERSATIONS, ResignController, resign_controller)
    for name in ("give_up", "deposed"):
        patch.setattr(failover, name, give_up)


def _haunted(patch: pytest.MonkeyPatch) -> None:
    """The states of a topic that somebody removes stay behind."""
    right = ControllerContext.remove_topics

    def remove(self: ControllerContext, names: Any) -> Flow[None]:
        gone = [tp for name in names for tp in self.topics.get(name, {}).values()]
        states = {tp: state for tp in gone if (state := self.partition_state(tp)) is not PartitionState.NON_EXISTENT}
        yield from right(self, names)
        self.partition_states.update(states)

    patch.setattr(ControllerContext, "remove_topics", remove)


def _remembered(patch: pytest.MonkeyPatch) -> None:
    """The checkpoints keep the lines of a deleted log until they are due."""
    patch.setattr(_Directory, "write_forgotten", lambda self: None)


INCIDENTS: tuple[Incident, ...] = (
    Incident(
        *("zombie writes", "KAFKA-6082", _unfenced, "only the controller elects", 19),
        "2 create a 0 0\n3 reassign a 1 0\n3 move-controller",
    ),
    Incident(
        *("unseen bounce", "KAFKA-7235", _unseen, "the controller knows", 6),
        "2 create a 0,1 2,0\n4 slow 1 zk 1 for 3\n4.5 expire 0",
    ),
    Incident(
        *("controller in name only", "KAFKA-13407", _in_name_only, "all members are present", 204),
        "2 put /controller_epoch 2\n4 create a 0,1",
    ),
    Incident(
        *("stale metadata by an old epoch", "KAFKA-9212", _stale_epochs, "sent epochs are monotonic", 1),
        "2 create a 0,1\n4 ask-reassign a 0 1,0",
    ),
    Incident(
        *("reassignment znode left behind", "KAFKA-9478", _left_behind, "nothing is left waiting", 1),
        "2 create a 0,1\n4 reassign a 0 2,1",
    ),
    Incident(
        *("deletion stuck by a broker's death", "KAFKA-10548", _stuck, "the deleted is gone", 1),
        "2 create a 0,1,2\n3.9 pause 0 for 20\n4 delete a",
    ),
    Incident(
        *("deletion waits for a reassignment", "trap T1, as Kafka meant it", _halted, "the deleted is gone", 1),
        "2 create a 0,1\n3 strand a 0 for 1",
        faults=(ABSENT,),
    ),
    Incident(
        *("ISR superset", "KAFKA-9672", _superset, "only a leader enlarges the ISR", 1),
        "records yes\n2 create a 0,1,2\n6 cut 0 2 for 22\n22 roll 0 for 5",
    ),
    Incident(
        *("deadlock with expiry", "KAFKA-8532", _deadlocked, "all members are present", 1),
        "4 slow 1 zk 1 for 8\n4.2 create a 0,1\n6 expire 1",
    ),
    Incident(
        *("old controller fences a leader", "KAFKA-14154", _obedient, "roles are ZooKeeper's", 2),
        "2 create a 0,1,2\n4 slow 1 0 4 for 5\n4 reassign a 0 1,0,2\n4.2 move-controller\n5 elect a 0",
    ),
    Incident(
        *("partitions added during deletion", "KAFKA-6612", _growing, "metadata are ZooKeeper's", 40),
        "validated no\n2 create a 0,1\n4 slow 1 0 2 for 20\n5 delete a\n6.5 grow a 2",
    ),
    Incident(
        *("UpdateMetadata of a dead leader", "KAFKA-13225", _untold, "who lives is known", 47),
        "2 create a 2\n4 kill 2 for 25\n14 kill 0 for 15",
    ),
    Incident(
        *("half-used batch", "trap T4", _half_used, "roles are ZooKeeper's", 255),
        "2 create a 0,1,2\n4 kill 2 for 8\n9.9 slow 1 zk 0.3 for 3\n10.8 move-controller\n16 kill 0 for 20\n"
        "16 kill 2 for 12",
    ),
    Incident(
        *("preferred election starved", "KAFKA-10149", _starved, "the preferred lead", 2),
        "set leader_imbalance_check_interval_seconds 3\n2 create a 0,1\n2 create b 1\n4 kill 0 for 4\n"
        "12 kill 2 for 15\n20 reassign b 0 2",
    ),
    Incident(
        *("switch storm", "KAFKA-6082", _storming, "controllers delete only their own znode", 19),
        "2 create a 0 0\n3 reassign a 1 0\n3 move-controller",
    ),
    Incident(
        *("re-created topic meets its past", "trap T12", _haunted, "what can be led is led", 6),
        "validated no\n2 create a 0,1\n4 remake a 0,1 for 2",
    ),
    Incident(
        *("log start of a deleted log", "broker.md 2.2", _remembered, "nothing acknowledged is lost", 96),
        "set log_flush_offset_checkpoint_interval_ms 5000\nrecords yes\n2 create a 0\n9 delete-records a 0\n"
        "13 recreate a 0\n16.5 kill 0 for 1",
    ),
)

PARTS = tuple(part for part in FAULTS if part != "disk")


def scenario(incident: Incident) -> Schedule:
    """The schedule on which the bug shows."""
    return parse(f"brokers 3\nduration 30\nsteady yes\n{incident.schedule}")


def seeds_until_met(incident: Incident, most: int = 1000) -> int | None:
    """After how many seeds the simulation meets the bug, when it is put in; None where so many are not enough."""
    records = "records yes" in incident.schedule
    with pytest.MonkeyPatch.context() as patch:
        incident.put(patch)
        for seed in range(most):
            if run(invent(seed, faults=(*PARTS, *incident.faults), records=records)).violation is not None:
                return seed + 1
    return None


def main(names: list[str]) -> None:
    """Print the figures of these incidents, or of all."""
    for each in INCIDENTS:
        if not names or each.name in names:
            print(f"{each.name}: {seeds_until_met(each)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
