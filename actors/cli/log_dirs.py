"""`kafka-actors log-dirs`: its options and JSON output are those of Kafka's kafka-log-dirs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any

import click

from actors.cli.admin_client import AdminClient, with_client
from actors.cli.app import CommandFailed
from actors.cli.usage_errors import exit_codes
from messages import errors
from messages.apis.describe_log_dirs import DescribedLogDir, DescribeLogDirsRequest
from messages.error_names import name_of

DESCRIBE_VERSION = 1


@click.command("log-dirs", epilog=exit_codes())
@with_client(5000)
@click.option("--describe", is_flag=True, required=True, help="Describe the log directories.")
@click.option("--broker-list", metavar="0,1,2", default="", help="The brokers. The default is all.")
@click.option("--topic-list", metavar="TOPIC,..", default="", help="The topics. The default is all.")
def command(cluster: AdminClient, describe: bool, broker_list: str, topic_list: str) -> int:
    """Print the log directories of brokers, with sizes and lags, as kafka-log-dirs does.

    The output is two lines of text and one of JSON. A size is in bytes; offsetLag is how far the log end of a replica
    is below the high watermark; isFuture is true for the new copy of a replica that is being moved to another
    directory.
    """
    topics = set(_items(topic_list))
    wanted = {_number(each) for each in _items(broker_list)}
    live = cluster.ids()
    if wanted - set(live):
        raise CommandFailed(
            f"ERROR: The given brokers do not exist from --broker-list: {_join_ids(wanted - set(live))}."
            f" Current existent brokers: {_join_ids(live)}"
        )
    asked = sorted(wanted or live)
    click.echo("Querying brokers for log directories information")
    described = []
    for broker in asked:
        answer = cluster.ask(broker, DescribeLogDirsRequest(DESCRIBE_VERSION, None))
        directories = [_directory(each, topics) for each in answer.results]
        described.append({"broker": broker, "logDirs": directories})
    click.echo(f"Received log directory information from brokers {_join_ids(asked)}")
    click.echo(json.dumps({"brokers": described, "version": 1}, separators=(",", ":")))
    return 0


def _items(text: str) -> list[str]:
    """Return the non-empty items of "a,b"."""
    return [each for each in text.split(",") if each]


def _number(text: str) -> int:
    if not text.strip().isdecimal():
        raise click.BadParameter(f"'{text}' is not a broker id", param_hint="--broker-list")
    return int(text)


def _join_ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, sorted(ids)))


def _directory(found: DescribedLogDir, topics: Collection[str]) -> dict[str, Any]:
    partitions = [
        {
            "partition": f"{topic.name}-{log.partition_index}",
            "size": log.partition_size,
            "offsetLag": log.offset_lag,
            "isFuture": log.is_future_key,
        }
        for topic in sorted(found.topics, key=lambda topic: topic.name)
        if not topics or topic.name in topics
        for log in sorted(topic.partitions, key=lambda log: log.partition_index)
    ]
    error = None if found.error_code == errors.NONE else name_of(found.error_code)
    return {"partitions": partitions, "error": error, "logDir": found.log_dir}
