"""ACLs change while users send requests: the unchanged code obeys them, and bugs of the authorizer are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.cli.app import run as run_command
from actors.simulation.actions import RIGHTS, invent
from actors.simulation.run import run
from actors.simulation.schedule import parse
from tests.simulation.mutants.mutant import Mutant, read_mutants

MUTANTS = read_mutants("security")
CREATED = "topics are created for clients with the right to"
OBEYED = "requests do what the ACLs allow, and nothing else"
KNOWN = "users with a credential are accepted, and no others"
VIOLATED = {
    "a broker creates a topic for a client that may not": CREATED,
    "a deleted user keeps its credential": KNOWN,
}
"""Mutant -> the invariant that it violates first, if it is not OBEYED."""
SCHEDULE = """brokers 2
duration 26
2 create t 0,1
6 right alice allow All topic t
6 right alice deny Read topic t
7 right bob allow Read prefix t
7 user bob
14 ask-as alice t 0
14 ask-as bob t 0
15 right alice deny Read topic t
15 user bob
24 ask-as alice t 0
24 ask-as bob t 0
"""


def violated(mutant: Mutant | None) -> str:
    with pytest.MonkeyPatch.context() as patch:
        if mutant is not None:
            mutant.apply(patch)
        violation = run(parse(SCHEDULE)).violation
    return "" if violation is None else violation.invariant


@pytest.mark.parametrize("mutant", [None, *MUTANTS], ids=lambda each: each and each.name)
def test_a_schedule_tells_bugs_from_the_code(mutant: Mutant | None) -> None:
    assert violated(mutant) == (VIOLATED.get(mutant.name, OBEYED) if mutant else "")


@pytest.mark.soak
@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_seeds_find_each_bug(mutant: Mutant) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mutant.apply(patch)
        assert any(run(invent(seed, faults=(RIGHTS,), duration=60.0)).violation for seed in range(200))


def test_the_trace_of_a_run_explains_what_was_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(parse(SCHEDULE), keep=tmp_path).violation is None
    assert run_command(["why", "client", "client", str(tmp_path / "node-0" / "trace")]) == 0
    answer = capsys.readouterr().out
    assert "User:bob may not Delete Topic t, which DeleteRecords of client client needed: no ACL allows it" in answer
