"""Find citations of the documents in code, tests and pages: "controller.md 7.5", "trap T4", "broker.md 9.1 row 20"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import attrs

_NUMBER = r"\d+(?:\.\d+)*"
_PAGE = re.compile(
    rf"\b([a-z][a-z-]*\.md\b)((?: {_NUMBER}(?:-{_NUMBER})?(?:,? rows? {_NUMBER}(?:(?:, | and ){_NUMBER})*)?,?)*)"
)
_ITEM = re.compile(rf"(rows? )?({_NUMBER})(?:-({_NUMBER}))?|and ({_NUMBER})")
_TRAP = re.compile(r"\b[Tt]raps? (T\d+)\b")


@attrs.frozen
class Citation:
    """A cited document, with the section or rule and the table row that the citation names, if any."""

    page: str
    section: str = ""
    row: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.page, self.section, self.row and f"row {self.row}")))


def citations(text: str) -> Iterator[Citation]:
    """Yield the citations of a text. A range is replaced by its ends: "7.1-7.3" cites 7.1 and 7.3."""
    for page, places in _PAGE.findall(text):
        section, rows = "", False
        if not places:
            yield Citation(page)
        for row, first, last, more in _ITEM.findall(places):
            rows = bool(row) or (rows and bool(section) and "." not in (first or more))
            for number in filter(None, (first or more, last)):
                section = section if rows else number
                yield Citation(page, section, number if rows else "")
    yield from (Citation("controller.md", trap) for trap in _TRAP.findall(text))


def resolves(citation: Citation, pages: Mapping[str, str]) -> bool:
    """Return whether the cited place exists; `pages` maps the names of the documents to their texts."""
    text = pages.get(citation.page)
    if text is None:
        return False
    if not citation.section:
        return True
    number = re.escape(citation.section)
    title = re.search(rf"(?m)^(#+) {number}\.? .*$", text)
    if title is None:
        return re.search(rf"(?m)^- \*\*{number}\*\*", text) is not None
    if not citation.row:
        return True
    rest = text[title.end() :]
    end = re.search(rf"(?m)^#{{1,{len(title[1])}}} ", rest)
    section = rest[: end.start()] if end else rest
    return re.search(rf"(?m)(^|\s)({citation.row}\.|\| {citation.row}) ", section) is not None
