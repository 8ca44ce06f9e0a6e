"""`kafka-actors get-offsets`, which has the options and output of Kafka's kafka-get-offsets."""

from __future__ import annotations

import re
from collections.abc import Callable

import click

from actors.cli.admin_client import AdminClient, with_client
from actors.cli.app import CommandFailed
from actors.cli.display import printable
from actors.cli.usage_errors import exit_codes
from messages.apis.list_offsets import EARLIEST_LOCAL, LATEST_TIERED, SINCE, ListOffsetsRequest, OffsetQuery
from messages.cluster import TopicPartition
from messages.error_names import name_of
from messages.records import EARLIEST, LARGEST_TIMESTAMP, LATEST

OFFSETS_VERSION = 5
TIMES = {
    "latest": LATEST,
    "earliest": EARLIEST,
    "max-timestamp": LARGEST_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL,
    "latest-tiered": LATEST_TIERED,
}
_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")

Filter = Callable[[TopicPartition], bool]


@click.command("get-offsets", epilog=exit_codes())
@with_client(5000)
@click.option("--topic", metavar="REGEX", help="The topics, as a regular expression. The default is all topics.")
@click.option("--partitions", metavar="0,1,..", help="The partitions. The default is all partitions.")
@click.option(
    "--topic-partitions",
    metavar="REGEX[:N|:N-M],..",
    help="Topics with partitions, instead of --topic and --partitions: orders:0 is partition 0, orders:2-5 are the"
    " partitions 2, 3 and 4 (5 is excluded), orders:2- are all from 2 on.",
)
@click.option(
    "--time",
    "moment",
    default="latest",
    show_default=True,
    metavar="TIME",
    help="The offset to print. `latest` or -1: the log end offset. `earliest` or -2: the log start offset. A time in"
    " milliseconds since 1970: the offset of the first record at or after that time. `max-timestamp` or -3: the"
    " offset of the record with the largest timestamp; needs ListOffsets 7, which Kafka has since 3.0.",
)
@click.option("--exclude-internal-topics", is_flag=True, help="Leave out __consumer_offsets and __transaction_state.")
def command(
    cluster: AdminClient,
    topic: str | None,
    partitions: str | None,
    topic_partitions: str | None,
    moment: str,
    exclude_internal_topics: bool,
) -> int:
    """Print offsets of partitions as lines TOPIC:PARTITION:OFFSET, as kafka-get-offsets does.

    If --time is a timestamp, partitions without a record at or after that time are not printed. If an offset cannot be
    read, the reason is printed on standard error.
    """
    if topic_partitions is not None and (topic is not None or partitions is not None):
        raise click.UsageError("--topic-partitions cannot be used with --topic or --partitions")
    matches = _partitions(topic, partitions) if topic_partitions is None else _rules(topic_partitions)
    timestamp = time_of(moment)
    wanted = _matching(cluster, matches, exclude_internal_topics)
    if not wanted:
        raise CommandFailed("Could not match any topic-partitions with the specified filters")
    version = max(OFFSETS_VERSION, SINCE.get(timestamp, 0))

    def request(led: list[TopicPartition]) -> ListOffsetsRequest:
        return ListOffsetsRequest(version, -1, tuple(OffsetQuery(each, timestamp) for each in led))

    found, refused = cluster.ask_leaders(wanted, request)
    for partition in sorted(wanted, key=str):
        if partition in refused:
            reason = name_of(refused[partition])
            line = f"Skip getting offsets for topic-partition {partition} due to error: {reason}"
            click.echo(printable(line), err=True)
        elif found[partition].offset >= 0:
            click.echo(f"{partition.topic}:{partition.partition}:{found[partition].offset}")
    return 0


def time_of(text: str) -> int:
    """Return the value of --time as a ListOffsets timestamp.

    Raises:
        click.UsageError: The text is not a time.
    """
    if text in TIMES:
        return TIMES[text]
    if re.fullmatch(r"[+-]?[0-9]{1,19}", text) and -(2**63) <= int(text) < 2**63:
        return int(text)
    raise click.UsageError(
        f"Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or max-timestamp /"
        " -4 or earliest-local / -5 or latest-tiered, or a specified long format timestamp"
    )


def _matching(cluster: AdminClient, matches: Filter, exclude_internal: bool) -> list[TopicPartition]:
    return [
        partition
        for topic in cluster.metadata(None).topics
        if not (exclude_internal and topic.is_internal)
        for partition in (TopicPartition(topic.name, each.partition) for each in topic.partitions)
        if matches(partition)
    ]


def _partitions(topic: str | None, partitions: str | None) -> Filter:
    """Return the filter of --topic and --partitions; raise click.UsageError for an invalid value."""
    names = _pattern(topic or ".*")
    try:
        numbers = {int(each) for each in partitions.split(",")} if partitions else set()
    except ValueError:
        raise click.UsageError(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {partitions}"
        ) from None
    return lambda each: names.fullmatch(each.topic) is not None and (not numbers or each.partition in numbers)


def _rules(text: str) -> Filter:
    """Return the filter of --topic-partitions; raise click.UsageError for an invalid value."""
    rules = [_rule(each) for each in text.split(",")]
    return lambda partition: any(rule(partition) for rule in rules)


def _rule(text: str) -> Filter:
    match = _RULE.fullmatch(text)
    if match is None:
        raise click.UsageError(f"Invalid rule specification: {text}")
    names = _pattern(match[1] or ".*")
    first = int(match[2] or match[3] or 0)
    end = first + 1 if match[2] else int(match[4]) if match[4] else 2**31 - 1
    return lambda each: names.fullmatch(each.topic) is not None and first <= each.partition < end


def _pattern(text: str) -> re.Pattern[str]:
    """Return a topic pattern as Kafka's tools read it: a comma means "or", blanks and quotes are ignored."""
    try:
        return re.compile(text.strip().replace(",", "|").replace(" ", "").strip("\"'"))
    except re.error as error:
        raise click.UsageError(f"{text} is an invalid regex: {error}") from error
