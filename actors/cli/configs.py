"""`kafka-actors configs`: set topic and broker configs, with the options of Kafka's kafka-configs.

Nodes are notified of a change and apply it without a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import click

from actors.cli import overrides
from actors.cli.app import CommandFailed
from actors.cli.broker_answers import cluster_questions
from actors.cli.display import printable
from actors.cli.usage_errors import check_options, exit_codes, only_action, wrong_use
from actors.cli.zookeeper import cluster_options
from actors.core.admin import config_admin
from actors.core.config.config_requests import check_broker, check_topic
from actors.core.refusal import Refused
from messages.zookeeper import ALL_BROKERS, GetBrokers, GetTopics

ACTIONS = ("describe", "alter")
SHORT = {
    "topic": (config_admin.TOPICS, None),
    "broker": (config_admin.BROKERS, None),
    "broker-defaults": (config_admin.BROKERS, ALL_BROKERS),
}
"""Option that names an entity -> the entity's kind, and its name if the option has no value."""


class Entity(NamedTuple):
    """The broker or topic whose configs a command describes or alters.

    `name` is None for all entities of the type, ALL_BROKERS for the cluster-wide default.
    """

    kind: str
    name: str | None

    @property
    def shown(self) -> str | None:
        """Name to print; None for the cluster-wide default."""
        return None if self.name == ALL_BROKERS else self.name


@click.command("configs", epilog=exit_codes())
@partial(cluster_options, bootstrap_help="Brokers to connect to, instead of --zookeeper or --dir.")
@click.option("--describe", is_flag=True, help="List the config overrides of the entity.")
@click.option("--alter", is_flag=True, help="Add, change or delete configs of the entity.")
@click.option("--entity-type", help="Type of the entity: topics or brokers.")
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
def command(**parameters: Any) -> int:
    """Describe and alter configs of topics and brokers, as kafka-configs does."""
    options = {name.replace("_", "-"): value for name, value in parameters.items()}
    action = only_action(options, ACTIONS)
    changes = ("add-config", "delete-config")
    check_options(options, action, (), changes if action == "alter" else (), changes)
    entity = _entity(options)
    if action == "alter":
        if entity.name is None:
            raise wrong_use(f"an entity name must be specified with --alter of {entity.kind}")
        if all(options[name] is None for name in changes):
            raise wrong_use("At least one of --add-config or --delete-config must be specified with --alter")
    with cluster_questions(options) as ask:
        try:
            if action == "describe":
                _describe(ask, entity)
            else:
                _alter(ask, entity, options["add-config"] or "", options["delete-config"] or "")
        except Refused as refused:
            raise CommandFailed(str(refused)) from refused
    return 0


def _entity(options: dict[str, Any]) -> Entity:
    """Return the entity of the options; raise click.UsageError with Kafka's text if it is missing or invalid."""
    short = [name for name in SHORT if options[name]]
    if short:
        if options["entity-type"] or options["entity-name"] or options["entity-default"]:
            raise wrong_use("--entity-{type,name,default} should not be used in conjunction with specific entity flags")
        if len(short) > 1:
            raise wrong_use(f"Only one of {', '.join(f'--{name}' for name in SHORT)} can be specified")
        kind, fixed = SHORT[short[0]]
        return _checked(Entity(kind, fixed or options[short[0]]))
    kind = options["entity-type"]
    if kind is None:
        raise wrong_use("At least one entity type must be specified")
    if kind not in (config_admin.TOPICS, config_admin.BROKERS):
        raise wrong_use(
            f"Invalid entity type {kind}, the entity type must be one of {config_admin.TOPICS}, {config_admin.BROKERS}"
        )
    if options["entity-default"]:
        if kind == config_admin.TOPICS:
            raise wrong_use(f"an entity name must be specified with --entity-type {config_admin.TOPICS}")
        return Entity(kind, ALL_BROKERS)
    return _checked(Entity(kind, options["entity-name"]))


def _checked(entity: Entity) -> Entity:
    kind, name = entity
    if kind == config_admin.BROKERS and name not in (None, ALL_BROKERS) and not name.isdecimal():
        raise wrong_use(f"The entity name for {kind} must be a valid integer broker id, but it is: {name}")
    return entity


def _describe(ask: Callable[[Any], Any], entity: Entity) -> None:
    if entity.name is not None:
        entities = [entity]
    elif entity.kind == config_admin.TOPICS:
        entities = [Entity(config_admin.TOPICS, topic) for topic in ask(GetTopics(watch=False)).topics]
    else:
        ids = sorted(broker.id for broker in ask(GetBrokers(watch=False)).brokers)
        entities = [Entity(config_admin.BROKERS, name) for name in (*map(str, ids), ALL_BROKERS)]
    for each in entities:
        entries = _overrides(ask, each)
        of_all = overrides.read(ask, config_admin.BROKERS, ALL_BROKERS) if each.kind == config_admin.BROKERS else ()
        for line in (
            config_admin.headline(each.kind, each.shown),
            *config_admin.described(each.kind, each.shown, entries, of_all),
        ):
            click.echo(printable(line))


def _alter(ask: Callable[[Any], Any], entity: Entity, add: str, delete: str) -> None:
    old = _overrides(ask, entity)
    new = config_admin.overridden(old, config_admin.parse_added(add), config_admin.parse_deleted(delete))
    assert entity.name is not None
    if entity.kind == config_admin.TOPICS:
        check_topic(entity.name, new)
    else:
        check_broker(entity.name, old, new)
    overrides.write(ask, entity.kind, entity.name, new)
    click.echo(printable(config_admin.updated(entity.kind, entity.shown)))


def _overrides(ask: Callable[[Any], Any], entity: Entity) -> overrides.Overrides:
    """Return the overrides of a topic or broker; raise CommandFailed for an unknown topic or unreadable overrides."""
    assert entity.name is not None
    if entity.kind == config_admin.TOPICS and entity.name not in ask(GetTopics(watch=False)).topics:
        raise CommandFailed(f"The topic '{entity.name}' does not exist.")
    return overrides.read(ask, entity.kind, entity.name)
