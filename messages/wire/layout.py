"""Layouts: which fields a request or response has in each version, in order, as Kafka's message JSON says.

Rule 1: kafka-python ships Apache's JSON; what its client never speaks (the broker-to-broker APIs) stands here in
        `schemas/`, in the same form. Its files are read where they lie: to import that client takes a fifth of the time
        in which a node starts.
Rule 2: tagged fields are left out: none of the versions spoken here needs one, and unknown tags are ignored (broker.md
        6.3).
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

_SCHEMAS = Path(__file__).with_name("schemas")
_SCHEMAS_OF_KAFKA_PYTHON = "protocol/schemas/resources"
_COMMENTS = re.compile(r"(?m)^\s*//.*$")
_ZERO: dict[str, object] = {"bool": False, "float64": 0.0, "string": "", "bytes": b"", "records": b"", "uuid": ""}
"""Defaults by type where the schema names none; those of all other types are 0."""


class Field(NamedTuple):
    """One field in one version. `default` is its value where nothing is said; `fields` are those of a struct.

    `present`: whether the version has it at all.
    """

    name: str
    type: str
    array: bool = False
    nullable: bool = False
    default: object = 0
    fields: tuple[Field, ...] = ()
    present: bool = True


class Layout(NamedTuple):
    """All fields, those that the version lacks included. `flexible`: compact lengths, tags at the end of structs."""

    fields: tuple[Field, ...]
    flexible: bool


class Schema:
    """The layouts of one request or response, by version. FileNotFoundError if there is no schema of that name."""

    def __init__(self, name: str) -> None:
        file = _SCHEMAS / f"{name}.json"
        if not file.exists():
            file = _schemas_of_kafka_python() / file.name
        self._json: dict[str, Any] = json.loads(_COMMENTS.sub("", file.read_text()))
        _name_no_structs(
            self._json["fields"], {each["name"]: each["fields"] for each in self._json.get("commonStructs", ())}
        )

    def is_flexible(self, version: int) -> bool:
        """Whether `version` has compact fields and tags (also for versions beyond the known ones)."""
        return _covers(self._json["flexibleVersions"], version)

    @functools.cache  # noqa: B019 - schemas live as long as the process
    def layout(self, version: int) -> Layout:
        """The fields of `version`."""
        return Layout(_fields(self._json["fields"], version), self.is_flexible(version))


@functools.cache
def _schemas_of_kafka_python() -> Path:
    found = importlib.util.find_spec("kafka")
    if found is None or found.origin is None:
        raise FileNotFoundError("kafka-python is not installed: it has the layouts of Kafka's messages")
    return Path(found.origin).parent / _SCHEMAS_OF_KAFKA_PYTHON


def _name_no_structs(specs: list[dict[str, Any]], common: dict[str, Any]) -> None:
    """Give every field of a struct that several fields have its fields, in place."""
    for spec in specs:
        name = spec["type"].removeprefix("[]")
        if name in common:
            spec.setdefault("fields", common[name])
        _name_no_structs(spec.get("fields", []), common)


def _fields(specs: list[dict[str, Any]], version: int) -> tuple[Field, ...]:
    return tuple(_field(spec, version) for spec in specs)


def _field(spec: dict[str, Any], version: int) -> Field:
    return Field(
        snake_case(spec["name"]),
        "struct" if "fields" in spec else spec["type"].removeprefix("[]"),
        spec["type"].startswith("[]"),
        _covers(spec.get("nullableVersions", "none"), version),
        _default(spec),
        _fields(spec.get("fields", []), version),
        _covers(spec["versions"], version) and not _covers(spec.get("taggedVersions", "none"), version),
    )


def _default(spec: dict[str, Any]) -> object:
    type, said = spec["type"], spec.get("default")
    if said == "null":
        return None
    if type.startswith("[]"):
        return ()
    if said is None or type == "string":
        return _ZERO.get(type, 0) if said is None else said
    if type == "bool":
        return str(said).lower() == "true"
    return float(said) if type == "float64" else int(str(said), 0)


def _covers(versions: str, version: int) -> bool:
    """Whether "3", "1-4", "2+" or "none" has the version."""
    if versions == "none":
        return False
    first, _, last = versions.removesuffix("+").partition("-")
    return int(first) <= version and (versions.endswith("+") or version <= int(last or first))


def snake_case(name: str) -> str:
    """The JSON's ThrottleTimeMs as throttle_time_ms."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
