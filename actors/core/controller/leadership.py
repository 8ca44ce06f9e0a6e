"""Read and write partition states in ZooKeeper, for the partition and replica state machines (controller.md 2.5).

Rule 1: One request to the ZooKeeper bridge reads or writes many partitions.
Rule 2: A write succeeds only if the znode has the expected version. The state machines base their first write on cached
        states, without a read. Partitions that have no cached state, or whose first write fails, are read and written
        again. After a read, only partitions whose znode has another version are read and written again (trap T2).
Rule 3: A partition whose znode was written by a newer controller is not changed.
Rule 4: A failure of a partition is logged and recorded in the trace, and leaves its state unchanged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from actors.core.controller.context import ControllerContext
from actors.core.controller.failures import passing
from actors.core.controller.instructions import RecordRefusals
from actors.core.controller.states import State
from messages.ask import AskFailed
from messages.cluster import LeaderIsrAndControllerEpoch, Leadership, TopicPartition, leader_isr_and_epoch
from messages.events import Refusal, StateChangesRefused
from messages.flow.conversation import Flow, ask, for_each
from messages.probes import probe
from messages.store import BAD_VERSION, CODE_NAMES, OK
from messages.zookeeper import GetPartitionStates, UpdatePartitionStates

log = logging.getLogger("state.change.logger")

Failures = dict[TopicPartition, str]
"""Partition -> reason why its state did not change."""

MOVES = 500
"""Number of partitions or replicas moved at a time, with one read and one write, at about 10 microseconds each."""

_FAILURES_LOGGED = 20


def known_states(
    context: ControllerContext, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, LeaderIsrAndControllerEpoch]:
    """Return the cached states of these partitions, without those written by a newer controller (rules 2 and 3)."""
    known, epoch = context.leadership.find(partitions, None), context.epoch
    return {
        tp: state
        for tp, state in zip(partitions, known, strict=True)
        if state is not None and state.controller_epoch <= epoch
    }


def read_states(
    context: ControllerContext, partitions: Sequence[TopicPartition], failures: Failures
) -> Flow[dict[TopicPartition, LeaderIsrAndControllerEpoch]]:
    """Read the states of these partitions; return those that this controller may change (rule 3)."""
    states: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
    try:
        read = yield from ask(GetPartitionStates(tuple(partitions)))
    except AskFailed as error:
        failures.update(dict.fromkeys(partitions, str(passing(error))))
        return states
    for partition, state, error_text in read.states:
        if state is None:
            failures[partition] = error_text or "it has no state znode"
        elif state.controller_epoch > context.epoch:
            probe("a controller reads a state that a newer controller wrote")
            failures[partition] = f"its state was written by a controller of epoch {state.controller_epoch}"
        else:
            states[partition] = state
    return states


def write_states(
    context: ControllerContext, updates: Sequence[Leadership], failures: Failures, as_known: bool = False
) -> Flow[tuple[list[Leadership], list[TopicPartition]]]:
    """Write partition states conditionally and cache those that were written.

    Args:
        updates: New states with the expected ZooKeeper versions.
        failures: Receives the reason for each partition that failed.
        as_known: Whether the updates are based on cached states. If so, each partition whose write fails is returned
            to be read again; otherwise a partition is returned only if its znode does not have the expected version.

    Returns:
        The written states with their new ZooKeeper versions, and the partitions to read again.
    """
    written: list[Leadership] = []
    again: list[TopicPartition] = []
    if not updates:
        return written, again
    try:
        answer = yield from ask(UpdatePartitionStates(tuple(updates), context.epoch_zk_version))
    except AskFailed as error:
        failures.update(dict.fromkeys((tp for tp, _ in updates), str(passing(error))))
        return written, again
    for (partition, new), result in zip(updates, answer.results, strict=True):
        if result.code == OK:
            state = leader_isr_and_epoch(new.leader, new.leader_epoch, new.isr, new.controller_epoch, result.zk_version)
            written.append(Leadership(partition, state))
        elif result.code == BAD_VERSION or as_known:
            again.append(partition)
        else:
            failures[partition] = f"its state could not be written: {CODE_NAMES[result.code]}"
    context.learn_leaderships(written)
    if again:
        probe("T2 only the states that met another version are written again")
    return written, again


def refuse(context: ControllerContext, what: str, failures: Failures) -> Flow[None]:
    """Record all failures in the trace, and log the first ones, one per line, and the number of further failures.

    Args:
        what: The failed action, for example "move to OnlinePartition".
    """
    for partition, why in list(failures.items())[:_FAILURES_LOGGED]:
        log.error("%s Failed to %s for partition %s: %s", context.tag, what, partition, why)
    if len(failures) > _FAILURES_LOGGED:
        log.error(
            "%s Failed to %s for %d more partitions (not listed)", context.tag, what, len(failures) - _FAILURES_LOGGED
        )
    yield from record_refusals(what, failures)


def illegal_reasons(illegal: Mapping[TopicPartition, State]) -> Failures:
    """Return the reasons for state changes that the transition table does not have, by partition."""
    return {partition: f"it is in state {state.value}" for partition, state in illegal.items()}


def record_refusals(what: str, failures: Mapping[TopicPartition, str]) -> Flow[None]:
    """Record in the trace that `what` was refused for these partitions, which the caller logs."""

    def record(part: Sequence[tuple[TopicPartition, str]]) -> Flow[None]:
        yield RecordRefusals(StateChangesRefused(what, tuple([Refusal(*each) for each in part])))

    yield from for_each(failures.items(), record)
