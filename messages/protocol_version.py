"""Parse and compare the values of `inter.broker.protocol.version`.

A release has two numbers (`2.6`), or three before 1.0 (`0.10.2`); further numbers (`2.6.1`) are ignored. A suffix such
as `-IV1` names one of the steps in which the release changed its protocol. A version without a suffix means the last
step of the release.
"""

from __future__ import annotations

import re
from functools import lru_cache

_WRITTEN = re.compile(r"(0\.[0-9]+\.[0-9]+|[1-9][0-9]*\.[0-9]+)(?:\.[0-9]+)*(?:-IV([0-9]+))?")

Release = tuple[int, ...]


def release_of(version: str) -> Release:
    """Return the release of a version, such as (2, 6) or (0, 10, 2). Raises ValueError if the text is not a version."""
    return _parts(version)[0]


def at_least(version: str, since: str) -> bool:
    """Return whether the protocol `version` is `since` or later.

    A suffix such as `-IV1` names a step of the release. If `since` has no suffix, it means the first step of its
    release. If `version` has no suffix, it means the last step. Raises ValueError if a text is not a version.
    """
    release, step = _parts(version)
    since_release, since_step = _parts(since)
    if release != since_release:
        return release > since_release
    return step is None or step >= (since_step or 0)


@lru_cache(64)
def _parts(version: str) -> tuple[Release, int | None]:
    match = _WRITTEN.fullmatch(version)
    if match is None:
        raise ValueError(f"{version!r} is not an inter.broker.protocol.version")
    return tuple(int(number) for number in match[1].split(".")), None if match[2] is None else int(match[2])
