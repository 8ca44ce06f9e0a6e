"""Kill a process at every byte that it writes to a log's files, and damage these files at every byte.

`make test` does the same at some of the bytes (`tests/storage`).
"""

from __future__ import annotations

import faulthandler
import os
import sys
from pathlib import Path

import pytest

from tests.storage.test_damage import KINDS, survive_damage
from tests.storage.test_kill import clean_under_kills, survive_kills

pytestmark = [pytest.mark.soak, pytest.mark.long]


@pytest.fixture(autouse=True)
def _long() -> None:
    faulthandler.cancel_dump_traceback_later()  # thousands of repetitions take minutes on a busy machine


def test_a_process_that_is_killed_at_any_byte_finds_its_log_again(tmp_path: Path) -> None:
    survive_kills(tmp_path, sys.maxsize)


def test_a_process_that_is_killed_at_any_byte_of_a_cleaning_keeps_the_last_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    clean_under_kills(tmp_path, sys.maxsize)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_damaged_at_any_byte_costs_at_most_what_was_in_it(tmp_path: Path, kind: str, clean: bool) -> None:
    survive_damage(tmp_path, kind, clean, sys.maxsize)
