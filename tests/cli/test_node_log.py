"""The files that operators know: controller.log and state-change.log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.cli import broker
from actors.cli.node_log import FILES, log_into
from tests.cluster.processes import properties


@pytest.fixture
def no_files_after() -> Iterator[None]:
    before = {name: list(logging.getLogger(name).handlers) for name in FILES}
    yield
    for name, handlers in before.items():
        for handler in logging.getLogger(name).handlers[:]:
            if handler not in handlers:
                logging.getLogger(name).removeHandler(handler)
                handler.close()


@pytest.mark.usefixtures("no_files_after")
def test_each_logger_has_its_file_and_the_log_has_all(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log_into(tmp_path / "logs")
    for name in (*FILES, "kafka.server.ReplicaManager"):
        logging.getLogger(name).error("said by %s", name)
    for name, file in FILES.items():
        (line,) = (tmp_path / "logs" / file).read_text().splitlines()
        assert line.endswith(f"ERROR said by {name} ({name})") and line.startswith("[2")
    assert len(caplog.records) == 3


@pytest.mark.usefixtures("no_files_after")
def test_a_folder_that_cannot_be_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    file = properties(
        tmp_path / "server.properties", broker__id=1, zookeeper__connect="127.0.0.1:1", log__dirs=tmp_path / "data"
    )
    result = CliRunner().invoke(broker.command, [str(file), "--logs", str(tmp_path / "file" / "logs")])
    assert result.exit_code == 1
    assert f"--logs {tmp_path / 'file' / 'logs'}: Not a directory" in result.stderr
