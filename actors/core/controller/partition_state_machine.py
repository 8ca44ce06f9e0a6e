"""The partition state machine, which changes the states of partitions and elects leaders (controller.md 3.1, 3.2).

Rule 1: `TABLE` defines the legal moves and the function that makes each move.
Rule 2: One call makes one batch of requests and sends it at the end. Partitions are moved in slices, each with one read
        and one conditional write.
Rule 3: A failure of a partition is logged and leaves its state unchanged. The requests of the other partitions are
        sent.

Kafka: `PartitionStateMachine`, `ZkPartitionStateMachine`.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Iterable, Sequence

from actors.core.controller import elections, log_text
from actors.core.controller.batch import RequestBatch
from actors.core.controller.context import ControllerContext, target_replicas
from actors.core.controller.elections import Candidates, Choice, Strategy
from actors.core.controller.failures import passing
from actors.core.controller.leadership import (
    MOVES,
    Failures,
    illegal_reasons,
    known_states,
    read_states,
    record_refusals,
    refuse,
    write_states,
)
from actors.core.controller.states import PartitionState, State, Table, Transition
from messages.ask import AskFailed
from messages.cluster import LeaderIsrAndControllerEpoch, Leadership, TopicPartition, leader_isr_and_epoch
from messages.events import NOT_ELECTED
from messages.flow.conversation import Flow, ask, for_each
from messages.store import CODE_NAMES, OK
from messages.vocabulary import value_class
from messages.zookeeper import CreatePartitionStates, GetTopicConfigs

log = logging.getLogger("state.change.logger")

_LEADER = operator.attrgetter("leader")

UNCLEAN_ELECTION = "unclean.leader.election.enable"


@value_class
class PartitionStep:
    """Partitions that change to the state `target` according to the same row of the transition table.

    `strategy` elects the leaders of partitions that had a leader before. If `allow_unclean` is true, unclean elections
    are allowed for all topics and the topic configs are not read. `begun` contains the topics for which this call of
    `move_partitions` has already created partition states.
    """

    context: ControllerContext
    partitions: Sequence[TopicPartition]
    target: PartitionState
    strategy: Strategy
    allow_unclean: bool
    batch: RequestBatch
    failures: Failures
    begun: set[str]


def move_partitions(
    context: ControllerContext,
    partitions: Iterable[TopicPartition],
    target: PartitionState,
    strategy: Strategy = elections.offline,
    allow_unclean: bool = False,
    where: Callable[[TopicPartition], bool] | None = None,
) -> Flow[Failures]:
    """Move partitions to `target`.

    Args:
        where: Only the partitions that pass this test are moved; None for all.

    Returns:
        Partition -> reason, for each partition that failed. Illegal moves are only logged.
    """
    failures: Failures = {}
    illegal: dict[TopicPartition, State] = {}
    begun: set[str] = set()
    moving: list[TopicPartition] = []
    batch = RequestBatch(context)

    def move(part: Sequence[TopicPartition]) -> Flow[None]:
        moving.extend(part)
        states = context.partition_states.find(part, PartitionState.NON_EXISTENT)
        for row, legal in TABLE.sort(target, part, states, illegal):
            yield from row.make(PartitionStep(context, legal, target, strategy, allow_unclean, batch, failures, begun))

    yield from for_each(partitions, move, MOVES, where)
    context.history.refuse(context.tag, target, illegal, TABLE)
    context.history.record_move(target, moving, failures, illegal)
    yield from refuse(context, f"move to {target.value}", failures)
    yield from record_refusals(f"move to {target.value}", illegal_reasons(illegal))
    yield from batch.send()
    return failures


def trigger_online(context: ControllerContext, topic: str | None = None) -> Flow[Failures]:
    """Elect leaders for all leaderless partitions, or only those of one topic.

    Topics that are queued for deletion are excluded.
    """

    def waits(partition: TopicPartition) -> bool:
        return topic in (None, partition.topic) and not context.is_queued_for_deletion(partition)

    return (yield from move_partitions(context, tuple(context.leaderless), PartitionState.ONLINE, where=waits))


def start(context: ControllerContext) -> Flow[None]:
    """Set each partition's state from its leadership, then elect the missing leaders (controller.md 3.4)."""
    leaderships = context.leadership

    def collect(part: Sequence[TopicPartition]) -> None:
        known = leaderships.find(part, None)
        if all(known) and not context.offline_dirs and context.online_brokers.issuperset(map(_LEADER, known)):
            context.set_partitions_online(part)
            return
        for partition, leadership in zip(part, known, strict=True):
            if leadership is None:
                state = PartitionState.NEW
            elif context.is_online(leadership.leader, partition):
                state = PartitionState.ONLINE
            else:
                state = PartitionState.OFFLINE
            context.set_partition_state(partition, state)

    yield from for_each(context.assignments, collect)
    yield from trigger_online(context)


def enter(step: PartitionStep) -> Flow[None]:
    """Set the partitions' state; change nothing else."""
    _enter(step, step.partitions)
    yield from ()


def create(step: PartitionStep) -> Flow[None]:
    """Create the state znode: the first online replica leads, all online replicas are the ISR."""
    context, failures = step.context, step.failures
    states = []
    known: dict[tuple[int, ...], LeaderIsrAndControllerEpoch] = {}
    """ISR -> state, shared by all partitions with the same online replicas."""
    for partition in step.partitions:
        online = context.online_for(partition)
        isr = tuple([r for r in context.assignments[partition].replicas if r in online])
        if not isr:
            failures[partition] = "none of its replicas is online"
            continue
        if isr not in known:
            known[isr] = leader_isr_and_epoch(isr[0], 0, isr, context.epoch, 0)
        states.append(Leadership(partition, known[isr]))
    if not states:
        return
    topics = {tp.topic for tp, _ in states}
    begun = tuple(sorted(topics & step.begun))
    step.begun.update(topics)
    try:
        written = yield from ask(CreatePartitionStates(tuple(states), context.epoch_zk_version, begun))
    except AskFailed as error:
        failures.update(dict.fromkeys((tp for tp, _ in states), str(passing(error))))
        return
    created = []
    for each, result in zip(states, written.results, strict=True):
        if result.code == OK:
            created.append(each)
        else:
            failures[each.partition] = f"its state could not be created: {CODE_NAMES[result.code]}"
    context.learn_leaderships(created)
    for partition, state in created:
        step.batch.add_leader_and_isr(state.isr, partition, state, context.assignments[partition], is_new=True)
    _enter(step, [partition for partition, _ in created])


def elect(step: PartitionStep) -> Flow[None]:
    """Elect leaders by the strategy and write them.

    If the znode of a partition has another version than expected, its state is read and the election is repeated.
    """
    context, remaining = step.context, step.partitions
    states = known_states(context, remaining)
    as_known = True
    while remaining:
        failures = {} if as_known else step.failures
        if not as_known:
            states = yield from read_states(context, remaining, failures)
        choices = yield from _choose(step, states, failures)
        updates = [
            Leadership(
                partition,
                leader_isr_and_epoch(
                    choice.leader,
                    states[partition].leader_epoch + 1,
                    choice.isr,
                    context.epoch,
                    states[partition].zk_version,
                ),
            )
            for partition, choice in choices.items()
        ]
        asked = remaining
        written, remaining = yield from write_states(context, updates, step.failures, as_known)
        if as_known and len(written) < len(asked):
            settled = step.failures.keys() | {tp for tp, _ in written}
            remaining = [tp for tp in asked if tp not in settled]
        as_known = False
        for partition, state in written:
            choice = choices[partition]
            context.count_election(choice.unclean)
            assignment = context.assignments[partition]
            step.batch.add_leader_and_isr(choice.recipients, partition, state, assignment, is_new=False)
        _enter(step, [partition for partition, _ in written])


def _enter(step: PartitionStep, partitions: Sequence[TopicPartition]) -> None:
    # Kafka logs each change at INFO. Here the level is DEBUG, which only the option `--logs` enables.
    if log.isEnabledFor(logging.DEBUG):
        for partition in partitions:
            _log_change(step, partition)
    if step.target is PartitionState.ONLINE:
        step.context.set_partitions_online(partitions)
    else:
        for partition in partitions:
            step.context.set_partition_state(partition, step.target)


def _log_change(step: PartitionStep, partition: TopicPartition) -> None:
    context = step.context
    before, after = context.partition_state(partition).value, step.target.value
    if step.target is PartitionState.ONLINE:
        log.debug(
            "%s Changed partition %s from %s to %s with state %s",
            *(context.tag, partition, before, after, log_text.leader_and_isr(context.leadership[partition])),
        )
    else:
        log.debug(
            "%s Changed partition %s state from %s to %s with assigned replicas %s",
            *(context.tag, partition, before, after, log_text.join_values(context.assignment(partition).replicas)),
        )


def _choose(
    step: PartitionStep, states: dict[TopicPartition, LeaderIsrAndControllerEpoch], failures: Failures
) -> Flow[dict[TopicPartition, Choice]]:
    """Return the strategy's choice for each partition.

    Partitions for which no leader can be elected are added to `failures`.
    """
    context, strategy, allow_unclean = step.context, step.strategy, step.allow_unclean
    assignments, offline_dirs = context.assignments, context.offline_dirs
    unclean: dict[str, bool] = {}
    if strategy is elections.offline and not allow_unclean:
        unclean = yield from _unclean_allowed(context, states, failures)
    choices: dict[TopicPartition, Choice] = {}
    known: dict[tuple[object, ...], Choice | None] = {}
    """Choices by all inputs that differ between partitions while no log directory is offline; many partitions share
    one.
    """
    for partition, state in states.items():
        if partition in failures:
            continue
        assignment = assignments[partition]
        may_be_unclean = allow_unclean or unclean.get(partition.topic, False)
        key = assignment.replicas, assignment.removing, state.isr, may_be_unclean
        if offline_dirs or key not in known:
            known[key] = strategy(
                Candidates(
                    assignment.replicas,
                    state.isr,
                    context.online_for(partition),
                    context.reachable_for(partition),
                    context.shutting_down,
                    target_replicas(assignment) if assignment.removing else assignment.replicas,
                    may_be_unclean,
                )
            )
        choice = known[key]
        if choice is None:
            name = elections.NAMES[strategy]
            failures[partition] = f"{NOT_ELECTED} for partition {partition} under strategy {name}"
        else:
            choices[partition] = choice
    return choices


def is_true(value: str) -> bool:
    """Return the value of a boolean setting; any text other than true is false."""
    return value.strip().lower() == "true"


def _unclean_allowed(
    context: ControllerContext, states: dict[TopicPartition, LeaderIsrAndControllerEpoch], failures: Failures
) -> Flow[dict[str, bool]]:
    """Return for each topic whether it allows unclean elections.

    Only topics with a partition that has no online ISR member are included. If a topic's config cannot be read, its
    partitions fail.
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
            default = context.unclean_by_default
            allowed[topic] = default if override is None else is_true(override)
    for partition in needy:
        if partition.topic not in allowed:
            failures[partition] = "the topic's configuration cannot be read"
    return allowed


_P = PartitionState

TABLE = Table(
    Transition(_P.NON_EXISTENT, (_P.OFFLINE,), enter),
    Transition(_P.NEW, (_P.NON_EXISTENT,), enter),
    Transition(_P.ONLINE, (_P.NEW,), create, "LeaderAndIsr isNew to the ISR, UpdateMetadata to all"),
    Transition(
        _P.ONLINE, (_P.ONLINE, _P.OFFLINE), elect, "LeaderAndIsr to the strategy's recipients, UpdateMetadata to all"
    ),
    Transition(_P.OFFLINE, (_P.NEW, _P.ONLINE, _P.OFFLINE), enter),
)
"""Legal moves, the functions that make them, and the requests that they cause (controller.md 3.1)."""
