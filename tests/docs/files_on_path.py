"""List the files whose functions run on two paths, before and after large modules were divided.

They were measured with `sys.setprofile` during the deliveries that the pages show (`tests.docs.paths`).
"""

from __future__ import annotations

from typing import NamedTuple

Files = dict[str, str]
"""Package -> names of its files on the path, separated by spaces."""


class FilesOnPath(NamedTuple):
    """The files on a path before and now, and the lines of code in these files."""

    before: Files
    now: Files
    lines_before: int
    lines_now: int


_DEATH_BEFORE: Files = {
    "actors/broker": ("fetcher_manager metadata_cache partition replica_fetcher replica_manager request_handler"),
    "actors/controller": "channel controller",
    "actors/core": (
        "broker/fetcher broker/metadata_cache broker/partition broker/replica_manager broker/state_changes "
        "broker/topic_figures controller/batch controller/broker_changes controller/context controller/elections "
        "controller/gauges controller/leadership controller/log_text controller/partition_state_machine "
        "controller/replica_state_machine controller/slicing controller/states"
    ),
    "actors/gateway": "counters idle_polls memory_network metrics request_figures store",
    "actors/runtime": (
        "answerer base clock conversation dispatch flow kernel recorder reference register scheduler sources timers"
    ),
    "actors/storage": "log_directories",
    "messages": "conversation parts protocol_version",
    "zk_bridge": (
        "bridge brokers conversations core partition_states paths watches znodes/brokers znodes/partition_states "
        "znodes/reading"
    ),
}

_DEATH_NOW: Files = {
    "actors/broker": (
        "fetcher_manager hosted_partitions hosted_topics leader_and_isr log_dirs log_maintenance metadata_cache "
        "partition replica_fetcher replica_manager request_handler"
    ),
    "actors/controller": "channel controller",
    "actors/core": (
        "broker/fetcher broker/hosted_replica broker/metadata_cache broker/partition broker/partition_appends "
        "broker/replica_manager broker/replica_role broker/state_changes broker/topic_stats controller/batch "
        "controller/broker_changes controller/context controller/elections controller/gauges controller/leadership "
        "controller/log_text controller/partition_state_machine controller/replica_state_machine controller/states "
        "illegal_transition"
    ),
    "actors/gateway": "counters idle_polls memory_network metrics request_metrics store",
    "actors/runtime": (
        "flow/answerer flow/conversation flow/flow kernel/clock kernel/kernel kernel/reference kernel/timers "
        "thespian/base thespian/dispatch thespian/register thespian/scheduler trace/recorder"
    ),
    "actors/storage": "log_directories",
    "messages": "broker flow/conversation network parts protocol_version",
    "zk_bridge": (
        "bridge brokers conversations core partition_states paths watches znodes/brokers znodes/partition_states "
        "znodes/reading"
    ),
}

_PRODUCE_BEFORE: Files = {
    "actors/broker": "partition partition_requests",
    "actors/core": (
        "broker/fetch_sessions broker/fetches broker/leader broker/partition broker/produce broker/replication_quota "
        "broker/topic_figures"
    ),
    "actors/gateway": "counters idle_polls memory_network metrics request_figures",
    "actors/runtime": "base clock dispatch kernel ports reference scheduler timers",
    "actors/storage": (
        "disk_faults log/checkpoint log/epochs log/handles log/index log/log log/producers log/segment "
        "log/transaction_index log_directories log_manager"
    ),
    "messages": "data_requests partition records vocabulary wire/record_batch",
}

_PRODUCE_NOW: Files = {
    "actors/broker": "partition partition_requests",
    "actors/core": (
        "broker/fetch_sessions broker/fetches broker/hosted_replica broker/leader broker/partition "
        "broker/partition_appends broker/partition_reads broker/pending_requests broker/produce broker/replica_log "
        "broker/replica_role broker/replication_quota broker/topic_stats"
    ),
    "actors/gateway": "counters idle_polls memory_network metrics request_metrics",
    "actors/runtime": (
        "kernel/adapters kernel/clock kernel/kernel kernel/reference kernel/timers thespian/base thespian/dispatch "
        "thespian/scheduler"
    ),
    "actors/storage": (
        "directory_checkpoints disk_faults log/checkpoint log/epochs log/handles log/index log/log log/producers "
        "log/segment log/transaction_index log_directories log_manager"
    ),
    "messages": "apis/fetch broker network records vocabulary wire/record_batch",
}

DEATH = FilesOnPath(_DEATH_BEFORE, _DEATH_NOW, 8_917, 9_057)
PRODUCE = FilesOnPath(_PRODUCE_BEFORE, _PRODUCE_NOW, 6_723, 6_954)

HEAD = "| package | 24 November | 25 November |", "| --- | --- | --- |"
INTRODUCTION = """\
The table lists the files whose functions ran during the deliveries on this page. The files were measured on two
days: {before} files with {lines_before:,} lines of code on 24 November 2026, and {now} files with
{lines_now:,} lines on 25 November. Between these days the rules of partitions moved into a core without I/O, and long
files were divided ([decisions](decisions.md#files-have-at-most-500-lines-of-code))."""


def number_of(files: Files) -> int:
    """Return the number of files."""
    return sum(len(names.split()) for names in files.values())


def section(files: FilesOnPath) -> tuple[str, str, str]:
    """Return the heading, the introduction (not wrapped) and the table of a page's files."""
    said = INTRODUCTION.format(
        before=number_of(files.before),
        now=number_of(files.now),
        lines_before=files.lines_before,
        lines_now=files.lines_now,
    )
    rows = [
        f"| `{package}` | {_listed(files.before.get(package, ''))} | {_listed(files.now.get(package, ''))} |"
        for package in sorted(files.before.keys() | files.now.keys())
    ]
    return "## The files on the path", said, "\n".join((*HEAD, *rows))


def _listed(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split())
