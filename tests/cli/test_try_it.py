"""The commands of README's "Try it" run as written, on a cluster that `kafka-actors up` starts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.processes import ROOT, start_up
from tests.docs.markdown import code_blocks


@pytest.mark.java
def test_the_commands_of_the_readme_run_in_their_order(tmp_path: Path, kcat: str) -> None:
    """Only the port, the folder, and the process id that a user reads off the screen are replaced."""
    (block,) = code_blocks((ROOT / "README.md").read_text(encoding="utf-8"), "sh")
    place = tmp_path / "cluster"
    running, line = start_up(place, tmp_path / "up.log", "--port", "0")
    try:
        first = line["brokers"][0]
        script = block.code.replace("127.0.0.1:9092", f"{first['host']}:{first['port']}")
        script = script.replace(".cache/cluster", str(place)).replace("<process of node 0>", str(first["pid"]))
        (tmp_path / ".venv").symlink_to(sys.prefix)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, "COLUMNS": "200"},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        lags = re.findall(r"(?m)^readers +first +[0-5] +\d+ +\d+ +(\d+) ", done.stdout)
        assert len(lags) == 6 and sum(map(int, lags)) == 100
        steps = ("record ", "LAG", "Which broker leads it, and why?", "Messages by actor and type")
        places = [done.stdout.index(words) for words in steps]
        assert places == sorted(places)
    finally:
        running.stop()
