"""`kafka-actors reassign-partitions`, which has the options of Kafka's kafka-reassign-partitions.

The command works through ZooKeeper and the controller.

A table defines the options that each action requires and permits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import click

from actors.cli.admin_client import brokers
from actors.cli.app import CommandFailed, text_of
from actors.cli.display import printable
from actors.cli.reassignment_admin import ReassignmentAdmin
from actors.cli.usage_errors import check_options, exit_codes, only_action
from actors.cli.zookeeper import address_of, cluster_options, places_in, zookeeper
from actors.core.refusal import Refused


class ActionOptions(NamedTuple):
    """The options that one action of `reassign-partitions` requires (`needs`), and those that it permits (`may`)."""

    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()


PLAN = "reassignment-json-file"
ACTIONS = {
    "cancel": ActionOptions((PLAN,), ("preserve-throttles",)),
    "execute": ActionOptions((PLAN,), ("additional", "throttle")),
    "generate": ActionOptions(("broker-list", "topics-to-move-json-file"), ("disable-rack-aware",)),
    "list": ActionOptions(),
    "verify": ActionOptions((PLAN,), ("preserve-throttles",)),
}
OPTIONS = sorted({option for action in ACTIONS.values() for option in (*action.needs, *action.may)})
CONTROLLER_SECONDS = 30.0
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("reassign-partitions", epilog=exit_codes())
@cluster_options
@click.option("--generate", is_flag=True, help="Print a proposed assignment; change nothing.")
@click.option("--execute", is_flag=True, help="Start the reassignments in the file.")
@click.option(
    "--verify",
    is_flag=True,
    help="Print whether the reassignments in the file are complete; if so, remove the throttles.",
)
@click.option("--cancel", is_flag=True, help="Cancel the ongoing reassignments in the file.")
@click.option("--list", is_flag=True, help="List all ongoing reassignments.")
@click.option("--reassignment-json-file", type=FILE, help="The JSON file with partitions and their new replicas.")
@click.option("--topics-to-move-json-file", type=FILE, help="With --generate: the JSON file with the topics to move.")
@click.option(
    "--broker-list", metavar="0,1,2", help="With --generate: the broker ids to move replicas to, separated by commas."
)
@click.option("--disable-rack-aware", is_flag=True, help="With --generate: ignore the racks of brokers.")
@click.option(
    "--throttle",
    type=click.IntRange(1),
    metavar="BYTES",
    help="With --execute: maximum replication rate of each broker, in bytes per second.",
)
@click.option(
    "--additional", is_flag=True, help="With --execute: start these reassignments even if others are ongoing."
)
@click.option("--preserve-throttles", is_flag=True, help="With --verify or --cancel: keep the replication throttles.")
def command(**parameters: Any) -> int:
    """Reassign partitions to other brokers, as kafka-reassign-partitions does."""
    options = {name.replace("_", "-"): value for name, value in parameters.items()}
    action = only_action(options, ACTIONS)
    needs, may = ACTIONS[action]
    check_options(options, action, needs, {*needs, *may}, OPTIONS)
    address = address_of(options["address"], options["directory"], options["bootstrap-server"])
    with zookeeper(address) as ask, brokers(places_in(ask), CONTROLLER_SECONDS) as cluster:
        admin = ReassignmentAdmin(ask, cluster.ask_controller, lambda line: click.echo(printable(line)))
        try:
            _act(admin, action, options)
        except Refused as refused:
            raise CommandFailed(str(refused)) from refused
    return 0


def _act(admin: ReassignmentAdmin, action: str, options: dict[str, Any]) -> None:
    match action:
        case "generate":
            topics = text_of(options["topics-to-move-json-file"])
            admin.generate(topics, options["broker-list"], not options["disable-rack-aware"])
        case "execute":
            admin.execute(text_of(options[PLAN]), options["throttle"], options["additional"])
        case "verify":
            admin.verify(text_of(options[PLAN]), options["preserve-throttles"])
        case "cancel":
            admin.cancel(text_of(options[PLAN]), options["preserve-throttles"])
        case "list":
            admin.list()
