"""Recognise the settings whose values are secrets, such as passwords, and mask their values.

A trace stores whole messages and settings. So these values are masked before a message or a trace contains them.
"""

from __future__ import annotations

import re
from typing import TypeVar

MASK = "***"
"""The value that replaces a secret."""

_V = TypeVar("_V")

_SENSITIVE = re.compile(
    r"password|secret|jaas|credential|token(?!.(max|expiry).)|keystore.(key|certificate.chain)$|truststore.certificates",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Return whether a setting's name indicates a secret."""
    return _SENSITIVE.search(name) is not None


def masked_value(name: str, value: _V) -> _V | str:
    """Return the value of a setting, or MASK if the setting's name indicates a secret and the value is not empty."""
    return MASK if value and is_secret(name) else value
