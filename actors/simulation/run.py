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
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import attrs

from actors.runtime import Delivery
from actors.runtime.trace.silence import silent
from actors.simulation import observed_facts
from actors.simulation.actions import ACTIONS, RIGHTS, SESSION_MS
from actors.simulation.coverage import Collector
from actors.simulation.disk import scratch_folder
from actors.simulation.monitors.families import FAMILIES
from actors.simulation.monitors.monitor import Monitor, Monitors, Violation
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.schedule import REST, Action, Schedule
from actors.simulation.simulated_clients import Clients, LogReader
from actors.simulation.simulated_cluster import CLIENT, DOWN, UP, Cluster, node_of
from actors.simulation.simulated_producers import IdempotentProducers
from actors.simulation.transactional_producers import TransactionalProducers
from actors.simulation.transcript import TranscriptWriter
from messages.apis.metadata import MetadataRequest
from messages.apis.update_metadata import ControllerRequest
from messages.node import NodeSettings
from messages.node_settings import ACL_AUTHORIZER
from messages.partition import LogMoved, LogRead
from messages.probes import collecting
from messages.store import WriteOp, Written
from messages.vocabulary import Message

REST_SECONDS = 60.0
"""Seconds in which a cluster without faults must become idle; sessions, back-offs and ISR changes take time."""

LOOKS = 2.0
"""Seconds between two checks of a cluster that should become idle."""

TICK = 0.5
"""Seconds between two checks of invariants that depend on time."""

READS = 15.0
"""Maximum seconds in which all records are read back."""

STABLE_OFFSETS = frozenset((LogMoved, LogRead))
"""Messages with the state of a log."""

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
    families: tuple[type[Monitor], ...] = FAMILIES,
    transcript: list[str] | None = None,
    covered: bool = False,
    only: Collection[str] | None = None,
) -> RunOutcome:
    """Execute a schedule.

    Args:
        schedule: The cluster, the actions, and the seed.
        keep: A folder that receives the disks and the trace of each node.
        families: The monitors.
        transcript: Receives the lines of the transcript (`actors.simulation.transcript`).
        covered: Whether the outcome counts the coverage points that the run reached (`actors.simulation.coverage`).
        only: The names of the checked invariants; None for all.
    """
    root = keep or Path(tempfile.mkdtemp(prefix="kafka-actors-", dir=scratch_folder()))
    try:
        with silent():
            running = _Run(schedule, root, keep is not None, families, transcript, covered, only)
            with nullcontext() if running.coverage is None else collecting(running.coverage.probe):
                return running.run()
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
        families: tuple[type[Monitor], ...],
        transcript: list[str] | None,
        covered: bool,
        only: Collection[str] | None,
    ) -> None:
        self.schedule = schedule
        self._deliveries = self._requests = 0
        judged = any(ACTIONS[each.name].part == RIGHTS for each in schedule.actions if each.name != REST)
        settings = {
            **SETTINGS,
            "authorizer_class_name": ACL_AUTHORIZER if judged else "",
            "validate_state": schedule.validated,
            "offsets_topic_replication_factor": min(3, schedule.brokers),
            "transaction_state_log_replication_factor": min(3, schedule.brokers),
            **{name: bool(value) if name in SWITCHES else value for name, value in schedule.settings},
        }
        self.cluster = cluster = Cluster(schedule, root, recorded, settings, self._observe, self._request_sent)
        self.observed = observed = ObservedCluster(cluster.scheduler.clock.now, cluster.machines[0].settings, cluster)
        self.monitors = Monitors(observed, families, only)
        self.coverage = Collector(observed) if covered else None
        self.transcript = None if transcript is None else TranscriptWriter(observed, transcript)
        if self.coverage is not None:
            cluster.network.answered = self.coverage.count_error_codes
            self.monitors.observe(observed_facts.StateChanged, self.coverage.count_state_change)
        cluster.members.tell = observed.take
        cluster.damaged = observed.log_damaged
        cluster.zookeeper.observers.append(self._transaction)
        if self.transcript is not None:
            cluster.zookeeper.observers.append(self.transcript.transaction)
        cluster.network.watcher = self
        self.now = 0.0
        """The schedule's time."""
        self._clients = Clients(observed, schedule.seed + 1) if schedule.records else None
        self._reader = LogReader(observed)
        if schedule.records:
            IdempotentProducers(observed, schedule.seed + 3)
            TransactionalProducers(observed, schedule.seed + 4)
        self._undo: list[tuple[float, int, Callable[[], None]]] = []
        self._undone = 0

    def run(self) -> RunOutcome:
        """Execute the schedule."""
        cluster, violations = self.cluster, self.monitors.violations
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
        violation = violations[0] if violations else None
        outcome = RunOutcome(
            self.schedule,
            violation,
            cluster.now,
            self._deliveries,
            self._requests,
            None if violation is None else self.now,
            {} if self.coverage is None else self.coverage.counts,
        )
        cluster.close()
        return outcome

    def _observe(self, node: int, delivery: Delivery) -> None:
        self._deliveries += 1
        try:
            self._check(node, delivery)
        except Exception as error:  # the kernel would only dismiss the observer
            self.monitors.violations.append(Violation("monitors do not fail", repr(error), self.cluster.now))
        if self.coverage is not None:
            self.coverage.observe(node, delivery)

    def _check(self, node: int, delivery: Delivery) -> None:
        self.monitors.look(node, delivery)
        message = delivery.message
        if delivery.effects or delivery.error is not None or message.__class__ in STABLE_OFFSETS:
            process = node, self.cluster.machines[node].starts
            if isinstance(message, LogRead | LogMoved):
                self.observed.take(observed_facts.StableOffsetSeen(process, message))
            self.observed.handle_delivery(process, message.__class__.__name__, delivery.effects, delivery.error)

    def _transaction(self, ops: tuple[WriteOp, ...], results: tuple[Written, ...], session: int) -> None:
        self.observed.transaction(ops, results, session, self.cluster.zookeeper.zxid)

    def _tick(self) -> None:
        self.observed.nodes.note_unhealthy()
        self.observed.take(observed_facts.Ticked())
        self.cluster.scheduler.call_later(TICK, self._tick)

    def _request_sent(self, source: str, target: str, request: Message) -> None:
        self._requests += 1
        if isinstance(request, ControllerRequest) and source != CLIENT:
            self.observed.request_sent(source, target, request)
        if self.transcript is not None:
            self.transcript.request_sent(source, target, request)

    def observe_request(self, connection: int, host: str, request: Message) -> None:
        """See NetworkObserver.observe_request."""
        node = node_of(host)
        self.observed.handle_request(connection, (node, self.cluster.machines[node].starts), request)

    def observe_response(self, connection: int, response: Message | None) -> None:
        """See NetworkObserver.observe_response."""
        self.observed.handle_response(connection, response)

    def observe_authentication(self, host: str, user: str, accepted: bool) -> None:
        """See NetworkObserver.observe_authentication."""
        self.observed.take(observed_facts.UserAuthenticated(node_of(host), user, accepted))

    def observe_judgement(self, host: str, principal: str, request: Message, allowed: bool) -> None:
        """See NetworkObserver.observe_judgement."""
        self.observed.take(observed_facts.RequestJudged(node_of(host), principal, request, allowed))

    def _advance(self, moment: float) -> bool:
        """Run until that moment of the schedule, and end each fault at its time; return False if the run is over."""
        while self._undo and self._undo[0][0] <= moment:
            at, _, undo = heappop(self._undo)
            if not self._pass(at):
                return False
            undo()
        return self._pass(moment)

    def _pass(self, moment: float) -> bool:
        cluster, violations = self.cluster, self.monitors.violations
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
            self.observed.power_fails(int(action.args[0]))
        undo = kind.begin(self.cluster, action.args, lasting=action.seconds == math.inf)
        if undo is not None:
            self._undone += 1
            ends: float = self.now + (action.seconds or 0.0)
            heappush(self._undo, (ends, self._undone, undo))

    def _end(self) -> None:
        """End every fault, and check that the cluster becomes idle in its expected state (rule 2)."""
        cluster, violations, clients = self.cluster, self.monitors.violations, self._clients
        cluster.members.committing = False
        if clients is not None:
            clients.rest()
        while self._undo:
            heappop(self._undo)[2]()
        self._heal_core()
        ends = cluster.now + REST_SECONDS
        wrong: list[Violation] = []
        while not violations:
            for machine in cluster.machines.values():
                if machine.state == DOWN:
                    cluster.start(machine.id)
            asking = cluster.now + LOOKS > ends or not self._idle_violations()
            if asking:
                self._ask_for_metadata()
                cluster.members.read_back(self.observed.nodes.controlled_nodes())
                if clients is not None:
                    self._reader.read_back()
            if cluster.run_until(lambda: self.monitors.violations, LOOKS):
                break
            if asking and clients is not None:
                cluster.run_until(lambda: self.monitors.violations or not self._reader.reads, READS)
            found = self._idle_violations(asking)
            wrong = found or wrong
            if asking and not found:
                cluster.members.committing = True
                if clients is not None:
                    clients.go()
                return
            if cluster.now > ends:
                violations += wrong

    def _idle_violations(self, asked: bool = False) -> list[Violation]:
        """Return the violations of invariants in an idle cluster.

        `asked` means that the cluster was queried; its responses are then checked as well.
        """
        found = self.monitors.found(observed_facts.ClusterAtRest()) + (
            self.monitors.found(observed_facts.ClusterQueried()) if asked else []
        )
        return self.monitors.in_order(found)

    def _heal_core(self) -> None:
        """Repair the disks of each node without a lasting fault, and restart it if it treats a disk as failed."""
        for machine in self.cluster.machines.values():
            if machine.id not in self.cluster.outside:
                machine.disks.faults.clear()
                if machine.disks.hurt:
                    self.cluster.kill(machine.id)
                    machine.disks.hurt = False

    def _ask_for_metadata(self) -> None:
        metadata = self.observed.history.metadata
        metadata.clear()
        for machine in self.cluster.machines.values():
            if machine.state == UP:
                self.cluster.ask(
                    machine.id,
                    MetadataRequest(9, None, False),
                    partial(metadata.__setitem__, machine.id),
                    LOOKS,
                )
