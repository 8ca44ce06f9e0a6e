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

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
