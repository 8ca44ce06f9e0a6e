"""Recognise the settings whose values are secrets, such as passwords, and mask their values.

A trace stores whole messages and settings. So these values are masked before a message or a trace contains them.
"""

from __future__ import annotations

import re

MASK = "***"
"""The value that replaces a secret."""

_SENSITIVE = re.compile(r"password|secret|jaas|credential|token|keystore_key|keystore\.key", re.IGNORECASE)


def is_sensitive(name: str) -> bool:
    """Return whether the name of a setting indicates that its value is a secret."""
    return _SENSITIVE.search(name) is not None
