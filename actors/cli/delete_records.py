"""`kafka-actors delete-records`: its options, JSON file and columns are those of Kafka's kafka-delete-records."""

from __future__ import annotations

import json
from pathlib import Path

import click

from actors.cli.admin_client import AdminClient, with_client
from actors.cli.app import CommandFailed, text_of
from actors.cli.display import printable
from actors.cli.usage_errors import exit_codes
from messages.apis.delete_records import DeleteRecordsRequest, TrimmedPartition
from messages.cluster import TopicPartition
from messages.error_names import name_of

DELETE_VERSION = 1
EXAMPLE = '{"version": 1, "partitions": [{"topic": "foo", "partition": 1, "offset": 1}]}'


@click.command("delete-records", epilog=exit_codes())
@with_client(5000)
@click.option(
    "--offset-json-file",
    type=click.Path(path_type=Path),
    required=True,
    help=f"The partitions and their new log start offsets: {EXAMPLE}. Offset -1 is the high watermark.",
)
def command(cluster: AdminClient, offset_json_file: Path) -> int:
    """In each given partition, delete the records before an offset, as kafka-delete-records does.

    The records cannot be recovered. For a partition whose records cannot be deleted,
    the output has a line with the reason.
    """
    wanted = read_offsets(offset_json_file)
    click.echo("Executing records delete operation")

    def request(trimmed: list[TopicPartition]) -> DeleteRecordsRequest:
        parts = tuple(TrimmedPartition(partition, wanted[partition]) for partition in trimmed)
        return DeleteRecordsRequest(DELETE_VERSION, parts, cluster.timeout_ms)

    deleted, refused = cluster.ask_leaders(wanted, request)
    click.echo("Records delete operation completed:")
    for partition in sorted(wanted):
        if partition in refused:
            line = f"partition: {partition}\terror: {name_of(refused[partition])}"
        else:
            line = f"partition: {partition}\tlow_watermark: {deleted[partition].low_watermark}"
        click.echo(printable(line))
    return 1 if refused else 0


def read_offsets(file: Path) -> dict[TopicPartition, int]:
    """Return the offsets in the JSON file by partition.

    Raises:
        CommandFailed: The file is invalid.
    """
    try:
        document = json.loads(text_of(file))
    except ValueError as error:
        raise CommandFailed(f"{file}: The input string is not a valid JSON: {error}. Expected {EXAMPLE}") from error
    if not isinstance(document, dict):
        raise CommandFailed(f"{file}: Missing partitions field. Expected {EXAMPLE}")
    version = document.get("version", 1)
    if version != 1:
        raise CommandFailed(f"{file}: Not supported version field value {version}. Expected 1")
    if not isinstance(document.get("partitions"), list):
        raise CommandFailed(f"{file}: Missing partitions field. Expected {EXAMPLE}")
    found: dict[TopicPartition, int] = {}
    duplicates = []
    for each in document["partitions"]:
        partition, offset = _entry(file, each)
        if partition in found:
            duplicates.append(str(partition))
        found[partition] = offset
    if duplicates:
        raise CommandFailed(f"{file}: Offset json file contains duplicate topic partitions: {','.join(duplicates)}")
    return found


def _entry(file: Path, entry: object) -> tuple[TopicPartition, int]:
    wanted = {"topic": str, "partition": int, "offset": int}
    if not isinstance(entry, dict) or not all(
        isinstance(entry.get(name), kind) and not isinstance(entry[name], bool) for name, kind in wanted.items()
    ):
        raise CommandFailed(f"{file}: {json.dumps(entry)} is not a partition with an offset. Expected {EXAMPLE}")
    if not (0 <= entry["partition"] < 2**31 and -(2**63) <= entry["offset"] < 2**63):
        raise CommandFailed(f"{file}: {json.dumps(entry)} has a number that is out of range")
    return TopicPartition(entry["topic"], entry["partition"]), entry["offset"]
