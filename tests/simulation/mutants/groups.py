"""Mutants of the group coordinator (broker.md 1.6, 6.5)."""

from __future__ import annotations

from tests.simulation.mutants.mutant import mutant

MEMBERSHIP = "actors.core.coordinator.membership:Membership"
GROUP = "actors.core.coordinator.group:Group"
COORDINATOR = "actors.coordinator.group_coordinator:GroupCoordinatorActor"
STATES = "actors.core.coordinator.group_states"

GROUP_TESTS = "tests/core/coordinator/test_group.py"
COORDINATOR_TESTS = "tests/coordinator/test_group_coordinator.py"

MUTANTS = (
    mutant(
        "generation is not raised",
        "broker.md 6.5",
        f"{MEMBERSHIP}._complete_join",
        "self.generation += 1",
        "self.generation = max(1, self.generation)",
        GROUP_TESTS,
    ),
    mutant(
        "request of an earlier generation is accepted",
        "broker.md 6.5",
        f"{MEMBERSHIP}._verdict_in_generation",
        "generation != self.generation",
        "generation > self.generation",
        GROUP_TESTS,
        needs=("seed 32",),
    ),
    mutant(
        "commit of an earlier generation is accepted",
        "broker.md 6.5",
        f"{GROUP}._commit_verdict",
        "if code != errors.NONE:",
        "if code not in (errors.NONE, 22):",
        GROUP_TESTS,
    ),
    mutant(
        "commit of an unknown member is accepted",
        "broker.md 6.5",
        f"{GROUP}._commit_verdict",
        "if code != errors.NONE:",
        "if code not in (errors.NONE, 25):",
        GROUP_TESTS,
    ),
    mutant(
        "rebalance has no time-out",
        "broker.md 6.5",
        f"{MEMBERSHIP}._rebalance",
        "self._arm_join(self._longest_rebalance())",
        "pass",
        GROUP_TESTS,
    ),
    mutant(
        "heartbeat does not reset the session time-out",
        "broker.md 6.5",
        f"{MEMBERSHIP}.heartbeat",
        "self._expect(self.members[request.member_id])",
        "pass",
        GROUP_TESTS,
        needs=("seed 105",),
    ),
    mutant(
        "silent member is not removed",
        "broker.md 6.5",
        f"{MEMBERSHIP}.member_expired",
        "self._remove(member, wall_ms)",
        "pass",
        GROUP_TESTS,
        needs=("seed 197",),
    ),
    mutant(
        "leaving member stays",
        "broker.md 6.5",
        f"{MEMBERSHIP}._leave",
        "self._remove(self.members[member_id], wall_ms)",
        "pass",
        GROUP_TESTS,
    ),
    mutant(
        "heartbeat does not report a rebalance",
        "broker.md 6.5",
        f"{STATES}:HEARTBEAT",
        "PREPARING: errors.REBALANCE_IN_PROGRESS",
        "PREPARING: errors.NONE",
        GROUP_TESTS,
    ),
    mutant(
        "assignments are given out before they are in the log",
        "broker.md 6.5",
        f"{MEMBERSHIP}.sync",
        "self._store(Assigning(self.generation, assignments), self._record(assignments))",
        (
            "self._store(None, self._record(assignments))\n"
            "            self._assigned(Assigning(self.generation, assignments), errors.NONE, self.since_ms)"
        ),
        GROUP_TESTS,
    ),
    mutant(
        "commits are answered before they are in the log",
        "broker.md 6.5",
        f"{GROUP}.commit",
        "self.offsets.begin(number, NO_TRANSACTION if producer is None else producer.id, entries)",
        (
            "self.offsets.begin(number, NO_TRANSACTION if producer is None else producer.id, entries)\n"
            "        self._committed(number, errors.NONE)"
        ),
        GROUP_TESTS,
    ),
    mutant(
        "failed commit counts",
        "broker.md 6.5",
        "actors.core.coordinator.offsets:Offsets.end",
        "if error_code != errors.NONE:",
        "if False:",
        GROUP_TESTS,
    ),
    mutant(
        "offsets are not loaded",
        "broker.md 1.6",
        f"{GROUP}.loaded",
        "Offsets.loaded(loaded.offsets, loaded.pending)",
        "Offsets.loaded((), loaded.pending)",
        GROUP_TESTS,
    ),
    mutant(
        "members of a loaded group have no session time-out",
        "broker.md 1.6",
        f"{GROUP}.loaded",
        "group._expect(member)",
        "pass",
        GROUP_TESTS,
    ),
    mutant(
        "group that is being loaded answers as if it were empty",
        "broker.md 1.6, 6.5",
        "actors.core.coordinator.request_checks:verdict",
        "return WHILE_LOADING.get(kind, errors.COORDINATOR_LOAD_IN_PROGRESS)",
        "return WHILE_LOADING.get(kind)",
        "tests/core/coordinator/test_request_checks.py",
        needs=("seed 74",),
    ),
    mutant(
        "coordinator keeps groups whose partition it no longer leads",
        "broker.md 1.6",
        f"{COORDINATOR}._unload",
        "for name in [name for name, hosted in self._groups.items() if hosted.partition == partition]:",
        "for name in ():",
        COORDINATOR_TESTS,
    ),
    mutant(
        "coordinator serves a partition that it no longer leads",
        "broker.md 1.6",
        f"{COORDINATOR}._unload",
        "self._places.serving.discard(partition)",
        "pass",
        COORDINATOR_TESTS,
    ),
    mutant(
        "coordinator does not hear that it leads no longer",
        "broker.md 1.6",
        "actors.core.broker.hosting:ReplicaManager._note_leaderships",
        "self._no_longer_led[order.partition] = None",
        "pass",
        "tests/broker/test_replica_manager.py",
    ),
)
"""Mutants of the group coordinator."""
