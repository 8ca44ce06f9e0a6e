"""`kafka-actors configs`: set topic and broker configs, with the options of Kafka's kafka-configs.

Brokers validate a change, and apply it without a restart.
"""

from __future__ import annotations

import re
from typing import Any

import click

from actors.cli.admin_client import AdminClient, with_client
from actors.cli.app import CommandFailed
from actors.cli.display import printable
from actors.cli.usage_errors import check_options, exit_codes, only_action, wrong_use
from messages.apis import describe_configs
from messages.apis.alter_configs import DELETE, ConfigChange
from messages.apis.describe_configs import BROKER, TOPIC

ACTIONS = ("describe", "alter")
CHANGES = ("add-config", "delete-config")
KINDS = {"topics": TOPIC, "brokers": BROKER}
SHORT = {"topic": "topics", "broker": "brokers", "broker-defaults": "brokers"}
"""Option that names an entity -> type of the entity."""
SOURCES = {
    getattr(describe_configs, name): name
    for name in (
        *("DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG", "STATIC_BROKER_CONFIG"),
        "DEFAULT_CONFIG",
    )
}
"""Source of a config value -> its name."""
OUTSIDE_BRACKETS = re.compile(r",(?=[^\]]*(?:\[|$))")


@click.command("configs", epilog=exit_codes())
@with_client()
@click.option("--describe", is_flag=True, help="List the config overrides of the entity.")
@click.option("--alter", is_flag=True, help="Add, change or delete configs of the entity.")
@click.option("--entity-type", type=click.Choice([*KINDS]), help="Type of the entity: topics or brokers.")
@click.option("--entity-name", help="Name of the entity: a topic name or a broker id.")
@click.option(
    "--entity-default",
    is_flag=True,
    help="Describe or alter the cluster-wide defaults of brokers instead of one broker's configs.",
)
@click.option("--topic", help="Short for --entity-type topics --entity-name.")
@click.option("--broker", help="Short for --entity-type brokers --entity-name.")
@click.option("--broker-defaults", is_flag=True, help="Short for --entity-type brokers --entity-default.")
@click.option("--add-config", metavar="A=1,B=[2,3]", help="With --alter: configs to set, as name=value,name=value.")
@click.option(
    "--delete-config", metavar="A,B", help="With --alter: names of the configs to delete, separated by commas."
)
def command(cluster: AdminClient, **parameters: Any) -> int:
    """Describe and alter configs of topics and brokers, as kafka-configs does."""
    options = {name.replace("_", "-"): value for name, value in parameters.items()}
    action = only_action(options, ACTIONS)
    check_options(options, action, (), CHANGES if action == "alter" else (), CHANGES)
    kind, name = _entity(options)
    if action == "alter":
        if name is None:
            raise wrong_use(f"an entity name must be specified with --alter of {kind}")
        if all(options[each] is None for each in CHANGES):
            raise wrong_use("At least one of --add-config or --delete-config must be specified with --alter")
        _alter(cluster, kind, name, options["add-config"] or "", options["delete-config"] or "")
    else:
        _describe(cluster, kind, name)
    return 0


def _entity(options: dict[str, Any]) -> tuple[str, str | None]:
    """Return the type and the name of the entity; "" is the default of all brokers, None all entities of the type.

    Raises:
        click.UsageError: The entity is missing or invalid.
    """
    short = [name for name in SHORT if options[name]]
    if len(short) + bool(options["entity-type"] or options["entity-name"] or options["entity-default"]) != 1:
        raise wrong_use(f"One of --entity-type, {', '.join(f'--{name}' for name in SHORT)} must be specified")
    kind = SHORT[short[0]] if short else options["entity-type"]
    if kind is None:
        raise wrong_use("At least one entity type must be specified")
    if options["entity-default"] or options["broker-defaults"]:
        if kind != "brokers":
            raise wrong_use("--entity-default is only possible with --entity-type brokers")
        return kind, ""
    name = options[short[0]] if short else options["entity-name"]
    if kind == "brokers" and name is not None and not name.isdecimal():
        raise wrong_use(f"The entity name for {kind} must be a valid integer broker id, but it is: {name}")
    return kind, name


def _describe(cluster: AdminClient, kind: str, name: str | None) -> None:
    if name is not None:
        names = [name]
    elif kind == "topics":
        names = sorted(topic.name for topic in cluster.metadata(None).topics)
    else:
        names = [*map(str, sorted(cluster.ids())), ""]
    for each in names:
        words = f"Dynamic configs for {kind[:-1]} {each}" if each else f"Default configs for {kind} in the cluster"
        click.echo(printable(f"{words} are:"))
        for entry in cluster.overrides(KINDS[kind], each):
            synonyms = ", ".join(f"{SOURCES[at.source]}:{at.name}={at.value}" for at in entry.synonyms)
            sensitive = str(entry.is_sensitive).lower()
            click.echo(printable(f"  {entry.name}={entry.value} sensitive={sensitive} synonyms={{{synonyms}}}"))


def _alter(cluster: AdminClient, kind: str, name: str, add: str, delete: str) -> None:
    added, deleted = parse_added(add), [each.strip() for each in delete.split(",") if each.strip()]
    absent = set(deleted) - {entry.name for entry in cluster.overrides(KINDS[kind], name)}
    if absent:
        raise CommandFailed(f"Invalid config(s): {','.join(sorted(absent))}")
    changes = [ConfigChange(key, value) for key, value in added.items()]
    cluster.alter_configs(KINDS[kind], name, [*changes, *(ConfigChange(key, None, DELETE) for key in deleted)])
    words = f"config for {kind[:-1]} {name}" if name else f"default config for {kind} in the cluster"
    click.echo(printable(f"Completed updating {words}."))


def parse_added(text: str) -> dict[str, str]:
    """Return the overrides of --add-config by name; in "a=1,b=[x,y]", commas within brackets belong to a value.

    Raises:
        click.UsageError: The text is invalid.
    """
    found: dict[str, str] = {}
    for pair in OUTSIDE_BRACKETS.split(text) if text else ():
        name, equals, value = pair.partition("=")
        if not equals or "=" in value:
            raise wrong_use(f"--add-config {pair}: expected name=value")
        found[name.strip()] = re.sub(r"\[?\]?", "", value).strip()
    return found
