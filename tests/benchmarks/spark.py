"""Measure queries on large traces: `python -m tests.benchmarks.spark [--records N]... [--peer P]... [--rounds N]`.

The defaults are a million records, both peers and three rounds. With one round, the first execution counts. For a
hundred million records, Spark needs hours to read JSON lines, and DuckDB needs minutes.

The trace repeats an ordinary day of a node (tests/spark/working_day.py) until it has N records. The same records are
also written as JSON lines, which the peers read.

* pack, facts: convert traces to Parquet, and find their facts, in rows per second of CPU; the peer is the bound.
* json_lines: three queries by Spark on the packed trace; the peer is Spark on JSON lines.
* duckdb_json_lines, duckdb_parquet: the same queries; the peer is DuckDB on JSON lines, and on the same Parquet. All
  results must be equal.
* brief: the default queries of `summary`, in rows per second. From the second size on, the peer is the previous size,
  and the ratio should be at least 1.
  With `--master`, which may be given several times, its rows are called by the number of executors.
* session: the seconds until the session of the first master has started.
* memory: the peak memory of the driver's JVM; the peer is its limit of 2 GB.

Queries are measured in elapsed time. Each figure is the median of the rounds, in which the peers take turns. If there
are several rounds, a first execution does not count.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from messages.trace.files.runs import RunRecords, find_runs
from messages.trace.files.writer import RunWriter
from messages.trace.schema import Header
from messages.trace.text import compress
from spark.columns import plan_slices
from spark.pack import MANIFEST, pack_facts, pack_slice, tell
from spark.section_names import MASTER
from spark.session import fit, open_session
from spark.source import SCHEMA
from spark.summary import ask
from tests.benchmarks.report import report
from tests.spark import working_day

BENCH = "spark"
MILLION = 1_000_000
NODES = 2
FRAME = 8000
"""Approximate number of records of a frame."""
PACKING, FACTS = 60_000, 16_667
"""Required rows per second of CPU, and required deliveries per second of CPU when their facts are found."""
DRIVER_MB = 2048
PEERS = {
    "json_lines": "Spark, JSON lines",
    "duckdb_json_lines": "DuckDB, JSON lines",
    "duckdb_parquet": "DuckDB, Parquet",
}
JSON_DDL = """run string, node int, n long, kind string, cause long, sender string, receiver string, actor string,
type string, queued_at double, taken_at double, finished_at double, payload string, effects string, error string"""
JSON_COLUMNS = dict(re.findall(r"(\w+) (\w+)", JSON_DDL)) | {"payload": "JSON", "effects": "JSON"}


def generate(folder: Path, lines: Path, records: int) -> None:
    """Write traces, half of the records for each node, and JSON lines if the folder `lines` exists."""
    day = folder / "day"
    working_day.record(day)
    [run] = find_runs(day).runs
    rows = [msgspec.structs.asdict(record) for record in RunRecords(run) if record.kind != "ended"]
    shutil.rmtree(day)
    begin = min(row["taken_at"] for row in rows) - 1
    length = max(row["taken_at"] for row in rows) - begin
    for node in range(NODES):
        header = msgspec.structs.replace(run.header, run=f"node{node}-{records}", node=node, clock_offset=0.0)
        array, whole = _templates(rows, begin, header)
        writer = RunWriter(folder / f"node-{node}", header)
        with (lines / f"node-{node}.jsonl" if lines.is_dir() else Path(os.devnull)).open("wb") as out:
            days = records // NODES // len(rows)
            at_once = max(1, FRAME // len(rows))
            for first in range(0, days, at_once):
                values = tuple(_values(rows, begin, length, range(first, min(first + at_once, days))))
                count = min(at_once, days - first)
                writer.write(compress([array * count % values]), count * len(rows), first * len(rows))
                out.write(whole * count % values)
        writer.close()


def _templates(rows: list[dict[str, Any]], begin: float, header: Header) -> tuple[bytes, bytes]:
    """Return a day's records as lines of a trace and as JSON lines, with placeholders for numbers and times."""
    moving = {"n": -1, "cause": -2, "event_id": -6, "queued_at": -3, "taken_at": -4, "finished_at": -5}
    array, whole = [], []
    for row in rows:
        values = row | moving
        for lines, value in (
            (array, list(values.values())),
            (whole, {"run": header.run, "node": header.node, **values}),
        ):
            text = msgspec.json.encode(value).replace(b"%", b"%%")
            for number, place in zip(moving.values(), (b"%d", b"%d", b"%d", b"%.6f", b"%.6f", b"%.6f"), strict=True):
                text = re.sub(rb"([\[,:])%d(?=,)" % number, rb"\g<1>" + place, text, count=1)
            lines.append(text + b"\n")
    return b"".join(array), b"".join(whole)


def _values(rows: list[dict[str, Any]], begin: float, length: float, days: range) -> Iterator[float]:
    for day in days:
        moved = day * length - begin
        for place, row in enumerate(rows):
            n = day * len(rows) + place + 1
            event_id = day * len(rows) + row["event_id"]
            yield from (
                n,
                n - 1,
                event_id,
                row["queued_at"] + moved,
                row["taken_at"] + moved,
                row["finished_at"] + moved,
            )


# ------------------------------------------------------------------------------------------------ three questions


def from_parquet(session: SparkSession, packed: Path) -> list[DataFrame]:
    """Query Parquet: messages by actor and type, requests by channel, deliveries and failures by node and hour."""
    return _asked(session.read.schema(SCHEMA).parquet(str(packed)).withColumn("taken_at", f.col("at")))


def from_lines(session: SparkSession, lines: Path) -> list[DataFrame]:
    """Return the same queries on JSON lines. They extract the columns that `spark.columns` extracts from payloads."""
    read = session.read.schema(JSON_DDL).json(str(lines))
    return _asked(
        read.withColumn("took", f.col("finished_at") - f.col("taken_at"))
        .withColumn("request", f.get_json_object("payload", "$.request[0]"))
        .withColumn("channel", f.get_json_object("payload", "$.channel"))
        .withColumn("failed", f.col("error").isNotNull())
    )


def _asked(rows: DataFrame) -> list[DataFrame]:
    return [
        rows.groupBy("actor", "type").agg(f.count("*"), f.round(f.sum("took"), 3), f.round(f.max("took"), 3)),
        rows.where("type = 'Transmit'").groupBy("channel", "request").agg(f.count("*")),
        rows.groupBy("node", f.floor(f.col("taken_at") / 3600)).agg(f.count("*"), f.sum(f.col("failed").cast("int"))),
    ]


_DUCK = (
    "SELECT actor, type, count(*), round(sum({took}), 3), round(max({took}), 3) FROM {rows} GROUP BY ALL",
    "SELECT {channel}, {request}, count(*) FROM {rows} WHERE type = 'Transmit' GROUP BY ALL",
    "SELECT node, floor({at} / 3600), count(*), sum({failed}::int) FROM {rows} GROUP BY ALL",
)


def duck_on_parquet(packed: Path) -> list[str]:
    """Return the same queries on Parquet in SQL."""
    return [
        each.format(
            rows=f"'{packed}/*.parquet'", took="took", channel="channel", request="request", at='"at"', failed="failed"
        )
        for each in _DUCK
    ]


def duck_on_lines(lines: Path) -> list[str]:
    """Return the same queries on JSON lines in SQL."""
    types = {"string": "VARCHAR", "long": "BIGINT"}
    columns = {name: types.get(kind, kind.upper()) for name, kind in JSON_COLUMNS.items()}
    return [
        each.format(
            rows=f"read_json('{lines}/*.jsonl', format='newline_delimited', columns={columns})",
            took="(finished_at - taken_at)",
            channel="json_extract_string(payload, '$.channel')",
            request="json_extract_string(payload, '$.request[0]')",
            at="taken_at",
            failed="(error IS NOT NULL)",
        )
        for each in _DUCK
    ]


def by_spark(frames: list[DataFrame]) -> list[list[tuple[Any, ...]]]:
    """Run the queries in Spark, and return the sorted rows of each."""
    return [sorted((tuple(row) for row in frame.collect()), key=repr) for frame in frames]


def by_duck(questions: list[str]) -> list[list[tuple[Any, ...]]]:
    """Run the queries in DuckDB, and return the sorted rows of each."""
    import duckdb  # only this peer needs it

    with duckdb.connect() as duck:
        return [sorted(duck.execute(each).fetchall(), key=repr) for each in questions]


# ------------------------------------------------------------------------------------------------ measuring


def pack(traces: Path, packed: Path) -> tuple[int, float, float]:
    """Pack the traces in this process; return (rows, CPU seconds of the rows, CPU seconds of the facts)."""
    found = find_runs(traces)
    packed.mkdir()
    started = time.process_time()
    rows = sum(pack_slice(each, packed) for each in plan_slices(found.runs))
    took = time.process_time() - started
    for run in found.runs:
        pack_facts(run, packed)
    (packed / MANIFEST).write_bytes(msgspec.json.encode(tell(found)))
    return rows, took, time.process_time() - started - took


def turns(kinds: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Call the functions in turns; return the median seconds of each, and assert that their results are equal.

    If there are several rounds, a first round does not count.
    """
    took: dict[str, list[float]] = {name: [] for name in kinds}
    for number in range(rounds + (rounds > 1)):
        answers = []
        for name, work in kinds.items():
            started = time.perf_counter()
            answers.append(_close(work()))
            took[name].append(time.perf_counter() - started)
        assert all(answer == answers[0] for answer in answers), f"the answers differ in round {number}"
    return {name: median(each[-rounds:]) for name, each in took.items()}


def _close(answers: Any) -> Any:
    """Round floats to six digits, because a sum depends on the order of its terms."""
    return [[tuple(float(f"{v:.6g}") if isinstance(v, float) else v for v in row) for row in rows] for rows in answers]


def beside_peers(session: SparkSession, lines: Path, packed: Path, case: str, peers: set[str], rounds: int) -> None:
    """Measure the three queries with ours and each peer, and print the rows."""
    kinds = {"ours": lambda: by_spark(from_parquet(session, packed))}
    if "spark" in peers:
        kinds["json_lines"] = lambda: by_spark(from_lines(session, lines))
    if "duckdb" in peers:
        kinds["duckdb_json_lines"] = lambda: by_duck(duck_on_lines(lines))
        kinds["duckdb_parquet"] = lambda: by_duck(duck_on_parquet(packed))
    found = turns(kinds, rounds)
    ours = found.pop("ours")
    for name, theirs in found.items():
        report(BENCH, f"{name}{case}", ours, theirs, PEERS[name], "s", less_is_better=True)


def measure(
    records: int, here: Path, before: dict[str, tuple[int, float]], peers: set[str], rounds: int, masters: list[str]
) -> None:
    """Run all cases with one size, and print the rows.

    Args:
        before: The number of rows of the previous size and the seconds of its `brief`, by master. This size replaces
            them.
    """
    traces, lines, packed = here / "traces", here / "lines", here / "packed"
    if peers:
        lines.mkdir()
    generate(traces, lines, records)
    rows, took, facts = pack(traces, packed)
    case = f"_{records / MILLION:g}m"
    report(BENCH, f"pack{case}", rows / took, PACKING, "the bound", "rows/s of CPU")
    report(BENCH, f"facts{case}", rows / facts, FACTS, "the bound", "rows/s of CPU")
    for master in masters:
        executors = re.match(r"local-cluster\[(\d+)", master)
        begun = time.perf_counter()
        session = open_session(master)
        opened = time.perf_counter() - begun
        driver = session.sparkContext._gateway.proc.pid  # one JVM for all masters
        try:
            if master == masters[0]:
                report(BENCH, f"session{case}", opened, opened, "itself", "s", less_is_better=True)
            fit(session, sum(file.stat().st_size for file in packed.glob("*.parquet")))
            if peers:
                beside_peers(session, lines, packed, case, peers, rounds)
            brief = turns({"brief": lambda session=session: [ask(session, packed)["runs"].rows]}, rounds)["brief"]
        finally:
            session.stop()
        brief_case = f"brief_{executors[1]}_executors{case}" if executors else f"brief{case}"
        smaller, seconds = before.get(master, (rows, brief))
        peer = f"{smaller} rows" if master in before else "itself"
        report(BENCH, brief_case, rows / brief, smaller / seconds, peer, "rows/s")
        before[master] = rows, brief
    peak = int(re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{driver}/status").read_text())[0]) / 1024
    report(BENCH, f"memory{case}", peak, DRIVER_MB, "the bound", "MB", less_is_better=True)


def main() -> None:
    """Run all sizes in the directory for temporary files.

    A million records need 0.6 GB, and a tenth of that without JSON lines (`--peer none`).
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, action="append", help="again for further sizes, the smallest first")
    parser.add_argument("--peer", action="append", choices=["spark", "duckdb", "none"], help="beside this one only")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", action="append", help="for example local-cluster[2,1,2048]; again for further ones")
    options = parser.parse_args()
    before: dict[str, tuple[int, float]] = {}
    peers = set(options.peer or ("spark", "duckdb")) - {"none"}
    for records in options.records or [MILLION]:
        with tempfile.TemporaryDirectory(prefix="kafka-actors-spark-") as here:
            measure(records, Path(here), before, peers, options.rounds, options.master or [MASTER])


if __name__ == "__main__":
    main()
