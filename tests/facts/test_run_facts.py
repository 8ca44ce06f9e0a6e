"""Test the facts of a run: their trace position and event id, and the fact for a payload that cannot be decoded."""

from __future__ import annotations

from pathlib import Path

import pytest

from messages.facts import declarations, facts
from messages.facts.run_facts import DECODED
from messages.trace.files.runs import Run, RunRecords
from messages.trace.names import vocabulary
from messages.trace.schema import DELIVERIES
from spark.columns import batches, plan_slices
from tests.trace.altering import only_run, rows_of, write


@pytest.fixture(scope="module")
def run(controller_folder: Path) -> Run:
    return only_run(controller_folder)


@pytest.fixture(scope="module")
def found(run: Run) -> list[declarations.Fact]:
    return list(facts(run))


def test_a_fact_names_the_delivery_that_shows_it(run: Run, found: list[declarations.Fact]) -> None:
    deliveries = {record.n: record for record in RunRecords(run) if record.kind in DELIVERIES}
    for fact in found:
        record = deliveries[fact.place.n]
        at = record.taken_at + run.header.clock_offset
        assert fact.place == declarations.TracePosition(at, run.header.node, run.header.run, record.n, record.event_id)


def test_each_event_of_a_controller_has_an_id_of_its_own_under_which_it_ends(found: list[declarations.Fact]) -> None:
    events = [fact for fact in found if isinstance(fact, declarations.ControllerEvent)]
    assert all(event.place.n == event.place.event_id for event in events)
    queued, handled = (
        [event.place for event in events if (event.took is None) == is_queued] for is_queued in (True, False)
    )
    assert handled and set(handled) <= set(queued)
    assert len(set(handled)) == len(handled), "an event ends once"


def test_what_a_controller_wrote_is_joined_with_its_event_by_the_id_alone(found: list[declarations.Fact]) -> None:
    kinds = {fact.place.n: fact.kind for fact in found if isinstance(fact, declarations.ControllerEvent)}
    written = [fact for fact in found if isinstance(fact, declarations.StateWrite) and not fact.read]
    assert {kinds[fact.place.event_id] for fact in written} == {"TopicChange", "BrokerChange", "TopicDeletion"}


def test_a_payload_that_cannot_be_decoded_is_a_fact(run: Run, tmp_path: Path) -> None:
    rows = rows_of(run)
    broken = next(row for row in rows if row["type"] == "Ask")
    broken["payload"] = {"unencodable": "no form"}
    again = only_run(write(tmp_path, run.header, rows))
    [undecodable] = [fact for fact in facts(again) if isinstance(fact, declarations.Undecodable)]
    assert (undecodable.place.n, undecodable.type) == (broken["n"], "Ask")
    assert undecodable.why.startswith("Ask: ")


def test_the_types_that_are_decoded_are_messages() -> None:
    assert DECODED.keys() <= vocabulary().keys()


def test_a_payload_that_cannot_be_decoded_is_named_in_its_row(run: Run, tmp_path: Path) -> None:
    rows = rows_of(run)
    broken = next(row for row in rows if row["type"] == "Answer")
    broken["payload"] = {"unencodable": "no form"}
    again = only_run(write(tmp_path, run.header, rows))
    read = [row for slice in plan_slices([again]) for batch in batches(slice) for row in batch.to_pylist()]
    words = "the payload cannot be decoded: "
    [row] = [row for row in read if row["error"] is not None and row["error"].startswith(words)]
    assert row["n"] == broken["n"] and row["error"].startswith(f"{words}Answer: ")
    assert row["request"] is None and row["failed"] is False
