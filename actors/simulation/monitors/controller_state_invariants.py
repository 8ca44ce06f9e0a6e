"""The state changes of controllers, and the results of their events: what only a look at a controller shows.

Rule 1: the table of valid changes (controller.md 3.1 and 3.3) does not depend on the table in the tested code. So a
        check finds errors in the tested code.
Rule 2: changes are read from the controller's history. The state before each change is stored here, beginning when an
        active controller is idle for the first time.
Rule 3: a re-created topic starts without previous states: the first change of each partition is not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from thespian.actors import WakeupMessage

from actors.controller.channel import BrokerChannelActor
from actors.controller.controller import ControllerActor
from actors.core.controller.context import ControllerContext
from actors.core.controller.states import PartitionState, ReplicaState, State, StateChangeRequest
from actors.runtime import Delivery
from actors.simulation.monitors.controller_invariants import ELECTION
from actors.simulation.monitors.monitor import Monitor, invariant, looks
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.observed_facts import EventHandled, StateChanged, Ticked
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.cluster import TopicPartition
from messages.events import AutoPreferredReplicaLeaderElection, BrokerChange

_P, _R = PartitionState, ReplicaState

VALID_PREVIOUS_STATES: Mapping[State, frozenset[State]] = {
    _P.NEW: frozenset((_P.NON_EXISTENT,)),
    _P.ONLINE: frozenset((_P.NEW, _P.ONLINE, _P.OFFLINE)),
    _P.OFFLINE: frozenset((_P.NEW, _P.ONLINE, _P.OFFLINE)),
    _P.NON_EXISTENT: frozenset((_P.OFFLINE,)),
    _R.NEW: frozenset((_R.NON_EXISTENT,)),
    _R.ONLINE: frozenset((_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE)),
    _R.OFFLINE: frozenset((_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE)),
    _R.DELETION_STARTED: frozenset((_R.OFFLINE,)),
    _R.DELETION_SUCCESSFUL: frozenset((_R.DELETION_STARTED,)),
    _R.DELETION_INELIGIBLE: frozenset((_R.OFFLINE, _R.DELETION_STARTED)),
    _R.NON_EXISTENT: frozenset((_R.DELETION_SUCCESSFUL,)),
}
"""The states from which each state may be entered."""

CERTAIN: frozenset[State] = frozenset(
    (
        *(_P.NEW, _P.OFFLINE, _P.NON_EXISTENT),
        *(_R.DELETION_STARTED, _R.DELETION_SUCCESSFUL, _R.DELETION_INELIGIBLE, _R.NON_EXISTENT),
    )
)
"""The states that a controller enters without a write to ZooKeeper, so that a valid change cannot fail."""


class _StateChanges:
    """A recorder of the state changes that all controllers of a simulated cluster make."""

    def __init__(self) -> None:
        self._terms: dict[int, _Term] = {}

    def changes_since_last(self, node: int, controller: Any, born: Mapping[str, int]) -> Iterator[StateChanged]:
        """Yield the state changes that a node's controller made since the last call. `born` has each topic's czxid."""
        context: ControllerContext = controller.context
        term = self._terms.get(node)
        if not context.active:
            self._terms.pop(node, None)
        elif term is not None and term.continues(context):
            yield from term.changes_since_last(node, born)
        elif not controller.busy:
            self._terms[node] = _Term(context, born)


class _Term:
    """The term of one controller, with the states of its partitions and replicas."""

    def __init__(self, context: ControllerContext, born: Mapping[str, int]) -> None:
        self.context = context
        self.epoch = context.epoch
        self._last = context.history.last
        self._seen: dict[tuple[int | None, TopicPartition], tuple[State, int]] = {}
        """The state, and the topic's creation, by broker (None: the partition itself)."""
        for partition, state in context.partition_states.items():
            self._seen[None, partition] = state, born.get(partition.topic, 0)
        for broker, states in context.replica_states.items():
            for partition, replica in states.items():
                self._seen[broker, partition] = replica, born.get(partition.topic, 0)

    def continues(self, context: ControllerContext) -> bool:
        """Return true if the term goes on, and the history has all changes since the last `changes_since_last`."""
        return (
            context is self.context
            and context.epoch == self.epoch
            and context.history.last - self._last <= context.history.CALLS
        )

    def changes_since_last(self, node: int, born: Mapping[str, int]) -> Iterator[StateChanged]:
        """Yield the changes since the last call."""
        for call in self.context.history.requests_after(self._last):
            kept = dict(self._unmoved_states(call, born))
            yield StateChanged(node, call.target, call.broker_id, dict(self._states_before(call, born)), kept)
        self._last = self.context.history.last

    def _unmoved_states(
        self, call: StateChangeRequest, born: Mapping[str, int]
    ) -> Iterator[tuple[TopicPartition, State]]:
        moved = set(call.moved_partitions()) if any(call.unmoved) else set(call.partitions)
        for partition in call.partitions:
            state, was = self._seen.get((call.broker_id, partition), (None, 0))
            if partition not in moved and state is not None and was == born.get(partition.topic, 0):
                yield partition, state

    def _states_before(
        self, call: StateChangeRequest, born: Mapping[str, int]
    ) -> Iterator[tuple[TopicPartition, State]]:
        seen, broker = self._seen, call.broker_id
        nowhere: State = _P.NON_EXISTENT if broker is None else _R.NON_EXISTENT
        for partition in call.moved_partitions():
            life = born.get(partition.topic, 0)
            state, was = seen.get((broker, partition), (nowhere, life))
            seen[broker, partition] = call.target, life
            if was == life:
                yield partition, state


CHECKED_EVENTS = (BrokerChange, AutoPreferredReplicaLeaderElection)
"""The events after which invariants check the controller's result."""


class ControllerStateInvariants(Monitor):
    """The states of partitions and replicas in the context of the controller, and the results of some of its events."""

    def __init__(self, observed: ObservedCluster) -> None:
        super().__init__(observed)
        self._announced: dict[tuple[int, int], tuple[int, ...]] = {}
        """The live brokers that each node's controller last sent to each broker, by the broker's epoch."""
        self._balanced_at: dict[int, float] = {}
        """The time at which each node, as controller, last checked for imbalanced leaders."""
        self._changes = _StateChanges()

    def _find_handled(self, begun: EventHandled) -> Iterable[EventHandled]:
        """Return an event once its messages have arrived and the controller is idle."""
        is_over = self.cluster.machines[begun.node].node is not begun.process
        if not is_over and (self.now <= begun.at or begun.controller.busy):
            return ()
        del self.observed.pending[begun.node]
        return () if is_over or not begun.controller.context.active else (begun,)

    @looks(ControllerActor)
    def _note_state_changes(self, node: int, delivery: Delivery) -> Iterator[StateChanged]:
        """Yield the state changes that a controller has made, and note the event that it begins to handle."""
        controller = getattr(delivery.receiver, "actor", None)
        if isinstance(controller, ControllerActor):
            yield from self._changes.changes_since_last(node, controller, self.znodes.born)
        message = delivery.message
        event = message.payload if isinstance(message, WakeupMessage) else message
        if isinstance(event, AutoPreferredReplicaLeaderElection):
            self._balanced_at[node] = self.now
        if isinstance(event, CHECKED_EVENTS):
            process, controller = self.cluster.machines[node].node, self.cluster.actor(node, ControllerActor)
            before = dict(controller.context.leadership)
            assert process is not None
            begun = EventHandled(node, event, process, controller, before, self.now)
            self.observed.pending[node] = partial(self._find_handled, begun)

    @looks(BrokerChannelActor)
    def _brokers_sent(self, node: int, delivery: Delivery) -> Iterable[object]:
        """Note the live brokers that a controller sends to a broker."""
        message = delivery.message
        if isinstance(message, UpdateMetadataRequest):
            self._announced[node, message.broker_epoch] = tuple(broker.id for broker in message.live_brokers)
        return ()

    @invariant("live brokers are propagated", "controller.md 7.5, KAFKA-13225")
    def _live_brokers_are_propagated(self, fact: EventHandled) -> Iterator[str]:
        if isinstance(fact.event, BrokerChange):
            brokers = fact.controller.context.brokers
            for broker in brokers.values():
                sent_states = self._announced.get((fact.node, broker.epoch))
                if sent_states is not None and sent_states != tuple(brokers):
                    yield (
                        f"controller {fact.node} last sent live brokers {sent_states} to broker {broker.id},"
                        f" expected {tuple(brokers)}"
                    )

    @invariant("preferred leaders are elected", "controller.md 7.6, KAFKA-10149")
    def _preferred_leaders_are_elected(self, fact: EventHandled) -> Iterator[str]:
        if not isinstance(fact.event, AutoPreferredReplicaLeaderElection):
            return
        context = fact.controller.context
        preferred: dict[int, list[TopicPartition]] = {}
        for partition, assignment in context.assignments.items():
            if assignment.replicas and partition.topic not in context.queued:
                preferred.setdefault(assignment.replicas[0], []).append(partition)
        for broker, mine in preferred.items():
            led = {tp: context.leadership[tp] for tp in mine if tp in context.leadership}
            imbalanced = [tp for tp, state in led.items() if state.leader != broker]
            if 100 * len(imbalanced) > context.settings.leader_imbalance_per_broker_percentage * len(mine):
                for partition in imbalanced:
                    state = led[partition]
                    untouched = fact.before.get(partition) is state
                    # The leader may have removed the broker from the ISR meanwhile.
                    written = self.states.get(partition)
                    could = broker in state.isr and written is not None and broker in written.isr
                    if untouched and could and context.is_online(broker, partition):
                        yield (
                            f"controller {fact.node} kept leader {state.leader} of {partition}; {broker} is "
                            f"preferred and in the ISR"
                        )

    @invariant("state changes are valid", "controller.md 3.1, 3.3")
    def _state_changes_are_valid(self, fact: StateChanged) -> Iterator[str]:
        for partition, before in fact.before.items():
            if before not in VALID_PREVIOUS_STATES[fact.target]:
                what = partition if fact.broker is None else f"replica {fact.broker} of {partition}"
                yield f"controller {fact.node} changed {what} from {before.value} to {fact.target.value}"

    @invariant("valid state changes are made", "controller.md 3.1, 3.3")
    def _valid_state_changes_are_made(self, fact: StateChanged) -> Iterator[str]:
        if fact.target in CERTAIN:
            for partition, state in fact.kept.items():
                if state in VALID_PREVIOUS_STATES[fact.target]:
                    what = partition if fact.broker is None else f"replica {fact.broker} of {partition}"
                    yield f"controller {fact.node} did not change {what} from {state.value} to {fact.target.value}"

    @invariant("preferred leaders are looked for", "controller.md 7.6")
    def _preferred_leaders_are_looked_for(self, fact: Ticked) -> Iterator[str]:
        """A controller checks for leader imbalance at intervals of `leader.imbalance.check.interval.seconds`."""
        node, cluster = self.znodes.controller, self.cluster
        if node not in cluster.machines or not cluster.machines[node].settings.auto_leader_rebalance_enable:
            return
        every = cluster.machines[node].settings.leader_imbalance_check_interval_seconds * 1.03 + ELECTION
        last = self._balanced_at.get(node, 0.0)
        since = min(self.znodes.controlled_for(), self.now - last, self.observed.healthy_for(node))
        if since > every and node in cluster.controllers():
            yield f"controller {node} has not checked its leaders for {self.now - last:.1f} s"
