"""Test the check of the open file limit at a node's start."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from actors.gateway.limits import FileLimit
from actors.node.process import MINIMUM, check_limit, raise_limit


def test_the_soft_limit_becomes_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, hard) - 1, hard))
    try:
        raise_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_limit_that_is_too_low_for_the_partitions_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(40):
        (tmp_path / f"t-{number}").mkdir()
    assert check_limit(FileLimit.divide(64), [str(tmp_path), "/nowhere"])
    text = "for connections and 16 for log files, which is too few for 40 partitions."
    assert text in caplog.text and "Raise the limit to 288 with ulimit -n." in caplog.text
    caplog.clear()
    assert check_limit(FileLimit.divide(288), [str(tmp_path)]) and not caplog.text


def test_a_limit_that_is_too_small_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    assert not check_limit(FileLimit.divide(MINIMUM - 1), [])
    assert "The open file limit is 63, but a node needs at least 64" in caplog.text
