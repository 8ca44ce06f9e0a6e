"""Parse the JSON of a znode field by field, and raise InvalidValue for invalid values (controller.md 2.1-2.4).

The module of each concept encodes and decodes its own znodes with these functions:

Rule 1: reading accepts the data of every Kafka version with ZooKeeper: every version number, any key order. Unknown
        keys are ignored.
Rule 2: writing produces the data that Kafka 3.9.1 writes at inter.broker.protocol.version 2.6. For the state node, the
        bytes are the same as Kafka's. For other nodes, the order of the keys may differ.
Rule 3: for data that rule 1 does not accept, reading raises only BadZnode, which contains the path and the reason.

Kafka: `ZkData`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from messages.ask import BadZnode

INT32 = 2**31 - 1
INT64 = 2**63 - 1
DIGITS = 19
"""Maximum number of digits, which is that of INT64."""


def encode(value: Mapping[str, Any]) -> bytes:
    """Return JSON as Kafka writes it: UTF-8, no whitespace, keys in the order given."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class InvalidValue(Exception):
    """A znode contains an invalid value. The error is reported as BadZnode, with the path."""


def parse(data: bytes | None) -> dict[str, Any]:
    """Return the members of a JSON object."""
    if data is None:
        raise InvalidValue("no data")
    try:
        members = json.loads(data)
    except RecursionError:
        raise InvalidValue("nested too deeply") from None
    except ValueError as error:
        raise InvalidValue(f"no valid JSON: {error}") from None
    if type(members) is not dict:
        raise InvalidValue(f"a JSON object is expected, not {shortened_repr(members)}")
    return members


def shortened_repr(value: object) -> str:
    """Return a value for an error message, shortened to 40 characters."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


_REQUIRED = object()


def member(members: dict[str, Any], key: str, kind: type, default: object = _REQUIRED) -> Any:
    """Return a member of type `kind`; `default` if it is missing or null.

    Raises:
        InvalidValue: The member is missing and has no default, or has another type.
    """
    value = members.get(key)
    if value is None:
        if default is _REQUIRED:
            raise InvalidValue(f"{key} is missing")
        return default
    if type(value) is not kind:
        raise InvalidValue(f"{key} is {shortened_repr(value)}, expected {kind.__name__}")
    return value


def number(value: object, what: str, least: int = -INT32 - 1, most: int = INT32) -> int:
    """Return `value` if it is an integer in these bounds. Otherwise raise InvalidValue."""
    if type(value) is not int:
        raise InvalidValue(f"{what} is {shortened_repr(value)}, expected a number")
    if not least <= value <= most:
        raise InvalidValue(f"{what} is out of range: {shortened_repr(value)}")
    return value


def number_member(members: dict[str, Any], key: str, least: int = -INT32 - 1, default: int | None = None) -> int:
    """Return an integer member between `least` and the maximum of int32; `default` if it is missing.

    Raises InvalidValue.
    """
    value = members.get(key, default)
    if value is None:
        raise InvalidValue(f"{key} is missing")
    return number(value, key, least)


def valid_text(value: object, what: str) -> str:
    """Return `value` if it is text that UTF-8 can encode. Otherwise raise InvalidValue."""
    if type(value) is not str:
        raise InvalidValue(f"{what} is {shortened_repr(value)}, expected text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidValue(f"{what} is no valid text: {shortened_repr(value)}") from None
    return value


def broker_ids(value: object, what: str) -> tuple[int, ...]:
    """Return a list of broker ids as a tuple. Raises InvalidValue."""
    if type(value) is not list:
        raise InvalidValue(f"{what} is {shortened_repr(value)}, expected a list of broker ids")
    if value and {*map(type, value)} == {int} and min(value) >= -INT32 - 1 and max(value) <= INT32:
        return tuple(value)
    return tuple(number(each, what) for each in value)


def naming(path: str, data: bytes | None, read: Callable[[bytes | None], Any]) -> Any:
    """Return `read(data)`. An InvalidValue is raised as a BadZnode that contains `path`."""
    try:
        return read(data)
    except InvalidValue as torn:
        raise BadZnode(f"{path}: {torn}") from None


def decimal(text: str) -> int:
    """Return the number that a name or a key contains as decimal digits. Raises InvalidValue."""
    if not (text.isdecimal() and text.isascii() and len(text) <= DIGITS):
        raise InvalidValue(f"{shortened_repr(text)} is no decimal number")
    return int(text)
