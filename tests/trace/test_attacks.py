"""Alterations of a recorded run's files are detected.

The tests alter bytes, frames, files, and each field of each kind of record. Checksums and the chain of digests reveal
altered bytes. If all checksums are corrected, an alteration is detected where the rest of the trace contradicts it.
"""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.runtime.trace.replay_report import SAME, SAME_EARLY
from actors.runtime.trace.replayer import replay_directory
from messages.trace.endings import DAMAGED, KILLED
from messages.trace.files.frames import read_frames
from messages.trace.files.runs import find_runs, survey
from messages.trace.files.segments import MANIFEST_SUFFIX, manifest_name, segment_name
from messages.trace.schema import OUTSIDE, SENT, STOPPED, TIMER
from tests.trace.altering import Row, kill, only_run, rows_of, write
from tests.trace.small_system import ACTORS, Small

STRIDE = 67
"""Distance between two changed bytes; tests/trace/test_frames.py changes each byte of a frame."""

Attack = Callable[[Path], None]
"""Alters the folder of a run."""


def live(folder: Path, killed: bool) -> Path:
    """Record a run of several segments, each with several frames."""
    small = Small(folder, segment_bytes=1500)
    for _ in range(3):
        small.live()
        small.recorder.flush()
        small.base.clock.advance(1)
    if killed:
        kill(small.recorder)
    else:
        small.recorder.close()
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("attacked")
    return {"stopped": live(place / "stopped", killed=False), "killed": live(place / "killed", killed=True)}


def segments(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.endswith(MANIFEST_SUFFIX))


def results(folder: Path) -> list[str]:
    """Return the result of each run below the folder, and the error of each unreadable file."""
    report = replay_directory(folder, ACTORS)
    assert report.ok == (
        bool(report.runs) and all("same" in run.result for run in report.runs) and not report.unreadable
    )
    return [run.result for run in report.runs] + list(report.unreadable)


def is_same(folder: Path) -> bool:
    """Return whether the replay finds an unaltered run that was stopped."""
    return results(folder) == [SAME]


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("copies")


def test_unaltered_they_are_the_same(runs: dict[str, Path]) -> None:
    assert results(runs["stopped"]) == [SAME]
    assert results(runs["killed"]) == [SAME_EARLY]
    for folder in runs.values():
        assert len(segments(folder)) >= 3
        kinds = {row["kind"] for row in rows_of(only_run(folder))}
        assert kinds >= {"created", SENT, OUTSIDE, TIMER}


# ------------------------------------------------------------------------------------------------ bytes


@pytest.mark.parametrize("run", ["stopped", "killed"])
def test_a_byte_changed_anywhere_is_damage_with_file_and_offset(
    runs: dict[str, Path], run: str, tmp_path: Path
) -> None:
    shutil.copytree(runs[run], tmp_path / "run")
    for path in (tmp_path / "run").iterdir():
        whole = path.read_bytes()
        for place in range(0, len(whole), STRIDE):
            with path.open("r+b") as file:
                file.seek(place)
                file.write(bytes([whole[place] ^ (1 << place % 8)]))
            found = find_runs(tmp_path)
            faults = [*found.unreadable, *(fault for each in found.runs for fault in survey(each).faults)]
            assert faults, f"{path.name} byte {place}"
            assert any(str(path) in fault for fault in faults)
            path.write_bytes(whole)
    for place in range(0, len(whole), 97):  # a replay finds the same faults as the survey
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        assert not {SAME, SAME_EARLY} & set(results(tmp_path))


@pytest.mark.parametrize("run", ["stopped", "killed"])
def test_a_file_cut_anywhere_is_not_the_same(runs: dict[str, Path], run: str, tmp_path: Path) -> None:
    shutil.copytree(runs[run], tmp_path / "run")
    last = segments(tmp_path / "run")[-1]
    for path in (tmp_path / "run").iterdir():
        whole = path.read_bytes()
        with path.open("rb") as file:
            borders = {0, *(frame.end for frame in read_frames(file, path))}
        for cut in sorted({*range(0, len(whole), STRIDE), *borders} - {len(whole)}):
            os.truncate(path, cut)
            found = find_runs(tmp_path)
            endings = [survey(each).ending for each in found.runs]
            if run == "killed" and path == last and found.runs and cut >= min(borders - {0}):
                assert endings == [KILLED] and not found.unreadable  # looks like an earlier kill
            elif path.name.endswith(MANIFEST_SUFFIX) and endings == [STOPPED if run == "stopped" else KILLED]:
                assert cut >= min(borders - {0})  # the segments also have the end
            else:
                assert found.unreadable or endings == [DAMAGED], f"{path.name} cut at {cut}"
            path.write_bytes(whole)


# ------------------------------------------------------------------------------------------------ pieces


def _files(folder: Path) -> list[Path]:
    return [*segments(folder), folder / manifest_name(only_run(folder).header.run)]


def _frames(path: Path) -> list[bytes]:
    content = path.read_bytes()
    with path.open("rb") as file:
        return [content[frame.offset : frame.end] for frame in read_frames(file, path)]


def pieces_altered(folder: Path) -> Iterator[tuple[str, Attack, bool]]:
    """Yield each file, and each frame of each file, missing, doubled, cut off after, or swapped with each other one.

    Each item has a name, the attack, and whether the attack only cuts or extends the last segment or the manifest, as a
    kill might.
    """
    last = segments(folder)[-1].name
    names = [path.name for path in _files(folder)]
    for place, name in enumerate(names):
        tail = name == last or name.endswith(MANIFEST_SUFFIX)
        yield f"{name} missing", lambda run, name=name: (run / name).unlink(), False
        yield f"{name} empty", lambda run, name=name: os.truncate(run / name, 0), False
        yield f"{name} as a segment more", lambda run, name=name: _as_segment_more(run, name), False
        yield f"{name} elsewhere as well", lambda run, name=name: _elsewhere(run, name), False
        yield f"{name} with a tail", lambda run, name=name: _append(run / name, b"tail"), tail
        for other in names[place + 1 :]:
            yield f"{name} and {other} swapped", lambda run, one=name, other=other: _swap(run / one, run / other), False
        count = len(_frames(folder / name))
        for number in range(count):
            orders = {
                "missing": [*range(number), *range(number + 1, count)],
                "doubled": [*range(number + 1), *range(number, count)],
                "last": [*range(number + 1)],
                "first": [*range(number, count)],
                "at the end again": [*range(count), number],
            }
            for other_frame in range(number + 1, count):
                swapped = orders[f"swapped with {other_frame}"] = [*range(count)]
                swapped[number], swapped[other_frame] = other_frame, number
            for what, order in orders.items():
                if order != [*range(count)]:
                    cut = tail and order == [*range(len(order))]
                    yield f"{name} frame {number} {what}", lambda run, n=name, o=order: _reorder(run / n, o), cut


def _as_segment_more(run: Path, name: str) -> None:
    shutil.copy(run / name, run / segment_name(only_run(run).header.run, len(segments(run))))


def _elsewhere(run: Path, name: str) -> None:
    (run / "more").mkdir()
    shutil.copy(run / name, run / "more" / name)


def _swap(one: Path, other: Path) -> None:
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def _reorder(path: Path, order: list[int]) -> None:
    frames = _frames(path)
    path.write_bytes(b"".join(frames[number] for number in order))


def _append(path: Path, tail: bytes) -> None:
    path.write_bytes(path.read_bytes() + tail)


@pytest.mark.parametrize("run", ["stopped", "killed"])
def test_a_piece_missing_doubled_cut_or_swapped_is_not_the_same(runs: dict[str, Path], run: str, copies: Path) -> None:
    original = runs[run]
    manifest = manifest_name(only_run(original).header.run)
    attacks = list(pieces_altered(original))
    assert len(attacks) > 60
    for number, (name, attack, cut) in enumerate(attacks):
        place = copies / f"{run}-{number}" / "run"
        shutil.copytree(original, place)
        attack(place)
        found = set(results(place))
        if cut and run == "stopped" and name.startswith(manifest):
            assert SAME_EARLY not in found, f"{name}: the segments record the end"
        elif cut:
            assert SAME not in found, name
        else:
            assert not {SAME, SAME_EARLY} & found, f"{name}: {found}"
        if cut and run == "stopped" and segments(original)[-1].name in name:
            assert SAME_EARLY not in found, f"{name}: the manifest knows that it ended"


# ------------------------------------------------------------------------------------------------ fields


def other_values(value: Any) -> Iterator[Any]:
    """Yield values that differ from `value`."""
    if isinstance(value, bool):
        yield from (not value, 12345)
    elif isinstance(value, int):
        yield from (value + 1, value - 1, value + 1000)
    elif isinstance(value, float):
        yield from (value + 5.0, value - 5.0)
    elif isinstance(value, str):
        yield value + "x"
    elif value is None:
        yield "x"


def fields_altered(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield each place in a record with another value for it.

    Lists are also shortened and extended, and objects get another field.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from fields_altered(inner, (*place, key))
        if place:
            yield place, value | {"more": 1}
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from fields_altered(inner, (*place, index))
        if value:
            yield place, value[:-1]
            yield place, [*value, value[-1]]
    else:
        for other in other_values(value):
            yield place, other


def altered(row: Row, place: tuple[Any, ...], value: Any) -> Row:
    changed = copy.deepcopy(row)
    inner: Any = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed


def may_pass(row: Row, place: tuple[Any, ...], rows: list[Row]) -> bool:
    """Return whether the rest of the trace cannot contradict the altered field."""
    column = place[0]
    if column == "finished_at":
        return True  # no other field has a time between this and the next delivery
    if column == "effects" and len(place) >= 3 and place[2] in (3, 4):
        return True  # an adapter's result shows only if the actor's actions depend on it
    if row["kind"] == OUTSIDE:
        # sender, content and time of an input show only if the actor's actions depend on them
        return column in ("sender", "payload", "queued_at", "cause", "taken_at")
    if row["kind"] == "ended":
        return column in ("error", "taken_at", "queued_at")
    return column == "taken_at"


@pytest.mark.soak
@pytest.mark.long
def test_a_field_that_is_altered_with_all_sums_right_is_not_the_same(runs: dict[str, Path], tmp_path: Path) -> None:
    """Alter each field of one record for each kind, type and receiver.

    Undetected alterations are few, and permitted.
    """
    original = runs["stopped"]
    run = only_run(original)
    header, rows = run.header, rows_of(run)
    seen: set[tuple[str, str, str]] = set()
    passed: list[str] = []
    caught = 0
    for number, row in enumerate(rows):
        key = row["kind"], row["type"], row["receiver"].partition(".")[0]
        if key in seen:
            continue
        seen.add(key)
        for place, value in fields_altered(row):
            folder = write(
                tmp_path / "altered", header, [*rows[:number], altered(row, place, value), *rows[number + 1 :]]
            )
            if is_same(folder):
                assert may_pass(row, place, rows), f"{key} {place} -> {value!r}"
                passed.append(f"{key} {place}")
            else:
                caught += 1
            shutil.rmtree(folder)
    assert caught > 400
    assert len(passed) < caught / 8, passed


def moved(rows: list[Row], kind: str, **by: float) -> list[Row]:
    """Return the rows with these columns moved by seconds in the first record of that kind after the tenth."""
    number = next(number for number, row in enumerate(rows) if number > 10 and row["kind"] == kind)
    changed = rows[number] | {column: rows[number][column] + seconds for column, seconds in by.items()}
    return [*rows[:number], changed, *rows[number + 1 :]]


@pytest.mark.parametrize("kind", [SENT, OUTSIDE, TIMER])
@pytest.mark.parametrize(
    "by",
    [
        {"taken_at": 5.0},
        {"taken_at": -5.0},
        {"queued_at": 5.0},
        {"taken_at": 5.0, "finished_at": 5.0},
        {"queued_at": 5.0, "taken_at": 5.0, "finished_at": 5.0},
        {"queued_at": -5.0, "taken_at": -5.0, "finished_at": -5.0},
    ],
    ids=str,
)
def test_times_moved_by_five_seconds_are_caught(
    runs: dict[str, Path], tmp_path: Path, kind: str, by: dict[str, float]
) -> None:
    run = only_run(runs["stopped"])
    header, rows = run.header, rows_of(run)
    assert not is_same(write(tmp_path / "moved", header, moved(rows, kind, **by)))


def test_causes_of_inputs_are_held_to_the_order_of_the_queue(runs: dict[str, Path], tmp_path: Path) -> None:
    """An altered cause is detected, unless no other message entered the queue between the two moments."""
    run = only_run(runs["stopped"])
    header, rows = run.header, rows_of(run)
    inputs = [number for number, row in enumerate(rows) if row["kind"] == OUTSIDE]
    same = []
    for number in inputs[::3]:
        n, was = rows[number]["n"], rows[number]["cause"]
        for cause in sorted({*range(was - 4, was + 5), 0, 1, n, -n, -n - 1} - {was}):
            changed = rows[number] | {"cause": cause}
            folder = write(tmp_path / "caused", header, [*rows[:number], changed, *rows[number + 1 :]])
            if is_same(folder):
                same.append((n, was, cause))
            shutil.rmtree(folder)
    assert all(abs(was - became) <= 2 for _, was, became in same), same


def test_an_end_put_anywhere_but_at_the_end_is_caught(runs: dict[str, Path], tmp_path: Path) -> None:
    run = only_run(runs["stopped"])
    header, rows = run.header, rows_of(run)
    end = rows[-1]
    for cut in range(1, len(rows) - 1):
        kept = rows[:cut]
        after_cut = end | {"n": kept[-1]["n"], "cause": -kept[-1]["n"]}
        assert not is_same(write(tmp_path / f"cut-{cut}", header, [*kept, after_cut]))
