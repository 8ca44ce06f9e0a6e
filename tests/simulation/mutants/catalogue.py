"""Every mutant, by area."""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.mutants import bridge, broker, controller, groups, log
from tests.simulation.mutants.mutant import Mutant

AREAS: Mapping[str, tuple[Mutant, ...]] = {
    "controller": controller.MUTANTS,
    "broker": broker.MUTANTS,
    "log": log.MUTANTS,
    "groups": groups.MUTANTS,
    "bridge": bridge.MUTANTS,
}

MUTANTS: tuple[Mutant, ...] = tuple(mutant for mutants in AREAS.values() for mutant in mutants)

EQUIVALENT: Mapping[str, str] = {
    "acks=all succeeds though the ISR has become too small": "A leader raises its high watermark with enough in-sync"
    " replicas only, and answers in the same turn: the error after the append cannot occur.",
}
"""Mutants that were removed because they change no behaviour, with the reason."""

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
