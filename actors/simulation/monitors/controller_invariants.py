"""Controllers: their terms, epochs and requests, and what they do in time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from actors.controller.controller import ControllerActor
from actors.core.controller.failures import CONSEQUENCES
from actors.runtime import Delivery
from actors.simulation import observed_facts
from actors.simulation.monitors.monitor import Monitor, invariant, looks, observes
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.observed_facts import FILES, NODES, START
from actors.simulation.simulated_cluster import node_of
from messages import errors
from messages.apis.controlled_shutdown import ControlledShutdownRequest
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.stop_replica import StopReplicaRequest
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.cluster import LEADER_DURING_DELETE, TopicPartition

LATE = 40.0
"""Seconds for which a request may wait in a controller's queue for its broker."""

ELECTION = 15.0
"""Seconds within which a healthy controller elects a leader, and healthy brokers a controller."""

HANDLED_ERRORS = tuple(error.__name__ for error in CONSEQUENCES)
"""Errors of controller events that have a handling rule (`actors.core.controller.failures`)."""


class ControllerInvariants(Monitor):
    """The terms of controllers, their epochs and requests, and how long a partition or cluster has no leader."""

    def __init__(self, observed: ObservedCluster) -> None:
        super().__init__(observed)
        self._controller_of: dict[int, int] = {}
        """Controller epoch -> broker id in the requests with this epoch."""
        self._sent: dict[str, dict[TopicPartition, tuple[int, int, int]]] = {}
        """The state last sent to each host for a partition: controller epoch, topic creation (`born`), leader epoch."""
        self._has_begun = False
        """Whether the broker in /controller has begun its term."""
        self._uncontrolled_at: float | None = 0.0
        """The time since which the controller is not registered."""
        self._leaderless_since: dict[TopicPartition, float] = {}
        """Partition -> since when its leader has not been a registered broker."""
        self._looked_at = -1
        """The number of changes in ZooKeeper that `_leaderless_since` includes."""

    @observes
    def _note_election(self, fact: observed_facts.ControllerWritten) -> None:
        """Note a new controller."""
        self._has_begun = False

    @looks(ControllerActor)
    def _term(self, node: int, delivery: Delivery) -> Iterable[object]:
        """Note whether the controller has begun its term."""
        controller = getattr(delivery.receiver, "actor", None)
        if node == self.znodes.controller and isinstance(controller, ControllerActor) and controller.context.active:
            self._has_begun = True
        return ()

    @observes
    def _note_tick(self, fact: observed_facts.Ticked) -> None:
        """Note since when there is no controller, or a partition has no leader."""
        now = self.now
        if self.znodes.controller in self.registered:
            self._uncontrolled_at = None
        elif self._uncontrolled_at is None:
            self._uncontrolled_at = now
        if self._looked_at != self.znodes.changes:
            self._looked_at = self.znodes.changes
            before, registered = self._leaderless_since, self.registered
            self._leaderless_since = {
                partition: before.get(partition, now)
                for partition, state in self.states.items()
                if state.leader not in registered
            }

    @invariant("controller epochs increase by one", "controller.md 2.5.4")
    def _controller_epochs_increase_by_one(self, fact: observed_facts.ControllerEpochWritten) -> Iterator[str]:
        if fact.after != fact.before + 1:
            yield f"/controller_epoch changed from {fact.before} to {fact.after}"

    @invariant("one controller per epoch", "controller.md 2.5.4")
    def _one_controller_per_epoch(self, fact: observed_facts.RequestSent) -> Iterator[str]:
        request = fact.request
        known = self._controller_of.setdefault(request.controller_epoch, request.controller_id)
        if known != request.controller_id:
            yield (
                f"brokers {request.controller_id} and {known} both sent requests with controller epoch "
                f"{request.controller_epoch}"
            )
        if request.controller_epoch > self.znodes.epoch:
            yield (
                f"broker {request.controller_id} sent controller epoch {request.controller_epoch}; "
                f"/controller_epoch is {self.znodes.epoch}"
            )

    @invariant("LeaderAndIsr requests match ZooKeeper", "controller.md 3.1", LeaderAndIsrRequest, lacks=START)
    def _leader_and_isr_requests_match_zookeeper(self, fact: observed_facts.RequestSent) -> Iterator[str]:
        for order in fact.request.partition_states:
            sent_states = (order.leader, order.leader_epoch, order.isr)
            written = self.znodes.written.get(order.partition, {}).get(order.zk_version, ())
            if not any(sent_states == (state.leader, state.leader_epoch, state.isr) for state in written):
                yield (
                    f"{fact.target} received {order.partition} {sent_states}, version {order.zk_version}, "
                    f"which was never written"
                )

    @invariant(
        "sent leader epochs never decrease",
        "controller.md 5, KAFKA-9212",
        LeaderAndIsrRequest,
        UpdateMetadataRequest,
    )
    def _sent_leader_epochs_never_decrease(self, fact: observed_facts.RequestSent) -> Iterator[str]:
        request = fact.request
        sent_states, epoch = self._sent.setdefault(fact.target, {}), request.controller_epoch
        for state in request.partition_states:
            partition = state.partition
            news = epoch, self.znodes.born.get(partition.topic, 0), state.leader_epoch
            known = sent_states.get(partition)
            if state.leader == LEADER_DURING_DELETE:
                sent_states.pop(partition, None)
            elif partition not in self.states or state.leader_epoch > self.states[partition].leader_epoch:
                continue  # the request waited in the channel, and concerns an earlier topic of the same name
            elif known is None or news >= known:
                sent_states[partition] = news
            elif known[:2] == news[:2]:
                yield f"{fact.target} received {partition} with leader epoch {news[2]} after leader epoch {known[2]}"

    @invariant("controllers delete only their own /controller", "controller.md 7.1.3, KAFKA-6082")
    def _controllers_delete_only_their_own_znode(self, fact: observed_facts.ControllerDeleted) -> Iterator[str]:
        # Session id 0 means that the server deleted the znode, because the owner's session expired. Do not look up 0
        # below: the session id of a connecting node is 0, too.
        if fact.session in (0, fact.owner):
            return
        node = self.observed.node_of_session(fact.session)
        if node is not None:
            yield f"node {node} deleted /controller of session {fact.owner:#x}"

    @invariant("elected controllers begin their term", "controller.md 7.1", lacks=NODES)
    def _elected_controllers_begin_their_term(self, fact: observed_facts.ControllerDeleted) -> Iterator[str]:
        """Check that a broker has begun its term as controller before it gives up /controller.

        There is one exception: another client has raised the epoch since /controller was created, and the broker lost
        its connection before it received the result of the election.
        """
        if fact.session == fact.owner == self.znodes.epoch_session and not self._has_begun:
            yield f"session {fact.owner:#x} deleted its /controller before its broker began a term"

    @invariant("only the active controller changes topics", "controller.md 2.5, KAFKA-6082", lacks=START)
    def _only_the_active_controller_changes_topics(self, fact: observed_facts.TopicWritten) -> Iterator[str]:
        """Of the brokers, only the active controller changes or deletes a topic's znode."""
        node = self.observed.node_of_session(fact.session)
        if node is not None and not self.znodes.may_control(fact.session):
            yield (
                f"{fact.topic}: node {node} wrote the topic in session {fact.session:#x};"
                f" controller epoch {self.znodes.epoch} belongs to session {self.znodes.epoch_session or 0:#x}"
            )

    @invariant("topics keep their ids", "KIP-516, KAFKA-14190")
    def _topics_keep_their_ids(self, fact: observed_facts.TopicWritten) -> Iterator[str]:
        """No write removes or replaces the id in a topic's znode."""
        if fact.lost_id is not None:
            yield f"{fact.topic}: session {fact.session:#x} wrote the topic without its id {fact.lost_id}"

    @invariant("deleted topics leave no logs", "controller.md 6.1", lacks=FILES)
    def _deleted_topics_leave_no_logs(self, fact: observed_facts.TopicDeleted) -> Iterator[str]:
        """The controller deletes a topic's znode only after all its replicas have deleted their logs."""
        for partition, replicas in fact.replicas.items() if fact.queued else ():
            for replica in replicas:
                machine = self.cluster.machines.get(replica)
                if machine is not None and not self.observed.power_failed and machine.disks.has_log(str(partition)):
                    yield f"topic {fact.topic} is deleted from ZooKeeper, and node {replica} has the log of {partition}"

    @invariant("only unassigned replicas are deleted", "controller.md 6.1, 7.7", StopReplicaRequest, lacks=START)
    def _only_unassigned_replicas_are_deleted(self, fact: observed_facts.RequestSent) -> Iterator[str]:
        """A controller deletes only replicas of topics queued for deletion, and replicas that are not assigned now."""
        request = fact.request
        if request.controller_epoch < self.znodes.epoch:
            return
        target = node_of(fact.target)
        for stop in request.partition_states:
            partition = stop.partition
            if not stop.delete_partition or partition.topic not in self.znodes.topics:
                continue
            assigned = self.assigned.get(partition)
            free = assigned is None or target not in assigned.replicas or target in assigned.removing
            since = max(
                self.znodes.free_at.get((target, partition), -LATE), self.znodes.deleted_at.get(partition.topic, -LATE)
            )
            if not free and partition.topic not in self.deleting and self.now - since > LATE:
                yield f"{fact.target} is to delete {partition}, of which it is a replica: {assigned}"

    @invariant("brokers leave the ISR before they stop", "controller.md 7.4", ControlledShutdownRequest)
    def _brokers_leave_the_isr_before_they_stop(self, fact: observed_facts.ResponseSent) -> Iterator[str]:
        """When the controller permits a broker to stop, the broker is in no ISR that has other members.

        The exception: a leader adds the broker to an ISR while the controller handles the request. The controller reads
        the partition states once and writes only the states whose ISR has the broker (Kafka 2.6
        `ReplicaStateMachine.removeReplicasFromIsr`), and a fetch in flight can bring the broker back afterwards.
        KIP-841 rules this out in later versions.
        """
        request, response = fact.request, fact.response
        if response.error_code != errors.NONE or response.remaining_partitions or fact.node != self.znodes.controller:
            return
        for partition, state in self.states.items():
            if request.broker_id in state.isr and len(state.isr) > 1 and partition.topic not in self.deleting:
                before = fact.states.get(partition)
                added_at = self.znodes.in_sync_since.get((request.broker_id, partition), 0.0)
                if before is not None and before.leader_epoch == state.leader_epoch and added_at >= fact.at:
                    continue
                yield f"{request.broker_id} may stop, and is in the ISR {state.isr} of {partition}"

    @invariant("no handler fails unexpectedly", "`validate()` of each actor; controller.md 1.1.3")
    def _no_handler_fails_unexpectedly(self, fact: observed_facts.HandlerFailed) -> Iterator[str]:
        if not fact.error.startswith(HANDLED_ERRORS):
            yield f"node {fact.node}: {fact.message}: {fact.error}"

    @invariant("leaders are elected in time", "controller.md 7.1, 7.5")
    def _leaders_are_elected_in_time(self, fact: observed_facts.Ticked) -> Iterator[str]:
        """Healthy brokers elect a controller, and a healthy controller elects leaders, also under lasting faults."""
        lasts = 0.0 if self._uncontrolled_at is None else self.now - self._uncontrolled_at
        controller = self.znodes.controller
        if lasts <= ELECTION and not self._leaderless_since:
            return
        well = [node for node in self.registered if self.observed.healthy_for(node) > ELECTION]
        if controller not in self.registered and well and lasts > ELECTION:
            yield f"there is no controller for {lasts:.1f} s, and {well} are healthy"
        if controller not in well or self.znodes.controlled_for() < ELECTION:
            return
        for partition, since in self._leaderless_since.items():
            state, seconds = self.states[partition], self.now - since
            able = [node for node in state.isr if node in well]
            if able and seconds > ELECTION and partition.topic not in self.deleting:
                yield (
                    f"{partition} has leader {state.leader} for {seconds:.1f} s, and {able} of its"
                    f" ISR {state.isr} are healthy, as is controller {controller}"
                )
