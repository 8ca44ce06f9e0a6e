"""Record the state changes that a simulated cluster's controllers make to partitions and replicas.

Rule 1: the table of valid changes (controller.md 3.1 and 3.3) does not depend on the table in the tested code. So a
        check finds errors in the tested code.
Rule 2: changes are read from the controller's history. The state before each change is stored here, beginning when an
        active controller is idle for the first time.
Rule 3: a re-created topic starts without previous states: the first change of each partition is not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from actors.core.controller.context import ControllerContext
from actors.core.controller.states import PartitionState, ReplicaState, State, StateChangeRequest
from messages.cluster import TopicPartition

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


@attrs.frozen
class StateChanged:
    """A controller changed the state of partitions or replicas.

    `before` has the previous states of the changed partitions or replicas, and `target` is their new state. `kept` has
    the states of the partitions or replicas that the controller meant to change but did not change.
    """

    node: int
    target: State
    broker: int | None
    before: dict[TopicPartition, State]
    kept: dict[TopicPartition, State]


class StateChanges:
    """A recorder of the state changes that all controllers of a simulated cluster make."""

    def __init__(self) -> None:
        self._terms: dict[int, _Term] = {}

    def made(self, node: int, controller: Any, born: Mapping[str, int]) -> Iterator[StateChanged]:
        """Yield the state changes that a node's controller made since the last call. `born` has each topic's czxid."""
        context: ControllerContext = controller.context
        term = self._terms.get(node)
        if not context.active:
            self._terms.pop(node, None)
        elif term is not None and term.continues(context):
            yield from term.made(node, born)
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
        """Return true if the term has not ended and the history still has all changes since the last call of `made`."""
        return (
            context is self.context
            and context.epoch == self.epoch
            and context.history.last - self._last <= context.history.CALLS
        )

    def made(self, node: int, born: Mapping[str, int]) -> Iterator[StateChanged]:
        """Yield the changes since the last call."""
        for call in self.context.history.since(self._last):
            kept = dict(self._unmoved(call, born))
            yield StateChanged(node, call.target, call.broker_id, dict(self._before(call, born)), kept)
        self._last = self.context.history.last

    def _unmoved(self, call: StateChangeRequest, born: Mapping[str, int]) -> Iterator[tuple[TopicPartition, State]]:
        moved = set(call.moved()) if any(call.unmoved) else set(call.partitions)
        for partition in call.partitions:
            state, was = self._seen.get((call.broker_id, partition), (None, 0))
            if partition not in moved and state is not None and was == born.get(partition.topic, 0):
                yield partition, state

    def _before(self, call: StateChangeRequest, born: Mapping[str, int]) -> Iterator[tuple[TopicPartition, State]]:
        seen, broker = self._seen, call.broker_id
        nowhere: State = _P.NON_EXISTENT if broker is None else _R.NON_EXISTENT
        for partition in call.moved():
            life = born.get(partition.topic, 0)
            state, was = seen.get((broker, partition), (nowhere, life))
            seen[broker, partition] = call.target, life
            if was == life:
                yield partition, state
