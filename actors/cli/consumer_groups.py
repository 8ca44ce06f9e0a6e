"""`kafka-actors consumer-groups`, which has the most used options of Kafka's kafka-consumer-groups."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from actors.cli import group_admin
from actors.cli.admin_client import AdminClient, with_client
from actors.cli.display import printable
from actors.cli.usage_errors import exit_codes

ACTIONS = ("list", "describe", "delete", "reset_offsets")
VIEWS = ("members", "offsets", "state")
SCENARIOS = (
    *("to_earliest", "to_latest", "to_current", "to_offset", "shift_by", "to_datetime", "by_duration"),
    "from_file",
)
_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)

_TOPIC = re.compile(r"[^:]+(:\d+(,\d+)*)?")


@click.command("consumer-groups", epilog=exit_codes())
@with_client(5000)
@click.option("--list", is_flag=True, help="List all consumer groups.")
@click.option(
    "--describe", is_flag=True, help="Describe groups: offsets and lag, unless --members or --state is given."
)
@click.option("--delete", is_flag=True, help="Delete groups that are empty, with their offsets.")
@click.option(
    "--reset-offsets", is_flag=True, help="Print new offsets for inactive groups; with --execute, commit them."
)
@click.option("--group", multiple=True, help="The consumer group. May be repeated.")
@click.option("--all-groups", is_flag=True, help="Apply to all consumer groups.")
@click.option("--members", is_flag=True, help="With --describe: list the members of the group.")
@click.option("--offsets", is_flag=True, help="With --describe: list offsets and lag by partition (the default).")
@click.option(
    "--state",
    is_flag=False,
    flag_value="",
    help="With --describe: show the group state. With --list: list only groups in these states.",
)
@click.option("--verbose", is_flag=True, help="With --members: also list the assigned partitions.")
@click.option(
    "--topic",
    multiple=True,
    metavar="TOPIC[:0,1,..]",
    help="Reset only the offsets of this topic; TOPIC:0,1 selects partitions 0 and 1. May be repeated.",
)
@click.option(
    "--all-topics", is_flag=True, help="Reset the offsets of all topics for which the group has committed offsets."
)
@click.option("--to-earliest", is_flag=True, help="Reset to the log start offset.")
@click.option("--to-latest", is_flag=True, help="Reset to the log end offset.")
@click.option("--to-current", is_flag=True, help="Keep the committed offset, for example to export it with --export.")
@click.option("--to-offset", type=int, help="Reset to this offset.")
@click.option("--shift-by", type=int, metavar="N", help="Move the offset N records forward, or back if N is negative.")
@click.option(
    "--to-datetime", metavar="YYYY-MM-DDTHH:mm:SS.sss", help="Reset to the first record at or after this time."
)
@click.option(
    "--by-duration",
    metavar="PnDTnHnMnS",
    help="Reset to the first record that is not older than this duration, such as P1DT2H.",
)
@click.option(
    "--from-file",
    type=click.Path(path_type=Path),
    help="Reset to the offsets in this CSV file with lines topic,partition,offset.",
)
@click.option("--execute", is_flag=True, help="With --reset-offsets: commit the new offsets.")
@click.option("--dry-run", is_flag=True, help="With --reset-offsets: only print the new offsets (the default).")
@click.option("--export", is_flag=True, help="Print the new offsets as CSV lines topic,partition,offset.")
def command(cluster: AdminClient, **options: object) -> int:
    """List, describe and delete consumer groups, and reset their offsets, as kafka-consumer-groups does."""
    action = _one_of(ACTIONS, options, "Command must include exactly one action")
    target = _target(options) if action == "reset_offsets" else None
    _check_use(action, options)
    _act(group_admin.GroupAdmin(cluster, lambda line: click.echo(printable(line))), action, target, options)
    return 0


def _act(
    admin: group_admin.GroupAdmin, action: str, target: group_admin.Target | None, options: dict[str, Any]
) -> None:
    if action == "list":
        states = options["state"]
        admin.list_groups(None if states is None else [each.strip() for each in states.split(",") if each.strip()])
        return
    names = [group.group_id for group in admin.groups()] if options["all_groups"] else options["group"]
    if action == "delete":
        admin.delete(names)
        return
    for name in names:
        if target is not None:
            topics = None if options["all_topics"] else options["topic"]
            admin.reset(name, topics, target, options["execute"], options["export"])
        elif options["members"]:
            admin.describe_members(name, options["verbose"])
        elif options["state"] is not None:
            admin.describe_state(name)
        else:
            admin.describe_offsets(name)
    if target is not None and not options["execute"] and not options["dry_run"]:
        click.echo("WARN: No action was performed: --execute is missing.", err=True)


def _set_options(names: Sequence[str], options: dict[str, Any]) -> list[str]:
    return [name for name in names if options[name] is not None and options[name] is not False]


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _one_of(names: Sequence[str], options: dict[str, Any], what: str) -> str:
    given = _set_options(names, options)
    if len(given) != 1:
        raise click.UsageError(f"{what}: {', '.join(map(_option, names))}")
    return given[0]


def _check_use(action: str, options: dict[str, Any]) -> None:
    """Check the combination of options; raise click.UsageError for an invalid combination."""
    if action != "list" and bool(options["group"]) == options["all_groups"]:
        raise click.UsageError(f"Option {_option(action)} takes one of these options: --group, --all-groups")
    if action == "describe" and len(_set_options(VIEWS, options)) > 1:
        raise click.UsageError("Option --describe takes at most one of these options: --members, --offsets, --state")
    if action == "reset_offsets":
        whole = options["all_topics"] or options["from_file"] is not None
        if bool(options["topic"]) == whole and options["from_file"] is None:
            raise click.UsageError("Option --reset-offsets takes one of these options: --topic, --all-topics")
        for topic in options["topic"]:
            if _TOPIC.fullmatch(topic) is None:
                raise click.UsageError(f"--topic {topic!r} should be TOPIC, or TOPIC:0,1 for some of its partitions")
        if options["execute"] and options["dry_run"]:
            raise click.UsageError("Option --reset-offsets only accepts one of --execute and --dry-run")


def _target(options: dict[str, Any]) -> group_admin.Target:
    """Return the function that computes the new offsets; raise click.UsageError for an invalid value."""
    scenario = _one_of(SCENARIOS, options, "Option --reset-offsets requires one of these options")
    value = options[scenario]
    try:
        match scenario:
            case "to_offset":
                return group_admin.to_offset(value)
            case "shift_by":
                return group_admin.shift_by(value)
            case "to_datetime":
                return group_admin.to_time(group_admin.moment_of(value))
            case "by_duration":
                return group_admin.to_time(group_admin.ago(_duration(value)))
            case "from_file":
                wanted = group_admin.read_offsets(value)
                options["topic"] = [f"{topic}:{number}" for topic, number in wanted]
                return group_admin.to_offsets(wanted)
    except (ValueError, OverflowError) as error:
        raise click.UsageError(f"{_option(scenario)} {value}: {error}") from error
    return {
        "to_earliest": group_admin.to_earliest,
        "to_latest": group_admin.to_latest,
        "to_current": group_admin.to_current,
    }[scenario]


def _duration(text: str) -> timedelta:
    """Return the duration; raise ValueError for an invalid text."""
    match = _DURATION.fullmatch(text)
    if match is None or text[-1] in "PT":
        raise ValueError("expected a duration such as P1DT2H30M (PnDTnHnMnS)")
    return timedelta(**{unit: float(count) for unit, count in match.groupdict().items() if count})
