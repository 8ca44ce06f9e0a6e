"""Make the pictures of README.md from a real run: three brokers, a killed leader, `why`, and the report of `summary`.

python -m tests.docs.pictures    # needs Java, Spark and Chromium; writes docs/images/report.png and README.md
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from tests.layering import ROOT
from tests.waiting import until

README, IMAGE = ROOT / "README.md", ROOT / "docs" / "images" / "report.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MAX_BYTES = 200_000
COLUMNS = 92
"""Maximum length of a line of the screen; longer lines are cut."""
CHAIN_LINES = 4
WAIT_SECONDS = 90.0
COMMAND = "$ kafka-actors why partition orders-0 DIR"


def ours(*arguments: str, check: bool = True) -> str:
    """Run a command of kafka-actors and return its output; exit if the command fails, unless `check` is false."""
    command = [sys.executable, "-P", str(ROOT / "actors" / "cli" / "__main__.py"), *arguments]
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)
    if check and done.returncode:
        raise SystemExit(f"kafka-actors {' '.join(arguments)}: {done.stderr or done.stdout}")
    return done.stdout


def leader_of(folder: str, topic: str) -> int:
    """Return the leader of partition 0."""
    described = ours("topics", "--dir", folder, "--describe", "--topic", topic)
    found = re.search(r"Partition: 0\tLeader: (\d+)", described)
    return -1 if found is None else int(found[1])


def in_sync(folder: str, topic: str) -> bool:
    """Return whether every partition has three in-sync replicas."""
    found = re.findall(r"Isr: (\S+)", ours("topics", "--dir", folder, "--describe", "--topic", topic))
    return bool(found) and all(len(isr.split(",")) == 3 for isr in found)


def incident(folder: str) -> str:
    """Run a cluster, kill the leader of orders-0, start it again, stop the cluster; return the text of `why`."""
    ours("up", "--dir", folder, "--port", "0", "--detach")
    try:
        ours(
            "topics", "--dir", folder, "--create", "--topic", "orders", "--partitions", "6", "--replication-factor", "3"
        )
        until(lambda: in_sync(folder, "orders"), what="three in-sync replicas", timeout=WAIT_SECONDS)
        killed = leader_of(folder, "orders")
        brokers = json.loads(Path(folder, "cluster.json").read_text())["brokers"]
        os.kill(next(broker["pid"] for broker in brokers if broker["id"] == killed), signal.SIGKILL)
        others = {-1, killed}
        until(lambda: leader_of(folder, "orders") not in others, what="another leader", timeout=WAIT_SECONDS)
        explained = ours("why", "partition", "orders-0", folder)
        ours("start", str(killed), "--dir", folder)
        until(lambda: in_sync(folder, "orders"), what="three in-sync replicas", timeout=WAIT_SECONDS)
        return explained
    finally:
        ours("down", "--dir", folder, check=False)


def take_screenshot(page: Path, image: Path) -> None:
    """Write a screenshot of the top of the page; exit if it has more than MAX_BYTES."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit(f"No browser found. Install one of: {', '.join(BROWSERS)}.")
    image.parent.mkdir(parents=True, exist_ok=True)
    command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += ["--window-size=1100,1250", "--virtual-time-budget=20000", f"--screenshot={image}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    if image.stat().st_size > MAX_BYTES:
        raise SystemExit(f"{image} has {image.stat().st_size} bytes, more than {MAX_BYTES}. Make the window smaller.")


def with_screen(text: str, explained: str) -> str:
    """Return README's text with the verdict and chain of `why` after the command; lines are cut at COLUMNS."""
    verdict, *lines = [line for line in explained.splitlines() if line.strip()][:CHAIN_LINES]
    cut = [line if len(line) <= COLUMNS else f"{line[: COLUMNS - 3]}..." for line in lines]
    block = "".join(f"    {line}\n" for line in [COMMAND, *textwrap.wrap(verdict, COLUMNS), *cut])
    return re.sub(rf"(?m)^    {re.escape(COMMAND)}\n(?:    .*\n)*", lambda _: block, text)


def main() -> None:
    """Write the screenshot of the report, and the output of `why` in README.md."""
    with tempfile.TemporaryDirectory(prefix="kafka-pictures-") as folder:
        cluster = str(Path(folder, "cluster"))
        explained = incident(cluster)
        page = Path(folder, "page.html")
        ours("summary", cluster, "--html", str(page))
        take_screenshot(page, IMAGE)
    README.write_text(with_screen(README.read_text("utf-8"), explained), encoding="utf-8")
    print(explained)


if __name__ == "__main__":
    main()
