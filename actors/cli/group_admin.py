"""The actions of `kafka-actors consumer-groups`: list, describe and delete consumer groups, and reset their offsets.

Rule 1: The tables have the columns of Kafka's tool.
Rule 2: Only offsets of inactive groups are reset. Without --execute, the new offsets are only printed.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

from actors.cli.admin_client import AdminClient
from actors.cli.app import CommandFailed
from actors.core.coordinator.group_metadata_records import assigned_partitions
from messages import errors
from messages.apis.delete_groups import DeleteGroupsRequest
from messages.apis.describe_groups import DescribedGroup, DescribedMember, DescribeGroupsRequest
from messages.apis.list_groups import ListedGroup, ListGroupsRequest
from messages.apis.list_offsets import ListOffsetsRequest, OffsetQuery
from messages.apis.offset_commit import CommittedPartition, OffsetCommitRequest
from messages.apis.offset_fetch import OffsetFetchRequest
from messages.cluster import TopicPartition
from messages.error_names import name_of
from messages.records import EARLIEST, LATEST

LIST_VERSION, DESCRIBE_VERSION, FETCH_VERSION, COMMIT_VERSION, DELETE_VERSION, OFFSETS_VERSION = 4, 5, 7, 7, 1, 5
INACTIVE = ("Empty", "Dead")
NONE_TEXT = "-"

Offsets = Mapping[TopicPartition, int]
Target = Callable[["GroupAdmin", Offsets, Sequence[TopicPartition]], Offsets]
"""Function from (admin, committed offsets, partitions) to new offsets."""


class GroupPartition(NamedTuple):
    """A row in the description of a consumer group: a partition, the group's offset and the partition's consumer."""

    partition: TopicPartition
    current: str
    end: str
    lag: str
    member: DescribedMember | None


class GroupAdmin:
    """The operations on the consumer groups of a cluster; `print_line` prints each line of a result."""

    def __init__(self, cluster: AdminClient, print_line: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._print_line = print_line

    # ------------------------------------------------------------------------------------------------------ queries

    def groups(self, states: Sequence[str] = ()) -> list[ListedGroup]:
        """Return all groups of all brokers, sorted by name."""

        def groups_of(broker: int) -> list[ListedGroup]:
            answer = self._cluster.ask(broker, ListGroupsRequest(LIST_VERSION, tuple(states)))
            self._cluster.check(answer.error_code, f"request for the groups of broker {broker}")
            return list(answer.groups)

        found = [each for broker in self._cluster.ids() for each in self._cluster.in_time(partial(groups_of, broker))]
        return sorted(found, key=lambda group: group.group_id)

    def group(self, name: str) -> DescribedGroup:
        """Return the description of a group."""
        answer = self._cluster.ask_coordinator(
            name,
            DescribeGroupsRequest(DESCRIBE_VERSION, (name,)),
            lambda answer: answer.groups[0].error_code,
        )
        group: DescribedGroup = answer.groups[0]
        if group.error_code != errors.NONE:
            raise CommandFailed(f"group '{name}': {name_of(group.error_code)}")
        return group

    def committed_offsets(self, name: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group."""
        answer = self._cluster.ask_coordinator(
            name, OffsetFetchRequest(FETCH_VERSION, name, None), lambda answer: answer.error_code
        )
        if answer.error_code != errors.NONE:
            raise CommandFailed(f"Failed to fetch the offsets of group '{name}': {name_of(answer.error_code)}")
        return {each.partition: each.committed_offset for each in answer.partitions if each.committed_offset >= 0}

    def offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        """Return the offsets of partitions at a timestamp; partitions without a leader are omitted.

        Args:
            timestamp: Time in ms, EARLIEST or LATEST.
        """
        by_leader, _ = self._cluster.by_leader(list(partitions))
        found = {}
        for leader, led in by_leader.items():
            queries = tuple(OffsetQuery(tp, timestamp) for tp in led)
            for listed in self._cluster.ask(leader, ListOffsetsRequest(OFFSETS_VERSION, -1, queries)).partitions:
                if listed.error_code == errors.NONE:
                    found[listed.partition] = listed.offset
        return found

    # ------------------------------------------------------------------------------------------------ list, describe

    def list_groups(self, states: Sequence[str] | None) -> None:
        """Print the names of the groups, and their states unless `states` is None.

        Args:
            states: States of the groups to list; empty for all.
        """
        groups = self.groups(states or ())
        if states is None:
            for group in groups:
                self._print_line(group.group_id)
            return
        self._table(
            (("GROUP", 25), ("STATE", 20)), [(group.group_id, group.group_state) for group in groups], ahead=False
        )

    def describe_offsets(self, name: str) -> None:
        """Print a group's partitions with their offsets and lags."""
        group = self._existing(name)
        committed = self.committed_offsets(name)
        if not group.members and committed:
            self._print_line(f"\nConsumer group '{name}' has no active members.")
        rows = self._rows(group, committed)
        columns = (
            *(("GROUP", 15), ("TOPIC", 15), ("PARTITION", 10), ("CURRENT-OFFSET", 15), ("LOG-END-OFFSET", 15)),
            *(("LAG", 15), ("CONSUMER-ID", 15), ("HOST", 15), ("CLIENT-ID", 0)),
        )
        self._table(
            columns,
            [
                (
                    name,
                    row.partition.topic,
                    str(row.partition.partition),
                    row.current,
                    row.end,
                    row.lag,
                    *_member_columns(row),
                )
                for row in rows
            ],
        )

    def _rows(self, group: DescribedGroup, committed: Offsets) -> list[GroupPartition]:
        owners = {tp: member for member in group.members for tp in assigned_partitions(member.member_assignment)}
        partitions = [*owners, *(tp for tp in committed if tp not in owners)]
        ends = self.offsets(partitions, LATEST)
        rows = []
        for tp in partitions:
            at, end = committed.get(tp), ends.get(tp)
            lag = NONE_TEXT if at is None or end is None else str(end - at)
            rows.append(GroupPartition(tp, _offset_text(at), _offset_text(end), lag, owners.get(tp)))
        return rows

    def describe_members(self, name: str, verbose: bool) -> None:
        """Print a group's members."""
        group = self._existing(name)
        if not group.members:
            self._print_line(f"\nConsumer group '{name}' has no active members.")
            return
        static = any(member.group_instance_id for member in group.members)
        columns = [("GROUP", 15), ("CONSUMER-ID", 15), ("HOST", 15), ("CLIENT-ID", 15), ("#PARTITIONS", 15)]
        if static:
            columns.insert(2, ("GROUP-INSTANCE-ID", 17))
        if verbose:
            columns.append(("ASSIGNMENT", 0))
        rows = []
        for member in group.members:
            parts = assigned_partitions(member.member_assignment)
            row = [name, member.member_id, member.client_host, member.client_id, str(len(parts))]
            if static:
                row.insert(2, member.group_instance_id or NONE_TEXT)
            if verbose:
                row.append(_by_topic(parts) or NONE_TEXT)
            rows.append(tuple(row))
        self._table(columns, rows)

    def describe_state(self, name: str) -> None:
        """Print a group's state and its coordinator."""
        group, coordinator = self._existing(name), self._cluster.coordinator(name)
        columns = (("GROUP", 25), ("COORDINATOR (ID)", 25), ("ASSIGNMENT-STRATEGY", 20), ("STATE", 15), ("#MEMBERS", 0))
        place = f"{coordinator.host}:{coordinator.port}  ({coordinator.id})"
        row = (name, place, group.protocol_data, group.group_state, str(len(group.members)))
        self._table(columns, [row])

    def _existing(self, name: str) -> DescribedGroup:
        group = self.group(name)
        if group.group_state == "Dead":
            raise CommandFailed(f"Consumer group '{name}' does not exist.")
        return group

    # ------------------------------------------------------------------------------------------------ delete, reset

    def delete(self, names: Sequence[str]) -> None:
        """Delete groups.

        Raises:
            CommandFailed: A group cannot be deleted.
        """
        done, failed = [], []
        for name in names:
            answer = self._cluster.ask_coordinator(
                name,
                DeleteGroupsRequest(DELETE_VERSION, (name,)),
                lambda answer: answer.results[0].error_code,
            )
            code = answer.results[0].error_code
            if code == errors.NONE:
                done.append(f"'{name}'")
            else:
                failed.append(f"* Group '{name}' could not be deleted due to: {name_of(code)}")
        quoted = ", ".join(done)
        if failed:
            if done:
                self._print_line(f"\nThese consumer groups were deleted successfully: {quoted}")
            raise CommandFailed("\n".join(("Deletion of some consumer groups failed:", *failed)))
        self._print_line(f"Deletion of requested consumer groups ({quoted}) was successful.")

    def reset(self, name: str, topics: Sequence[str] | None, target: Target, execute: bool, export: bool) -> None:
        """Print the new offsets of a group, and commit them if `execute`.

        Args:
            topics: Topics ("t") or partitions ("t:0,1"); None for all partitions with committed offsets.
        """
        group = self.group(name)
        if group.group_state not in INACTIVE:
            raise CommandFailed(
                f"Assignments can only be reset if the group '{name}' is inactive, but the current state is"
                f" {group.group_state}."
            )
        committed = self.committed_offsets(name)
        partitions = list(committed) if topics is None else self._partitions(topics)
        wanted = target(self, committed, partitions)
        if execute and wanted:
            self._commit(name, wanted)
        if export:
            for tp, offset in wanted.items():
                self._print_line(f"{tp.topic},{tp.partition},{offset}")
            return
        columns = (("GROUP", 30), ("TOPIC", 30), ("PARTITION", 10), ("NEW-OFFSET", 15))
        self._table(columns, [(name, tp.topic, str(tp.partition), str(offset)) for tp, offset in wanted.items()])

    def _partitions(self, topics: Sequence[str]) -> list[TopicPartition]:
        named: dict[str, list[int] | None] = {}
        for each in topics:
            topic, colon, numbers = each.partition(":")
            named[topic] = [int(number) for number in numbers.split(",")] if colon else None
        known = self._cluster.topics(list(named))
        return [
            TopicPartition(topic, number)
            for topic, numbers in named.items()
            for number in (sorted(each.partition for each in known[topic].partitions) if numbers is None else numbers)
        ]

    def _commit(self, name: str, wanted: Offsets) -> None:
        parts = tuple(CommittedPartition(tp, offset) for tp, offset in wanted.items())
        answer = self._cluster.ask_coordinator(
            name,
            OffsetCommitRequest(COMMIT_VERSION, name, -1, "", parts),
            lambda answer: answer.partitions[0].error_code,
        )
        refused = [each for each in answer.partitions if each.error_code != errors.NONE]
        if refused:
            reasons = ", ".join(f"{each.partition}: {name_of(each.error_code)}" for each in refused)
            raise CommandFailed(f"offsets of group '{name}' could not be committed: {reasons}")

    # ------------------------------------------------------------------------------------------------ tables

    def _table(self, columns: Sequence[tuple[str, int]], rows: Sequence[Sequence[str]], ahead: bool = True) -> None:
        """Print a table whose columns have at least these widths; a last column of width 0 is not padded."""
        widths = [
            width and max(width, *(len(row[place]) for row in rows), len(title)) if rows else width
            for place, (title, width) in enumerate(columns)
        ]
        lines = [[title for title, _ in columns], *rows]
        if ahead:
            self._print_line("")
        for line in lines:
            self._print_line(" ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))


def _offset_text(offset: int | None) -> str:
    return NONE_TEXT if offset is None else str(offset)


def _member_columns(row: GroupPartition) -> tuple[str, str, str]:
    member = row.member
    return (NONE_TEXT,) * 3 if member is None else (member.member_id, member.client_host, member.client_id)


def _by_topic(partitions: Sequence[TopicPartition]) -> str:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return ", ".join(f"{topic}({','.join(map(str, sorted(numbers)))})" for topic, numbers in sorted(topics.items()))


# ----------------------------------------------------------------------------------------------------- reset targets


def to_earliest(admin: GroupAdmin, committed: Offsets, partitions: Sequence[TopicPartition]) -> Offsets:
    """Return the earliest offsets of the partitions."""
    return admin.offsets(partitions, EARLIEST)


def to_latest(admin: GroupAdmin, committed: Offsets, partitions: Sequence[TopicPartition]) -> Offsets:
    """Return the end offsets of the partitions."""
    return admin.offsets(partitions, LATEST)


def to_current(admin: GroupAdmin, committed: Offsets, partitions: Sequence[TopicPartition]) -> Offsets:
    """Return each partition's committed offset, or its end offset if there is none."""
    ends = admin.offsets([tp for tp in partitions if tp not in committed], LATEST)
    return {tp: committed.get(tp, ends.get(tp, 0)) for tp in partitions}


def to_offsets(wanted: Offsets) -> Target:
    """Return a function that returns these offsets, limited to the existing records."""

    def target(admin: GroupAdmin, committed: Offsets, partitions: Sequence[TopicPartition]) -> Offsets:
        return _within(admin, {tp: wanted[tp] for tp in partitions if tp in wanted})

    return target


def to_offset(offset: int) -> Target:
    """Return a function that returns this offset for each partition, limited to the existing records."""
    return lambda admin, committed, partitions: _within(admin, dict.fromkeys(partitions, offset))


def shift_by(count: int) -> Target:
    """Return a function that moves the committed offsets by `count` records; a negative count moves backwards."""

    def target(admin: GroupAdmin, committed: Offsets, partitions: Sequence[TopicPartition]) -> Offsets:
        missing = [str(tp) for tp in partitions if tp not in committed]
        if missing:
            raise CommandFailed(
                f"Cannot shift offset for partition {missing[0]} since there is no current committed offset"
            )
        return _within(admin, {tp: committed[tp] + count for tp in partitions})

    return target


def to_time(moment: datetime) -> Target:
    """Return a function that returns each partition's first offset at or after a time, or else its end offset."""

    def target(admin: GroupAdmin, committed: Offsets, partitions: Sequence[TopicPartition]) -> Offsets:
        found = admin.offsets(partitions, int(moment.timestamp() * 1000))
        ends = admin.offsets(partitions, LATEST)
        return {tp: found[tp] if found.get(tp, -1) >= 0 else ends[tp] for tp in partitions if tp in ends}

    return target


def _within(admin: GroupAdmin, wanted: Offsets) -> Offsets:
    starts, ends = admin.offsets(wanted, EARLIEST), admin.offsets(wanted, LATEST)
    return {tp: min(max(offset, starts[tp]), ends[tp]) for tp, offset in wanted.items() if tp in starts and tp in ends}


def read_offsets(file: Path) -> dict[TopicPartition, int]:
    """Return the offsets in a file of lines "topic,partition,offset", as --export writes them.

    Raises:
        ValueError: A line is invalid.
    """
    with file.open(newline="", encoding="utf-8") as lines:
        return {TopicPartition(topic, int(number)): int(offset) for topic, number, offset in csv.reader(lines)}


def moment_of(text: str) -> datetime:
    """Parse a time such as "2026-11-21T10:00:00.500" or "2026-11-21T10:00:00+02:00"; the default zone is UTC.

    Raises:
        ValueError: The text is not a time.
    """
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def ago(duration: timedelta) -> datetime:
    """Return the time that is this duration before now."""
    return datetime.now(UTC) - duration
