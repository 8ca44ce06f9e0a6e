"""Names of modules for traces, which are the same in the repository and in the installed package.

In the wheel the name of each internal package begins with `kafka_actors._internal.`, which traces leave out: what the
one recorded the other replays.
"""

from __future__ import annotations

PREFIX = __name__.removesuffix("messages.modules")
"""What is in front of the names of internal modules; "" in the repository."""


def short_name(module: str) -> str:
    """The name of a module as in the repository."""
    return module.removeprefix(PREFIX)


def class_name(cls: type) -> str:
    """A class as "module:Class"."""
    return f"{short_name(cls.__module__)}:{cls.__qualname__}"
