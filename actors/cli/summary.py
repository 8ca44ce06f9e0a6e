"""`kafka-actors summary`: summarise traces with Spark, as text, JSON or an HTML report.

With `--follow` the summary is repeated when traces have grown.

Rule: A child process computes the summary. It starts Java first, and imports the large modules while Java starts.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click
from rich.table import Table

from actors.cli.app import FAILED, FILE, FOLDER, PROGRAM, CommandFailed, write_whole
from actors.cli.display import console, table
from actors.cli.extras import need
from actors.trace.explanation import explain_all, explanation_json, utc
from messages.trace.errors import TraceError
from messages.trace.files.runs import find_runs
from messages.trace.schema import INPUTS
from spark import section_names
from spark.child_process import ChildEnded, apart
from spark.errors import Incomplete, SparkUnavailable
from spark.formatting import heads, rows
from spark.incidents import headline
from spark.java import Java, archive, find_java, home
from spark.results import Summary

MOST_ROWS = 60
"""Maximum number of rows of a table; the JSON has all."""
MOST_EXPLAINED = 200_000
"""Maximum number of deliveries of traces for which the HTML report has answers of `why` (some five seconds)."""


@click.command("summary")
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--json", "json_file", metavar="FILE", type=FILE, help="Also write all rows of all tables to this file as JSON."
)
@click.option(
    "--html",
    "html_file",
    metavar="FILE",
    type=FILE,
    help="Also write an HTML report with figures to this file. It always contains all sections.",
)
@click.option(
    "--master",
    default=section_names.default_master,
    show_default=f"{section_names.MASTER}, or {section_names.SUBMITTED}",
    help="The Spark master; its workers must be able to read DIR.",
)
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(list(section_names.TITLES)),
    help="Print only this section. May be repeated.",
)
@click.option("--follow", is_flag=True, help="Repeat the summary whenever the traces have grown, until Ctrl-C.")
@click.option(
    "--keep",
    metavar="FOLDER",
    type=FOLDER,
    help="With --follow: store the converted traces in this folder. A later --follow continues from them.",
)
@click.option(
    "--against",
    metavar="DIR2",
    type=click.Path(exists=True, path_type=Path),
    help="Compare the latencies with those of the earlier traces below DIR2.",
)
@click.option(
    "--logs",
    is_flag=True,
    help="Read the logs of Apache Kafka brokers (log4j files or standard output) instead of traces. DIR may be a file.",
)
@click.option("--zone", default="UTC", show_default=True, help="With --logs: the time zone of the logs.")
@click.option(
    "--partial", "in_part", is_flag=True, help="If a trace is damaged, summarise its readable part instead of failing."
)
def command(
    directory: Path,
    json_file: Path | None,
    html_file: Path | None,
    master: str,
    only: tuple[str, ...],
    follow: bool,
    keep: Path | None,
    against: Path | None,
    logs: bool,
    zone: str,
    in_part: bool,
) -> int:
    """Summarise all traces below DIR with Spark.

    The sections show failed nodes and when their failures were detected, how long partitions were without a leader,
    messages and handling time by actor and message type, controller events, requests per broker, elections, and leaders
    over time.
    """
    if keep and not follow:
        raise click.UsageError(
            "--keep needs --follow. To convert traces without following them, use `kafka-actors trace pack`."
        )
    if logs and (follow or not set(only) <= set(section_names.LOGGED)):
        raise click.UsageError(
            "--logs cannot be combined with --follow, and supports only these sections: "
            f"{', '.join(section_names.LOGGED)}"
        )
    if (against and (logs or follow)) or (section_names.COMPARED in only and not against):
        raise click.UsageError("--against cannot be combined with --follow or --logs")
    need("spark", "summary")
    chosen = only or (section_names.LOGGED if logs else section_names.BRIEF)
    asked = tuple(section_names.TITLES) if html_file else chosen
    publish = partial(_publish, directory, json_file, html_file, chosen)
    try:
        if follow:
            apart(partial(_follow, directory, keep, publish, asked, master))
        own = {"zone": _time_zone(zone)} if logs else {"partial": in_part, "against": against}
        summary = apart(partial(_read, logs, directory, print_line=_print_line, only=asked, master=master, **own))
    except Incomplete as error:
        raise CommandFailed(
            f"some files below {directory} cannot be read (--partial summarises only the readable ones):\n{error}"
        ) from error
    except (TraceError, SparkUnavailable, ChildEnded) as error:
        raise CommandFailed(str(error)) from error
    publish(summary)
    if section_names.is_local(master) and sys.stderr.isatty():
        _prepare_spark()
    if not summary["runs"]:
        what = "readable run" if summary.unreadable else "recorded run"
        raise CommandFailed(f"{directory} contains no {what}")
    return FAILED if summary.damage or summary.unreadable else 0


def _time_zone(zone: str) -> str:
    try:
        return ZoneInfo(zone).key
    except (ValueError, ZoneInfoNotFoundError) as error:
        raise click.UsageError(f"--zone: {zone} is not a known time zone; use a name such as Europe/Paris") from error


def _ahead(master: str) -> Java | None:
    """Start Java for a local Spark master, and return its process; None if none was started (see `Java.ahead`).

    Raises:
        SparkUnavailable: No Java is found.
    """
    find_java()
    return Java.ahead() if section_names.is_local(master) else None


def _read(logs: bool, directory: Path, master: str, **options: Any) -> Summary:
    """Return the summary. This runs in the child process; `options` are passed to `spark.summary`."""
    java = _ahead(master)
    from spark.summary import summarise, summarise_logs

    read = summarise_logs if logs else summarise
    return read(directory, master=master, stop=not section_names.is_local(master), java=java, **options)


def _prepare_spark() -> None:
    """Store Spark's class data archive for later summaries, unless it exists or SPARK_HOME is set.

    This is optional: a failure is ignored, and Ctrl-C skips it.
    """
    if "SPARK_HOME" in os.environ or archive(home()).exists():
        return
    _print_line("storing Spark's class data, once (half a minute; Ctrl-C skips it): summaries start faster from now on")
    with suppress(KeyboardInterrupt, SparkUnavailable, ChildEnded, OSError):
        apart(_prepare)


def _prepare() -> None:
    from spark.archive import prepare

    prepare(_print_line)


def _follow(
    directory: Path, keep: Path | None, publish: Callable[[Summary], None], asked: Collection[str], master: str
) -> None:
    """Publish one summary after the other. This runs in the child process."""
    java = _ahead(master)
    from spark.follow import follow

    for summary in follow(directory, keep or Path(tempfile.mkdtemp()), _print_line, asked, master, java):
        publish(summary)
        sys.stdout.flush()


def _publish(
    directory: Path, json_file: Path | None, html_file: Path | None, chosen: Sequence[str], summary: Summary
) -> None:
    if json_file is not None:
        write_whole(json_file, json.dumps(summary.as_dict(), indent=1) + "\n")
    if html_file is not None:
        from spark.report import page  # needs jinja2

        title = f"What happened in {directory.resolve().name}"
        command = shlex.join([PROGRAM, "trace", "show", str(directory), "--ui"]) if find_runs(directory).runs else ""
        write_whole(html_file, page(summary, title, _explanations(directory, summary), command))
    _show(summary, chosen)


def _explanations(directory: Path, summary: Summary) -> dict[str, Any]:
    """Return the explanations of `why` for the partition that was longest without a leader, and for the cluster.

    There is none for logs, for packed traces, for traces without payloads, and for large traces.
    """
    if sum(getattr(run, "deliveries", MOST_EXPLAINED) for run in summary["runs"]) > MOST_EXPLAINED:
        return {}
    subjects: list[tuple[str, str | None]] = [("cluster", None)]
    if len(summary["unavailable"]):
        row = summary["unavailable"][0]
        subjects.insert(0, ("partition", f"{row.topic}-{row.partition}"))
    answers = {}
    with suppress(TraceError):
        runs = find_runs(directory).runs
        for (about, name), found in zip(subjects, explain_all(runs, subjects), strict=True) if runs else ():
            answers[f"why {about} {name or ''}".rstrip()] = explanation_json(found, utc)
    return answers


def _print_line(words: str) -> None:
    """Print a line of progress to standard error, if that is a terminal."""
    if sys.stderr.isatty():
        click.echo(f"{words} ...", err=True)


def _show(summary: Summary, chosen: Sequence[str]) -> None:
    out = console()
    for sentence in headline(summary):
        out.print(sentence, markup=False, highlight=False)
    for each in _tables(summary, chosen):
        if each.row_count:
            out.print(each)
    for run in summary["runs"]:
        if run.detail == INPUTS:
            out.print(f"run {run.run} has no payloads (trace.detail={run.detail}): they are not counted")
    for damage in summary.damage:
        out.print(f"not counted after a damaged place: {damage}")
    for unplaced in summary.unplaced:
        out.print(unplaced)
    if summary.malformed:
        out.print(f"{summary.malformed} malformed lines were not counted")
    for unreadable in summary.unreadable:
        out.print(f"not readable: {unreadable}")


def _tables(summary: Summary, chosen: Sequence[str]) -> Iterable[Table]:
    for name, answer in summary.answers.items():
        if name in chosen or name in ("runs", section_names.COMPARED):
            more = f" (the first {MOST_ROWS} of {len(answer)})" if len(answer) > MOST_ROWS else ""
            yield table(section_names.TITLES[name] + more, heads(answer), rows(answer, MOST_ROWS))
