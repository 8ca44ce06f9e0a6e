"""`kafka-actors leader-election`: send ElectLeaders requests, with the options of Kafka's kafka-leader-election.

Kafka's old tool wrote /admin/preferred_replica_election, which only supports preferred elections and reports no
results. The command gets the brokers' addresses from ZooKeeper unless --bootstrap-server names some.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click

from actors.cli.admin_client import AdminClient, brokers, places_of
from actors.cli.app import FAILED, CommandFailed, text_of
from actors.cli.display import printable
from actors.cli.usage_errors import exit_codes, given_options, wrong_use
from actors.cli.zookeeper import address_of, cluster_options, places_in, zookeeper
from actors.core.admin.leader_election import ElectionOutcome, parse_partitions, report
from actors.core.refusal import Refused
from messages.admin_requests import PREFERRED, UNCLEAN, ElectableTopic, ElectLeadersRequest
from messages.cluster import TopicPartition
from messages.error_names import NAMES

ELECT_VERSION = 2
TYPES = {"preferred": PREFERRED, "unclean": UNCLEAN}
WHICH = ("topic", "all-topic-partitions", "path-to-json-file")
"""Options that select partitions, of which exactly one is required."""


@click.command("leader-election", epilog=exit_codes())
@partial(cluster_options, bootstrap_help="Brokers to connect to, instead of --zookeeper or --dir.")
@click.option(
    "--election-type",
    type=click.Choice([*TYPES], case_sensitive=False),
    help="The type of election: preferred, or unclean to permit leaders outside the ISR.",
)
@click.option("--topic", help="The topic of the partition to elect a leader for.")
@click.option("--partition", type=int, help="The partition number.")
@click.option("--all-topic-partitions", is_flag=True, help="Elect leaders for all eligible partitions.")
@click.option(
    "--path-to-json-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A JSON file with the partitions to elect leaders for.",
)
@click.option(
    "--timeout",
    type=click.IntRange(1, 2**31 - 1),
    default=30_000,
    show_default=True,
    metavar="MS",
    help="Milliseconds to wait for the result.",
)
def command(**parameters: Any) -> int:
    """Trigger leader elections, as kafka-leader-election does.

    The preferred election moves leadership to the first replica. The unclean election applies only to partitions
    without a live in-sync replica, and makes any live replica the leader.
    """
    options = {name.replace("_", "-"): value for name, value in parameters.items()}
    partitions = _wanted(options)
    timeout = options["timeout"]
    with ExitStack() as stack:
        if options["bootstrap-server"] is not None:
            places = _places(options["bootstrap-server"])
        else:
            places = places_in(
                stack.enter_context(zookeeper(address_of(options["address"], options["directory"], None)))
            )
        cluster = stack.enter_context(brokers(places, timeout / 1000))
        return _elect(cluster, options["election-type"], partitions, timeout)


def _wanted(options: dict[str, Any]) -> list[TopicPartition] | None:
    """Return the selected partitions, None for all; raise click.UsageError or CommandFailed with Kafka's text."""
    given = given_options(options)
    if "election-type" not in given:
        raise wrong_use("Missing required option(s): election-type")
    if len(given & set(WHICH)) != 1:
        raise wrong_use(f"One and only one of the following options is required: {', '.join(WHICH)}")
    if "topic" in given and "partition" not in given:
        raise wrong_use("Missing required option(s): partition")
    if "partition" in given and "topic" not in given:
        raise wrong_use("Option partition is only allowed if topic is used")
    if "topic" in given:
        return [TopicPartition(options["topic"], options["partition"])]
    if "all-topic-partitions" in given:
        return None
    try:
        return parse_partitions(text_of(options["path-to-json-file"]))
    except Refused as refused:
        raise CommandFailed(str(refused)) from refused


def _places(text: str) -> list[tuple[str, int]]:
    try:
        return places_of(text)
    except ValueError as error:
        raise wrong_use(str(error)) from error


def _elect(cluster: AdminClient, kind: str, partitions: Sequence[TopicPartition] | None, timeout_ms: int) -> int:
    topics = None
    if partitions is not None:
        by_topic: dict[str, list[int]] = {}
        for topic, number in partitions:
            by_topic.setdefault(topic, []).append(number)
        topics = tuple(ElectableTopic(topic, tuple(numbers)) for topic, numbers in by_topic.items())
    answer = cluster.ask_controller(ElectLeadersRequest(ELECT_VERSION, topics, timeout_ms, TYPES[kind]))
    outcomes = {
        TopicPartition(topic.name, each.partition_index): ElectionOutcome(each.error_code, each.error_message)
        for topic in answer.topics
        for each in topic.partitions
    }
    lines, failed = report(kind.upper(), outcomes, NAMES)
    for line in lines:
        click.echo(printable(line))
    if failed:
        click.echo(f"{failed} replica(s) could not be elected", err=True)
    return FAILED if failed else 0
