"""Compute the version of the running code: the installed version and a digest of the sources.

In the wheel, imports have a prefix (see `actors.runtime.kernel.modules`). The digest omits this prefix, so the wheel
and the repository's sources have the same digest.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import metadata
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_PREFIX = b"kafka_actors._internal."
_PUBLIC = _ROOT / "actors" / "public"
"""The public package, whose place in the wheel differs; actors do not use it."""
_PACKAGES = ("actors", "messages", "zk_bridge")


@cache
def code_version() -> str:
    """Return "VERSION+DIGEST": the package's version, and 12 hexadecimal digits of a hash of its sources."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((_ROOT / package).rglob("*.py")):
            if path.is_relative_to(_PUBLIC):
                continue
            digest.update(str(path.relative_to(_ROOT)).encode())
            digest.update(path.read_bytes().replace(_PREFIX, b""))
    try:
        version = metadata.version("kafka-actors")
    except metadata.PackageNotFoundError:
        version = "0"
    return f"{version}+{digest.hexdigest()[:12]}"
