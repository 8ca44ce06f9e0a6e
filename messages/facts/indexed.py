"""The facts of a run as bytes, and the index that keeps them beside the run's trace."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache

import msgspec

from messages.facts import declarations
from messages.facts.declarations import Fact
from messages.facts.run_facts import facts
from messages.trace.errors import TraceError
from messages.trace.files.derived import read_or_derive
from messages.trace.files.runs import Run


def facts_of(run: Run, until: float = math.inf) -> list[Fact]:
    """Return the facts of a run, from its index if it is read whole.

    Raises:
        TraceError: The run is damaged.
    """
    return [*facts(run, until)] if until < math.inf else decode_facts(content_of(run))


def content_of(run: Run) -> bytes:
    """Return the facts of a whole run as bytes. Raises TraceError if the run is damaged."""
    return read_or_derive(run, lambda: encode_facts(facts(run)))


def readable_content_of(run: Run) -> bytes:
    """Return the facts of a run as bytes; those of a damaged run up to the damage."""
    try:
        return content_of(run)
    except TraceError:
        return encode_facts(facts(run, partial=True))


def encode_facts(found: Iterable[Fact]) -> bytes:
    """Return facts as bytes, by kind."""
    kinds: dict[str, list[Fact]] = {}
    for fact in found:
        kinds.setdefault(type(fact).__name__, []).append(fact)
    return msgspec.msgpack.encode(kinds)


def decode_facts(content: bytes) -> list[Fact]:
    """Return the facts in these bytes; those of a kind are in their order."""
    kinds = msgspec.msgpack.decode(content, type=dict[str, msgspec.Raw])
    return [fact for kind, raw in kinds.items() for fact in _decoder(kind).decode(raw)]


@cache
def _decoder(kind: str) -> msgspec.msgpack.Decoder[list[Fact]]:
    return msgspec.msgpack.Decoder(list[getattr(declarations, kind)])  # type: ignore[misc]
