"""Each mutant applies to the current code and is undone; the measuring tool reports whether a mutant is found."""

from __future__ import annotations

import importlib
import inspect
import re
from types import CodeType

import attrs
import pytest

from actors.core.controller import elections
from actors.core.controller.elections import Candidates
from actors.core.controller.replica_state_machine import TABLE
from actors.core.coordinator.group_states import HEARTBEAT, GroupState
from actors.simulation.monitors.families import INVARIANTS
from actors.simulation.schedule import parse
from messages.errors import NONE, REBALANCE_IN_PROGRESS
from tests.simulation.mutants import score
from tests.simulation.mutants.catalogue import BY_NAME, MUTANTS
from tests.simulation.mutants.measure import IN_ORDER, ROOT, Measured, broken_invariant, fails, order, schedule
from tests.simulation.mutants.mutant import Mutant
from tests.simulation.patches import Change, DoesNotApply, apply


def _code_of(change: Change) -> CodeType | str:
    """Return the code object of the function that a change names, or the text of its table."""
    module, _, name = change.target.partition(":")
    found = importlib.import_module(module)
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    found = getattr(found, "fget", getattr(found, "__func__", found))
    return getattr(inspect.unwrap(found), "__code__", None) or repr(getattr(found, "rows", found))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_the_running_code_and_is_taken_back(mutant: Mutant) -> None:
    before = [_code_of(change) for change in mutant.changes]
    with pytest.MonkeyPatch.context() as patch:
        mutant.apply(patch)
        assert all(_code_of(change) != code for change, code in zip(mutant.changes, before, strict=True))
    assert [_code_of(change) for change in mutant.changes] == before


def test_names_are_unique_and_every_mutant_has_a_rule_and_a_test() -> None:
    assert len(BY_NAME) == len(MUTANTS) >= 60
    assert all(mutant.rule and (ROOT / mutant.test.partition("::")[0]).is_file() for mutant in MUTANTS)


@pytest.mark.parametrize(
    ("target", "old", "why"),
    [
        ("elections:offline", "no such text", "occurs 0 times"),
        ("elections:offline", "recipients[0]", "occurs 2 times"),
        ("elections:absent", "recipients", "no such function"),
        ("leadership:log", "state.change", "neither a function"),
    ],
)
def test_a_change_that_does_not_apply_is_an_error(
    target: str, old: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DoesNotApply, match=why):
        apply(monkeypatch, Change(f"actors.core.controller.{target}", old, "other"))


def test_two_changes_of_one_function_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    change = Change("actors.core.controller.elections:offline", "c.unclean", "True")
    with pytest.raises(DoesNotApply, match="one change per function"):
        apply(monkeypatch, change, change)


def test_an_importer_of_the_function_runs_the_changed_code(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = elections.elect_preferred
    none_alive = Candidates((1, 2), (1, 2), (), ())
    assert imported(none_alive) is None
    BY_NAME["preferred leader is chosen from dead replicas"].apply(monkeypatch)
    chosen = imported(none_alive)
    assert chosen is not None and chosen.leader == 1


def test_tables_are_changed_in_place() -> None:
    heartbeat, rows = HEARTBEAT, TABLE.rows
    with pytest.MonkeyPatch.context() as patch:
        BY_NAME["heartbeat does not report a rebalance"].apply(patch)
        BY_NAME["deleted replica cannot be forgotten"].apply(patch)
        assert heartbeat[GroupState.PREPARING] == NONE and TABLE.rows != rows
    assert heartbeat[GroupState.PREPARING] == REBALANCE_IN_PROGRESS and TABLE.rows == rows


def test_seeds_whose_schedules_have_what_a_mutant_needs_run_first() -> None:
    needing = attrs.evolve(BY_NAME["request of an earlier generation is accepted"], needs=("swamp-group",))
    seeds = order(needing, dict.fromkeys(range(40), 1), 30.0)
    assert seeds[:IN_ORDER] == list(range(IN_ORDER)) and sorted(seeds) == list(range(40))
    fits = ["swamp-group" in schedule(seed, 30.0).text() for seed in seeds[IN_ORDER:]]
    assert any(fits) and fits == sorted(fits, reverse=True)
    assert order(attrs.evolve(needing, needs=("seed 31",)), dict.fromkeys(range(40), 1), 30.0)[IN_ORDER] == 31


def test_the_simulation_finds_a_mutant_by_an_invariant() -> None:
    planned = parse("brokers 3\nduration 10\nsteady yes\n2 create a 0,1,2\n4 kill 0 for 4")
    assert broken_invariant(planned) == ""
    found = broken_invariant(planned, BY_NAME["leader epoch is not raised at an election"])
    assert found in {row.name for row in INVARIANTS}


def test_the_nearest_test_fails_with_its_mutant_only() -> None:
    target = "tests/core/controller/test_elections.py"
    assert not fails(target)
    assert fails(target, "preferred leader is chosen from dead replicas")


def test_the_page_is_read_back_as_it_was_written() -> None:
    simulated, tested, surviving, untested = (mutant.name for mutant in MUTANTS[:4])
    measured = [
        Measured(simulated, 7, "roles are ZooKeeper's"),
        Measured(tested, 200, test="tests/core/broker/test_leader.py"),
        Measured(surviving, 200),
        Measured(untested, 5, tested=False),
    ]
    text = score.document({each.name: each for each in measured})
    assert score.parse(text) == {each.name: each for each in measured}
    assert re.search(r"^\| found by the simulation \| .* \| 1 \(25.0 %\) \|$", text, re.MULTILINE)


def test_the_page_has_no_rows_of_removed_mutants() -> None:
    page = score.FILE.read_text(encoding="utf-8")
    assert page == score.document(score.read()), "run `python -m tests.simulation.mutants` for the changed mutants"
