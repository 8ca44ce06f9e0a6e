"""Known-bug regressions: bugs that Kafka had, each as a patch of this project's code and a schedule that shows it.

Rule: a patch belongs to a test, never to the product. `put` takes pytest's monkeypatch; each schedule is as
short as one from the shrinker. `python -m tests.simulation.known_bugs` prints the number of seeds until random
schedules find each bug.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
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
from actors.simulation.actions import ABSENT, FAULTS, PRODUCERS, TRANSACTIONS, invent
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
from tests.simulation.patches import Change, apply
from zk_bridge import paths
from zk_bridge.conversations import transact
from zk_bridge.core import CONVERSATIONS


@attrs.frozen
class KnownBug:
    """A bug that Kafka had.

    Attributes:
        jira: The report of the bug, or the rule that forbids it.
        put: Patches the bug in.
        breaks: The name of the violated invariant.
        seeds: The number of seeds, beginning with seed 0, until a random schedule finds the bug (measured once).
        schedule: The actions that show the bug.
    """

    name: str
    jira: str
    put: Callable[[pytest.MonkeyPatch], None]
    breaks: str
    seeds: int
    schedule: str
    faults: tuple[str, ...] = ()
    """Additional faults to `PARTS` while the seeds are counted."""


# ---------------------------------------------------------------------------------------------------- the bugs


def _unfenced(patch: pytest.MonkeyPatch) -> None:
    """Partition states are written without a check of the controller epoch."""
    fence = "check = conversations.fence(question.epoch_zk_version)"
    states = "zk_bridge.partition_states"
    apply(patch, Change(f"{states}:update_partition_states", fence, "check = ()"))
    apply(patch, Change(f"{states}:create_partition_states", fence, "check = ()"))


def _unseen(patch: pytest.MonkeyPatch) -> None:
    """A changed broker epoch is ignored: a re-registered broker counts as the same one."""
    right = broker_changes.changed

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


def _controller_kept(patch: pytest.MonkeyPatch) -> None:
    """A controller that resigns does not delete /controller."""
    apply(patch, Change("actors.core.controller.failover:_clear", "context.active or not current.ours", "True"))


def _stale_epochs(patch: pytest.MonkeyPatch) -> None:
    """A reassignment writes a new leader epoch but does not cache it."""
    right = leadership.write_states

    def write(context: ControllerContext, updates: Any, failures: Any) -> Flow[Any]:
        before = dict(context.leadership)
        written = yield from right(context, updates, failures)
        context.leadership.clear()
        context.leadership.update(before)
        return written

    patch.setattr(reassignment, "leadership", SimpleNamespace(**{**vars(leadership), "write_states": write}))


def _left_behind(patch: pytest.MonkeyPatch) -> None:
    """Completed reassignments stay in /admin/reassign_partitions."""
    question = "left = yield from ask(zookeeper.RemoveReassignments"
    apply(patch, Change("actors.core.controller.reassignment:_forget", question, f"return\n    {question}"))


def _stuck(patch: pytest.MonkeyPatch) -> None:
    """A broker failure does not make its replicas ineligible for deletion."""
    apply(patch, Change("actors.core.controller.deletion_steps:fail", "    if topics:", "    if False:"))


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


def _superset(patch: pytest.MonkeyPatch) -> None:
    """The controller writes its cached ISR over the ISR that the leader has written."""
    change = Change(
        "actors.core.controller.leadership:read_states",
        "states[partition] = state",
        "known = context.leadership.get(partition)\n"
        "            states[partition] = state if known is None else leader_isr_and_epoch(\n"
        "                state.leader, state.leader_epoch, known.isr, state.controller_epoch, state.zk_version\n"
        "            )",
    )
    apply(patch, change)


def _deadlocked(patch: pytest.MonkeyPatch) -> None:
    """An event waits for a new session, and the session expiry waits behind the event."""
    right = ControllerActor._answered

    def answered(self: ControllerActor, question: int, result: Any) -> None:
        if not (isinstance(result, Failure) and result.name == SessionLost.__name__):
            right(self, question, result)

    patch.setattr(ControllerActor, "_answered", answered)
    patch.setattr(ControllerActor, "preempts", lambda self, message: False)


def _unchecked_epochs(patch: pytest.MonkeyPatch) -> None:
    """A broker applies each LeaderAndIsr request, whatever its controller epoch and leader epoch."""
    roles = "actors.core.broker.replica_role"
    obeyed = "if isinstance(request, LeaderAndIsrRequest):\n            return NONE\n        "
    first = "if request.broker_epoch"
    apply(
        patch,
        Change("actors.core.broker.replica_manager:Epochs.verdict", f"{first} !=", f"{obeyed}{first} !="),
        Change(f"{roles}:role_verdict", "if order.leader_epoch", "return errors.NONE\n    if order.leader_epoch"),
        Change(f"{roles}:is_superseded", "order.zk_version < known.zk_version", "False"),
    )


def _growing(patch: pytest.MonkeyPatch) -> None:
    """Partitions that are added to a topic during its deletion get a leader."""
    right = topic_changes.modified

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
    for name in ("trigger_controller_move", "deposed"):
        patch.setattr(failover, name, give_up)


def _kept_states(patch: pytest.MonkeyPatch) -> None:
    """The partition states of a removed topic stay in the controller context."""
    right = ControllerContext.remove_topics

    def remove(self: ControllerContext, names: Any) -> Flow[None]:
        gone = [tp for name in names for tp in self.topics.get(name, {}).values()]
        states = {tp: state for tp in gone if (state := self.partition_state(tp)) is not PartitionState.NON_EXISTENT}
        yield from right(self, names)
        self.partition_states.update(states)

    patch.setattr(ControllerContext, "remove_topics", remove)


def _remembered(patch: pytest.MonkeyPatch) -> None:
    """The checkpoints keep the entries of a deleted log until the next flush."""
    apply(
        patch,
        Change(
            "actors.storage.directory_checkpoints:DirectoryCheckpoints.write_forgotten",
            "if points.lists_forgotten:",
            "if False:",
        ),
    )


def _forgotten_producers(patch: pytest.MonkeyPatch) -> None:
    """A log forgets its producers when records are deleted."""
    change = "self.start = offset\n            self.producers.clear()"
    apply(patch, Change("actors.storage.log.log:Log.advance_start", "self.start = offset", change))


def _early_list(patch: pytest.MonkeyPatch) -> None:
    """A fetch has the aborted transactions from before it waited, and so none."""
    log = "actors.storage.log_manager:LogManager.read_committed"
    apply(patch, Change(log, "for each in aborted", "for each in ()"))


def _dropped_by_a_zombie(patch: pytest.MonkeyPatch) -> None:
    """A refused TxnOffsetCommit drops the pending offsets of the same producer id."""
    refused = "if error_code != errors.NONE:\n            "
    drop = "for each in done.values:\n                self.pending.get(done.producer_id, {}).pop(each, None)"
    change = Change("actors.core.coordinator.offsets:Offsets.end", refused, f"{refused}{drop}\n            ")
    apply(patch, change)


def _unfenced_zombie(patch: pytest.MonkeyPatch) -> None:
    """The transaction coordinator accepts requests of an older producer epoch."""
    verdict = "actors.core.transaction.decisions:_producer_verdict"
    apply(patch, Change(verdict, "if txn.producer_epoch != request.producer_epoch:", "if False:"))


def _lost_markers(patch: pytest.MonkeyPatch) -> None:
    """A marker that meets a failed disk is not sent again."""
    retried = "elif code in RETRIED:"
    change = f"{retried[:-1]} and code != errors.KAFKA_STORAGE_ERROR:"
    apply(patch, Change("actors.core.transaction.markers:_outcome", retried, change))


TRANSACTIONS_RUN = (
    "records yes\n2 create x 0,1,2 1,2,0 2,0,1 0,2,1\n4 produce x 0 for 14\n4 transact id0 for 14\n"
    "4 transact worker for 14"
)
"""Schedule lines: an idempotent producer, a transactional producer, and a transactional worker."""

OF_TRANSACTIONS = (PRODUCERS, TRANSACTIONS)
UNCOUNTED = 1000
"""Value of `KnownBug.seeds` for a bug whose number of seeds was not measured."""

KNOWN_BUGS: tuple[KnownBug, ...] = (
    KnownBug(
        *(
            "zombie controller writes partition states",
            "KAFKA-6082",
            _unfenced,
            "only the active controller elects leaders",
            1,
        ),
        "2 create a 0 0\n3 reassign a 1 0\n3 move-controller",
    ),
    KnownBug(
        *("broker restart between two watches", "KAFKA-7235", _unseen, "controller context matches ZooKeeper", 5),
        "2 create a 0,1 2,0\n4 slow 1 zk 1 for 3\n4.5 expire 0",
    ),
    KnownBug(
        *(
            "resigned controller keeps /controller",
            "KAFKA-13407",
            _controller_kept,
            "all brokers are registered with one active controller",
            1,
        ),
        "2 put /controller_epoch 2\n4 create a 0,1",
    ),
    KnownBug(
        *(
            "stale leader epoch after a reassignment",
            "KAFKA-9212",
            _stale_epochs,
            "sent leader epochs never decrease",
            1,
        ),
        "2 create a 0,1\n4 ask-reassign a 0 1,0",
    ),
    KnownBug(
        *("reassignment znode left behind", "KAFKA-9478", _left_behind, "no request or reassignment is pending", 5),
        "2 create a 0,1\n4 reassign a 0 2,1",
    ),
    KnownBug(
        *("deletion stuck after a broker failure", "KAFKA-10548", _stuck, "deleted topics are gone", 13),
        "2 create a 0,1,2\n3.9 pause 0 for 20\n4 delete a",
    ),
    KnownBug(
        *("deletion waits for a reassignment", "controller.md, trap T1", _halted, "deleted topics are gone", 10),
        "2 create a 0,1\n3 strand a 0 for 1",
        faults=(ABSENT,),
    ),
    KnownBug(
        *("dead broker delays all deletions", "controller.md 6.1", _halted_by_a_broker, "deleted topics are gone", 25),
        "2 create a 0,1\n2 create b 2\n6 kill 2 for inf\n16 delete a",
    ),
    KnownBug(
        *("controller writes a larger ISR", "KAFKA-9672", _superset, "only the leader expands the ISR", 2),
        "records yes\n2 create a 0,1,2\n6 cut 0 2 for 22\n22 roll 0 for 5",
    ),
    KnownBug(
        *(
            "deadlock at session expiry",
            "KAFKA-8532",
            _deadlocked,
            "all brokers are registered with one active controller",
            1,
        ),
        "4 slow 1 zk 1 for 8\n4.2 create a 0,1\n6 expire 1",
    ),
    KnownBug(
        *(
            "requests of an old controller are applied",
            "KAFKA-14154",
            _unchecked_epochs,
            "stale requests are refused",
            5,
        ),
        "2 create a 0,1,2\n4 slow 1 0 4 for 5\n4 reassign a 0 1,0,2\n4.2 move-controller\n5 elect a 0",
    ),
    KnownBug(
        *("partitions added during deletion", "KAFKA-6612", _growing, "deleted topics leave no logs", 12),
        "validated no\n2 create a 0,1\n4 slow 1 0 2 for 20\n5 delete a\n6.5 grow a 2",
    ),
    KnownBug(
        *("UpdateMetadata of a dead leader", "KAFKA-13225", _not_propagated, "live brokers are propagated", 2),
        "2 create a 2\n4 kill 2 for 25\n14 kill 0 for 15",
    ),
    KnownBug(
        *(
            "batch left dirty after a failed state change",
            "controller.md, trap T4",
            _half_used,
            "broker roles match ZooKeeper",
            25,
        ),
        "2 create a 0,1,2\n4 kill 2 for 8\n9.9 slow 1 zk 0.3 for 3\n10.8 move-controller\n16 kill 0 for 20\n"
        "16 kill 2 for 12",
    ),
    KnownBug(
        *(
            "preferred leader election blocked by a reassignment",
            "KAFKA-10149",
            _starved,
            "preferred leaders are elected",
            8,
        ),
        "set leader_imbalance_check_interval_seconds 3\n2 create a 0,1\n2 create b 1\n4 kill 0 for 4\n"
        "12 kill 2 for 15\n20 reassign b 0 2",
    ),
    KnownBug(
        *(
            "old controller deletes the new controller's znode",
            "KAFKA-6082",
            _unchecked_owner,
            "controllers delete only their own /controller",
            12,
        ),
        "2 create a 0 0\n3 reassign a 1 0\n3 move-controller",
    ),
    KnownBug(
        *(
            "re-created topic keeps its old states",
            "controller.md, trap T12",
            _kept_states,
            "partitions with a live ISR member have a leader",
            5,
        ),
        "validated no\n2 create a 0,1\n4 remake a 0,1 for 2",
    ),
    KnownBug(
        *(
            "re-created log takes the old log start offset",
            "broker.md 2.2",
            _remembered,
            "no acknowledged record is lost",
            18,
        ),
        "set log_flush_offset_checkpoint_interval_ms 5000\nrecords yes\n2 create a 0\n9 delete-records a 0\n"
        "13 recreate a 0\n16.5 kill 0 for 1",
    ),
    KnownBug(
        *(
            "deleted records take the producers with them",
            "KAFKA-7190",
            _forgotten_producers,
            "responses to idempotent producers agree",
            7,
        ),
        "duration 10\nrecords yes\n2 create a 0,1,2\n4 produce a 0 for 24\n6 delete-records a 0\n8 delete-records a 0",
        OF_TRANSACTIONS,
    ),
    KnownBug(
        *(
            "aborted transactions listed before the fetch waited",
            "KAFKA-5376",
            _early_list,
            "readers hear of aborted transactions",
            1,
        ),
        f"duration 18\n{TRANSACTIONS_RUN}",
        OF_TRANSACTIONS,
    ),
    KnownBug(
        *(
            "marker is lost with a failed disk",
            "KAFKA-9749",
            _lost_markers,
            "readers see whole transactions",
            UNCOUNTED,
        ),
        f"seed 7\nduration 24\n{TRANSACTIONS_RUN}\n4 transact id1 for 14\n12 break 2 0 for 3",
        OF_TRANSACTIONS,
    ),
    KnownBug(
        *(
            "zombie's refused commit drops pending offsets",
            "Kafka 3.9 `GroupMetadata.failPendingTxnOffsetCommit`",
            _dropped_by_a_zombie,
            "input is processed once",
            UNCOUNTED,
        ),
        f"duration 20\n{TRANSACTIONS_RUN.replace('for 14', 'for 24')}",
        OF_TRANSACTIONS,
    ),
    KnownBug(
        *(
            "zombie producer goes on",
            "KIP-98",
            _unfenced_zombie,
            "zombie producers are fenced",
            UNCOUNTED,
        ),
        f"duration 12\n{TRANSACTIONS_RUN}\n8 transact worker for 10",
        OF_TRANSACTIONS,
    ),
)

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
