"""The facts of a run are kept beside its trace, and found again only if the trace and the code are the same."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from messages.facts.declarations import BrokersRead
from messages.facts.trace_facts import gather
from messages.trace.files import derived
from messages.trace.files.errors import Damaged
from messages.trace.files.runs import find_runs
from messages.trace.files.segments import INDEX_SUFFIX
from tests.spark import failover


@pytest.fixture(autouse=True)
def for_small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived, "LEAST", 0)


def test_facts_are_read_from_the_index_while_it_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failover.record(tmp_path)
    found = [*gather(find_runs(tmp_path).runs).all()]
    assert any(isinstance(each, BrokersRead) for each in found)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr("messages.facts.indexed.facts", lambda run: pytest.fail("the trace was read again"))
        assert [*gather(find_runs(tmp_path).runs).all()] == found
    index = min(tmp_path.rglob(f"*{INDEX_SUFFIX}"))
    whole = index.read_bytes()
    for damaged in (b"", whole[:-7], whole.replace(whole[20:24], b"\0\0\0\0")):
        index.write_bytes(damaged)
        assert [*gather(find_runs(tmp_path).runs).all()] == found and index.read_bytes() == whole
    monkeypatch.setattr(derived, "_code_version", lambda: "another")
    assert [*gather(find_runs(tmp_path).runs).all()] == found and index.read_bytes() != whole
    rebuilt = [record.message for record in caplog.records if str(index) in record.message]
    assert len(rebuilt) == 4 and "another version" in rebuilt[-1]


def test_the_damage_of_a_trace_is_found_beside_an_index(tmp_path: Path) -> None:
    failover.record(tmp_path)
    gather(find_runs(tmp_path).runs)
    segment = min(tmp_path.rglob("*.trace.zst"))
    content = bytearray(segment.read_bytes())
    content[-20] ^= 1
    segment.write_bytes(content)
    with pytest.raises(Damaged):
        gather(find_runs(tmp_path).runs)


def test_a_run_that_is_being_written_has_no_index(tmp_path: Path) -> None:
    node = failover.first(tmp_path)
    node.recorder.flush()
    found = [*gather(find_runs(tmp_path).runs).all()]
    node.deliver(failover.CONTROLLER, failover.events.BrokerChange())
    node.recorder.flush()
    assert len([*gather(find_runs(tmp_path).runs).all()]) > len(found)
    assert not [*tmp_path.rglob(f"*{INDEX_SUFFIX}")]
    node.recorder.close()
