"""Tables on the terminal; where output goes to a file or pipe they are as wide as they need, for nobody folds there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

PIPE_WIDTH = 240


def console() -> Console:
    """Standard output."""
    out = Console(highlight=False, soft_wrap=True, markup=False)
    if not out.is_terminal:
        out.width = PIPE_WIDTH
    return out


def table(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table; columns whose cells are all numbers stand to the right."""
    cells = [tuple(map(str, row)) for row in rows]
    made = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        numeric = all(_is_number(row[number]) for row in cells)
        made.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        made.add_row(*row)
    return made


def _is_number(text: str) -> bool:
    return text.lstrip("-").replace(".", "", 1).isdigit()
