"""Every mutant, by area."""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.mutants.mutant import Mutant, read_mutants

AREAS: Mapping[str, tuple[Mutant, ...]] = {
    area: read_mutants(area)
    for area in (
        *("controller", "broker", "log", "groups", "bridge", "cleaning"),
        *("transactions", "fetch_sessions", "recovery"),
    )
}

MUTANTS: tuple[Mutant, ...] = tuple(mutant for mutants in AREAS.values() for mutant in mutants)

EQUIVALENT: Mapping[str, str] = {
    "acks=all succeeds though the ISR has become too small": "A leader raises its high watermark with enough in-sync"
    " replicas only, and answers in the same turn: the error after the append cannot occur.",
    "a high watermark that moved since the read is not sent": "If the log's offsets have changed since it was read, the"
    " session reads the partition again at the next poll, and sends the high watermark that the log then has.",
}
"""Mutants that were removed because they change no behaviour, with the reason."""

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
