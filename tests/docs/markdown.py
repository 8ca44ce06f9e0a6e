"""Wrap Markdown, and find the fenced blocks of code in it."""

from __future__ import annotations

import re
import textwrap
from typing import NamedTuple

COLUMNS = 100
"""Columns at which the pages are wrapped."""
_FENCED = re.compile(r"(?ms)^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=indent)``` *$")


class CodeBlock(NamedTuple):
    """A fenced block of code: its language, if it has one, and its lines."""

    language: str
    code: str


def code_blocks(text: str, *languages: str) -> list[CodeBlock]:
    """Return the fenced blocks of a page in order; only those in `languages`, if any are given."""
    blocks = [CodeBlock(found["language"], found["code"]) for found in _FENCED.finditer(text)]
    return [block for block in blocks if not languages or block.language in languages]


def without_code(text: str, *languages: str) -> str:
    """Return a page without its fenced blocks; only without those in `languages`, if any are given."""
    return _FENCED.sub(lambda found: "" if not languages or found["language"] in languages else found[0], text)


def wrap(text: str, indent: str = "") -> list[str]:
    """Wrap a paragraph; its second and later lines begin with `indent`. A long word or link stays whole."""
    words = " ".join(text.split())
    return textwrap.wrap(words, COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def wrap_paragraphs(text: str) -> str:
    """Wrap each paragraph of a page; headings and indented code keep their lines."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(each if each.startswith(("#", "    ")) else "\n".join(wrap(each)) for each in paragraphs)
