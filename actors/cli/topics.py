"""`kafka-actors topics`, which has the options and usage errors of kafka-topics 3.9.1; it also works on ZooKeeper.

The table of valid combinations of options and actions was found by trying every option with every action of Apache's
TopicCommand.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import click

from actors.cli.app import FAILED
from actors.cli.broker_answers import cluster_questions
from actors.cli.display import printable
from actors.cli.topic_admin import PartitionView, TopicAdmin, TopicCommandFailed
from actors.cli.usage_errors import exit_codes, given_options, wrong_use
from actors.cli.zookeeper import address_of, cluster_options

ACTIONS = ("list", "describe", "create", "alter", "delete")

USED_WITH = {
    "config": ("create", "alter"),
    "partitions": ("create", "alter"),
    "replication-factor": ("create",),
    "replica-assignment": ("create", "alter"),
    "under-replicated-partitions": ("describe",),
    "under-min-isr-partitions": ("describe",),
    "at-min-isr-partitions": ("describe",),
    "unavailable-partitions": ("describe",),
    "topics-with-overrides": ("describe",),
    "if-exists": ("describe", "alter", "delete"),
    "if-not-exists": ("create",),
    "exclude-internal": ("list", "describe"),
}
"""Option -> actions that accept it."""

EXCLUDES = (
    ("replica-assignment", "partitions", "create"),
    ("replica-assignment", "replication-factor", "create"),
    ("under-replicated-partitions", "topics-with-overrides", "describe"),
    ("under-min-isr-partitions", "topics-with-overrides", "describe"),
    ("at-min-isr-partitions", "topics-with-overrides", "describe"),
    ("unavailable-partitions", "topics-with-overrides", "describe"),
)
"""Pairs of options that cannot be combined, with the action."""

REPORTS: dict[str, Callable[[PartitionView], bool]] = {
    "under-replicated-partitions": attrgetter("under_replicated"),
    "unavailable-partitions": attrgetter("unavailable"),
    "under-min-isr-partitions": attrgetter("under_min_isr"),
    "at-min-isr-partitions": attrgetter("at_min_isr"),
}
"""Option of --describe -> filter of its partitions."""


class _Number(click.ParamType):
    """The type of an integer option, which reports a wrong value with Kafka's error message."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number in the text."""
        try:
            return int(value)
        except ValueError:
            option = param.opts[0].lstrip("-") if param is not None else ""
            raise click.UsageError(f"Cannot parse argument '{value}' of option {option}", ctx) from None


def check_use(options: dict[str, Any]) -> str:
    """Return the requested action of these options, which have Kafka's names.

    Raises:
        click.UsageError: The combination is invalid; the text is Kafka's.
    """
    actions = [action for action in ACTIONS if options[action]]
    if len(actions) != 1:
        raise wrong_use("Command must include exactly one action: --list, --describe, --create, --alter or --delete")
    action = actions[0]
    given = given_options(options)
    if not given & {"address", "directory", "bootstrap-server"}:
        address_of(None, None, None)
    if action == "describe" and "if-exists" in given and "topic" not in given:
        raise wrong_use("--topic is required to describe a topic")
    if action not in ("list", "describe") and "topic" not in given:
        raise wrong_use('Missing required argument "[topic]"')
    if action == "alter" and "config" in given:
        raise wrong_use(
            'Option combination "[[zookeeper], [config]]" can\'t be used with option "[alter]"'
            " (the kafka-configs CLI supports altering topic configs with a --bootstrap-server option)"
        )
    if action == "alter" and "partitions" not in given:
        raise wrong_use('Missing required argument "[partitions]"')
    for option, with_actions in USED_WITH.items():
        if option in given and action not in with_actions:
            raise wrong_use(f'Option "[{option}]" can\'t be used with option "[{action}]"')
    for option, other, under in EXCLUDES:
        if action == under and {option, other} <= given:
            raise wrong_use(f'Option "[{option}]" can\'t be used with option "[{other}]"')
    return action


@click.command("topics", epilog=exit_codes())
@partial(cluster_options, bootstrap_help="Brokers to connect to, instead of --zookeeper or --dir.")
@click.option("--create", is_flag=True, help="Create a new topic.")
@click.option("--list", is_flag=True, help="List all available topics.")
@click.option("--describe", is_flag=True, help="Describe topics: partitions, leaders, replicas and ISR.")
@click.option("--alter", is_flag=True, help="Increase the number of partitions.")
@click.option("--delete", is_flag=True, help="Delete a topic.")
@click.option(
    "--topic", help="The topic name. Without --create, also a regular expression or names separated by commas."
)
@click.option("--partitions", type=_Number(), help="The number of partitions; 1 by default.")
@click.option("--replication-factor", type=_Number(), help="The replication factor; 1 by default.")
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
def command(**parameters: Any) -> int:
    """Create, list, describe, alter and delete topics, as kafka-topics does."""
    options = {name.replace("_", "-"): value for name, value in parameters.items()}
    action = check_use(options)
    with cluster_questions(options) as ask:
        try:
            _act(TopicAdmin(ask, lambda line: click.echo(printable(line))), action, options)
        except (TopicCommandFailed, ValueError) as failure:
            click.echo(f"Error while executing topic command : {failure}")
            return FAILED
    return 0


def _act(admin: TopicAdmin, action: str, options: dict[str, Any]) -> None:
    topic = options["topic"]
    match action:
        case "create":
            admin.create_topic(
                topic,
                options["partitions"],
                options["replication-factor"],
                options["replica-assignment"],
                options["config"],
                options["if-not-exists"],
            )
        case "list":
            admin.list_topics(topic, options["exclude-internal"])
        case "describe":
            reports = [report for name, report in REPORTS.items() if options[name]]
            admin.describe_topics(
                topic, options["if-exists"], options["exclude-internal"], reports, options["topics-with-overrides"]
            )
        case "alter":
            admin.alter_topics(topic, options["partitions"], options["replica-assignment"], options["if-exists"])
        case "delete":
            admin.delete_topics(topic, options["if-exists"])
