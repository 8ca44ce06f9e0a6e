"""`kafka-actors trace export DIR FILE`: write a trace in another format.

The formats are Perfetto, OpenTelemetry, Mermaid and JSON lines.
"""

from __future__ import annotations

import json
import math
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from actors.cli.app import CommandFailed
from actors.cli.usage_errors import DAMAGED, exit_codes, wrong_use
from actors.trace.delivery_text import json_line
from actors.trace.explanation import TraceFact
from actors.trace.filters import linked_effects
from actors.trace.links import DeliveryId
from actors.trace.mermaid import sequence_diagram
from actors.trace.otlp import LineWriter, OtlpWriter
from actors.trace.perfetto import PerfettoWriter
from actors.trace.reader import Trace, open_trace
from messages.trace.errors import TraceError
from messages.trace.schema import FULL

STANDARD_OUTPUT = "-"
FORMATS = ("perfetto", "otlp", "mermaid", "ndjson")
SCHEMES = ("http://", "https://")
ATTEMPTS = 5
BACK_OFF_SECONDS = 0.5
"""Before the second attempt; it doubles with each."""
TIMEOUT_SECONDS = 30.0
RETRYABLE = frozenset((429, 502, 503, 504))
"""Status codes after which the OTLP specification demands another attempt."""


@click.command("export", epilog=exit_codes(DAMAGED))
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("target", metavar="FILE|URL", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--perfetto", "form", flag_value="perfetto", help="Perfetto's protobuf format, for ui.perfetto.dev.")
@click.option(
    "--otlp",
    "form",
    flag_value="otlp",
    help="Spans of events and requests as OTLP JSON, written to FILE as lines or sent to URL.",
)
@click.option(
    "--mermaid",
    "form",
    flag_value="mermaid",
    help="A sequence diagram of the effects of one delivery, which --delivery selects.",
)
@click.option("--ndjson", "form", flag_value="ndjson", help="Every delivery in full, one JSON object a line.")
@click.option("--node", type=int, help="Only the runs of this node.")
@click.option("--run", "name", help="Only the run with this id.")
@click.option(
    "--delivery",
    type=click.IntRange(1),
    help="With --mermaid: the number of the delivery that the diagram begins with, in the run that --node and --run"
    " select.",
)
@click.option("--no-facts", is_flag=True, help="Leave the facts, such as a change of leader, out of a Perfetto export.")
def command(
    directory: Path,
    target: str,
    form: str | None,
    node: int | None,
    name: str | None,
    delivery: int | None,
    no_facts: bool,
) -> int:
    """Write the traces below DIR to FILE ("-" is standard output) in another format.

    With --otlp the target may be the URL of an OTLP/HTTP endpoint, such as http://localhost:4318/v1/traces.

    Perfetto: nodes are processes, actors are threads, deliveries are slices, messages are flows (also between nodes),
    queue lengths are counters, and facts (such as a change of leader) are instants. OTLP: a span for each controller
    event, each request and each ZooKeeper request. Mermaid: a sequence diagram of what one delivery caused, without
    timers and followers' idle fetches.
    """
    if form is None:
        raise wrong_use("expected one of " + ", ".join(f"--{each}" for each in FORMATS))
    if (delivery is None) != (form != "mermaid"):
        raise wrong_use("--mermaid needs --delivery" if delivery is None else "--delivery is an option of --mermaid")
    if target.startswith(SCHEMES) and form != "otlp":
        raise wrong_use(f"--{form} needs a file; only --otlp can be sent to a URL")
    try:
        trace = open_trace(directory)
        if form == "mermaid" and delivery is not None:
            begin = DeliveryId(trace.runs.index(trace.only_run(node, name)), delivery)
            text = sequence_diagram(trace, linked_effects(trace, [begin], polls=False))
            with open_target(target) as out:
                out.write(text.encode())
            return 0
        if node is not None or name is not None:
            trace = trace.select(node, name)
        result = _written(trace, target, form, no_facts)
    except TraceError as error:
        raise CommandFailed(str(error)) from error
    if target != STANDARD_OUTPUT:
        click.echo(f"{result} written to {target}")
    if trace.unreadable:
        raise CommandFailed("; ".join(trace.unreadable))
    return 0


def _written(trace: Trace, target: str, form: str, no_facts: bool) -> str:
    """Write the trace; return the description of the output."""
    facts: list[TraceFact] = []
    if form == "perfetto" and not no_facts:
        if any(run.run.header.detail != FULL for run in trace.runs):
            click.echo("facts are left out: the trace has no payloads (trace.detail is not full)", err=True)
        else:
            facts = list(trace.facts())
    if target.startswith(SCHEMES):
        return _spans(trace, OtlpEndpoint(target))
    with open_target(target) as out:
        if form == "perfetto":
            counts = PerfettoWriter(trace, out).write(facts)
            return f"{counts.slices} deliveries, {counts.flows} messages and {counts.facts} facts"
        if form == "otlp":
            return _spans(trace, out)
        return f"{_write_lines(trace, out)} deliveries"


def _spans(trace: Trace, out: LineWriter) -> str:
    writer = OtlpWriter(trace, out)
    writer.write()
    return f"{writer.spans} spans"


def _write_lines(trace: Trace, out: BinaryIO) -> int:
    count = 0
    for each in trace.deliveries():
        out.write(json_line(each, largest=math.inf).encode() + b"\n")
        count += 1
    return count


@contextmanager
def open_target(target: str) -> Iterator[BinaryIO]:
    """Yield the file, or standard output.

    Raises:
        CommandFailed: The file cannot be opened.
    """
    if target == STANDARD_OUTPUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        out = Path(target).open("wb")  # noqa: SIM115
    except OSError as error:
        raise CommandFailed(f"{target}: {error.strerror}") from error
    with out:
        yield out


class OtlpEndpoint:
    """An endpoint such as http://localhost:4318/v1/traces, with the interface of a writable file."""

    def __init__(self, url: str) -> None:
        self._url = url

    def write(self, line: bytes) -> None:
        """Send one ExportTraceServiceRequest in JSON.

        Raises:
            CommandFailed: The endpoint cannot be reached, or it rejects the request or a part of it.
        """
        request = urllib.request.Request(self._url, line, {"Content-Type": "application/json"})
        for attempt in range(ATTEMPTS):
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
                    self._check(response.read())
                return
            except urllib.error.HTTPError as error:
                if error.code not in RETRYABLE or attempt == ATTEMPTS - 1:
                    raise CommandFailed(
                        f"{self._url}: HTTP status {error.code} {error.reason}. Name an OTLP/HTTP endpoint that accepts"
                        " JSON, such as http://localhost:4318/v1/traces."
                    ) from error
                time.sleep(_seconds(error.headers.get("Retry-After"), BACK_OFF_SECONDS * 2**attempt))
            except OSError as error:
                raise CommandFailed(f"{self._url}: {getattr(error, 'reason', error)}") from error

    def _check(self, body: bytes) -> None:
        """Raise CommandFailed if the response says that spans were rejected; other content is ignored."""
        try:
            partial = json.loads(body or b"{}").get("partialSuccess") or {}
        except (ValueError, AttributeError):
            return
        if int(partial.get("rejectedSpans", 0)):
            why = partial.get("errorMessage", "no reason given")
            raise CommandFailed(f"{self._url} rejected {partial['rejectedSpans']} spans: {why}")


def _seconds(retry_after: str | None, otherwise: float) -> float:
    return min(float(retry_after), TIMEOUT_SECONDS) if retry_after and retry_after.isdigit() else otherwise
