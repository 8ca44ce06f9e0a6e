r"""Parse Java's properties syntax, which server.properties uses.

Rule 1: a line whose first visible character is # or ! is a comment. Blank lines are ignored.
Rule 2: a line that ends in an odd number of backslashes continues in the next line, without that line's leading blanks.
Rule 3: the name ends at the first unescaped =, : or blank. One separator (= or :) and the blanks around it are dropped.
Rule 4: \t \n \r \f and \uXXXX have Java's meaning. Any other escaped character means itself.
Rule 5: the last value of a duplicate name counts. Files are read as ISO-8859-1, as in Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLANK = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX = re.compile(r"[0-9a-fA-F]{4}")


def parse_properties(text: str) -> dict[str, str]:
    r"""Return names and values, in order of first appearance. Raises ValueError with the line of an invalid \uXXXX."""
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        try:
            name, value = _split(line)
            properties[_unescape(name)] = _unescape(value)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return properties


def format_properties(properties: dict[str, str]) -> str:
    """Return a text with one line per property, which `parse_properties` reads back as `properties`."""
    return "".join(f"{_escape(name, ' =:#!')}={_escape(value, '')}\n" for name, value in properties.items())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the first line's number and the joined lines of each property."""
    joined, first = "", 0
    naturals = _LINE_END.split(text)
    if not naturals[-1]:
        naturals.pop()
    for number, natural in enumerate(naturals, start=1):
        line = natural.lstrip(_BLANK)
        if not joined and ((not first and not line) or line[:1] in ("#", "!")):
            first = 0
            continue
        first = first or number
        trailing_backslashes = len(line) - len(line.rstrip("\\"))
        if trailing_backslashes % 2:
            joined += line[:-1]
            continue
        if joined or line:
            yield first, joined + line
        joined, first = "", 0
    if joined:
        yield first, joined


def _split(line: str) -> tuple[str, str]:
    """Return the name and the value in a line, both still escaped."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANK:
        end += 2 if line[end] == "\\" else 1
    end = min(end, len(line))
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return line[:end], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "\\" and at < len(text):
            char = text[at]
            at += 1
            if char == "u":
                digits = text[at : at + 4]
                if not _HEX.fullmatch(digits):
                    raise ValueError(f"\\u{digits} is not a valid \\uXXXX escape")
                char = chr(int(digits, 16))
                at += 4
            else:
                char = _CONTROL.get(char, char)
        out.append(char)
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")  # joins surrogate pairs


def _escape(text: str, protected: str) -> str:
    controls = {value: name for name, value in _CONTROL.items()}
    out = []
    for at, char in enumerate(text):
        if char == "\\" or char in protected or (at == 0 and char == " "):
            out.append("\\" + char)
        elif char in controls:
            out.append("\\" + controls[char])
        elif ord(char) < 0x20 or ord(char) > 0x7E:
            units = char.encode("utf-16-be")
            out.extend(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
        else:
            out.append(char)
    return "".join(out)
