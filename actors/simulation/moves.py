"""What controllers move: partitions and replicas, each from the state in which it was last seen.

Rule 1: the legal moves stand here once more, as controller.md 3.1 and 3.3 have them: the product's tables are judged.
Rule 2: that something was moved is read from the controller's history; where it stood before is remembered here, from
        the first moment on at which a controller rests in its term.
Rule 3: a topic that is made anew has nothing to do with its past, whenever the controller learns of it: of its
        partitions the first move of each is taken as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from actors.core.controller.context import ControllerContext
from actors.core.controller.states import Call, PartitionState, ReplicaState, State
from messages.cluster import TopicPartition

_P, _R = PartitionState, ReplicaState

LEGAL: Mapping[State, frozenset[State]] = {
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
"""From where each state may be entered."""


@attrs.frozen
class Moved:
    """A controller moved partitions, or their replicas on a broker, to `target`; `before` is where each stood."""

    node: int
    target: State
    broker: int | None
    before: dict[TopicPartition, State]


class Moves:
    """What the controllers of a cluster have moved."""

    def __init__(self) -> None:
        self._terms: dict[int, _Term] = {}

    def made(self, node: int, controller: Any, born: Mapping[str, int]) -> Iterator[Moved]:
        """What the controller on a node has moved since it was last looked at; `born` says which life of each topic
        this is.
        """
        context: ControllerContext = controller.context
        term = self._terms.get(node)
        if not context.active:
            self._terms.pop(node, None)
        elif term is not None and term.goes_on(context):
            yield from term.made(node, born)
        elif not controller.busy:
            self._terms[node] = _Term(context, born)


class _Term:
    """One controller's term: where everything was last seen."""

    def __init__(self, context: ControllerContext, born: Mapping[str, int]) -> None:
        self.context = context
        self.epoch = context.epoch
        self._last = context.history.last
        self._seen: dict[tuple[int | None, TopicPartition], tuple[State, int]] = {}
        """State and life of the topic, by broker (None: the partition itself)."""
        for partition, state in context.partition_states.items():
            self._seen[None, partition] = state, born.get(partition.topic, 0)
        for broker, states in context.replica_states.items():
            for partition, replica in states.items():
                self._seen[broker, partition] = replica, born.get(partition.topic, 0)

    def goes_on(self, context: ControllerContext) -> bool:
        """Whether that is the same term still, and its history tells all that was done since."""
        return (
            context is self.context
            and context.epoch == self.epoch
            and context.history.last - self._last <= context.history.CALLS
        )

    def made(self, node: int, born: Mapping[str, int]) -> Iterator[Moved]:
        """The calls since the last look."""
        for call in self.context.history.since(self._last):
            yield Moved(node, call.target, call.broker_id, dict(self._before(call, born)))
        self._last = self.context.history.last

    def _before(self, call: Call, born: Mapping[str, int]) -> Iterator[tuple[TopicPartition, State]]:
        seen, broker = self._seen, call.broker_id
        nowhere: State = _P.NON_EXISTENT if broker is None else _R.NON_EXISTENT
        for partition in call.moved():
            life = born.get(partition.topic, 0)
            state, was = seen.get((broker, partition), (nowhere, life))
            seen[broker, partition] = call.target, life
            if was == life:
                yield partition, state
