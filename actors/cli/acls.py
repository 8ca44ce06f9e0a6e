"""`kafka-actors acls`: add, remove and list ACLs, with the options and the output of Kafka's kafka-acls.

Kafka: `AclCommand`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import click

from actors.cli.admin_client import AdminClient, check_result, with_client
from actors.cli.display import printable
from actors.cli.usage_errors import exit_codes, only_action, wrong_use
from messages.acls import (
    KAFKA_CLUSTER,
    WILDCARD,
    Acl,
    AclResource,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    member_named,
)
from messages.apis.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)

VERSION = 2
ACTIONS = ("add", "remove", "list")
RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "delegation-token": ResourceType.DELEGATION_TOKEN,
    "user-principal": ResourceType.USER,
}
"""Option that names resources -> their type."""
OPERATIONS = [each for each in Operation if each >= Operation.ALL]
PATTERNS = {each.name.lower(): each for each in PatternType if each >= PatternType.ANY}

Acls = dict[AclResource, list[Acl]]


@click.command("acls", epilog=exit_codes())
@with_client()
@click.option("--add", is_flag=True, help="Add ACLs.")
@click.option("--remove", is_flag=True, help="Remove ACLs; all ACLs of the resources if no principal is given.")
@click.option("--list", "list", is_flag=True, help="List ACLs of the resources, or of all resources.")
@click.option("--topic", multiple=True, help="Topic; * is every topic. May be repeated, like the other resources.")
@click.option("--group", multiple=True, help="Consumer group.")
@click.option("--transactional-id", multiple=True, help="Transactional id.")
@click.option("--delegation-token", multiple=True, help="Id of a delegation token.")
@click.option("--user-principal", multiple=True, help="User, for operations on the user's delegation tokens.")
@click.option("--cluster", "of_cluster", is_flag=True, help="The cluster.")
@click.option(
    "--resource-pattern-type",
    type=click.Choice([*PATTERNS], case_sensitive=False),
    default="literal",
    show_default=True,
    help="How names are compared; any and match are for --list and --remove only.",
)
@click.option(
    "--allow-principal", multiple=True, metavar="TYPE:NAME", help="Principal that is allowed to do something."
)
@click.option("--deny-principal", multiple=True, metavar="TYPE:NAME", help="Principal that is denied something.")
@click.option("--principal", multiple=True, metavar="TYPE:NAME", help="With --list: only ACLs of this principal.")
@click.option("--allow-host", multiple=True, help="IP address from which the allowed principals connect.")
@click.option("--deny-host", multiple=True, help="IP address from which the denied principals connect.")
@click.option("--operation", multiple=True, help="Operation, such as Read; all operations by default.")
@click.option("--producer", is_flag=True, help="What a producer to the topics needs.")
@click.option("--consumer", is_flag=True, help="What a consumer of the topics in the groups needs.")
@click.option("--idempotent", is_flag=True, help="With --producer: what an idempotent producer needs, too.")
@click.option("--force", is_flag=True, help="With --remove: do not ask.")
def command(cluster: AdminClient, **parameters: Any) -> int:
    """Add, remove and list ACLs, as kafka-acls does."""
    options = {name.replace("_", "-"): value for name, value in parameters.items()}
    action = only_action(options, ACTIONS)
    pattern = PATTERNS[options["resource-pattern-type"].lower()]
    resources = list(_resources(options, pattern))
    if action == "list":
        _list(cluster, resources, options["principal"])
        return 0
    if not resources:
        raise wrong_use("You must specify at least one resource: --topic, --cluster, --group, --transactional-id")
    wanted = _selected_acls(options, resources)
    if action == "add":
        if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise wrong_use("A '--resource-pattern-type' value of 'any' or 'match' is not valid when adding acls.")
        if not any(wanted.values()):
            raise wrong_use("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
        _add(cluster, wanted)
    else:
        _remove(cluster, wanted, options["force"])
    return 0


def _resources(options: dict[str, Any], pattern: PatternType) -> Iterator[AclResource]:
    for option, kind in RESOURCES.items():
        for name in options[option]:
            yield AclResource(kind, name, pattern)
    if options["of-cluster"] or options["idempotent"]:
        yield AclResource(ResourceType.CLUSTER, KAFKA_CLUSTER)


def _selected_acls(options: dict[str, Any], resources: Iterable[AclResource]) -> Acls:
    """Return the ACLs to add or remove, by resource."""
    operations = {kind: _operations(options["operation"]) for kind in ResourceType}
    if options["producer"] or options["consumer"]:
        if options["operation"] or options["deny-principal"] or options["deny-host"]:
            raise wrong_use("--operation and --deny-* cannot be combined with --producer and --consumer")
        operations = dict.fromkeys(ResourceType, ())
        if options["producer"]:
            operations[ResourceType.TOPIC] = (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
            operations[ResourceType.TRANSACTIONAL_ID] = (Operation.WRITE, Operation.DESCRIBE)
            operations[ResourceType.CLUSTER] = (Operation.IDEMPOTENT_WRITE,) if options["idempotent"] else ()
        if options["consumer"]:
            if not (options["topic"] and options["group"]):
                raise wrong_use("With --consumer you must specify a --topic and a --group")
            reads = Operation.READ, Operation.DESCRIBE
            operations[ResourceType.TOPIC] = tuple(dict.fromkeys((*operations[ResourceType.TOPIC], *reads)))
            operations[ResourceType.GROUP] = (Operation.READ,)
    elif options["idempotent"]:
        raise wrong_use("The --idempotent option is only available if --producer is set")
    who = [
        (principal, host, permission)
        for verb, permission in (("allow", Permission.ALLOW), ("deny", Permission.DENY))
        for principal in map(_principal, options[f"{verb}-principal"])
        for host in options[f"{verb}-host"] or (WILDCARD,)
    ]
    return {
        resource: [
            Acl(principal, host, operation, permission)
            for principal, host, permission in who
            for operation in operations[ResourceType(resource.type)]
        ]
        for resource in resources
    }


def _operations(texts: Iterable[str]) -> tuple[Operation, ...]:
    found = []
    for text in texts:
        operation = member_named(Operation, text)
        if operation not in OPERATIONS:
            names = ", ".join(each.name.replace("_", "").title() for each in OPERATIONS)
            raise wrong_use(f"--operation {text} is none of {names}")
        found.append(operation)
    return tuple(found) or (Operation.ALL,)


def _principal(text: str) -> str:
    if not all(text.partition(":")):
        raise wrong_use(f"expected a string in format principalType:principalName but got {text}")
    return text


def _add(cluster: AdminClient, wanted: Acls) -> None:
    for resource, acls in wanted.items():
        if acls:
            _print(f"Adding ACLs for resource `{_pattern(resource)}`:", acls)
    creations = [
        AclCreation(resource.type, resource.name, *acl, resource.pattern)
        for resource, acls in wanted.items()
        for acl in acls
    ]
    for result in cluster.ask(cluster.ids()[0], CreateAclsRequest(VERSION, tuple(creations))).results:
        check_result(result)


def _remove(cluster: AdminClient, wanted: Acls, force: bool) -> None:
    filters = []
    for resource, acls in wanted.items():
        what = f"resource filter `{_pattern(resource)}`"
        lines = "".join(f"\n\t{_entry(acl)}" for acl in acls)
        text = f"remove ACLs:{lines}\nfrom {what}" if acls else f"delete all ACLs for {what}"
        if force or click.confirm(printable(f"Are you sure you want to {text}?")):
            every = Acl(*(None, None, Operation.ANY, Permission.ANY))  # type: ignore[arg-type]  # as in a filter
            filters += [
                DeleteAclsFilter(resource.type, resource.name, *acl, resource.pattern) for acl in acls or (every,)
            ]
    if filters:
        for result in cluster.ask(cluster.ids()[0], DeleteAclsRequest(VERSION, tuple(filters))).filter_results:
            check_result(result)


def _list(cluster: AdminClient, resources: Iterable[AclResource], principals: Iterable[str]) -> None:
    """Print the ACLs of these resources, or of all, for each of these principals, or for all."""
    found: dict[AclResource, dict[Acl, None]] = {}
    for resource in resources or (AclResource(ResourceType.ANY, None, PatternType.ANY),):  # type: ignore[arg-type]
        query = resource.type, resource.name, None, None, Operation.ANY, Permission.ANY, resource.pattern
        answer = cluster.ask(cluster.ids()[0], DescribeAclsRequest(VERSION, *query))
        check_result(answer)
        for each in answer.resources:
            place = AclResource(each.resource_type, each.resource_name, each.pattern_type)
            acls = (Acl(acl.principal, acl.host, acl.operation, acl.permission_type) for acl in each.acls)
            found.setdefault(place, {}).update(dict.fromkeys(acls))
    for principal in map(_principal, principals or ()):
        click.echo(printable(f"ACLs for principal `{principal}`"))
        _print_all({place: [acl for acl in acls if acl.principal == principal] for place, acls in found.items()})
    if not principals:
        _print_all({place: [*acls] for place, acls in found.items()})


def _print_all(acls: Acls) -> None:
    for resource, entries in acls.items():
        if entries:
            _print(f"Current ACLs for resource `{_pattern(resource)}`:", entries)


def _print(title: str, acls: Iterable[Acl]) -> None:
    lines = "\n".join(f"\t{_entry(acl)}" for acl in acls)
    click.echo(f"{printable(title)} \n {lines} \n")


def _pattern(resource: AclResource) -> str:
    kind, pattern = ResourceType(resource.type).name, PatternType(resource.pattern).name
    return f"ResourcePattern(resourceType={kind}, name={resource.name}, patternType={pattern})"


def _entry(acl: Acl) -> str:
    operation, permission = Operation(acl.operation).name, Permission(acl.permission).name
    return printable(
        f"(principal={acl.principal}, host={acl.host}, operation={operation}, permissionType={permission})"
    )
