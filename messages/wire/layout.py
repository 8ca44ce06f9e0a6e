"""Read layouts (the ordered fields of a request or response in each version) from `messages.wire.schemas`.

Rule 1: a schema is parsed only when the first frame that uses it is read or written, because a node needs about thirty
        of the eighty schemas.
Rule 2: tagged fields are left out. `Binding.tags` declares those that are supported; others are ignored (broker.md
        6.3).
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from messages.wire.schemas import SCHEMAS

_MOST = 1 << 15
"""Upper bound of versions, which are int16."""
_ZERO: dict[str, object] = {"bool": False, "float64": 0.0, "string": "", "bytes": b"", "records": b"", "uuid": ""}
"""Defaults by type if the schema has none; 0 for all other types."""


class Field(NamedTuple):
    """A field of a request or response in one version; `fields` are the nested fields if its type is a struct.

    `default` is the default value of the schema or the type. `present` is False if the version lacks the field.
    """

    name: str
    type: str
    array: bool = False
    nullable: bool = False
    default: object = 0
    fields: tuple[Field, ...] = ()
    present: bool = True


class Layout(NamedTuple):
    """The fields of a request or response in one version.

    Fields that exist only in other versions are listed with their defaults. In a `flexible` layout, lengths are
    compact, and structs end with tagged fields.
    """

    fields: tuple[Field, ...]
    flexible: bool


class Schema:
    """The layouts of one request or response, one for each version.

    Raises KeyError if `messages.wire.schemas` has no schema `name`.
    """

    def __init__(self, name: str) -> None:
        flexible, *lines = SCHEMAS[name].split("\n")
        self._flexible = _versions(flexible)
        self._specs = _specs([(len(line) - len(line.lstrip()), line.split()) for line in lines])

    def is_flexible(self, version: int) -> bool:
        """Return whether `version` has compact fields and tags (also for versions beyond the supported ones)."""
        return version in self._flexible

    @functools.cache  # noqa: B019 - schemas live as long as the process
    def layout(self, version: int) -> Layout:
        """Return the fields of `version`."""
        return Layout(_fields(self._specs, version), self.is_flexible(version))


class _Spec(NamedTuple):
    """A field of a request or response, with the versions that have it."""

    name: str
    type: str
    array: bool
    versions: range
    nullable: range
    default: object
    fields: list[_Spec]


def _specs(lines: list[tuple[int, list[str]]]) -> list[_Spec]:
    """Return the fields that the lines of a schema describe; each line is (indentation, words)."""
    found: list[list[_Spec]] = [[]]
    for indent, (name, type, versions, *rest) in lines:
        array, element = type.startswith("[]"), type.removeprefix("[]")
        options = dict(word.split("=") for word in rest)
        nullable = _versions(options.get("null", "none"))
        fields: list[_Spec] = []
        spec = _Spec(
            name, element, array, _versions(versions), nullable, _default(type, options.get("default")), fields
        )
        found[indent].append(spec)
        found[indent + 1 :] = [fields]
    return found[0]


def _fields(specs: list[_Spec], version: int) -> tuple[Field, ...]:
    return tuple(
        Field(
            *(spec.name, spec.type, spec.array, version in spec.nullable, spec.default),
            *(_fields(spec.fields, version), version in spec.versions),
        )
        for spec in specs
    )


def _default(type: str, stated: str | None) -> object:
    if stated == "null":
        return None
    if type.startswith("[]"):
        return ()
    if stated is None:
        return _ZERO.get(type, 0)
    if type == "string":
        return stated
    if type == "bool":
        return stated == "true"
    return float(stated) if type == "float64" else int(stated)


def _versions(text: str) -> range:
    """Return the versions that a text such as "3", "1-4", "2+" or "none" denotes."""
    if text == "none":
        return range(0)
    first, _, last = text.removesuffix("+").partition("-")
    return range(int(first), _MOST if text.endswith("+") else int(last or first) + 1)
