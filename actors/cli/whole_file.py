"""Replace a file atomically, so that other processes never see a half-written file."""

from __future__ import annotations

from pathlib import Path


def write_whole(file: Path, text: str) -> None:
    """Replace the text of a file atomically: a reader reads either the old or the new text.

    Raises:
        OSError: The file cannot be written.
    """
    part = file.with_name(f"{file.name}.part")
    part.write_text(text, "utf-8", "replace")
    part.replace(file)
