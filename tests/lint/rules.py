"""The registry of rules: each lists its offenders in the project, and finds the one in its example."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import attrs

from tests.layering import ROOT, module_name, sources

Texts = Mapping[str, str]
"""Source by module name, or text by path."""

Check = Callable[[Texts], Iterable[object]]


@attrs.frozen
class Rule:
    """A rule: what it reads, and a text that breaks it."""

    check: Check
    texts: Callable[[], Texts]
    example: Texts | None

    def offenders(self) -> Iterator[str]:
        """Yield what breaks the rule; first, that the rule does not find its example."""
        if self.example is not None and not list(self.check(self.example)):
            yield f"the rule finds nothing in its example {dict(self.example)}"
        yield from map(str, self.check(self.texts()))


RULES: list[Rule] = []


@cache
def modules() -> dict[str, str]:
    """Return the source of every module of the product by its dotted name."""
    return {module_name(file): file.read_text(encoding="utf-8") for file in sources()}


def _texts(files: Iterable[Path]) -> dict[str, str]:
    return {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in files}


@cache
def tests() -> dict[str, str]:
    """Return the source of every test file by its path."""
    return _texts(sorted((ROOT / "tests").rglob("*.py")))


@cache
def pages() -> dict[str, str]:
    """Return the text of every page by its path."""
    top = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
    return _texts([*top, *sorted((ROOT / "docs").rglob("*.md"))])


@cache
def everything() -> dict[str, str]:
    """Return the text of every page, source and table of bugs by its path."""
    return pages() | _texts(sources()) | tests() | _texts((ROOT / "tests/simulation").rglob("*.txt"))


def page(name: str) -> str:
    """Return the text of the page with this file name."""
    [text] = [text for path, text in pages().items() if Path(path).name == name]
    return text


def rule(texts: Callable[[], Texts] = modules, example: str | Texts | None = None) -> Callable[[Check], Check]:
    """Register a rule. A text as an example is for a module or page whose name does not matter."""

    def register(check: Check) -> Check:
        RULES.append(Rule(check, texts, {"actors.core.example": example} if isinstance(example, str) else example))
        return check

    return register


def title(check: Check) -> str:
    """Return the rule's name as words."""
    return re.sub("_", " ", check.__name__)
