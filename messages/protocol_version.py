"""Parse and compare the values of `inter.broker.protocol.version`.

A release is `2.6`, before 1.0 `0.10.2`, further numbers (`2.6.1`) mean the same; `-IV1` behind it is one of the steps
by which the release came to its protocol. A release without a step is the last of its steps.
"""

from __future__ import annotations

import re

_WRITTEN = re.compile(r"(0\.[0-9]+\.[0-9]+|[1-9][0-9]*\.[0-9]+)(?:\.[0-9]+)*(?:-IV([0-9]+))?")

Release = tuple[int, ...]


def release_of(version: str) -> Release:
    """The release of a version: (2, 6), (0, 10, 2). Raises ValueError where the text is no version."""
    return _parts(version)[0]


def at_least(version: str, since: str) -> bool:
    """Does a cluster at `version` speak what came with `since`? Raises ValueError where a text is no version.

    `since` without a step came with the release's first.
    """
    release, step = _parts(version)
    since_release, since_step = _parts(since)
    if release != since_release:
        return release > since_release
    return step is None or step >= (since_step or 0)


def _parts(version: str) -> tuple[Release, int | None]:
    match = _WRITTEN.fullmatch(version)
    if match is None:
        raise ValueError(f"{version!r} is not an inter.broker.protocol.version")
    return tuple(int(number) for number in match[1].split(".")), None if match[2] is None else int(match[2])
