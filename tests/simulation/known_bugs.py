"""Known-bug regressions: bugs that Kafka had, each as a patch of this project's code and a schedule that shows it.

Rule: a patch belongs to a test, never to the product. `put` takes pytest's monkeypatch; each schedule is as
short as one from the shrinker. `python -m tests.simulation.known_bugs` prints the number of seeds until random
schedules find each bug.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import attrs
import pytest

from actors.controller.controller import ControllerActor
from actors.core.controller import (
    broker_changes,
    failover,
    leader_balance,
    leadership,
    reassignment,
    replica_state_machine,
    topic_changes,
)
from actors.core.controller.context import ControllerContext
from actors.core.controller.events import HANDLERS
from actors.core.controller.instructions import Enqueue
from actors.core.controller.states import PartitionState
from actors.simulation.actions import FAULTS, invent
from actors.simulation.run import run
from actors.simulation.schedule import Schedule, parse
from messages.ask import Done, Failure, SessionLost
from messages.events import (
    AutoPreferredReplicaLeaderElection,
    BrokerChange,
    BrokerModifications,
    PartitionModifications,
    TopicDeletion,
)
from messages.flow.conversation import Flow, ask
from messages.store import DELETE, NO_NODE, WriteOp
from messages.zookeeper import Brokers, ResignController
from tests.simulation.mutants.mutant import Paragraph, paragraphs
from tests.simulation.patches import apply
from zk_bridge import paths
from zk_bridge.conversations import transact
from zk_bridge.core import CONVERSATIONS


@attrs.frozen
class KnownBug:
    """A bug that Kafka had.

    Attributes:
        jira: The report of the bug, or the rule that forbids it.
        patched: The patched-in behaviour.
        put: Patches the bug in.
        breaks: The name of the violated invariant.
        seeds: The number of seeds, beginning with seed 0, until a random schedule finds the bug (measured once).
        schedule: The actions that show the bug.
    """

    name: str
    jira: str
    patched: str
    put: Callable[[pytest.MonkeyPatch], None]
    breaks: str
    seeds: int
    schedule: str
    faults: tuple[str, ...] = ()
    """Additional faults to `PARTS` while the seeds are counted."""


# ---------------------------------------------------------------------------------------------------- the bugs


def _unseen(patch: pytest.MonkeyPatch) -> None:
    """A changed broker epoch is ignored: a re-registered broker counts as the same one."""
    right = broker_changes.handle_broker_change

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


def _stale_epochs(patch: pytest.MonkeyPatch) -> None:
    """A reassignment writes a new leader epoch but does not cache it."""
    right = leadership.write_states

    def write(context: ControllerContext, updates: Any, failures: Any) -> Flow[Any]:
        before = dict(context.leadership)
        written = yield from right(context, updates, failures)
        context._leadership.clear()
        context._leadership.update(before)
        return written

    patch.setattr(reassignment, "leadership", SimpleNamespace(**{**vars(leadership), "write_states": write}))


def _halted(patch: pytest.MonkeyPatch) -> None:
    """The deletion of a topic waits until all reassignments have ended."""
    right = topic_changes.deletion_requested

    def requested(context: ControllerContext, event: Any) -> Flow[None]:
        if context.reassigning:
            yield Enqueue(event, 1.0)
        else:
            yield from right(context, event)

    patch.setitem(HANDLERS, TopicDeletion, requested)


def _halted_by_a_broker(patch: pytest.MonkeyPatch) -> None:
    """A dead broker delays the deletion of every topic, also of those that it has no replica of."""
    right = topic_changes.deletion_requested

    def requested(context: ControllerContext, event: Any) -> Flow[None]:
        assigned = {replica for assignment in context.assignments.values() for replica in assignment.replicas}
        if assigned <= set(context.brokers):
            yield from right(context, event)
        else:
            yield Enqueue(event, 1.0)

    patch.setitem(HANDLERS, TopicDeletion, requested)


def _deadlocked(patch: pytest.MonkeyPatch) -> None:
    """An event waits for a new session, and the session expiry waits behind the event."""
    right = ControllerActor._handle_answer

    def handle_answer(self: ControllerActor, question: int, result: Any) -> None:
        if not (isinstance(result, Failure) and result.name == SessionLost.__name__):
            right(self, question, result)

    patch.setattr(ControllerActor, "_handle_answer", handle_answer)
    patch.setattr(ControllerActor, "preempts", lambda self, message: False)


def _growing(patch: pytest.MonkeyPatch) -> None:
    """Partitions that are added to a topic during its deletion get a leader."""
    right = topic_changes.handle_partition_modifications

    def modified(context: ControllerContext, event: Any) -> Flow[None]:
        queued, context.queued = context.queued, frozenset()
        yield from right(context, event)
        context.queued = queued

    patch.setitem(HANDLERS, PartitionModifications, modified)


def _not_propagated(patch: pytest.MonkeyPatch) -> None:
    """The failure of a broker is not propagated while a partition waits for a leader."""
    right, announce = broker_changes.on_replicas_become_offline, broker_changes.announce
    silent: list[ControllerContext] = []

    def become_offline(context: ControllerContext, lost: Any) -> Flow[None]:
        waiting = [tp for tp, state in context.leadership.items() if not context.is_online(state.leader, tp)]
        silent.extend([context] * bool(waiting))
        yield from right(context, lost)
        silent.clear()

    def announce_unless_waiting(context: ControllerContext, *args: Any) -> Flow[None]:
        if context not in silent:
            yield from announce(context, *args)

    patch.setattr(broker_changes, "on_replicas_become_offline", become_offline)
    patch.setattr(broker_changes, "announce", announce_unless_waiting)


def _half_used(patch: pytest.MonkeyPatch) -> None:
    """A state change that fails leaves its request batch half full; later state changes send nothing."""
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
    """The preferred leader election does nothing while a partition is being reassigned."""
    right = leader_balance.check

    def check(context: ControllerContext, event: Any) -> Flow[None]:
        flow = right(context, event)
        if not context.reassigning:
            yield from flow
        else:
            yield next(flow)

    patch.setitem(HANDLERS, AutoPreferredReplicaLeaderElection, check)


def _unchecked_owner(patch: pytest.MonkeyPatch) -> None:
    """A controller that resigns deletes /controller without a check of its owner."""

    def resign_controller(question: Any) -> Any:
        yield from transact((WriteOp(DELETE, paths.CONTROLLER),), NO_NODE)
        return Done()

    def give_up(context: ControllerContext) -> Flow[None]:
        if context.active:
            yield from failover.resign(context)
            yield from ask(ResignController())

    patch.setitem(CONVERSATIONS, ResignController, resign_controller)
    for name in ("trigger_controller_move", "resign_after_refusal"):
        patch.setattr(failover, name, give_up)


def _kept_states(patch: pytest.MonkeyPatch) -> None:
    """The partition states of a removed topic stay in the controller context."""
    right = ControllerContext.remove_topics

    def remove(self: ControllerContext, names: Any) -> Flow[None]:
        gone = [tp for name in names for tp in self.topics.get(name, {}).values()]
        states = {tp: state for tp in gone if (state := self.partition_state(tp)) is not PartitionState.NON_EXISTENT}
        yield from right(self, names)
        self._partition_states.update(states)

    patch.setattr(ControllerContext, "remove_topics", remove)


UNCOUNTED = 1000
"""Value of `KnownBug.seeds` for a bug whose number of seeds was not measured."""


def _known_bug(said: Paragraph) -> KnownBug:
    fields = said.fields
    seeds, faults = fields["seeds"], tuple(fields.get("faults", "").split())

    def put(patch: pytest.MonkeyPatch) -> None:
        globals()[fields["patch"]](patch) if "patch" in fields else apply(patch, *said.changes)

    count = UNCOUNTED if seeds == "-" else int(seeds)
    return KnownBug(said.name, said.rule, fields["patched"], put, fields["breaks"], count, fields[">"], faults)


KNOWN_BUGS = tuple(map(_known_bug, paragraphs(Path(__file__).with_suffix(".txt"))))

PARTS = tuple(part for part in FAULTS if part != "disk")


def scenario(bug: KnownBug) -> Schedule:
    """Return the schedule that shows the bug."""
    return parse(f"brokers 3\nduration 30\nsteady yes\n{bug.schedule}")


def seeds_until_met(bug: KnownBug, most: int = 1000) -> int | None:
    """Return the number of seeds until the simulation finds the patched-in bug; None after `most` seeds."""
    records = "records yes" in bug.schedule
    with pytest.MonkeyPatch.context() as patch:
        bug.put(patch)
        for seed in range(most):
            if run(invent(seed, faults=(*PARTS, *bug.faults), records=records)).violation is not None:
                return seed + 1
    return None


def main(names: list[str]) -> None:
    """Print the number of seeds for these bugs, or for all."""
    for each in KNOWN_BUGS:
        if not names or each.name in names:
            print(f"{each.name}: {seeds_until_met(each)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
