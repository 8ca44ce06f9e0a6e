"""The states of partitions and replicas, and the tables of state changes (controller.md 3.1, 3.3).

The two tables are defined in `partition_state_machine` and `replica_state_machine`. The tables and diagrams of the
documentation are generated from them.

Rule 1: An unknown partition or replica is in its NON_EXISTENT state.
Rule 2: A move is legal only if a row of the table contains it, and only that row's function makes it.
Rule 3: An illegal move is logged with the partition or replica, its states and its last moves. This partition or
        replica is not moved; the other partitions or replicas of the call are moved.
"""

from __future__ import annotations

import enum
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from actors.core.illegal_transition import IllegalTransition, expected_states_text
from messages.cluster import TopicPartition
from messages.flow.conversation import Flow
from messages.vocabulary import AnyMessage, value_class

log = logging.getLogger("state.change.logger")


class PartitionState(enum.Enum):
    """The state of a partition; its value is the state's name in Kafka."""

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"


class ReplicaState(enum.Enum):
    """The state of a replica; its value is the state's name in Kafka."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"


State = PartitionState | ReplicaState


@value_class
class Transition:
    """A row of the transition table: the states that may change to `target`, and the function that makes the change.

    `make` is called with a PartitionStep or ReplicaStep, which contains the partitions or replicas to change. The first
    paragraph of the docstring of `make` is the description of the change in the documentation. `requests` describes the
    requests that the change causes.
    """

    target: State
    previous: tuple[State, ...]
    make: Callable[[AnyMessage], Flow[None]]
    requests: str = "none"

    @property
    def action(self) -> str:
        """Description of the change, one sentence."""
        return " ".join((self.make.__doc__ or "").partition("\n\n")[0].split())


class Table:
    """The transition table of a state machine."""

    def __init__(self, *rows: Transition) -> None:
        self.rows = rows

    def into(self, target: State) -> tuple[Transition, ...]:
        """Return the transitions to the state `target`."""
        return tuple(row for row in self.rows if row.target is target)

    def sort(
        self,
        target: State,
        subjects: Sequence[TopicPartition],
        states: Sequence[State],
        illegal: dict[TopicPartition, State],
    ) -> list[tuple[Transition, Sequence[TopicPartition]]]:
        """Group the partitions or replicas (`subjects`) by the table row that moves each of them to `target`.

        Args:
            states: The current state of each subject.
            illegal: Receives each subject that no row moves, with its current state.
        """
        if states.count(states[0]) == len(states):  # usually all subjects have the same state
            together = [(row, subjects) for row in self.into(target) if states[0] in row.previous]
            if not together:
                illegal.update(dict.fromkeys(subjects, states[0]))
            return together[:1]
        sorted_: list[tuple[Transition, list[TopicPartition]]] = [(row, []) for row in self.into(target)]
        for subject, current in zip(subjects, states, strict=True):
            for row, legal in sorted_:
                if current in row.previous:
                    legal.append(subject)
                    break
            else:
                illegal[subject] = current
        return [(row, legal) for row, legal in sorted_ if legal]

    def previous(self, target: State) -> tuple[State, ...]:
        """Return the states from which `target` can be entered."""
        return tuple(state for row in self.into(target) for state in row.previous)


class StateChangeRequest(NamedTuple):
    """A recorded request for a state change: the partitions that it named, and which of them did not change."""

    n: int
    target: State
    broker_id: int | None
    partitions: list[TopicPartition]
    unmoved: tuple[Collection[TopicPartition], ...]

    def moved_partitions(self) -> Iterator[TopicPartition]:
        """Return the partitions whose state changed."""
        return (each for each in self.partitions if not any(each in unmoved for unmoved in self.unmoved))


class History:
    """The most recent calls that requested state changes of partitions or replicas.

    It keeps references to the partition sequences of the calls, not copies. A lookup searches these sequences; only
    error messages need a lookup. A separate history for each partition would cost 40 MB.
    """

    CALLS = 24
    STORIES = 20
    """Maximum number of illegal moves of a call that are logged."""

    def __init__(self) -> None:
        self.last = 0
        """Number of calls so far."""
        self._calls: deque[StateChangeRequest] = deque(maxlen=self.CALLS)

    def record_move(
        self,
        target: State,
        partitions: list[TopicPartition],
        *unmoved: Collection[TopicPartition],
        broker_id: int | None = None,
    ) -> None:
        """Record that partitions, or their replicas on a broker, moved to `target`, except those in `unmoved`."""
        if partitions:
            self.last += 1
            self._calls.append(StateChangeRequest(self.last, target, broker_id, partitions, unmoved))

    def tables(self) -> list[list[TopicPartition]]:
        """Return the partitions of all recorded calls, to be freed."""
        return [call.partitions for call in self._calls]

    def requests_after(self, n: int) -> Iterator[StateChangeRequest]:
        """Return the recorded calls after the n-th."""
        return (call for call in self._calls if call.n > n)

    def describe(self, partition: TopicPartition, broker_id: int | None = None) -> str:
        """Describe the last state changes of a partition, or of its replica on a broker, oldest first."""
        states = [
            call.target.value
            for call in self._calls
            if call.broker_id == broker_id
            and partition in call.partitions
            and not any(partition in unmoved for unmoved in call.unmoved)
        ]
        return " -> ".join(states) or f"none among the last {len(self._calls)} state changes"

    def refuse(
        self,
        who: str,
        target: State,
        illegal: Mapping[TopicPartition, State],
        table: Table,
        broker_id: int | None = None,
    ) -> None:
        """Log invalid state changes (rule 3).

        Args:
            who: The controller's log prefix.
            illegal: The partitions whose state was not changed, with their current states.
        """
        replica = "" if broker_id is None else f"replica {broker_id} of "
        legal = expected_states_text(table.previous(target))
        for partition, current in islice(illegal.items(), self.STORIES):
            details = f"{legal}; its last state changes: {self.describe(partition, broker_id)}"
            error = IllegalTransition(f"{replica}partition {partition}", current, target, details)
            log.error("%s Invalid state change: %s", who, error)
        if len(illegal) > self.STORIES:
            unlisted = len(illegal) - self.STORIES
            log.error("%s %d more invalid state changes to %s (not listed)", who, unlisted, target.value)
