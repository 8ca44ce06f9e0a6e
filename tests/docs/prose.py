"""Collect docstrings, comments and paragraphs of the documentation, and print samples of them.

python -m tests.docs.prose --sample SEED    # 60 docstrings, 20 comments and 30 paragraphs, in random order
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import re
import tokenize
from collections.abc import Iterator
from itertools import groupby

from tests.docs.markdown import without_code
from tests.docs.surface import Function, Text, module_of, nodes, place
from tests.layering import ROOT, sources

SAMPLED = {"docstrings": 60, "comments": 20, "paragraphs": 30}
"""Number of texts of each kind in a sample."""

MARKERS = re.compile(r"#\s*(-{3,}|noqa|type:|mypy:|pragma|!|:|fmt:|ruff:)")
"""Comments for tools, and lines that divide a file."""

NOT_PROSE = re.compile(r"\s*([|<#!]|:::|---|\[.*\]:)")
"""First characters of a block of Markdown that is a table, a heading, HTML, a directive or a list of links."""


def docstrings() -> Iterator[Text]:
    """List the docstrings of modules, classes and functions, each after the name that it describes."""
    for file in sources():
        module = module_of(file)
        for node in nodes(file):
            if isinstance(node, ast.Module | ast.ClassDef | Function) and (text := ast.get_docstring(node)):
                yield Text("docstrings", place(file, node), f"{_name(module, node)}\n{text}")


def _name(module: str, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    if isinstance(node, ast.Module):
        return f"module {module}"
    if isinstance(node, ast.ClassDef):
        return f"class {node.name} ({module})"
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"def {node.name}({ast.unparse(node.args)}){result} ({module})"


def comments() -> Iterator[Text]:
    """List the comments, each with the line of code that it explains."""
    for file in sources():
        source = file.read_text(encoding="utf-8")
        lines = source.splitlines()
        found = [
            token
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type == tokenize.COMMENT and not MARKERS.match(token.string)
        ]
        blocks = groupby(enumerate(found), lambda pair: pair[1].start[0] - pair[0])
        for block in ([token for _, token in pairs] for _, pairs in blocks):
            first, last = block[0].start[0], block[-1].start[0]
            code = lines[first - 1 : last + 1] if block[0].line.lstrip().startswith("#") else lines[first - 1 : last]
            yield Text("comments", f"{file.relative_to(ROOT)}:{first}", "\n".join(code))


def paragraphs() -> Iterator[Text]:
    """List the paragraphs and list items of README, CONTRIBUTING and the pages, without code and tables."""
    for file in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = without_code(file.read_text(encoding="utf-8"))
        heading = ""
        for block in re.split(r"\n\s*\n", text):
            if block.lstrip().startswith("#"):
                heading = block.strip().splitlines()[0].lstrip("# ")
            elif block.strip() and not NOT_PROSE.match(block) and len(block.split()) >= 8:
                yield Text("paragraphs", str(file.relative_to(ROOT)), f"{file.name}, {heading!r}\n{block.strip()}")


def sample(seed: int) -> Iterator[str]:
    """Yield the lines of a sample: a heading for each kind, then its texts in random order."""
    chance = random.Random(seed)
    for kind, texts in (("docstrings", docstrings()), ("comments", comments()), ("paragraphs", paragraphs())):
        yield f"######## {kind}"
        for number, text in enumerate(chance.sample(sorted(text.text for text in texts), SAMPLED[kind]), start=1):
            yield f"---- {kind} {number}\n{text}"


def main() -> None:
    """Print a sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, metavar="SEED", required=True, help="Seed of the random sample.")
    print("\n".join(sample(parser.parse_args().sample)))


if __name__ == "__main__":
    main()
