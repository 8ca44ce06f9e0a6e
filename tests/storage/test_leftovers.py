"""Log folders after a kill of Apache's broker during a replacement of segments (broker.md 5.6.4)."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from actors.storage.log import Handles, Log, LogConfig
from actors.storage.log.leftovers import PARTITION_METADATA, clear_leftovers, store_topic_id, stored_topic_id
from actors.storage.log_manager import recover
from messages.wire.record_batch import whole_batches
from tests.storage.batches import batch
from tests.storage.test_kill import Killed, Reaper

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=0)
KINDS = ("log", "index", "timeindex")
KEPT = (1, 4, 6)
"""Offsets that remain after the log cleaning of the segments `OLD`."""
OLD = (0, 3, 6)
"""Base offsets of the replaced segments. The active segment begins at `ACTIVE`."""
ACTIVE = 9

Files = Mapping[str, bytes]
State = Callable[[Path, Files, Files], None]


def name(base: int, kind: str) -> str:
    return f"{base:020d}.{kind}"


def put(folder: Path, files: Files, *bases: int, suffix: str = "", kinds: tuple[str, ...] = KINDS) -> None:
    """Write the files of these segments, with `suffix` appended to their names."""
    for base in bases:
        for kind in kinds:
            (folder / (name(base, kind) + suffix)).write_bytes(files[name(base, kind)])


def written(folder: Path, offsets: tuple[int, ...], rolls: tuple[int, ...]) -> Files:
    """Write a log with a record at each of `offsets` and a new segment at each of `rolls`; return its files."""
    folder.mkdir(parents=True)
    log = Log(str(folder), Handles(), CONFIG)
    for offset in offsets:
        if offset in rolls:
            log.roll(offset)
        data = batch(b"%d" % offset * 20, base_offset=offset, leader_epoch=0, timestamp=1000 + offset)
        log.append_as_follower(memoryview(data), 1)
    log.close()
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def before_old_are_deleted(folder: Path, old: Files, new: Files) -> None:
    put(folder, old, *OLD)
    put(folder, new, 0, suffix=".swap")


def only_the_log_has_its_new_suffix(folder: Path, old: Files, new: Files) -> None:
    put(folder, old, *OLD)
    put(folder, new, 0, suffix=".swap", kinds=("log",))
    put(folder, new, 0, suffix=".cleaned", kinds=("index", "timeindex"))


def old_are_half_deleted(folder: Path, old: Files, new: Files) -> None:
    put(folder, old, 0, suffix=".deleted")
    put(folder, old, *OLD[1:])
    put(folder, new, 0, suffix=".swap")


def old_are_deleted(folder: Path, old: Files, new: Files) -> None:
    put(folder, old, *OLD, suffix=".deleted")
    put(folder, new, 0, suffix=".swap")


def old_are_removed(folder: Path, old: Files, new: Files) -> None:
    put(folder, new, 0, suffix=".swap")


def the_log_has_its_name(folder: Path, old: Files, new: Files) -> None:
    put(folder, old, *OLD, suffix=".deleted")
    put(folder, new, 0, kinds=("log",))
    put(folder, new, 0, suffix=".swap", kinds=("index", "timeindex"))


def cleaning_had_not_ended(folder: Path, old: Files, new: Files) -> None:
    put(folder, old, *OLD)
    put(folder, new, 0, suffix=".cleaned")


def an_index_without_its_log(folder: Path, old: Files, new: Files) -> None:
    put(folder, old, *OLD)
    put(folder, new, 4, suffix=".swap", kinds=("index", "timeindex"))


def a_split_had_not_ended(folder: Path, old: Files, new: Files) -> None:
    """Write an unfinished split: the highest of the new segments gets `.swap` first (KAFKA-6264)."""
    put(folder, old, *OLD)
    put(folder, new, 0, suffix=".cleaned")
    put(folder, new, 4, suffix=".swap")


def a_split_has_ended(folder: Path, old: Files, new: Files) -> None:
    put(folder, old, *OLD, suffix=".deleted")
    put(folder, new, 0, 4, suffix=".swap")


def a_split_is_half_named(folder: Path, old: Files, new: Files) -> None:
    put(folder, old, *OLD, suffix=".deleted")
    put(folder, new, 0)
    put(folder, new, 4, suffix=".swap")


NEW, UNCHANGED = KEPT, tuple(range(ACTIVE))
STATES: dict[State, tuple[int, ...]] = {
    before_old_are_deleted: NEW,
    only_the_log_has_its_new_suffix: UNCHANGED,
    old_are_half_deleted: NEW,
    old_are_deleted: NEW,
    old_are_removed: NEW,
    the_log_has_its_name: NEW,
    cleaning_had_not_ended: UNCHANGED,
    an_index_without_its_log: UNCHANGED,
    a_split_had_not_ended: UNCHANGED,
    a_split_has_ended: NEW,
    a_split_is_half_named: NEW,
}
"""State after the kill -> offsets below the active segment after the next start."""


def left(place: Path, state: State) -> Path:
    """Create a log folder in this state, with an active segment of offsets 9 to 11, and return it."""
    split = "split" in state.__name__ or state is an_index_without_its_log
    old = written(place / "old", tuple(range(ACTIVE + 3)), (*OLD[1:], ACTIVE))
    new = written(place / "new", KEPT, (4,) if split else ())
    folder = place / "t-0"
    folder.mkdir()
    state(folder, old, new)
    put(folder, old, ACTIVE)
    return folder


def served(folder: Path, clean: bool) -> tuple[int, ...]:
    """Load the log, and return the offsets of its records."""
    log = Log(str(folder), Handles(), CONFIG)
    log.load(clean)
    found, offset = [], log.start
    while offset < log.end:
        data = log.read(offset, 1 << 20, log.end, at_least_one=True).data
        found += [header.base_offset for _, header in whole_batches(data)]
        offset = found[-1] + 1
    log.close()
    return tuple(found)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_swap_that_was_interrupted_is_completed_or_undone(tmp_path: Path, state: State, clean: bool) -> None:
    folder = left(tmp_path, state)
    assert served(folder, clean) == (*STATES[state], *range(ACTIVE, ACTIVE + 3))
    assert not [each for each in names(folder) if each.endswith((".swap", ".cleaned", ".deleted"))]
    bases = {each.partition(".")[0] for each in names(folder) if each.endswith(".log")}
    assert {each.partition(".")[0] for each in names(folder) if each.endswith("index")} <= bases


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_kill_in_the_completion_costs_nothing(tmp_path: Path, state: State) -> None:
    """After a kill in any step, the next start serves the same records."""
    whole = left(tmp_path, state)
    for steps in itertools.count():
        folder = tmp_path / f"{steps}" / "t-0"
        shutil.copytree(whole, folder)
        with pytest.MonkeyPatch.context() as patch:
            reaper = Reaper(patch, steps, 1)
            with contextlib.suppress(Killed):
                clear_leftovers(str(folder))
        assert served(folder, clean=False) == (*STATES[state], *range(ACTIVE, ACTIVE + 3)), reaper.died_in
        if not reaper.died_in:
            break
    assert steps > 1


@pytest.mark.parametrize("keeps", [True, False])
def test_the_file_with_the_topic_id(tmp_path: Path, keeps: bool) -> None:
    """Kafka below protocol version 2.8 removes it, readable or not, so that a later upgrade meets no earlier id."""
    folder = tmp_path / "t-0"
    written(folder, OLD, ())
    store_topic_id(str(folder), "kTl4kQ6RR2m3wKZ1zV6dPg")
    recover([str(tmp_path)], lambda: 0, keeps_topic_ids=keeps)
    assert stored_topic_id(str(folder)) == ("kTl4kQ6RR2m3wKZ1zV6dPg" if keeps else "")
    (folder / PARTITION_METADATA).write_text("damaged")
    with pytest.raises(OSError, match="damaged"):
        stored_topic_id(str(folder))
