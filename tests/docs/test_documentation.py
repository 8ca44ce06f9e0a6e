"""The documentation keeps up with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import state_machines

HOUSE = Path(__file__).resolve().parents[2]
PAGES = [HOUSE / "README.md", *sorted((HOUSE / "docs").glob("*.md"))]


def test_the_state_machines_are_those_of_the_code() -> None:
    assert state_machines.FILE.read_text(encoding="utf-8") == state_machines.document(), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_pages_name_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:actors|messages|zk_bridge|spark|tests|docs)/[\w/.-]+\.\w+)`", text)
    linked = [str((page.parent / link).relative_to(HOUSE)) for link in re.findall(r"\]\(([\w/.-]+\.md)\)", text)]
    missing = [name for name in [*named, *linked] if not (HOUSE / name).exists()]
    assert not missing
