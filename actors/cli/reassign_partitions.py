"""`kafka-actors reassign-partitions`, which has the options and columns of Kafka's kafka-reassign-partitions.

Throttles are overrides of topics and brokers. They are set before the plan is submitted. The command that
verifies the plan's completion removes them.
"""

from __future__ import annotations

import random
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
from messages.apis.describe_configs import BROKER, TOPIC
from messages.cluster import ReplicaAssignment, TopicPartition

IN_PROGRESS = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a"
    " new partition assignment in addition to the existing one. The --additional flag can also be used to change the"
    " throttle by resubmitting the current reassignment."
)
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
    "execute": ActionOptions((PLAN,), ("additional", "throttle")),
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
    "--additional", is_flag=True, help="With --execute: start these reassignments even if others are ongoing."
)
@click.option("--preserve-throttles", is_flag=True, help="With --verify or --cancel: keep the replication throttles.")
def command(cluster: AdminClient, **parameters: Any) -> int:
    """Reassign partitions to other brokers, as kafka-reassign-partitions does."""
    options = {name.replace("_", "-"): value for name, value in parameters.items()}
    action = only_action(options, ACTIONS)
    needs, may = ACTIONS[action]
    check_options(options, action, needs, {*needs, *may}, OPTIONS)
    plan = reassignment_plan.parse_plan(text_of(options[PLAN])) if PLAN in needs else {}
    match action:
        case "generate":
            topics = reassignment_plan.parse_topics(text_of(options["topics-to-move-json-file"]))
            targets = reassignment_plan.parse_brokers(options["broker-list"])
            _generate(cluster, topics, targets, not options["disable-rack-aware"])
        case "execute":
            _execute(cluster, plan, options["throttle"], options["additional"])
        case "verify":
            _verify(cluster, plan, options["preserve-throttles"])
        case "cancel":
            _cancel(cluster, plan, options["preserve-throttles"])
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


def _execute(cluster: AdminClient, plan: reassignment_plan.Plan, throttle: int | None, additional: bool) -> None:
    """Submit a plan."""
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
    if throttle is not None:
        _print(RUN_VERIFY)
        moved = reassignment_plan.moves(everything, plan)
        for topic, throttles in reassignment_plan.topic_throttles(moved).items():
            _override(cluster, TOPIC, topic, throttles)
        for broker in reassignment_plan.moving_brokers(moved):
            _override(cluster, BROKER, str(broker), dict.fromkeys(reassignment_plan.RATES, str(throttle)))
        _print(f"The inter-broker throttle limit was set to {throttle} B/s")
    _alter(cluster, plan, "Error reassigning partition(s):")
    plural, names = reassignment_plan.named(plan)
    _print(f"Successfully started partition reassignment{plural} for {names}")


def _verify(cluster: AdminClient, plan: reassignment_plan.Plan, preserve_throttles: bool) -> None:
    """Print the progress of a plan, and remove the throttles if no reassignment is active."""
    everything = _assignments(cluster)
    _print("Status of partition reassignment:")
    for partition, target in plan.items():
        _print(reassignment_plan.progress(partition, target, everything.get(partition)))
    _print("")
    if not preserve_throttles and not _is_ongoing(everything):
        _clear_throttles(cluster, plan)


def _cancel(cluster: AdminClient, plan: reassignment_plan.Plan, preserve_throttles: bool) -> None:
    """Cancel the active reassignments of a plan's partitions."""
    moves = cluster.reassignments()
    active = [tp for tp in plan if tp in moves]
    if active:
        plural, names = reassignment_plan.named(active)
        _alter(cluster, dict.fromkeys(active), f"Error cancelling partition reassignment{plural} for:")
        _print(f"Successfully cancelled partition reassignment{plural} for: {names}")
    else:
        _print("None of the specified partition reassignments are active.")
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
        _override(cluster, BROKER, str(broker), dict.fromkeys(reassignment_plan.RATES))
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
