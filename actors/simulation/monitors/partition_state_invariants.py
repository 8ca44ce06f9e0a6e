"""Partition states in ZooKeeper: leaders, epochs, the ISR, and who may write them."""

from __future__ import annotations

from collections.abc import Iterator

from actors.simulation.monitors.controller_invariants import ELECTION
from actors.simulation.monitors.monitor import Monitor, invariant
from actors.simulation.observed_facts import SERVER, START, PartitionStateWritten
from actors.simulation.reachability import SLACK
from messages.cluster import NO_LEADER


class PartitionStateInvariants(Monitor):
    """The rules for the leader, the leader epoch and the ISR of a partition, and for their writers."""

    @invariant("leader is in the ISR", "controller.md 3.2")
    def _leader_is_in_the_isr(self, fact: PartitionStateWritten) -> Iterator[str]:
        leader, isr = fact.after.leader, fact.after.isr
        if leader != NO_LEADER and leader not in isr:
            yield f"{fact.partition}: leader {leader} is not in the ISR {isr}"

    @invariant("ISR is within the assigned replicas", "controller.md 2.4, 7.7", lacks=START)
    def _isr_is_within_the_assigned_replicas(self, fact: PartitionStateWritten) -> Iterator[str]:
        """Check that each ISR in a written state has only replicas that are assigned or were assigned until recently.

        When another reassignment replaces the current one, the change is in ZooKeeper before the leader learns of it.
        Meanwhile the leader may add a replica that is no longer assigned; the controller removes the replica again.
        """
        replicas = self.znodes.replicas_of(fact.partition)
        if any(
            replica not in replicas and not self.znodes.was_assigned(replica, fact.partition)
            for replica in fact.after.isr
        ):
            yield f"{fact.partition}: ISR {fact.after.isr}, assigned replicas {replicas}"

    @invariant("ISR is never empty", "controller.md 3.3")
    def _isr_is_never_empty(self, fact: PartitionStateWritten) -> Iterator[str]:
        if not fact.after.isr:
            yield f"{fact.partition}: the ISR is empty"

    @invariant("no unclean election unless enabled", "controller.md 3.2.2")
    def _no_unclean_election_unless_enabled(self, fact: PartitionStateWritten) -> Iterator[str]:
        if fact.before is not None and fact.is_unclean and not self.znodes.may_elect_uncleanly(fact.partition.topic):
            yield f"{fact.partition}: new leader {fact.after.leader} was not in the ISR {fact.before.isr}"

    @invariant("only the leader expands the ISR", "broker.md 3.2, KAFKA-9672")
    def _only_the_leader_expands_the_isr(self, fact: PartitionStateWritten) -> Iterator[str]:
        before, after = fact.before, fact.after
        if before is None or after.leader_epoch == before.leader_epoch or set(after.isr) <= set(before.isr):
            return
        if after.isr != (after.leader,) or not self.znodes.may_elect_uncleanly(fact.partition.topic):
            yield f"{fact.partition}: the controller added {set(after.isr) - set(before.isr)} to the ISR {before.isr}"

    @invariant("leader epochs increase by one", "controller.md 3.2.1")
    def _leader_epochs_increase_by_one(self, fact: PartitionStateWritten) -> Iterator[str]:
        before, after = fact.before, fact.after
        if before is None:
            if after.leader_epoch != 0:
                yield f"{fact.partition}: the first leader epoch is {after.leader_epoch}, not 0"
        elif after.leader_epoch not in (before.leader_epoch, before.leader_epoch + 1):
            yield f"{fact.partition}: leader epoch {after.leader_epoch} after {before.leader_epoch}"
        elif after.leader != before.leader and after.leader_epoch == before.leader_epoch:
            yield f"{fact.partition}: leader {after.leader} uses leader epoch {before.leader_epoch} of {before.leader}"

    @invariant("only the active controller elects leaders", "controller.md 2.5.1, KAFKA-6082", lacks=START)
    def _only_the_active_controller_elects_leaders(self, fact: PartitionStateWritten) -> Iterator[str]:
        before, after = fact.before, fact.after
        if before is not None and after.leader_epoch == before.leader_epoch:
            # A leader writes the controller epoch of the last LeaderAndIsr request. It can be newer than the epoch in
            # the state znode: when a replica outside the ISR goes offline, the controller sends LeaderAndIsr without a
            # new state.
            if not before.controller_epoch <= after.controller_epoch <= self.znodes.epoch:
                yield f"{fact.partition}: the leader changed the controller epoch to {after.controller_epoch}"
        elif not self.znodes.may_control(fact.session) or after.controller_epoch != self.znodes.epoch:
            yield (
                f"{fact.partition}: session {fact.session:#x} wrote leader epoch {after.leader_epoch} with controller"
                f" epoch {after.controller_epoch}; controller epoch {self.znodes.epoch} belongs to session"
                f" {self.znodes.epoch_session or 0:#x}"
            )

    @invariant("new ISR members have the committed records", "broker.md 3.2")
    def _new_isr_members_have_the_committed_records(self, fact: PartitionStateWritten) -> Iterator[str]:
        """A replica enters the ISR only if its log reaches the high watermark and the start of the leader epoch.

        A replica that lost unflushed data must fetch from its new log end before it enters the ISR. This is checked
        from `SLACK` seconds after the loss on, because until then a fetch that was sent before the loss may be in
        flight.
        """
        before, after = fact.before, fact.after
        if before is None or before.leader_epoch != after.leader_epoch:
            return
        leader, now = self.replicas.log(after.leader, fact.partition), self.now
        lost = {node: now - at for node, at in self.observed.power_failed_at.items()}
        if lost and not (
            self.observed.leads_intact(after.leader, fact.partition) and self.observed.healthy_for(after.leader) > SLACK
        ):
            return
        for replica in set(after.isr) - set(before.isr):
            if lost.get(replica, SLACK) < SLACK:
                continue
            log = self.replicas.log(replica, fact.partition)
            if log is None or leader is None:
                continue
            if log.end < leader.high_watermark:
                yield (
                    f"{fact.partition}: {replica} entered the ISR with log end {log.end},"
                    f" below the high watermark {leader.high_watermark}"
                )
            if log.end < leader.epoch_start:
                yield (
                    f"{fact.partition}: {replica} entered the ISR with log end {log.end},"
                    f" below the start {leader.epoch_start} of leader epoch {after.leader_epoch}"
                )

    @invariant("new partitions have live ISR members", "controller.md 3.1", lacks=SERVER)
    def _new_partitions_have_live_isr_members(self, fact: PartitionStateWritten) -> Iterator[str]:
        """Each ISR member of a new partition is registered, or was registered recently.

        The invariant fails if the member has been unregistered for more than ELECTION seconds of the controller's term.
        """
        now, term = self.now, self.znodes.controlled_for()
        for replica in fact.after.isr if fact.before is None else ():
            dead = now - self.znodes.unregistered_at.get(replica, 0.0)
            if replica not in self.registered and min(dead, term) > ELECTION:
                yield f"{fact.partition}: the ISR {fact.after.isr} has {replica}, which is dead for {dead:.1f} s"
