"""The wheel's data source in a project that has files named spark.py and messages.py and a folder actors/."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from shutil import copytree

import pytest

from spark.pack import Packing
from tests.layering import ROOT
from tests.public.test_wheel import EXAMPLES, REMAINS, Installed, installed, other_project
from tests.spark import failover
from tests.trace.small_system import Small

pytestmark = pytest.mark.spark_cluster

__all__ = ["installed", "other_project"]

COUNT = """\
import sys
import actors, messages, spark  # the project's own
from pyspark.sql import SparkSession

session = SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false").getOrCreate()
session.sparkContext.setLogLevel("OFF")
print("ROWS", session.read.format("kafka-actors").load(sys.argv[2]).count())
print("NODE", session.read.format("kafka-actors").option("node", "1").load(sys.argv[2]).count())
"""


def run(installed: Installed, cwd: Path, *command: str) -> str:
    """Run the venv's Python and return its output. Spark's workers use the same Python."""
    ours = ("PYTHON", "PYSPARK", "SPARK")  # a Spark session of this process sets some of these variables
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment |= {"PATH": f"{installed.bin}{os.pathsep}{environment['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [str(installed.bin / "python"), *command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "master", ["local[2]", pytest.param("local-cluster[2,1,1024]", marks=[pytest.mark.soak, pytest.mark.long])]
)
def test_a_session_in_a_project_with_our_names_reads_every_row(
    installed: Installed, tmp_path: Path, master: str
) -> None:
    project = copytree(EXAMPLES, tmp_path / "project", ignore=REMAINS)
    (project / "count.py").write_text(COUNT)
    failover.record(tmp_path / "traces")
    rows = Packing(tmp_path / "traces", tmp_path / "packed").finish()
    printed = run(installed, project, "count.py", master, "../traces")
    assert f"ROWS {rows}\n" in printed
    assert 0 < int(printed.partition("NODE ")[2].split()[0]) < rows


def test_a_summary_runs_in_a_project(installed: Installed, other_project: Path, tmp_path: Path) -> None:
    """It also runs in Spark's workers, which unpickle our classes by the names that modules have in the wheel."""
    small = Small(tmp_path / "trace")
    small.live()
    small.recorder.close()
    command = (
        "-P",
        "-m",
        "kafka_actors._internal.actors.cli",
        "summary",
        "--only",
        "messages",
        str(tmp_path / "trace"),
    )
    assert "Messages by actor and type" in run(installed, other_project, *command)


@pytest.mark.soak
@pytest.mark.long
def test_the_notebook_of_the_pages_runs_on_the_wheel(installed: Installed, tmp_path: Path) -> None:
    cells = json.loads((ROOT / "docs" / "how-to" / "traces.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    (tmp_path / "notebook.py").write_text("\n\n".join(code))
    assert "leader_epoch" in run(installed, tmp_path, "notebook.py")
