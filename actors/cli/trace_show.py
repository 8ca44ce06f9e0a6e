"""`kafka-actors trace show DIR`: print deliveries as lines, as a table or as JSON, or show the trace on a page."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from urllib.parse import urlencode

import click

from actors.cli.app import CommandFailed
from actors.cli.display import console, printable, table
from actors.cli.usage_errors import DAMAGED, Time, exit_codes, wrong_use
from actors.node.free_ports import HOST
from actors.trace.delivery_text import calls, json_line, line_of, route, summary
from actors.trace.filters import DeliveryFilters, chosen, select
from actors.trace.following import TraceFollower
from actors.trace.reader import TraceDelivery, open_trace
from messages.cluster import TopicPartition, partition_named
from messages.trace.errors import TraceError

POLL_S = 0.25
"""Seconds between two reads of a running cluster's traces."""


@click.command("show", epilog=exit_codes(DAMAGED))
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--node", type=int, help="Only deliveries that this node recorded.")
@click.option("--run", "name", help="Only deliveries of the run with this id.")
@click.option("--actor", help="Only deliveries to or from this class of actors, or this address.")
@click.option("--message", help="Only messages of this class.")
@click.option("--topic", help="Only deliveries that concern this topic.")
@click.option("--partition", metavar="TOPIC-NUMBER", help="Only deliveries that concern this partition.")
@click.option("--broker", type=int, help="Only deliveries that concern this broker.")
@click.option("--event", help="Only controller events of this class, and what they caused on all nodes.")
@click.option(
    "--from", "start", type=Time(), help="Only deliveries at this time or later (ISO 8601, or seconds since 1970)."
)
@click.option("--to", "end", type=Time(), help="Only deliveries before this time.")
@click.option(
    "--slower-than", type=float, default=-1.0, help="Only deliveries that took more seconds, with their wait."
)
@click.option("--cause-of", type=click.IntRange(1), help="Only this delivery, and the chain of its causes.")
@click.option("--effects-of", type=click.IntRange(1), help="Only this delivery, and everything that it caused.")
@click.option("--limit", type=click.IntRange(1), help="Stop after this number of deliveries.")
@click.option("--follow", is_flag=True, help="Continue with new deliveries until all nodes stop recording, or Ctrl-C.")
@click.option("--table", "as_table", is_flag=True, help="Print a table.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per delivery.")
@click.option(
    "--ui", is_flag=True, help="Serve a page on which any moment of the trace can be looked at, until Ctrl-C."
)
@click.option(
    "--with",
    "beside",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="With --ui: compare with the trace of another run, whose page is served as well.",
)
@click.option(
    "--ui-host", metavar="HOST", default=HOST, show_default=True, help="The address on which the page is served."
)
@click.option("--ui-port", type=click.IntRange(0, 65535), default=0, help="The port of the page; 0 selects a free one.")
def command(
    directory: Path,
    node: int | None,
    name: str | None,
    actor: str | None,
    message: str | None,
    topic: str | None,
    partition: str | None,
    broker: int | None,
    event: str | None,
    start: float | None,
    end: float | None,
    slower_than: float,
    cause_of: int | None,
    effects_of: int | None,
    limit: int | None,
    follow: bool,
    as_table: bool,
    as_json: bool,
    ui: bool,
    beside: Path | None,
    ui_host: str,
    ui_port: int,
) -> int:
    """Print the deliveries recorded below DIR by all nodes, in order of time.

    A delivery is one message that an actor handled. A line has the node, time (UTC), number of the delivery, sender,
    receiver, message and I/O calls. A delivery is printed if it matches all filters. --cause-of and --effects-of take a
    delivery number. In each run of a node, the deliveries are numbered from 1 on, so these two options need --run or
    --node if DIR has several runs. The causes and effects on other nodes are printed too. Long values are shortened.
    For a message larger than 16 KiB, --json prints the message's size and omits its fields.

    --ui serves the page of the trace instead. It begins at --from, with the messages that --partition, --topic,
    --broker, --actor or --message selects, or at the delivery --cause-of of the run.
    """
    if ui:
        if follow or as_table or as_json:
            raise wrong_use("--ui cannot be combined with --follow, --table or --json")
        named = {"partition": partition, "topic": topic, "broker": broker, "actor": actor, "message": message}
        about = next((f"{kind}:{value}" for kind, value in named.items() if value is not None), "")
        return _show_page(directory, node, name, ui_host, ui_port, start, about, cause_of, beside)
    if beside is not None:
        raise wrong_use("--with needs --ui")
    if as_table and (as_json or follow):
        raise wrong_use("--table cannot be combined with --json or --follow")
    filters = DeliveryFilters(
        actor=actor,
        message=message,
        topic=topic,
        partition=None if partition is None else read_partition(partition),
        broker=broker,
        event=event,
        start=-math.inf if start is None else start,
        end=math.inf if end is None else end,
        causes_of=cause_of,
        effects_of=effects_of,
        slower_than=slower_than,
    )
    traced = cause_of is not None or effects_of is not None or event is not None
    if follow and traced:
        raise wrong_use("--follow cannot be combined with --cause-of, --effects-of or --event")
    try:
        trace = open_trace(directory)
        if cause_of is not None or effects_of is not None:
            filters = filters._replace(origin=trace.only_run(node, name).name)
        elif node is not None or name is not None:
            narrowed = trace.select(node, name)
            if event is None:
                trace = narrowed
        many = len({run.node for run in trace.runs}) > 1
        if follow:
            _follow(TraceFollower(directory, node=node, run=name), filters, _printer(as_json, many), limit)
            return 0
        found: Iterable[TraceDelivery] = chosen(trace, filters)
        if event is not None:
            found = (each for each in found if node in (None, each.node) and name in (None, each.run.name))
        found = islice(found, limit)
        if as_table:
            _print_table(found)
        else:
            show = _printer(as_json, many)
            for each in found:
                show(each)
    except TraceError as error:
        raise CommandFailed(str(error)) from error
    if trace.unreadable:
        raise CommandFailed("; ".join(trace.unreadable))
    return 0


def _show_page(
    directory: Path,
    node: int | None,
    run: str | None,
    host: str,
    port: int,
    start: float | None,
    about: str,
    delivery: int | None,
    beside: Path | None,
) -> int:
    """Serve the page of a trace until Ctrl-C."""
    from actors.cli.broker import ui_warning  # these imports take as long as to print a small trace
    from actors.node.process import tame
    from actors.page.recorded import RecordedPage

    tame()  # otherwise a step waits for the garbage collector (0.8 s with a million deliveries) and for the survey
    try:
        trace = open_trace(directory)
        query = {} if start is None else {"at": repr(start)}
        if about:
            query["about"] = about
        if delivery is not None:
            found = trace.only_run(node, run).delivery(delivery)
            query.update(at=repr(found.at), d=f"{found.run.name}~{found.seq}")
        other = None if beside is None else RecordedPage(open_trace(beside), host)
        page = RecordedPage(trace, host, port, beside=other)
    except TraceError as error:
        raise CommandFailed(str(error)) from error
    except OSError as error:
        raise CommandFailed(f"the page cannot be served on {host}:{port}: {error.strerror}") from error
    name = "lanes" if about or delivery is not None else "compare" if other is not None else ""
    view = f"#/{name}?{urlencode(query)}" if query else f"#/{name}" if name else ""
    if warning := ui_warning(host, "read this trace"):
        click.echo(warning, err=True)
    click.echo(f"The page is at {page.url}{view}. Press Ctrl-C to end.")
    try:
        threading.Event().wait()
    finally:
        page.stop()
        if other is not None:
            other.stop()
    return 0


def read_partition(text: str) -> TopicPartition:
    """Return the partition with this name.

    Raises:
        click.UsageError: The text is not a partition.
    """
    partition = partition_named(text)
    if partition is None:
        raise wrong_use(f"'{text}' is not a partition such as orders-0")
    return partition


def _printer(as_json: bool, many: bool) -> Callable[[TraceDelivery], None]:
    if as_json:
        return lambda each: click.echo(json_line(each))
    return lambda each: click.echo(printable(line_of(each, many)))


def _print_table(deliveries: Iterable[TraceDelivery]) -> None:
    rows = [
        (
            *(each.node, each.seq, f"{datetime.fromtimestamp(each.at, UTC):%Y-%m-%d %H:%M:%S.%f}"),
            *(route(each), summary(each), calls(each), f"{each.waited_ms:.3f}", f"{each.took_ms:.3f}"),
            each.error or "",
        )
        for each in deliveries
    ]
    columns = (
        "node",
        "delivery",
        "time (UTC)",
        "sender -> receiver",
        "message",
        "I/O",
        "waited ms",
        "took ms",
        "error",
    )
    console().print(table(None, columns, rows))


def _follow(
    follower: TraceFollower, filters: DeliveryFilters, show: Callable[[TraceDelivery], None], limit: int | None
) -> None:
    """Print the recorded deliveries, then new deliveries as they are recorded."""
    left = limit if limit is not None else -1
    selection = select(_polls(follower), filters)
    for each in selection:
        show(each)
        left -= 1
        if left == 0:
            return


def _polls(follower: TraceFollower) -> Iterable[TraceDelivery]:
    while True:
        went_on = follower.running
        yield from follower.poll()
        if not follower.running and not went_on:
            return
        time.sleep(POLL_S)
