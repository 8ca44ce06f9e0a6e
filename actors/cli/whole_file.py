"""Replace a file atomically, so that other processes never read a part of it."""

from __future__ import annotations

from pathlib import Path


def write_whole(file: Path, text: str) -> None:
    """Put the text in place of the earlier one; who reads meanwhile finds one of the two. Raises OSError."""
    part = file.with_name(f"{file.name}.part")
    part.write_text(text, "utf-8", "replace")
    part.replace(file)
