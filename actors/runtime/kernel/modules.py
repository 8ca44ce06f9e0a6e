"""Functions that return module names for traces; the names are the same in the repository and in the wheel.

In the wheel the names of internal packages begin with `kafka_actors._internal.`. Traces omit this prefix, so either
installation can replay a trace of the other.
"""

from __future__ import annotations

PREFIX = __name__.removesuffix("actors.runtime.kernel.modules")
"""The prefix of the names of internal modules; "" in the repository."""


def short_name(module: str) -> str:
    """Return the name that a module has in the repository, without the wheel's prefix."""
    return module.removeprefix(PREFIX)


def class_name(cls: type) -> str:
    """Return the name of a class as "module:Class"."""
    return f"{short_name(cls.__module__)}:{cls.__qualname__}"
