"""`kafka-actors leader-election`: send ElectLeaders requests, with the options of Kafka's kafka-leader-election."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from actors.cli.admin_client import AdminClient, with_client
from actors.cli.app import FAILED, CommandFailed, text_of
from actors.cli.display import printable
from actors.cli.usage_errors import exit_codes, given_options, wrong_use
from messages import errors
from messages.apis.elect_leaders import PREFERRED, UNCLEAN, ElectableTopic, ElectLeadersRequest
from messages.cluster import TopicPartition
from messages.error_names import name_of

ELECT_VERSION = 2
TYPES = {"preferred": PREFERRED, "unclean": UNCLEAN}
WHICH = ("topic", "all-topic-partitions", "path-to-json-file")
"""Options that select partitions, of which exactly one is required."""


@click.command("leader-election", epilog=exit_codes())
@with_client()
@click.option(
    "--election-type",
    type=click.Choice([*TYPES], case_sensitive=False),
    required=True,
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
def command(cluster: AdminClient, election_type: str, **parameters: object) -> int:
    """Trigger leader elections, as kafka-leader-election does.

    The preferred election moves leadership to the first replica. The unclean election applies only to partitions
    without a live in-sync replica, and makes any live replica the leader.
    """
    topics = _selected_partitions({name.replace("_", "-"): value for name, value in parameters.items()})
    request = ElectLeadersRequest(ELECT_VERSION, topics, cluster.timeout_ms, TYPES[election_type])
    results = [
        (str(TopicPartition(topic.name, each.partition_index)), each)
        for topic in cluster.ask_controller(request).topics
        for each in topic.partitions
    ]
    kind = election_type.upper()
    for code, words in (
        (errors.NONE, f"Successfully completed leader election ({kind}) for partitions"),
        (errors.ELECTION_NOT_NEEDED, "Valid replica already elected for partitions"),
    ):
        partitions = [partition for partition, result in results if result.error_code == code]
        if partitions:
            click.echo(printable(f"{words} {', '.join(partitions)}"))
    failed = [each for each in results if each[1].error_code not in (errors.NONE, errors.ELECTION_NOT_NEEDED)]
    for partition, result in failed:
        reason = ": ".join(filter(None, (name_of(result.error_code), result.error_message)))
        click.echo(printable(f"Error completing leader election ({kind}) for partition: {partition}: {reason}"))
    return FAILED if failed else 0


def _selected_partitions(options: dict[str, Any]) -> tuple[ElectableTopic, ...] | None:
    """Return the selected partitions by topic, None for all; raise click.UsageError or CommandFailed."""
    given = given_options(options)
    if len(given & set(WHICH)) != 1:
        raise wrong_use(f"One and only one of the following options is required: {', '.join(WHICH)}")
    if ("topic" in given) != ("partition" in given):
        raise wrong_use("--topic and --partition require each other")
    if "all-topic-partitions" in given:
        return None
    by_topic: dict[str, list[int]] = {}
    file = options["path-to-json-file"]
    for topic, number in _partitions(text_of(file)) if file is not None else [(options["topic"], options["partition"])]:
        by_topic.setdefault(topic, []).append(number)
    return tuple(ElectableTopic(topic, tuple(numbers)) for topic, numbers in by_topic.items())


def _partitions(text: str) -> list[tuple[str, int]]:
    """Return the partitions in a JSON file.

    Raises:
        CommandFailed: The file is invalid.
    """
    try:
        found = [(row["topic"], row["partition"]) for row in json.loads(text)["partitions"]]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise CommandFailed('expected {"partitions": [{"topic": "foo", "partition": 1}]} as JSON') from error
    if not all(type(topic) is str and type(number) is int for topic, number in found):
        raise CommandFailed("a topic is not a text, or a partition is not a number")
    if len(set(found)) < len(found):
        raise CommandFailed("Replica election data contains duplicate partitions")
    return found
