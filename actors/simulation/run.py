"""Execute a schedule on a simulated cluster and check the invariants after each step.

Rule 1: the times of actions are in the schedule's time. The action "rest" ends all faults except lasting ones. The
        schedule's time does not advance during a rest.
Rule 2: after "rest", the cluster has `REST_SECONDS` to become idle in its expected state. Differences at the end of
        that time are violations.
Rule 3: the first violation ends the run.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import attrs

from actors.runtime import Delivery
from actors.runtime.trace.silence import silent
from actors.simulation.actions import ACTIONS, SESSION_MS
from actors.simulation.checker import Checker, Violation
from actors.simulation.coverage import Collector
from actors.simulation.invariants import INVARIANTS, Invariant
from actors.simulation.reachability import controlled
from actors.simulation.schedule import REST, Action, Schedule
from actors.simulation.simulated_clients import Clients
from actors.simulation.simulated_cluster import DOWN, UP, Cluster
from actors.simulation.simulated_producers import IdempotentProducers
from actors.simulation.transaction_reader import TransactionReader
from actors.simulation.transactional_producers import TransactionalProducers
from actors.simulation.transcript import TranscriptWriter
from messages.apis.metadata import MetadataRequest
from messages.node import NodeSettings
from messages.probes import collecting
from messages.vocabulary import Message

REST_SECONDS = 60.0
"""Seconds in which a cluster without faults must become idle; sessions, back-offs and ISR changes take time."""

LOOKS = 2.0
"""Seconds between two checks of a cluster that should become idle."""

TICK = 0.5
"""Seconds between two checks of invariants that depend on time."""

READS = 15.0
"""Maximum seconds in which all records are read back."""

SWITCHES = frozenset(field.name for field in attrs.fields(NodeSettings) if field.type in (bool, "bool"))
"""Settings that are yes or no; a schedule has 1 and 0 for them. A trace with such a number cannot be replayed."""

SETTINGS: dict[str, Any] = {
    "zookeeper_session_timeout_ms": SESSION_MS,
    "zookeeper_connection_timeout_ms": SESSION_MS,
    "replica_lag_time_max_ms": 10_000,
    "controlled_shutdown_retry_backoff_ms": 500,
    "leader_imbalance_check_interval_seconds": 15,
    "controller_socket_timeout_ms": 10_000,
    "request_timeout_ms": 10_000,
    "replica_socket_timeout_ms": 4_000_000,
    "log_segment_delete_delay_ms": 10_000,
    "log_flush_offset_checkpoint_interval_ms": 10_000,
    "offsets_topic_num_partitions": 4,
    "transaction_state_log_num_partitions": 2,
    "transaction_state_log_min_isr": 1,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 1_000,
    "group_initial_rebalance_delay_ms": 500,
    "group_max_size": 4,
}
"""Timeouts shorter than Kafka's defaults, so that a simulated second has more events."""


@attrs.frozen
class RunOutcome:
    """The result of a simulated run.

    It has the first violation or None, the duration in virtual seconds, and the numbers of messages and requests.

    If requested, `reached` has the number of times that the run reached each coverage point
    (`actors.simulation.coverage`).
    """

    schedule: Schedule
    violation: Violation | None
    seconds: float
    deliveries: int
    requests: int
    broke_at: float | None = None
    """The time of the violation in the schedule."""
    reached: Mapping[str, int] = attrs.field(factory=dict)


def run(
    schedule: Schedule,
    keep: Path | None = None,
    invariants: tuple[Invariant, ...] = INVARIANTS,
    transcript: list[str] | None = None,
    covered: bool = False,
) -> RunOutcome:
    """Execute a schedule.

    Args:
        schedule: The cluster, the actions, and the seed.
        keep: A folder that receives the disks and the trace of each node.
        invariants: The checked invariants.
        transcript: Receives the lines of the transcript (`actors.simulation.transcript`).
        covered: Whether the outcome counts the coverage points that the run reached (`actors.simulation.coverage`).
    """
    root = keep or Path(tempfile.mkdtemp(prefix="kafka-actors-"))
    try:
        with silent():
            return _Run(schedule, root, keep is not None, invariants, transcript, covered).run()
    finally:
        if keep is None:
            shutil.rmtree(root, ignore_errors=True)


class _Run:
    """A simulated run while it executes."""

    def __init__(
        self,
        schedule: Schedule,
        root: Path,
        recorded: bool,
        invariants: tuple[Invariant, ...],
        transcript: list[str] | None = None,
        covered: bool = False,
    ) -> None:
        self.schedule = schedule
        self.checker = checker = Checker(invariants)
        self.coverage = Collector(checker) if covered else None
        if self.coverage is not None:
            checker.watch(self.coverage.row)
        settings = {
            **SETTINGS,
            "validate_state": schedule.validated,
            "offsets_topic_replication_factor": min(3, schedule.brokers),
            "transaction_state_log_replication_factor": min(3, schedule.brokers),
            **{name: bool(value) if name in SWITCHES else value for name, value in schedule.settings},
        }
        self.cluster = checker.cluster = Cluster(
            schedule.brokers,
            root,
            schedule.seed,
            recorded,
            settings=settings,
            observe=checker.observe if self.coverage is None else self._observe,
            heard=self._request_sent,
            steady=schedule.steady,
            racks=schedule.racks,
            latency=schedule.latency,
            clocks=schedule.clocks,
            distances=schedule.distances,
        )
        self.transcript = None if transcript is None else TranscriptWriter(checker, transcript)
        if self.coverage is not None:
            self.cluster.network.answered = self.coverage.answered
        self.cluster.members.tell = checker.dealt
        self.cluster.damaged = checker.log_damaged
        self.cluster.zookeeper.observers.append(checker.transaction)
        if self.transcript is not None:
            self.cluster.zookeeper.observers.append(self.transcript.transaction)
        self.cluster.network.watcher = checker
        checker.exchanges.offsets_partitions = self.cluster.machines[0].settings.offsets_topic_num_partitions
        self.now = 0.0
        """The schedule's time."""
        self._clients = Clients(checker, schedule.seed + 1) if schedule.records else None
        self._reader = TransactionReader(checker)
        if schedule.records:
            IdempotentProducers(checker, schedule.seed + 3)
            TransactionalProducers(checker, schedule.seed + 4)
        self._undo: list[tuple[float, int, Callable[[], None]]] = []
        self._undone = 0

    def run(self) -> RunOutcome:
        """Execute the schedule."""
        with ExitStack() as stack:
            if self.coverage is not None:
                stack.enter_context(collecting(self.coverage.probe))
            return self._run()

    def _run(self) -> RunOutcome:
        cluster, checker = self.cluster, self.checker
        for node in cluster.machines:
            cluster.start(node)
        if self._clients is not None:
            self._clients.go()
        self._tick()
        for action in self.schedule.actions:
            if not self._advance(action.at):
                break
            if self.transcript is not None:
                self.transcript.action(action)
            if self.coverage is not None:
                self.coverage.action(action)
            self._do(action)
        if self._advance(self.schedule.duration):
            self._end()
        if self.transcript is not None:
            self.transcript.end()
        violation = checker.violations[0] if checker.violations else None
        outcome = RunOutcome(
            self.schedule,
            violation,
            cluster.now,
            checker.deliveries,
            checker.requests,
            None if violation is None else self.now,
            {} if self.coverage is None else self.coverage.counts,
        )
        cluster.close()
        return outcome

    def _observe(self, node: int, delivery: Delivery) -> None:
        self.checker.observe(node, delivery)
        if self.coverage is not None:
            self.coverage.observe(node, delivery)

    def _tick(self) -> None:
        self.checker.tick()
        self.cluster.scheduler.call_later(TICK, self._tick)

    def _request_sent(self, source: str, target: str, request: Message) -> None:
        self.checker.request_sent(source, target, request)
        if self.transcript is not None:
            self.transcript.request_sent(source, target, request)

    def _advance(self, moment: float) -> bool:
        """Run until that moment of the schedule, and end each fault at its time; return False if the run is over."""
        while self._undo and self._undo[0][0] <= moment:
            at, _, undo = heappop(self._undo)
            if not self._pass(at):
                return False
            undo()
        return self._pass(moment)

    def _pass(self, moment: float) -> bool:
        cluster, violations = self.cluster, self.checker.violations
        began = cluster.now
        broken = bool(violations) or cluster.run_until(lambda: violations, max(moment - self.now, 0.0))
        self.now = self.now + cluster.now - began if broken else max(moment, self.now)
        return not broken

    def _do(self, action: Action) -> None:
        if action.name == REST:
            self._end()
            return
        kind = ACTIONS[action.name]
        if action.name == "crash":
            self.checker.power_fails(int(action.args[0]))
        undo = kind.begin(self.cluster, action.args, lasting=action.seconds == math.inf)
        if undo is not None:
            self._undone += 1
            ends: float = self.now + (action.seconds or 0.0)
            heappush(self._undo, (ends, self._undone, undo))

    def _end(self) -> None:
        """End every fault, and check that the cluster becomes idle in its expected state (rule 2)."""
        cluster, checker, clients = self.cluster, self.checker, self._clients
        cluster.members.committing = False
        if clients is not None:
            clients.rest()
        while self._undo:
            heappop(self._undo)[2]()
        for machine in cluster.machines.values():
            machine.disks.repair()
        self._renew_disks()
        ends = cluster.now + REST_SECONDS
        wrong: list[Violation] = []
        while not checker.violations:
            for machine in cluster.machines.values():
                if machine.state == DOWN:
                    cluster.start(machine.id)
            asking = cluster.now + LOOKS > ends or not checker.idle_violations()
            if asking:
                self._ask_for_metadata()
                cluster.members.read_back(controlled(checker))
                if clients is not None:
                    clients.read_back()
                    self._reader.read_back()
            if cluster.run_until(lambda: checker.violations, LOOKS):
                break
            if asking and clients is not None:
                cluster.run_until(lambda: checker.violations or not (clients.reads or self._reader.reads), READS)
            found = checker.idle_violations(asking)
            wrong = found or wrong
            if asking and not found:
                cluster.members.committing = True
                if clients is not None:
                    clients.go()
                return
            if cluster.now > ends:
                checker.violations += wrong

    def _renew_disks(self) -> None:
        """Restart each node that treats a repaired disk as failed.

        A node with a lasting disk fault is not restarted: it keeps running without the failed disk.
        """
        for machine in self.cluster.machines.values():
            if machine.disks.hurt and not machine.disks.lasting:
                self.cluster.kill(machine.id)
                machine.disks.hurt = False

    def _ask_for_metadata(self) -> None:
        checker = self.checker
        checker.metadata.clear()
        for machine in self.cluster.machines.values():
            if machine.state == UP:
                self.cluster.ask(
                    machine.id,
                    MetadataRequest(9, None, False),
                    partial(checker.metadata.__setitem__, machine.id),
                    LOOKS,
                )
