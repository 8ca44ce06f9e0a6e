"""Run the cells of the tutorial notebook, and store what they print in it: `python -m tests.docs.notebook`."""

from __future__ import annotations

import contextlib
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

from tests.layering import ROOT

NOTEBOOK = ROOT / "docs" / "tutorials" / "read-a-trace.ipynb"


def executed(notebook: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Run the code cells in order, with one namespace; yield each cell with its output."""
    names: dict[str, Any] = {}
    try:
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec("".join(cell["source"]), names)
                yield cell, printed.getvalue()
    finally:
        logging.disable(logging.NOTSET)  # the notebook disables it


def shown(cell: dict[str, Any]) -> str:
    """Return the output that is stored in a cell."""
    return "".join(line for output in cell["outputs"] for line in output["text"])


def main() -> None:
    """Run the notebook and store the outputs of its cells."""
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    for cell, printed in executed(notebook):
        lines = printed.splitlines(keepends=True)
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
