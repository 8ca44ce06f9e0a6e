"""The same summaries on executors in separate processes: Spark's local cluster, and a master with workers."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from actors.public.console import ENTRY_POINT
from tests.cluster.processes import OURS, Running
from tests.waiting import until

pytestmark = pytest.mark.spark_cluster

_SPARK = Path(pyspark.__path__[0])
_QUICK = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Options of short programs: Java compiles quickly, and has one thread for its garbage."""
_SPARKS = {"SPARK_HOME": str(_SPARK), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1", **_QUICK}
_DEPLOY = "org.apache.spark.deploy"


@pytest.fixture(scope="module")
def alone(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the JSON of a summary in one process."""
    return _asked([*OURS, "summary"], traces, tmp_path_factory.mktemp("alone"))


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a master with two workers."""
    folder = tmp_path_factory.mktemp("standalone")

    def start(name: str, *arguments: str) -> Running:
        command = [str(_SPARK / "bin" / "spark-class"), f"{_DEPLOY}.{name}", "--host", "127.0.0.1", "--webui-port", "0"]
        return Running([*command, *arguments], folder / f"{len(running)}.log", _SPARKS)

    running: list[Running] = []
    try:
        running.append(start("master.Master", "--port", "0"))
        [address] = until(
            lambda: re.findall(r"Starting Spark master at (spark://\S+)", running[0].output),
            what="the master's address",
            timeout=60,
        )
        for number in range(2):
            place = ("-d", str(folder / f"worker{number}"))
            running.append(start("worker.Worker", "--cores", "1", "--memory", "1g", *place, address))
        until(
            lambda: running[0].output.count("Registering worker"), lambda count: count == 2, "both workers", timeout=60
        )
        yield address
    finally:
        for process in reversed(running):
            process.kill()


def _asked(command: list[str], traces: Path, at: Path, *options: str, **environment: str) -> dict[str, Any]:
    """Run the command for one section besides the runs, and return its JSON."""
    words = [*command, str(traces), "--json", str(at / "out.json"), "--only", "episodes", *options]
    summary = Running(words, at / "out", {**_QUICK, **environment})
    try:
        assert summary.process.wait(220) == 0, summary.output
    finally:
        summary.kill()
    said: dict[str, Any] = json.loads((at / "out.json").read_text())
    return said


@pytest.mark.soak
@pytest.mark.long
def test_a_local_cluster_gives_the_summary_of_one_process(traces: Path, alone: dict[str, Any], tmp_path: Path) -> None:
    assert _asked([*OURS, "summary"], traces, tmp_path, "--master", "local-cluster[2,1,1024]") == alone


@pytest.mark.soak
@pytest.mark.long
def test_a_master_with_two_workers(traces: Path, alone: dict[str, Any], master: str, tmp_path: Path) -> None:
    """The workers run in other folders and still import the modules of this project."""
    assert _asked([*OURS, "summary"], traces, tmp_path, "--master", master) == alone


def test_submitted_with_a_bundle_for_workers_without_packages(
    traces: Path, alone: dict[str, Any], master: str, tmp_path: Path
) -> None:
    bundle = Running([*OURS, "spark", "bundle", str(tmp_path / "bundle.tar.gz")], tmp_path / "bundled")
    assert bundle.process.wait(120) == 0, bundle.output
    submit = [str(_SPARK / "bin" / "spark-submit"), "--master", master]
    sent = ["--archives", f"{tmp_path / 'bundle.tar.gz'}#kafka-actors"]
    found = ["--conf", "spark.executorEnv.PYTHONPATH=./kafka-actors"]
    said = _asked(
        [*submit, *sent, *found, str(ENTRY_POINT), "summary"],
        traces,
        tmp_path,
        PYSPARK_DRIVER_PYTHON=sys.executable,
        PYSPARK_PYTHON=os.path.realpath(sys.executable),  # the workers must not use the virtual environment's libraries
        **_SPARKS,
    )
    assert {"runs", "episodes"} <= said.keys() and said == alone
