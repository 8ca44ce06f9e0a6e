"""Read and write Java's properties syntax, which server.properties uses; an error names its line."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import javaproperties


def parse_properties(text: str) -> dict[str, str]:
    r"""Return names and values, in order of first appearance; the last value of a duplicate name counts.

    Raises:
        ValueError: With the line of an invalid \uXXXX.
    """
    properties: dict[str, str] = {}
    line = 1
    try:
        for item in javaproperties.parse(StringIO(text, newline="")):
            if isinstance(item, javaproperties.KeyValue):
                properties[item.key] = item.value
            line += len(item.source.splitlines())
    except javaproperties.InvalidUEscapeError as error:
        raise ValueError(f"line {line}: {error.escape} is not a valid \\uXXXX escape") from None
    return properties


def read_properties(path: Path) -> dict[str, str]:
    """Return the properties in a file, as `parse_properties` does. Raises OSError and ValueError."""
    return parse_properties(path.read_text(encoding="iso-8859-1"))


def format_properties(properties: dict[str, str]) -> str:
    """Return a text with one line per property, which `parse_properties` reads back as `properties`."""
    return javaproperties.dumps(properties, timestamp=False)


def write_properties(path: Path, properties: dict[str, str]) -> None:
    """Write a file. If it is new, only its owner may read it, because it may contain passwords."""
    path.touch(0o600)
    path.write_text(format_properties(properties), encoding="iso-8859-1")
