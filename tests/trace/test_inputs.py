"""Runs that are recorded by their inputs: a replay sends the omitted messages again, and is compared with the rest."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.runtime.trace.expansion import expand
from actors.runtime.trace.replay_report import SAME, SAME_EARLY
from actors.runtime.trace.replayer import replay_directory
from messages.metrics import Gauge, Gauges
from messages.trace.files.frames import RECORDS
from messages.trace.files.runs import Run, RunRecords, find_runs, slice_lines, slices, snapshots
from messages.trace.files.writer import RunWriter
from messages.trace.schema import FULL, INPUTS, OUTSIDE, SENT, TraceRecord
from messages.trace.text import FrameText, compress, decompress, record_lines, records_of
from tests.trace.altering import kill, only_run, rows_of, write
from tests.trace.deliveries import delivery
from tests.trace.small_system import ACTORS, Boss, Small, divergence_with, replay_only
from tests.trace.test_attacks import altered, fields_altered, may_pass


def lived(folder: Path, detail: str = INPUTS, rounds: int = 4, **options: Any) -> Run:
    small = Small(folder, detail=detail, **options)
    for _ in range(rounds):
        small.live()
        small.base.clock.advance(1)
    small.recorder.close()
    return only_run(folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return lived(tmp_path_factory.mktemp("inputs"))


def size(run: Run) -> int:
    return sum(len(frame.content) for _, frame in RunRecords(run).frames() if frame.kind == RECORDS)


def test_what_actors_sent_is_there_but_for_the_payload(run: Run, tmp_path: Path) -> None:
    full = lived(tmp_path, FULL)
    assert size(run) < size(full)
    for has, had in zip(RunRecords(run), RunRecords(full), strict=True):
        payload = had.payload if had.kind not in (SENT, "timer") else msgspec.Raw(b"null")
        assert has == msgspec.structs.replace(had, payload=payload)


def test_a_trace_with_all_kinds_of_input_replays(run: Run) -> None:
    replayed = replay_only(run.folder)
    assert replayed.result == SAME, replayed
    assert replayed.messages and replayed.timers and replayed.effects and replayed.snapshots


def test_an_actor_that_sends_something_else_shows_in_the_next_snapshot(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def louder(actor: Boss, message: Any, sender: Any) -> None:
        actor.rounds += 2
        actor.send(actor.out, Gauges((Gauge("rounds", float(actor.rounds)),)))

    assert "another message" in divergence_with(monkeypatch, "receiveMsg_Failure", louder, run.folder).what


def test_expanded_it_is_what_a_full_recording_holds(run: Run, tmp_path: Path) -> None:
    full = lived(tmp_path / "full", FULL)
    assert expand(run, ACTORS, tmp_path / "expanded").ok
    expanded = only_run(tmp_path / "expanded")
    assert expanded.header.detail == FULL and expanded.header.run == run.header.run
    assert list(RunRecords(expanded)) == list(RunRecords(full))
    assert [each.end for each in snapshots(expanded)] == [each.end for each in snapshots(full)]
    assert replay_only(tmp_path / "expanded").result == SAME


def test_one_that_was_rotated_or_killed_is_expanded_from_where_it_begins(tmp_path: Path) -> None:
    rotated = lived(tmp_path / "rotated", rounds=12, segment_bytes=1000, max_bytes=12_000)
    assert rotated.removed
    small = Small(tmp_path / "killed", detail=INPUTS)
    small.live()
    small.recorder.flush()
    kill(small.recorder)
    for name, result in (("rotated", SAME), ("killed", SAME_EARLY)):
        replayed = expand(only_run(tmp_path / name), ACTORS, tmp_path / f"{name}-full")
        assert replayed.result == result, replayed
        again = replay_only(tmp_path / f"{name}-full")
        assert again.result == result, again
        assert (again.deliveries, again.began) == (replayed.deliveries, replayed.began)
    assert only_run(tmp_path / "rotated-full").header.begins > 0


# ------------------------------------------------------------------------------------------------ attacks


def test_a_field_that_is_altered_with_all_sums_right_is_not_the_same(run: Run, tmp_path: Path) -> None:
    rows = rows_of(run)
    seen: set[tuple[str, str]] = set()
    caught = 0
    for number, row in enumerate(rows):
        if row["kind"] == OUTSIDE or (row["kind"], row["type"]) in seen:
            continue
        seen.add((row["kind"], row["type"]))
        for place, value in fields_altered(row):
            changed = [*rows[:number], altered(row, place, value), *rows[number + 1 :]]
            folder = write(tmp_path / f"{number}-{caught}", run.header, changed)
            if [each.result for each in replay_directory(folder, ACTORS).runs] == [SAME]:
                assert may_pass(row, place, rows), f"{row['kind']} {row['type']} {place} -> {value!r}"
            caught += 1
    assert caught > 100


def rewritten(run: Run, folder: Path, change: Callable[[list[Any]], None]) -> Path:
    """Write the run again into `folder`, with its first columns changed and all checksums correct."""
    writer, changed = RunWriter(folder, run.header), False
    for _, frame in RunRecords(run).frames():
        lines = list(record_lines(decompress(frame.content)))
        if frame.kind == RECORDS and not changed:
            place = next(number for number, each in enumerate(lines) if each.startswith(b'{"sent":'))
            columns = msgspec.json.decode(lines[place])["sent"]
            change(columns)
            lines[place] = msgspec.json.encode({"sent": columns})
            changed = True
        if frame.kind == RECORDS:
            writer.write(compress(lines), frame.records, frame.after)
    writer.close()
    return folder


@pytest.mark.parametrize(
    "change",
    [
        lambda columns: columns.__setitem__(0, columns[0] + 1),
        lambda columns: columns[1].pop(),
        lambda columns: columns[6].append("Extra"),
        lambda columns: columns[10].append([99, [["disk", "remove", ["/x"], 1, ""]]]),
        lambda columns: columns[11].append([99, "an error of no handler"]),
        lambda columns: columns.append([]),
        lambda columns: columns[1].__setitem__(0, "outside"),
        lambda columns: columns[5].__setitem__(0, "Worker.3"),
        lambda columns: columns[3].__setitem__(0, columns[3][0] + 1),
    ],
)
def test_columns_that_do_not_fit_together_are_not_the_same(
    run: Run, tmp_path: Path, change: Callable[[list[Any]], None]
) -> None:
    assert replay_only(rewritten(run, tmp_path / "same", lambda columns: None)).result == SAME
    assert replay_only(rewritten(run, tmp_path / "altered", change)).result not in (SAME, SAME_EARLY)


def test_a_full_run_marked_as_inputs_is_compared_in_full(tmp_path: Path) -> None:
    """A replay compares also the payloads that a run of inputs must omit; here they are present."""
    full = lived(tmp_path / "full", FULL)
    posing = write(tmp_path / "posing", msgspec.structs.replace(full.header, detail=INPUTS), rows_of(full))
    assert replay_only(posing).result not in (SAME, SAME_EARLY)


def test_an_unknown_detail_is_refused_by_name(tmp_path: Path) -> None:
    full = lived(tmp_path / "full", FULL)
    write(tmp_path / "odd", msgspec.structs.replace(full.header, detail="headlines"), rows_of(full))
    [refusal] = find_runs(tmp_path / "odd").unreadable
    assert "'headlines'" in refusal


# ------------------------------------------------------------------------------------------------ text


def test_a_segment_alone_gives_every_delivery_a_row(run: Run) -> None:
    """Spark reads segments in this way."""
    rows = [row for each in slices(run, 1) for line in slice_lines(each) for row in records_of(line)]
    assert all(isinstance(row, TraceRecord) for row in rows)
    assert len(rows) == len(rows_of(run))


def test_inputs_and_what_was_sent_keep_their_order() -> None:
    text, kinds = FrameText(inputs=True), [OUTSIDE, SENT, SENT, OUTSIDE, OUTSIDE, SENT]
    waiting: deque[Any] = deque(
        delivery(n, Gauges(()), kind=kind, error="bad" if n == 3 else None) for n, kind in enumerate(kinds, 1)
    )
    text.take(waiting)
    assert (text.records, text.last) == (6, 6)
    records = [each for line in record_lines(decompress(text.finish())) for each in records_of(line)]
    assert [(each.n, each.kind) for each in records] == list(enumerate(kinds, 1))
    assert [each.n for each in records if each.error] == [3]
    assert [bytes(each.payload) for each in records if each.kind == SENT] == [b"null"] * 3
