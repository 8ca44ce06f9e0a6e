"""`kafka-actors reassign-partitions`, which has the options and columns of Kafka's kafka-reassign-partitions.

Throttles are overrides of topics and brokers. They are set before the plan is submitted. The command that
verifies the plan's completion removes them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from actors.cli import reassignment_plan
from actors.cli.admin_client import AdminClient, with_client
from actors.cli.app import CommandFailed, text_of
from actors.cli.display import printable
from actors.cli.usage_errors import check_options, exit_codes, only_action
from actors.core.refusal import Refused
from messages import errors
from messages.apis.alter_configs import DELETE, SET, ConfigChange
from messages.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from messages.apis.alter_replica_log_dirs import AlterReplicaLogDirsRequest, ReplicaLogDir
from messages.apis.describe_configs import BROKER, TOPIC
from messages.apis.describe_log_dirs import DescribeLogDirsRequest
from messages.cluster import ReplicaAssignment, TopicPartition
from messages.error_names import name_of

IN_PROGRESS = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a"
    " new partition assignment in addition to the existing one. The --additional flag can also be used to change the"
    " throttle by resubmitting the current reassignment."
)
MOVE_VERSION, DESCRIBE_VERSION = 1, 1
RUN_VERIFY = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)


class ActionOptions(NamedTuple):
    """The options that one action of `reassign-partitions` requires (`needs`), and those that it permits (`may`)."""

    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()


PLAN = "reassignment-json-file"
ACTIONS = {
    "cancel": ActionOptions((PLAN,), ("preserve-throttles",)),
    "execute": ActionOptions((PLAN,), ("additional", "replica-alter-log-dirs-throttle", "throttle")),
    "generate": ActionOptions(("broker-list", "topics-to-move-json-file"), ("disable-rack-aware",)),
    "list": ActionOptions(),
    "verify": ActionOptions((PLAN,), ("preserve-throttles",)),
}
OPTIONS = sorted({option for action in ACTIONS.values() for option in (*action.needs, *action.may)})
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("reassign-partitions", epilog=exit_codes())
@with_client()
@click.option("--generate", is_flag=True, help="Print a proposed assignment; change nothing.")
@click.option("--execute", is_flag=True, help="Start the reassignments in the file.")
@click.option(
    "--verify",
    is_flag=True,
    help="Print whether the reassignments in the file are complete; if so, remove the throttles.",
)
@click.option("--cancel", is_flag=True, help="Cancel the ongoing reassignments in the file.")
@click.option("--list", is_flag=True, help="List all ongoing reassignments.")
@click.option("--reassignment-json-file", type=FILE, help="The JSON file with partitions and their new replicas.")
@click.option("--topics-to-move-json-file", type=FILE, help="With --generate: the JSON file with the topics to move.")
@click.option(
    "--broker-list", metavar="0,1,2", help="With --generate: the broker ids to move replicas to, separated by commas."
)
@click.option("--disable-rack-aware", is_flag=True, help="With --generate: ignore the racks of brokers.")
@click.option(
    "--throttle",
    type=click.IntRange(1),
    metavar="BYTES",
    help="With --execute: maximum replication rate of each broker, in bytes per second.",
)
@click.option(
    "--replica-alter-log-dirs-throttle",
    type=click.IntRange(1),
    metavar="BYTES",
    help="With --execute: maximum rate of moves between the log directories of each broker, in bytes per second.",
)
@click.option(
    "--additional", is_flag=True, help="With --execute: start these reassignments even if others are ongoing."
)
@click.option("--preserve-throttles", is_flag=True, help="With --verify or --cancel: keep the replication throttles.")
def command(cluster: AdminClient, **parameters: Any) -> int:
    """Reassign partitions to other brokers, as kafka-reassign-partitions does."""
    options = {name.replace("_", "-"): value for name, value in parameters.items()}
    action = only_action(options, ACTIONS)
    needs, may = ACTIONS[action]
    check_options(options, action, needs, {*needs, *may}, OPTIONS)
    plan, targets = reassignment_plan.parse_plan(text_of(options[PLAN])) if PLAN in needs else ({}, {})
    match action:
        case "generate":
            topics = reassignment_plan.parse_topics(text_of(options["topics-to-move-json-file"]))
            brokers = reassignment_plan.parse_brokers(options["broker-list"])
            _generate(cluster, topics, brokers, not options["disable-rack-aware"])
        case "execute":
            throttles = options["throttle"], options["replica-alter-log-dirs-throttle"]
            _execute(cluster, plan, targets, throttles, options["additional"])
        case "verify":
            _verify(cluster, plan, targets, options["preserve-throttles"])
        case "cancel":
            _cancel(cluster, plan, targets, options["preserve-throttles"])
        case "list":
            for line in reassignment_plan.ongoing(_assignments(cluster)):
                _print(line)
    return 0


def _print(line: str) -> None:
    click.echo(printable(line))


def _generate(cluster: AdminClient, topics: Collection[str], targets: Collection[int], rack_aware: bool) -> None:
    """Print the current assignment of these topics, and a proposed assignment to these brokers."""
    current = {tp: each.replicas for tp, each in _assignments(cluster, topics).items()}
    known = {broker.id: broker.rack for broker in cluster.metadata().brokers}
    _check_brokers(cluster, targets)
    racks = {broker: known[broker] if rack_aware else None for broker in sorted(targets)}
    if None in racks.values() and any(racks.values()):
        raise CommandFailed("Not all brokers have rack information. Add --disable-rack-aware to ignore the racks.")
    try:
        proposed = reassignment_plan.propose(
            current, racks, lambda count: (random.randrange(count), random.randrange(count))
        )
    except Refused as refused:
        raise CommandFailed(str(refused)) from refused
    _print(f"Current partition replica assignment\n{reassignment_plan.format_plan(current)}\n")
    _print(f"Proposed partition reassignment configuration\n{reassignment_plan.format_plan(proposed)}")


def _execute(
    cluster: AdminClient,
    plan: reassignment_plan.Plan,
    targets: reassignment_plan.Directories,
    rates: tuple[int | None, int | None],
    additional: bool,
) -> None:
    """Submit a plan. The rates are those of replication and of moves between log directories."""
    _check_brokers(cluster, {replica for replicas in plan.values() for replica in replicas})
    everything = _assignments(cluster)
    if not additional and _is_ongoing(everything):
        raise CommandFailed(IN_PROGRESS)
    absent = [tp for tp in plan if tp not in everything]
    if absent:
        raise CommandFailed(f"Unable to find partition: {', '.join(map(str, absent))}")
    current = reassignment_plan.format_plan({tp: everything[tp].replicas for tp in plan})
    _print(f"Current partition replica assignment\n\n{current}\n")
    _print("Save this to use as the --reassignment-json-file option during rollback")
    rate, move_rate = rates
    if rate is not None or move_rate is not None:
        _print(RUN_VERIFY)
    if rate is not None:
        moved = reassignment_plan.moves(everything, plan)
        for topic, throttles in reassignment_plan.topic_throttles(moved).items():
            _override(cluster, TOPIC, topic, throttles)
        for broker in reassignment_plan.moving_brokers(moved):
            _override(cluster, BROKER, str(broker), dict.fromkeys(reassignment_plan.RATES, str(rate)))
        _print(f"The inter-broker throttle limit was set to {rate} B/s")
    if move_rate is not None:
        for broker in sorted({broker for _, broker in targets}):
            _override(cluster, BROKER, str(broker), {reassignment_plan.MOVE_RATE: str(move_rate)})
        _print(f"The replica-alter-dir throttle limit was set to {move_rate} B/s")
    _alter(cluster, plan, "Error reassigning partition(s):")
    plural, names = reassignment_plan.names_of(plan)
    _print(f"Successfully started partition reassignment{plural} for {names}")
    _move(cluster, targets)


def _move(cluster: AdminClient, targets: reassignment_plan.Directories) -> None:
    """Start the moves to log directories. A broker gets its request again until it hosts all its replicas."""
    pending, deadline = dict(targets), time.monotonic() + cluster.timeout_ms / 1000
    while pending:
        for broker in sorted({broker for _, broker in pending}):
            moves = [
                ReplicaLogDir(directory, (tp,)) for (tp, replica), directory in pending.items() if replica == broker
            ]
            answer = cluster.ask(broker, AlterReplicaLogDirsRequest(MOVE_VERSION, tuple(moves)))
            for each in answer.partitions:
                tp, code = each.partition, each.error_code
                if code == errors.NONE:
                    directory = pending.pop((tp, broker))
                    _print(
                        f"Successfully started moving log directory to {directory} for replica"
                        f" {tp} with broker {broker}"
                    )
                elif code != errors.REPLICA_NOT_AVAILABLE:
                    raise CommandFailed(f"Failed to alter dir for {tp}-{broker}: {name_of(code)}")
        if pending and time.monotonic() > deadline:
            plural = "" if len(pending) == 1 else "s"
            names = ",".join(f"{tp}-{broker}" for tp, broker in pending)
            raise CommandFailed(f"Timed out before log directory move{plural} could be started for: {names}")
        time.sleep(0.1 if pending else 0)


def _places(
    cluster: AdminClient, targets: reassignment_plan.Directories
) -> dict[tuple[TopicPartition, int], tuple[str, str]]:
    """Return the log directory of each replica, and the one to which it moves; "" for none."""
    found = dict.fromkeys(targets, ("", ""))
    for broker in {broker for _, broker in targets}:
        for place in cluster.ask(broker, DescribeLogDirsRequest(DESCRIBE_VERSION, None)).results:
            for topic in place.topics:
                for log in topic.partitions:
                    replica = TopicPartition(topic.name, log.partition_index), broker
                    if replica in found:
                        current, future = found[replica]
                        found[replica] = (current, place.log_dir) if log.is_future_key else (place.log_dir, future)
    return found


def _verify(
    cluster: AdminClient,
    plan: reassignment_plan.Plan,
    targets: reassignment_plan.Directories,
    preserve_throttles: bool,
) -> None:
    """Print the progress of a plan, and remove the throttles if no reassignment is active."""
    everything = _assignments(cluster)
    _print("Status of partition reassignment:")
    for partition, target in plan.items():
        _print(reassignment_plan.progress(partition, target, everything.get(partition)))
    places = _places(cluster, targets)
    for replica, directory in targets.items():
        _print(reassignment_plan.move_progress(*replica, directory, *places[replica]))
    _print("")
    if not preserve_throttles and not _is_ongoing(everything) and not any(future for _, future in places.values()):
        _clear_throttles(cluster, plan)


def _cancel(
    cluster: AdminClient,
    plan: reassignment_plan.Plan,
    targets: reassignment_plan.Directories,
    preserve_throttles: bool,
) -> None:
    """Cancel the active reassignments of a plan's partitions, and the active moves of its replicas."""
    moves = cluster.reassignments()
    active = [tp for tp in plan if tp in moves]
    if active:
        plural, names = reassignment_plan.names_of(active)
        _alter(cluster, dict.fromkeys(active), f"Error cancelling partition reassignment{plural} for:")
        _print(f"Successfully cancelled partition reassignment{plural} for: {names}")
    else:
        _print("None of the specified partition reassignments are active.")
    back = {replica: current for replica, (current, future) in _places(cluster, targets).items() if future}
    if targets and not back:
        _print("None of the specified partition moves are active.")
    _move(cluster, back)
    if not preserve_throttles:
        _clear_throttles(cluster, plan)


def _assignments(
    cluster: AdminClient, topics: Collection[str] | None = None
) -> dict[TopicPartition, ReplicaAssignment]:
    """Return the assignments of these topics, or of all; raise CommandFailed if a topic does not exist."""
    found = cluster.metadata(None).topics if topics is None else cluster.topics(tuple(topics)).values()
    moves = cluster.reassignments()
    assignments = {}
    for topic in found:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition)
            move = moves.get(partition)
            changes = () if move is None else (move.adding_replicas, move.removing_replicas)
            assignments[partition] = ReplicaAssignment(each.replicas if move is None else move.replicas, *changes)
    return assignments


def _is_ongoing(assignments: Mapping[TopicPartition, ReplicaAssignment]) -> bool:
    return any(each.adding or each.removing for each in assignments.values())


def _check_brokers(cluster: AdminClient, brokers: Collection[int]) -> None:
    unknown = sorted(set(brokers) - set(cluster.ids()))
    if unknown:
        raise CommandFailed(f"Unknown broker id {unknown[0]}")


def _alter(cluster: AdminClient, plan: Mapping[TopicPartition, tuple[int, ...] | None], failure: str) -> None:
    """Send the plan to the controller; a value of None cancels the reassignment of that partition.

    Raises:
        CommandFailed: The response has errors. The exception's text is `failure` and these errors.
    """
    by_topic: dict[str, list[ReassignablePartition]] = {}
    for (topic, number), replicas in plan.items():
        by_topic.setdefault(topic, []).append(ReassignablePartition(number, replicas))
    topics = tuple(ReassignableTopic(topic, tuple(partitions)) for topic, partitions in by_topic.items())
    answer = cluster.ask_controller(AlterPartitionReassignmentsRequest(0, cluster.timeout_ms, topics))
    refused = [
        f"{topic.name}-{each.partition_index}: {each.error_message}"
        for topic in answer.responses
        for each in topic.partitions
        if each.error_code != errors.NONE
    ]
    if refused:
        raise CommandFailed("\n".join([failure, *refused]))


def _clear_throttles(cluster: AdminClient, plan: reassignment_plan.Plan) -> None:
    """Remove the throttles of a plan's topics and of all live brokers: only a live broker accepts its own configs."""
    brokers, topics = sorted(cluster.ids()), sorted({tp.topic for tp in plan})
    _print(f"Clearing broker-level throttles on broker{'' if len(brokers) == 1 else 's'} {','.join(map(str, brokers))}")
    for broker in brokers:
        _override(cluster, BROKER, str(broker), dict.fromkeys((*reassignment_plan.RATES, reassignment_plan.MOVE_RATE)))
    _print(f"Clearing topic-level throttles on topic{'' if len(topics) == 1 else 's'} {','.join(topics)}")
    for topic in topics:
        throttled = (reassignment_plan.LEADER_THROTTLED, reassignment_plan.FOLLOWER_THROTTLED)
        _override(cluster, TOPIC, topic, dict.fromkeys(throttled))


def _override(cluster: AdminClient, kind: int, name: str, values: Mapping[str, str | None]) -> None:
    """Set overrides of a topic or broker; None removes an override. Unchanged overrides are not written."""
    old = {entry.name: entry.value for entry in cluster.overrides(kind, name)}
    changed = {key: value for key, value in values.items() if value != old.get(key)}
    if changed:
        changes = [ConfigChange(key, value, DELETE if value is None else SET) for key, value in changed.items()]
        cluster.alter_configs(kind, name, changes)
