"""Print text and tables on the terminal; control characters in text from ZooKeeper and traces are escaped.

If the output goes to a file or pipe, tables are as wide as necessary, because files do not wrap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

PIPE_WIDTH = 240


def printable(text: str) -> str:
    """Return the text with control characters escaped, except tabs and line ends."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\t\n" else c.encode("unicode_escape").decode() for c in text)


def console(stderr: bool = False) -> Console:
    """Return a console for standard output, or for standard error."""
    out = Console(highlight=False, soft_wrap=True, markup=False, stderr=stderr)
    if not out.is_terminal:
        out.width = PIPE_WIDTH
    return out


def table(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table. Columns with only numbers are aligned right and never wrapped.

    The padding is omitted if the table with padding would be wider than the console (for example, 80 characters).
    """
    cells = [tuple(printable(str(cell)) for cell in row) for row in rows]
    widest = [max(len(line[number]) for line in (columns, *cells)) for number in range(len(columns))]
    fits = sum(widest) + 3 * len(columns) + 1 <= console().width
    made = Table(title=title, title_justify="left", padding=(0, 1) if fits else 0)
    for number, column in enumerate(columns):
        numeric = all(_is_number(row[number]) for row in cells)
        made.add_column(column, justify="right" if numeric else "left", overflow="fold", no_wrap=numeric)
    for row in cells:
        made.add_row(*row)
    return made


def _is_number(text: str) -> bool:
    return text.lstrip("-").replace(".", "", 1).isdigit()
