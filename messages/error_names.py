"""The names of Kafka's error codes, for log lines and errors."""

from __future__ import annotations

from messages import error_codes

NAMES: dict[int, str] = {value: name for name, value in vars(error_codes).items() if name.isupper()}


def name_of(code: int) -> str:
    """A code as Kafka names it."""
    return NAMES.get(code, f"error {code}")
