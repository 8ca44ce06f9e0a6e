"""The page of a summary: what it says, and that a browser without network draws all of it, light and dark."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import UTC
from pathlib import Path

import pytest
from plotly.offline import get_plotlyjs

from spark.headline import headline
from spark.plots import FIGURES, MOST, STEPS
from spark.report import page
from spark.results import QueryResult, Summary
from spark.section_names import TITLES

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


def _summary(partitions: int) -> Summary:
    at = 1.7e9
    runs = ("node", "run", "deliveries", "first_at", "last_at", "ending", "detail")
    gone = (
        "broker",
        "died_at",
        "ending",
        "seen_s",
        "seen_by",
        "after",
        "was_controller",
        "partitions",
        "led_again_s",
        "still_leaderless",
    )
    led = ("at", "topic", "partition", "before", "leader", "leader_epoch", "node", "controller_epoch")
    moved = ("topic", "partition", "began_at", "adding", "removing", "ended_at", "seconds", "epochs")
    answers = {
        "runs": QueryResult(
            runs, ((0, "node0-x", 12, at, at + 60, "stopped", "full"), (1, "n1", 9, at, at + 9, "killed", "full"))
        ),
        "episodes": QueryResult(gone, ((1, at + 9, "killed", 6.0, 0, "BrokerChange", True, partitions, 6.25, 0),)),
        "leadership": QueryResult(
            led,
            (
                *((at + 1, "<b>t", n, None, 1, 0, 1, 1) for n in range(partitions)),
                *((at + 15.25, "<b>t", n, 1, 0, 1, 0, 2) for n in range(partitions)),
            ),
        ),
        "unavailable": QueryResult(
            ("topic", "partition", "windows", "seconds", "longest_s", "still_leaderless"),
            tuple(("<b>t", n, 1, 6.25, 6.25, False) for n in range(partitions)),
        ),
        "handled": QueryResult(("at", "node", "event", "ms", "queue_ms"), ((at + 15, 0, "BrokerChange", 31.0, 0.5),)),
        "elections": QueryResult(("at", "node", "epoch"), ((at + 14, 0, 2),)),
        "queue": QueryResult(("at", "node", "depth", "waited_ms"), ((at, 0, 3, 5.0), (at + 1, 0, 30, 50.0))),
        "latencies": QueryResult(("kind", "upto_ms", "count"), (("requests to ZooKeeper", 4.0, 17),)),
        "deletions": QueryResult(
            ("topic", "queued_at", "stopped_at", "stops", "gone_at", "seconds"),
            (("u", at + 20, at + 21, 3, at + 22, 2.0),),
        ),
        "reassignments": QueryResult(moved, (("<b>t", 0, at + 30, "2", "1", at + 33, 3.0, 3),)),
        "chains": QueryResult(
            ("at", "node", "event", "broker", *STEPS, "total_ms", "last"),
            (
                (at + 15, 0, "BrokerChange", 2, 0.5, 20.0, 0.25, 3.0, 9.0, 32.75, True),
                (at + 15, 0, "BrokerChange", 0, 0.5, 20.0, 0.25, 2.0, None, 22.75, False),
            ),
        ),
        "records": QueryResult(("topic", "partition", "node", "bytes", "share"), (("<b>t", 0, 0, 1000, 1.0),)),
        "actors": QueryResult(("sender", "receiver", "count"), (("ControllerActor", "BrokerChannelActor", 12),)),
    }
    return Summary(answers, malformed=1, unreadable=("torn.zst: torn",))


def test_it_says_in_words_what_happened() -> None:
    text = page(_summary(3), "A <night> in the life")
    assert "Broker 1, the controller, was killed at 2023-11-14 22:13:29.000" in text
    assert "controller 0 detected it after 6.000 s, by a BrokerChange event." in text
    assert "3 partitions lost their leader; the last new leader was elected after 6.250 s." in text
    assert "A &lt;night&gt; in the life" in text and "&lt;b&gt;t" in text and "<td><b>t" not in text
    assert "1 malformed lines" in text and "torn.zst: torn" in text
    ours = text.replace(get_plotlyjs(), "")
    assert len(ours) < len(text) / 10 and "http" not in ours, "nothing is fetched"


def test_every_question_with_rows_has_a_section_and_large_ones_are_cut() -> None:
    text = page(_summary(1000), "large")
    assert all(f'<section id="{name}">' in text for name in _summary(1000).answers)
    assert "and 800 more" in text
    assert set(FIGURES) <= set(TITLES)
    assert len(text) < 8_000_000
    drawn = FIGURES["leadership"](_summary(1000))
    assert len({line for bar in drawn.data for line in bar.y}) == MOST


def test_the_headline_without_failures_needs_their_question() -> None:
    runs = _summary(3).answers["runs"]
    won = QueryResult(("at", "node", "epoch"), ((0.0, 0, 1),))
    asked = {"runs": runs, "episodes": QueryResult(), "unavailable": QueryResult(), "elections": won}
    elected = "Node 0 was elected controller at 1970-01-01 00:00:00.000, with epoch 1."
    no_failures = "No broker failed or stopped, and all partitions kept a leader."
    assert headline(Summary(asked, 0, ()), UTC) == [elected, no_failures]
    assert headline(Summary({"runs": runs, "elections": won}, 0, ()), UTC) == [elected]


def test_a_chain_is_drawn_in_its_steps_to_the_last_order() -> None:
    drawn = FIGURES["chains"](_summary(3))
    assert [bar.x for bar in drawn.data] == [(0.5,), (20.0,), (0.25,), (3.0,), (9.0,)]
    assert {bar.y for bar in drawn.data} == {("BrokerChange, 22:13:35.000 to broker 2",)}


@pytest.mark.skipif(BROWSER is None, reason="no Chromium")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_browser_draws_all_figures(tmp_path: Path, dark: bool) -> None:
    (tmp_path / "page.html").write_text(page(_summary(1000), "large"))
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    command = [
        *(
            str(BROWSER),
            *quiet,
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={tmp_path / 'profile'}",
        ),
        *(["--blink-settings=preferredColorScheme=0"] if dark else []),
        *("--virtual-time-budget=20000", "--dump-dom", (tmp_path / "page.html").as_uri()),
    ]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True).stdout
    drawn = re.findall(r'<div class="figure[^"]*js-plotly-plot[^"]*" data-of="(\w+)"', shown)
    assert sorted(drawn) == sorted(FIGURES)
    assert ("rgb(228, 230, 232)" in shown) is dark, "the colour of dark letters"
