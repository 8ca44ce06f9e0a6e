"""Read and write Java's properties syntax, which server.properties uses; an error names its line."""

from __future__ import annotations

import re
from pathlib import Path

_BLANK = " \t\f"
_ENTRY = re.compile(r"((?:\\.|[^\\ \t\f=:])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"((?:\\u[0-9a-fA-F]{4})+)|\\u.{0,4}|\\(.)", re.DOTALL)
_SPECIAL_IN_NAME = re.compile(r"[\\=:#!]|[^!-~]")
_SPECIAL_IN_VALUE = re.compile(r"^ |\\|[^ -~]")


def parse_properties(text: str) -> dict[str, str]:
    r"""Return names and values, in order of first appearance; the last value of a duplicate name counts.

    Raises:
        ValueError: With the line of an invalid \uXXXX.
    """
    properties: dict[str, str] = {}
    lines = enumerate(re.split(r"\r\n?|\n", text), 1)
    for number, line in lines:
        entry = line.lstrip(_BLANK)
        if not entry or entry[0] in "#!":
            continue
        while (len(entry) - len(entry.rstrip("\\"))) % 2:
            entry = entry[:-1] + next(lines, (0, ""))[1].lstrip(_BLANK)
        try:
            name, value = (_ESCAPE.sub(_unescape, part) for part in _ENTRY.findall(entry)[0])
        except ValueError as error:
            raise ValueError(f"line {number}: {error} is not a valid \\uXXXX escape") from None
        properties[name] = value
    return properties


def _unescape(escape: re.Match[str]) -> str:
    units, character = escape.groups()
    if units:
        return bytes.fromhex(units.replace("\\u", "")).decode("utf-16-be", "surrogatepass")
    if not character:
        raise ValueError(escape[0])
    return {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(character, character)


def read_properties(path: Path) -> dict[str, str]:
    """Return the properties in a file, as `parse_properties` does. Raises OSError and ValueError."""
    return parse_properties(path.read_text(encoding="iso-8859-1"))


def format_properties(properties: dict[str, str]) -> str:
    """Return a text with one line per property, which `parse_properties` reads back as `properties`."""
    return "".join(
        f"{_SPECIAL_IN_NAME.sub(_escape, name)}={_SPECIAL_IN_VALUE.sub(_escape, value)}\n"
        for name, value in properties.items()
    )


def _escape(character: re.Match[str]) -> str:
    if " " <= character[0] <= "~":
        return f"\\{character[0]}"
    return re.sub("....", r"\\u\g<0>", character[0].encode("utf-16-be", "surrogatepass").hex())


def write_properties(path: Path, properties: dict[str, str]) -> None:
    """Write a file. If it is new, only its owner may read it, because it may contain passwords."""
    path.touch(0o600)
    path.write_text(format_properties(properties), encoding="iso-8859-1")
