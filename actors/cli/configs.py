"""`kafka-actors configs`: set topic and broker configs, client quotas and SCRAM users, with kafka-configs' options.

Brokers validate a change, and apply it without a restart.
"""

from __future__ import annotations

import re
import secrets
from typing import Any

import click

from actors.cli.admin_client import AdminClient, check_result, with_client
from actors.cli.app import CommandFailed
from actors.cli.display import printable
from actors.cli.usage_errors import check_options, exit_codes, only_action, wrong_use
from actors.core.security.scram import MIN_ITERATIONS, salt_password
from messages import errors
from messages.apis import describe_client_quotas, describe_configs, user_scram_credentials
from messages.apis.alter_client_quotas import AlterClientQuotasRequest, QuotaAlteration, QuotaChange
from messages.apis.alter_configs import DELETE, ConfigChange
from messages.apis.describe_configs import BROKER, TOPIC
from messages.security import Secret

ACTIONS = ("describe", "alter")
CHANGES = ("add-config", "delete-config")
KINDS = {"topics": TOPIC, "brokers": BROKER}
CLIENTS = {"users": describe_client_quotas.USER, "clients": describe_client_quotas.CLIENT_ID}
"""Type of an entity with client quotas -> its name in requests."""
SHORT = {"topic": "topics", "broker": "brokers", "client": "clients", "user": "users"}
"""Option that names an entity -> type of the entity."""
DEFAULTS = {"broker-defaults": "brokers", "client-defaults": "clients", "user-defaults": "users"}
"""Option for the default entity of a type -> the type."""
WORDS = {describe_client_quotas.USER: "user-principal", describe_client_quotas.CLIENT_ID: "client-id"}
SOURCES = {
    getattr(describe_configs, name): name
    for name in (
        *("DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG", "STATIC_BROKER_CONFIG"),
        "DEFAULT_CONFIG",
    )
}
"""Source of a config value -> its name."""
CREDENTIAL = re.compile(r"(?:iterations=(?P<iterations>[0-9]+),)?password=(?P<password>.+)")
"""A SCRAM credential in --add-config, without its brackets."""
OUTSIDE_BRACKETS = re.compile(r",(?=[^\]]*(?:\[|$))")


@click.command("configs", epilog=exit_codes())
@with_client()
@click.option("--describe", is_flag=True, help="List the config overrides of the entity.")
@click.option("--alter", is_flag=True, help="Add, change or delete configs of the entity.")
@click.option(
    "--entity-type",
    type=click.Choice([*KINDS, *CLIENTS]),
    multiple=True,
    help="Type of the entity. Give users and clients together for the quotas of a user's client.",
)
@click.option("--entity-name", multiple=True, help="Name of the entity; may be repeated like --entity-type.")
@click.option(
    "--entity-default", "entity_name", flag_value="", multiple=True, help="The default entity, in place of a name."
)
@click.option("--topic", help="Short for --entity-type topics --entity-name.")
@click.option("--broker", help="Short for --entity-type brokers --entity-name.")
@click.option("--client", help="Short for --entity-type clients --entity-name.")
@click.option("--user", help="Short for --entity-type users --entity-name.")
@click.option("--broker-defaults", is_flag=True, help="Short for --entity-type brokers --entity-default.")
@click.option("--client-defaults", is_flag=True, help="Short for --entity-type clients --entity-default.")
@click.option("--user-defaults", is_flag=True, help="Short for --entity-type users --entity-default.")
@click.option("--add-config", metavar="A=1,B=[2,3]", help="With --alter: configs to set, as name=value,name=value.")
@click.option(
    "--delete-config", metavar="A,B", help="With --alter: names of the configs to delete, separated by commas."
)
def command(cluster: AdminClient, **parameters: Any) -> int:
    """Describe and alter configs of topics and brokers, quotas, and SCRAM credentials, as kafka-configs does."""
    options = {name.replace("_", "-"): value for name, value in parameters.items()}
    action = only_action(options, ACTIONS)
    check_options(options, action, (), CHANGES if action == "alter" else (), CHANGES)
    entity = _entity(options)
    kind, name = next(iter(entity.items()))
    if action == "alter":
        if None in entity.values():
            raise wrong_use(f"an entity name must be specified with --alter of {','.join(entity)}")
        if all(options[each] is None for each in CHANGES):
            raise wrong_use("At least one of --add-config or --delete-config must be specified with --alter")
        added, deleted = parse_added(options["add-config"] or ""), _names(options["delete-config"] or "")
        if {*added, *deleted} & {*user_scram_credentials.MECHANISMS.values()}:
            _alter_credentials(cluster, entity, added, deleted)
        elif kind in CLIENTS:
            _alter_quotas(cluster, entity, added, deleted)
        else:
            _alter(cluster, kind, name or "", added, deleted)
        words = f"config for {kind[:-1]} {name}" if name else f"default config for {kind} in the cluster"
        click.echo(printable(f"Completed updating {words}."))
    elif kind in CLIENTS:
        for each in _quotas(cluster, entity):
            click.echo(printable(_described_quotas(each)))
        if [*entity] == ["users"] and name != "":
            _describe_credentials(cluster, name)
    else:
        _describe(cluster, kind, name)
    return 0


def _entity(options: dict[str, Any]) -> dict[str, str | None]:
    """Return the parts of the entity: type -> name. "" is the default entity, None all entities of the type.

    Raises:
        click.UsageError: The entity is missing or invalid.
    """
    names = iter(options["entity-name"])
    parts = [(kind, next(names, None)) for kind in options["entity-type"]]
    parts += [(kind, options[short]) for short, kind in SHORT.items() if options[short] is not None]
    parts += [(kind, "") for short, kind in DEFAULTS.items() if options[short]]
    entity = dict(parts)
    if not parts or next(names, None) is not None:
        raise wrong_use("At least one entity type must be specified for each entity name")
    if len(entity) < len(parts) or (len(entity) > 1 and not entity.keys() <= CLIENTS.keys()):
        raise wrong_use("Only one entity must be specified, or a user and a client")
    if entity.get("topics") == "":
        raise wrong_use("There are no default configs of topics: use --entity-type brokers")
    broker = entity.get("brokers")
    if broker and not broker.isdecimal():
        raise wrong_use(f"The entity name for brokers must be a valid integer broker id, but it is: {broker}")
    return entity


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


def _alter(cluster: AdminClient, kind: str, name: str, added: dict[str, str], deleted: list[str]) -> None:
    _check_deleted(deleted, [entry.name for entry in cluster.overrides(KINDS[kind], name)])
    changes = [ConfigChange(key, value) for key, value in added.items()]
    cluster.alter_configs(KINDS[kind], name, [*changes, *(ConfigChange(key, None, DELETE) for key in deleted)])


def _names(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _check_deleted(deleted: list[str], known: list[str]) -> None:
    absent = set(deleted) - {*known}
    if absent:
        raise CommandFailed(f"Invalid config(s): {','.join(sorted(absent))}")


def _quotas(cluster: AdminClient, entity: dict[str, str | None]) -> tuple[describe_client_quotas.DescribedQuota, ...]:
    """Return the quotas of an entity, or of all entities of its types."""
    filters = tuple(
        describe_client_quotas.QuotaFilter(
            CLIENTS[kind],
            describe_client_quotas.ANY
            if name is None
            else describe_client_quotas.EXACT
            if name
            else describe_client_quotas.NO_NAME,
            name or None,
        )
        for kind, name in entity.items()
    )
    result = cluster.ask(cluster.ids()[0], describe_client_quotas.DescribeClientQuotasRequest(0, filters, strict=True))
    check_result(result)
    return result.entries or ()


def _described_quotas(quota: describe_client_quotas.DescribedQuota) -> str:
    by_type = {part.entity_type: part.entity_name for part in quota.entity}
    parts = [
        f"the default {WORDS[kind]}" if by_type[kind] is None else f"{WORDS[kind]} '{by_type[kind]}'"
        for kind in WORDS
        if kind in by_type
    ]
    values = ", ".join(f"{each.key}={each.value}" for each in quota.values)
    return f"Quota configs for {', '.join(parts)} are {values}"


def _alter_quotas(
    cluster: AdminClient, entity: dict[str, str | None], added: dict[str, str], deleted: list[str]
) -> None:
    if deleted:
        _check_deleted(deleted, [each.key for quota in _quotas(cluster, entity) for each in quota.values])
    changes = [QuotaChange(key, 0.0, True) for key in deleted]
    for key, text in added.items():
        try:
            changes.append(QuotaChange(key, float(text)))
        except ValueError:
            raise wrong_use(f"Cannot parse quota configuration value for {key}: {text}") from None
    names = tuple(describe_client_quotas.QuotaName(CLIENTS[kind], name or None) for kind, name in entity.items())
    request = AlterClientQuotasRequest(0, (QuotaAlteration(names, tuple(changes)),))
    for result in cluster.ask(cluster.ids()[0], request).entries:
        check_result(result)


def _alter_credentials(
    cluster: AdminClient, entity: dict[str, str | None], added: dict[str, str], deleted: list[str]
) -> None:
    """Change the SCRAM credentials of a user."""
    user = entity.get("users")
    if not user or len(entity) > 1:
        raise wrong_use("SCRAM credentials are those of one user: --entity-type users --entity-name NAME")
    if not {*added, *deleted} <= {*user_scram_credentials.MECHANISMS.values()}:
        raise wrong_use("Cannot alter both quota and SCRAM credential configs simultaneously")
    numbers = {mechanism: number for number, mechanism in user_scram_credentials.MECHANISMS.items()}
    upsertions = []
    for mechanism, text in added.items():
        match = CREDENTIAL.fullmatch(text)
        iterations = int(match["iterations"] or MIN_ITERATIONS) if match else 0
        if match is None or iterations < MIN_ITERATIONS:
            raise wrong_use(f"{mechanism} takes [iterations=N,password=...] with at least {MIN_ITERATIONS} iterations")
        salt = secrets.token_bytes(20)
        key = salt_password(mechanism, Secret(match["password"].encode()), salt, iterations)
        upsertions.append(
            user_scram_credentials.ScramCredentialUpsertion(user, numbers[mechanism], iterations, Secret(salt), key)
        )
    deletions = tuple(user_scram_credentials.ScramCredentialDeletion(user, numbers[mechanism]) for mechanism in deleted)
    request = user_scram_credentials.AlterUserScramCredentialsRequest(0, deletions, tuple(upsertions))
    for result in cluster.ask(cluster.ids()[0], request).results:
        check_result(result)


def _describe_credentials(cluster: AdminClient, user: str | None) -> None:
    """Print the SCRAM credentials of a user, or of all users."""
    users = None if user is None else (user_scram_credentials.ScramUser(user),)
    answer = cluster.ask(cluster.ids()[0], user_scram_credentials.DescribeUserScramCredentialsRequest(0, users))
    if answer.error_code != errors.CLUSTER_AUTHORIZATION_FAILED:
        check_result(answer)
    for each in answer.results:
        infos = [
            f"{user_scram_credentials.MECHANISMS[info.mechanism]}=iterations={info.iterations}"
            for info in each.credential_infos
        ]
        if infos:
            click.echo(printable(f"SCRAM credential configs for user-principal '{each.user}' are {', '.join(infos)}"))


def parse_added(text: str) -> dict[str, str]:
    """Return the overrides of --add-config by name; in "a=1,b=[x,y]", commas within brackets belong to a value.

    Raises:
        click.UsageError: The text is invalid.
    """
    found: dict[str, str] = {}
    for pair in OUTSIDE_BRACKETS.split(text) if text else ():
        name, equals, value = pair.partition("=")
        if not equals or ("=" in value and not value.strip().startswith("[")):
            raise wrong_use(f"--add-config {pair}: expected name=value")
        found[name.strip()] = re.sub(r"\[?\]?", "", value).strip()
    return found
