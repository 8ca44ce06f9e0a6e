"""`kafka-actors topics`, which has the options and columns of kafka-topics 3.9.1 (`TopicCommand`).

The controller validates new topics and partitions. Topics are printed in the order of their names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import click

from actors.cli.admin_client import AdminClient, check_result, with_client
from actors.cli.app import CommandFailed
from actors.cli.display import printable
from actors.cli.usage_errors import check_options, exit_codes, only_action, wrong_use
from actors.core.topic.topic_name import can_collide
from messages import errors
from messages.apis.create_partitions import CreatePartitionsRequest, GrowingTopic, WantedReplicas
from messages.apis.create_topics import (
    BY_DEFAULT,
    CreatableAssignment,
    CreatableConfig,
    CreatableTopic,
    CreateTopicsRequest,
)
from messages.apis.delete_topics import DeleteTopicsRequest
from messages.apis.describe_configs import DYNAMIC_TOPIC_CONFIG, TOPIC
from messages.apis.list_partition_reassignments import OngoingPartitionReassignment
from messages.apis.metadata import MetadataPartition, MetadataTopic
from messages.cluster import NO_LEADER, TopicPartition

CREATE_VERSION, GROW_VERSION, DELETE_VERSION = 5, 1, 3
COLLISION_WARNING = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide."
    " To avoid issues it is best to use either, but not both."
)

REPORTS: dict[str, Callable[[MetadataPartition, int, int], bool]] = {
    "under-replicated-partitions": lambda partition, replicas, _: len(partition.isr) < replicas,
    "unavailable-partitions": lambda partition, *_: partition.leader == NO_LEADER,
    "under-min-isr-partitions": lambda partition, _, min_isr: len(partition.isr) < min_isr,
    "at-min-isr-partitions": lambda partition, _, min_isr: len(partition.isr) == min_isr,
}
"""Option of --describe -> filter by (partition, number of replicas that are not being added, min.insync.replicas)."""

ACTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "list": ((), ("topic", "exclude-internal")),
    "describe": ((), ("topic", "exclude-internal", "if-exists", "topics-with-overrides", *REPORTS)),
    "create": (
        ("topic",),
        ("topic", "partitions", "replication-factor", "replica-assignment", "config", "if-not-exists"),
    ),
    "alter": (("topic", "partitions"), ("topic", "partitions", "replica-assignment", "if-exists")),
    "delete": (("topic",), ("topic", "if-exists")),
}
"""Action -> (the options that it requires, all options that it permits)."""

OPTIONS = sorted({option for _, allowed in ACTIONS.values() for option in allowed})


@click.command("topics", epilog=exit_codes())
@with_client()
@click.option("--create", is_flag=True, help="Create a new topic.")
@click.option("--list", is_flag=True, help="List all available topics.")
@click.option("--describe", is_flag=True, help="Describe topics: partitions, leaders, replicas and ISR.")
@click.option("--alter", is_flag=True, help="Increase the number of partitions.")
@click.option("--delete", is_flag=True, help="Delete a topic.")
@click.option(
    "--topic", help="The topic name. Without --create, also a regular expression or names separated by commas."
)
@click.option("--partitions", type=int, help="The number of partitions; by default num.partitions of the controller.")
@click.option(
    "--replication-factor",
    type=int,
    help="The replication factor; by default default.replication.factor of the controller.",
)
@click.option(
    "--replica-assignment",
    metavar="0:1:2,..",
    help="The replicas of each partition: broker ids separated by colons, partitions by commas. 101:102,102:103 puts"
    " partition 0 on brokers 101 and 102, and partition 1 on brokers 102 and 103. Default: assigned automatically.",
)
@click.option(
    "--config", metavar="NAME=VALUE", multiple=True, help="A config of the new topic, as name=value. May be repeated."
)
@click.option("--if-exists", is_flag=True, help="Do nothing if the topic does not exist.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing if the topic already exists.")
@click.option("--exclude-internal", is_flag=True, help="Exclude internal topics.")
@click.option("--topics-with-overrides", is_flag=True, help="Describe only topics with overrides.")
@click.option("--under-replicated-partitions", is_flag=True, help="Describe only under-replicated partitions.")
@click.option("--unavailable-partitions", is_flag=True, help="Describe only partitions without a live leader.")
@click.option(
    "--under-min-isr-partitions",
    is_flag=True,
    help="Describe only partitions with fewer in-sync replicas than min.insync.replicas.",
)
@click.option(
    "--at-min-isr-partitions",
    is_flag=True,
    help="Describe only partitions with exactly min.insync.replicas in-sync replicas.",
)
def command(cluster: AdminClient, **parameters: Any) -> int:
    """Create, list, describe, alter and delete topics, as kafka-topics does."""
    options = {name.replace("_", "-"): value for name, value in parameters.items()}
    action = only_action(options, ACTIONS)
    needed, allowed = ACTIONS[action]
    check_options(options, action, needed, allowed, OPTIONS)
    if action == "create":
        _create(cluster, options)
        return 0
    topics = _matching(cluster, options["topic"], options["exclude-internal"])
    if not topics and options["topic"] is not None and action != "list" and not options["if-exists"]:
        raise CommandFailed(f"Topic '{options['topic']}' does not exist")
    match action:
        case "list":
            for topic in topics:
                click.echo(printable(topic.name))
        case "describe":
            _describe(cluster, topics, options)
        case "alter":
            _add_partitions(cluster, topics, options["partitions"], options["replica-assignment"])
        case "delete":
            request = DeleteTopicsRequest(DELETE_VERSION, tuple(each.name for each in topics), cluster.timeout_ms)
            for result in cluster.ask_controller(request).topics:
                check_result(result)
    return 0


def _create(cluster: AdminClient, options: dict[str, Any]) -> None:
    replicas = options["replica-assignment"]
    topic = CreatableTopic(
        options["topic"],
        _or_default(options["partitions"]),
        _or_default(options["replication-factor"]),
        tuple(CreatableAssignment(*each) for each in enumerate(_assignment(replicas))),
        tuple(_config(each) for each in options["config"]),
    )
    if can_collide(topic.name):
        click.echo(COLLISION_WARNING)
    request = CreateTopicsRequest(CREATE_VERSION, (topic,), cluster.timeout_ms)
    (result,) = cluster.ask_controller(request).topics
    if result.error_code == errors.TOPIC_ALREADY_EXISTS and options["if-not-exists"]:
        return
    check_result(result)
    click.echo(printable(f"Created topic {topic.name}."))


def _or_default(count: int | None) -> int:
    if count is not None and count < 1:
        raise wrong_use(f"{count} is not a number of partitions or replicas: it must be greater than 0")
    return BY_DEFAULT if count is None else count


def _config(text: str) -> CreatableConfig:
    name, equals, value = text.partition("=")
    if not equals:
        raise wrong_use(f"--config {text}: expected name=value")
    return CreatableConfig(name.strip(), value.strip())


def _assignment(text: str | None) -> list[tuple[int, ...]]:
    """Parse --replica-assignment: in 0:1,1:2, partition 0 is on brokers 0 and 1, partition 1 on brokers 1 and 2."""
    try:
        return [tuple(map(int, replicas.split(":"))) for replicas in text.split(",")] if text is not None else []
    except ValueError:
        raise wrong_use(f"--replica-assignment {text}: expected broker ids such as 0:1,1:2") from None


def _matching(cluster: AdminClient, pattern: str | None, exclude_internal: bool) -> list[MetadataTopic]:
    """Return the topics that fully match the pattern (a regular expression, or several separated by commas)."""
    try:
        wanted = re.compile(pattern.strip().strip("\"'").replace(",", "|").replace(" ", "")) if pattern else None
    except re.error as error:
        raise CommandFailed(f"{pattern} is an invalid regex: {error}") from None
    return sorted(
        (
            topic
            for topic in cluster.metadata(None).topics
            if (wanted is None or wanted.fullmatch(topic.name)) and not (exclude_internal and topic.is_internal)
        ),
        key=lambda topic: topic.name,
    )


def _describe(cluster: AdminClient, topics: Iterable[MetadataTopic], options: dict[str, Any]) -> None:
    reports = [report for name, report in REPORTS.items() if options[name]]
    moves = cluster.reassignments()
    for topic in topics:
        configs = cluster.configs(TOPIC, topic.name)
        overrides = [f"{each.name}={each.value}" for each in configs if each.config_source == DYNAMIC_TOPIC_CONFIG]
        min_isr = next(int(each.value or 1) for each in configs if each.name == "min.insync.replicas")
        lines, factors = [], [0]
        for partition in sorted(topic.partitions, key=lambda each: each.partition, reverse=True):
            move = moves.get(TopicPartition(topic.name, partition.partition))
            factors.append(len(partition.replicas) - (0 if move is None else len(move.adding_replicas)))
            if not reports or any(report(partition, factors[-1], min_isr) for report in reports):
                lines.append(_line(topic.name, partition, move))
        if not reports and (overrides or not options["topics-with-overrides"]):
            line = f"Topic: {topic.name}\tPartitionCount: {len(topic.partitions)}\tReplicationFactor: {factors[-1]}"
            click.echo(printable(f"{line}\tConfigs: {','.join(overrides)}"))
        for line in () if options["topics-with-overrides"] else reversed(lines):
            click.echo(printable(line))


def _line(topic: str, partition: MetadataPartition, move: OngoingPartitionReassignment | None) -> str:
    line = f"\tTopic: {topic}\tPartition: {partition.partition}"
    line += f"\tLeader: {'none' if partition.leader == NO_LEADER else partition.leader}"
    line += f"\tReplicas: {_ids(partition.replicas)}\tIsr: {_ids(partition.isr)}"
    if move is not None:
        line += f"\tAdding Replicas: {_ids(move.adding_replicas)}\tRemoving Replicas: {_ids(move.removing_replicas)}"
    return f"{line}\tElr: N/A\tLastKnownElr: N/A"


def _ids(replicas: Iterable[int]) -> str:
    return ",".join(map(str, replicas))


def _add_partitions(cluster: AdminClient, topics: Iterable[MetadataTopic], count: int, assignment: str | None) -> None:
    """Add partitions to topics until each has `count` partitions."""
    for topic in topics:
        added = tuple(map(WantedReplicas, _assignment(assignment)[len(topic.partitions) :]))
        wanted = GrowingTopic(topic.name, count, added if assignment is not None else None)
        request = CreatePartitionsRequest(GROW_VERSION, (wanted,), cluster.timeout_ms)
        (result,) = cluster.ask_controller(request).topics
        check_result(result)
