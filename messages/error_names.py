"""The names of Kafka's error codes, for log lines and errors."""

from __future__ import annotations

from messages import error_codes

NAMES: dict[int, str] = {value: name for name, value in vars(error_codes).items() if name.isupper()}


def name_of(code: int) -> str:
    """Return Kafka's name of an error code."""
    return NAMES.get(code, f"error {code}")
