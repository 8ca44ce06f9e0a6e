"""The partition state machine at work: creating partitions' states and electing their leaders (controller.md 3.1, 3.2).

Rule 1: one step handles all its partitions together: one read, one conditional write, one batch of requests.
Rule 2: a write that met another version is tried again after a new read, for the partitions left over only (trap T2).
Rule 3: a partition whose znode was written by a newer controller is not touched.
Rule 4: what fails for a partition is logged and leaves it where it was; the requests of the others go out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from actors.core.controller import elections
from actors.core.controller.batch import RequestBatch
from actors.core.controller.context import ControllerContext, target_replicas
from actors.core.controller.elections import Candidates, Choice, Strategy
from actors.core.controller.instructions import passing
from actors.core.controller.states import PARTITION_TABLE, PartitionState, refuse
from messages.cluster import LeaderIsrAndControllerEpoch, Leadership, TopicPartition
from messages.conversation import AskFailed, Flow, ask
from messages.store import BAD_VERSION, CODE_NAMES, OK
from messages.zookeeper import (
    CreatePartitionStates,
    GetPartitionStates,
    GetTopicConfigs,
    UpdatePartitionStates,
)

log = logging.getLogger("state.change.logger")

Failures = dict[TopicPartition, str]
"""Partition -> why its state did not change."""

UNCLEAN_ELECTION = "unclean.leader.election.enable"
_FAILURES_LOGGED = 20


def move_partitions(
    context: ControllerContext,
    partitions: Sequence[TopicPartition],
    target: PartitionState,
    strategy: Strategy = elections.offline,
    allow_unclean: bool = False,
) -> Flow[Failures]:
    """Move partitions to `target`; who could not, and why (illegal moves are logged only).

    `strategy` elects the leaders of those that go Online from another state than New. `allow_unclean` spares the
    look at the topics' configurations.
    """
    failures: Failures = {}
    legal = PARTITION_TABLE[target].previous
    valid = []
    for partition in partitions:
        current = context.partition_state(partition)
        if current in legal:
            valid.append(partition)
        else:
            refuse(f"{context.tag} partition {partition}", current, target)
    if not valid:
        return failures
    if target is not PartitionState.ONLINE:
        for partition in valid:
            _change(context, partition, target)
        return failures
    batch = RequestBatch(context)
    created = [tp for tp in valid if context.partition_states[tp] is PartitionState.NEW]
    elected = [tp for tp in valid if context.partition_states[tp] is not PartitionState.NEW]
    if created:
        yield from _create(context, created, batch, failures)
    if elected:
        yield from _elect(context, elected, strategy, allow_unclean, batch, failures)
    log_failures(context, f"move to {target.value}", failures)
    yield from batch.send()
    return failures


def trigger_online(context: ControllerContext, topic: str | None = None) -> Flow[Failures]:
    """Try all partitions (of one topic) that have no leader, but those of topics that are being deleted."""
    waiting = [tp for tp in context.leaderless if tp.topic not in context.queued and topic in (None, tp.topic)]
    return (yield from move_partitions(context, waiting, PartitionState.ONLINE))


def start(context: ControllerContext) -> Flow[None]:
    """Set every partition's state by what its leadership says, then elect where there is no leader (3.4)."""
    for partition in context.assignments:
        leadership = context.leadership.get(partition)
        if leadership is None:
            state = PartitionState.NEW
        elif context.is_online(leadership.leader, partition):
            state = PartitionState.ONLINE
        else:
            state = PartitionState.OFFLINE
        context.set_partition_state(partition, state)
    yield from trigger_online(context)


def log_failures(context: ControllerContext, what: str, failures: Failures) -> None:
    """One line per failure, for the first of them, and the number of the others."""
    for partition, why in list(failures.items())[:_FAILURES_LOGGED]:
        log.error("%s failed to %s for %s: %s", context.tag, what, partition, why)
    if len(failures) > _FAILURES_LOGGED:
        log.error("%s failed to %s for %d more", context.tag, what, len(failures) - _FAILURES_LOGGED)


def _change(context: ControllerContext, partition: TopicPartition, target: PartitionState) -> None:
    if log.isEnabledFor(logging.DEBUG):
        log.debug(
            "%s Changed partition %s state from %s to %s with assigned replicas %s",
            context.tag,
            partition,
            context.partition_state(partition).value,
            target.value,
            ",".join(str(r) for r in context.assignment(partition).replicas),
        )
    context.set_partition_state(partition, target)


def _create(
    context: ControllerContext, partitions: Iterable[TopicPartition], batch: RequestBatch, failures: Failures
) -> Flow[None]:
    """New -> Online: the first online replica leads, all online replicas are the ISR."""
    states = []
    for partition in partitions:
        online = context.online_for(partition)
        isr = tuple(r for r in context.assignments[partition].replicas if r in online)
        if isr:
            states.append(Leadership(partition, LeaderIsrAndControllerEpoch(isr[0], 0, isr, context.epoch, 0)))
        else:
            failures[partition] = "none of its replicas is online"
    if not states:
        return
    try:
        written = yield from ask(CreatePartitionStates(tuple(states), context.epoch_zk_version))
    except AskFailed as error:
        failures.update(dict.fromkeys((tp for tp, _ in states), str(passing(error))))
        return
    for (partition, state), result in zip(states, written.results, strict=True):
        if result.code != OK:
            failures[partition] = f"its state could not be created: {CODE_NAMES[result.code]}"
            continue
        context.leadership[partition] = state
        batch.add_leader_and_isr(state.isr, partition, state, context.assignments[partition], is_new=True)
        _change(context, partition, PartitionState.ONLINE)


def _elect(
    context: ControllerContext,
    partitions: Sequence[TopicPartition],
    strategy: Strategy,
    allow_unclean: bool,
    batch: RequestBatch,
    failures: Failures,
) -> Flow[None]:
    """Online or Offline -> Online: read, choose, write, until no partition is left to try again (rule 2)."""
    remaining = partitions
    while remaining:
        states = yield from read_states(context, remaining, failures)
        choices = yield from _choose(context, states, strategy, allow_unclean, failures)
        updates = [
            Leadership(
                partition,
                LeaderIsrAndControllerEpoch(
                    choice.leader,
                    states[partition].leader_epoch + 1,
                    choice.isr,
                    context.epoch,
                    states[partition].zk_version,
                ),
            )
            for partition, choice in choices.items()
        ]
        written, remaining = yield from write_states(context, updates, failures)
        for partition, state in written:
            choice = choices[partition]
            context.unclean_elections += choice.unclean
            batch.add_leader_and_isr(choice.recipients, partition, state, context.assignments[partition], is_new=False)
            _change(context, partition, PartitionState.ONLINE)


def read_states(
    context: ControllerContext, partitions: Sequence[TopicPartition], failures: Failures
) -> Flow[dict[TopicPartition, LeaderIsrAndControllerEpoch]]:
    """The states of those partitions that have one which is ours to change (rule 3)."""
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
            failures[partition] = f"its state was written by a controller of epoch {state.controller_epoch}"
        else:
            states[partition] = state
    return states


def write_states(
    context: ControllerContext, updates: Sequence[Leadership], failures: Failures
) -> Flow[tuple[list[Leadership], list[TopicPartition]]]:
    """Write conditionally. What was written, now cached with the new version, and what has to be read again."""
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
            state = LeaderIsrAndControllerEpoch(
                new.leader, new.leader_epoch, new.isr, new.controller_epoch, result.zk_version
            )
            context.leadership[partition] = state
            written.append(Leadership(partition, state))
        elif result.code == BAD_VERSION:
            again.append(partition)
        else:
            failures[partition] = f"its state could not be written: {CODE_NAMES[result.code]}"
    return written, again


def _choose(
    context: ControllerContext,
    states: dict[TopicPartition, LeaderIsrAndControllerEpoch],
    strategy: Strategy,
    allow_unclean: bool,
    failures: Failures,
) -> Flow[dict[TopicPartition, Choice]]:
    """What the strategy says of each partition."""
    unclean: dict[str, bool] = {}
    if strategy is elections.offline and not allow_unclean:
        unclean = yield from _unclean_allowed(context, states, failures)
    choices: dict[TopicPartition, Choice] = {}
    for partition, state in states.items():
        if partition in failures:
            continue
        assignment = context.assignments[partition]
        choice = strategy(
            Candidates(
                assignment.replicas,
                state.isr,
                context.online_for(partition),
                context.reachable_for(partition),
                context.shutting_down,
                target_replicas(assignment) if assignment.removing else assignment.replicas,
                allow_unclean or unclean.get(partition.topic, False),
            )
        )
        if choice is None:
            failures[partition] = f"no leader can be elected under strategy {elections.NAMES[strategy]}"
        else:
            choices[partition] = choice
    return choices


def _unclean_allowed(
    context: ControllerContext, states: dict[TopicPartition, LeaderIsrAndControllerEpoch], failures: Failures
) -> Flow[dict[str, bool]]:
    """Topic -> may its partitions elect uncleanly? Asked only for topics of partitions without an online ISR member.

    A topic whose configuration cannot be read elects nobody there.
    """
    needy = [partition for partition, state in states.items() if context.online_for(partition).isdisjoint(state.isr)]
    if not needy:
        return {}
    topics = tuple(dict.fromkeys(partition.topic for partition in needy))
    try:
        answer = yield from ask(GetTopicConfigs(topics))
    except AskFailed as error:
        failures.update(dict.fromkeys(needy, f"the topic's configuration cannot be read: {passing(error)}"))
        return {}
    allowed: dict[str, bool] = {}
    for topic, entries, readable in answer.topics:
        if readable:
            override = dict(entries).get(UNCLEAN_ELECTION)
            default = context.settings.unclean_leader_election_enable
            allowed[topic] = default if override is None else override.strip().lower() == "true"
    for partition in needy:
        if partition.topic not in allowed:
            failures[partition] = "the topic's configuration cannot be read"
    return allowed
