"""The Spark Structured Streaming recipe, which downloads Spark's connector from the Maven registry."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import code_blocks
from tests.layering import ROOT

pytestmark = [pytest.mark.spark_cluster, pytest.mark.soak, pytest.mark.long]


def test_spark_reads_what_was_produced(tmp_path: Path) -> None:
    """The recipe itself asserts the records."""
    (recipe,) = code_blocks((ROOT / "docs" / "how-to" / "recipes.md").read_text(encoding="utf-8"), "py")
    (tmp_path / "recipe.py").write_text(recipe.code)
    done = subprocess.run(
        [sys.executable, "recipe.py"], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
