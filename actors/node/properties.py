"""Parse Java's properties syntax, which server.properties uses, and name the line of an error."""

from __future__ import annotations

from io import StringIO

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


def format_properties(properties: dict[str, str]) -> str:
    """Return a text with one line per property, which `parse_properties` reads back as `properties`."""
    return javaproperties.dumps(properties, timestamp=False)
