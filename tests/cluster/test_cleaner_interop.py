"""Cleanings by Kafka's own log cleaner and by ours, each stopped in its swap and continued by the other."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from messages.records import CODECS
from tests.cluster.apache_java import apache_java
from tests.storage.test_cleaner import BASE, Compacted, last_of_each_key
from tests.storage.test_kill import Killed, Reaper

pytestmark = [pytest.mark.soak, pytest.mark.long]


class Renaming(Reaper):
    """A kill before a file gets another name."""

    WRITES = ()
    CHANGES = ("replace",)

    def _opening(self, call: Callable[..., int]) -> Callable[..., int]:
        return call


def filled(folder: Path) -> Path:
    """Write a log with transactions, tombstones and all codecs; return its folder."""
    folder.mkdir()
    chance, log = random.Random(1), Compacted(folder)
    for number in range(8):
        pairs = [(b"k%d" % chance.randrange(9), chance.choice((b"%d" % number, None))) for _ in range(3)]
        log.put(*pairs, producer=6, transactional=True, codec=CODECS[number % 5])
        log.mark(6, committed=number % 3 > 0)
    log.roll()
    log.logs.close_all()
    return Path(log.path)


def states_of_ours(source: Path, place: Path) -> list[Path]:
    """Clean copies of the log, each stopped one change of a name later; return their folders."""
    folders = []
    for steps in itertools.count():
        folders.append(place / f"{steps}" / "t-0")
        shutil.copytree(source, folders[-1])
        log = Compacted(folders[-1].parent)
        log.logs.note_high_watermark(log.path, log.logs.open(log.path, False, log.config)[1])
        with pytest.MonkeyPatch.context() as patch:
            reaper = Renaming(patch, steps, 1)
            with contextlib.suppress(Killed):
                log.clean_once()
        log.logs.abandon()
        if not reaper.died_in:
            break
    return folders


def test_each_cleaner_continues_where_the_other_was_stopped(
    apache_jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    source = filled(tmp_path / "source")
    ours = states_of_ours(source, tmp_path / "ours")
    shutil.copytree(source, tmp_path / "apache" / "t-0")
    program = [f"-Dsegment.bytes={BASE.segment_bytes}", str(Path(__file__).with_name("ApacheCleaner.java"))]
    arguments = ["100000", f"{tmp_path}/snapshots", f"{tmp_path}/apache/t-0", *map(str, ours)]
    command = [*apache_java(apache_jars), *program, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, *others, last = [[int(word) for word in line.split()] for line in done.stdout.splitlines()[1:]]
    assert len(first) > len(last) and first[:2] == last[:2]
    for line in others:
        assert line[:2] == first[:2] and line[2:] == sorted(set(line[2:]))
        assert set(last) <= set(line) <= set(first)

    snapshots = sorted((tmp_path / "snapshots").iterdir(), key=lambda each: int(each.name))
    kinds = {file.suffix for each in snapshots for file in (each / "t-0").iterdir()}
    assert kinds >= {".cleaned", ".swap", ".deleted"}
    wanted: dict[bytes, tuple[object, ...]] = {}
    for snapshot in snapshots:
        log = Compacted(snapshot)
        log.end = log.logs.open(log.path, False, log.config)[1]
        log.unstable = log.logs.note_high_watermark(log.path, log.end)
        assert log.end == first[1]
        rows = log.rows()
        wanted = wanted or last_of_each_key(rows)
        assert last_of_each_key(rows) == wanted
        log.clean()
        assert last_of_each_key(log.rows()) == wanted
        log.put((b"k1", b"more"), producer=7)
        log.logs.abandon()
