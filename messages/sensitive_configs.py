"""Recognise the settings whose values are secrets, such as passwords, and mask their values.

A trace stores whole messages and settings. So these values are masked before a message or a trace contains them.
"""

from __future__ import annotations

import re
from typing import TypeVar

MASK = "***"
"""The value that replaces a secret."""

_V = TypeVar("_V")

_SENSITIVE = re.compile(r"password|secret|jaas|credential|token|keystore_key|keystore\.key", re.IGNORECASE)


def masked_value(name: str, value: _V) -> _V | str:
    """Return the value of a setting, or MASK if the setting's name indicates a secret and the value is not empty."""
    return MASK if value and _SENSITIVE.search(name) else value
