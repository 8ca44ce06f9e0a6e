"""The page of a summary: its text, its timeline, and its first screen in a browser."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from datetime import UTC
from pathlib import Path

import pytest

from spark.drawing import STEPS as MOST_STEPS
from spark.drawing import Area, Box, running_total
from spark.incidents import EXAMINED, find_incidents, headline
from spark.plots import FIGURES, MOST
from spark.report import page
from spark.results import QueryResult, Summary
from spark.section_names import BRIEF, LOGGED, TITLES
from spark.timeline import Timeline
from tests.spark.large_cluster import BEGIN, incident, results

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
PHONE = (390, 844)


def text_of(page: str) -> str:
    """Return the page's text, without tags and with single spaces."""
    return " ".join(html.unescape(re.sub(r"(?s)<style>.*?</style>|<[^>]*>", " ", page)).split())


def test_an_incident_has_failure_effect_duration_reason_and_status() -> None:
    text = text_of(page(incident(3), "A <night> in the life", command="kafka-actors trace show DIR --ui"))
    assert "1. 22:13:29 Broker 1, the controller, was killed" in text
    assert "On a page kafka-actors trace show DIR --ui --from 1700000009" in text
    assert "Affected 3 partitions lost their leader: <b>t-0, <b>t-1, <b>t-2. 3 partitions were" in text
    assert "How long At most 6.25 s without a leader, 6.25 s in the median." in text
    assert "Why Controller 0 detected it after 6 s, when it was elected: ZooKeeper first had to expire" in text
    assert "The last new leader followed after 250 ms." in text
    assert "Now Over. Broker 1 came back at 22:14:00, and has been in all ISRs since 22:14:02." in text
    assert "Over: every partition has a leader, and no broker is gone." in text
    assert "2. 22:13:23 Broker 2 left the ISR of 1 partition while it was running" in text
    assert "A <night> in the life" in text and "1 malformed lines" in text and "torn.zst: torn" in text


def test_what_is_not_over_comes_first() -> None:
    incidents = find_incidents(incident(1000, still=12))
    assert incidents.status == (
        "bad",
        "Not over: 12 partitions have no leader, broker 1 is gone, 1,000 replicas are out of the ISR.",
    )
    first, second = incidents.gravest_first
    assert (first.until, first.what) == (None, "Broker 1, the controller, was killed")
    facts = dict(first.facts)
    assert "12 more had none until the end, 51 s later." in facts["How long"]
    assert "12 partitions had no other in-sync replica alive." in facts["Why"]
    assert facts["Now"] == "Broker 1 is not back; 12 partitions still have no leader."
    assert second.until == BEGIN + 5


def test_the_stop_of_the_whole_cluster_leaves_nothing_open() -> None:
    gone = incident(1)["episodes"]
    row = dict(zip(gone.columns, gone.rows[0], strict=True)) | {
        "ending": "stopped",
        "died_at": BEGIN + 59,
        "seen_s": 0.0,
        "back_at": None,
        "still_leaderless": 1,
    }
    answers = {
        "runs": results(
            "node last_at first_at ending", (0, BEGIN + 60, BEGIN, "stopped"), (1, BEGIN + 59, BEGIN, "stopped")
        ),
        "elections": results("at node epoch", (BEGIN, 0, 1)),
        "episodes": QueryResult(gone.columns, (tuple(row.values()),)),
        "unavailable": results("still_leaderless since_at", (True, BEGIN + 59)),
        "out_of_isr": results(
            "broker left_at back_at by partitions examples", (1, BEGIN + 58, None, "controller", 3, "t-0")
        ),
    }
    incidents = find_incidents(Summary(answers, 0, ()))
    assert incidents.status == ("ok", "The cluster was stopped. Until then nothing was left open.")
    assert [each.what for each in incidents.incidents] == ["The cluster was stopped"]
    answers["runs"] = results("node last_at first_at ending", (0, BEGIN + 60, BEGIN, "still running"))
    assert find_incidents(Summary(answers, 0, ())).status.level == "bad"


def test_a_controller_that_was_replaced_while_its_broker_lived() -> None:
    answers = {
        "runs": results("node last_at first_at ending", (0, BEGIN + 60, BEGIN, "still running")),
        "elections": results("at node epoch", (BEGIN, 0, 1), (BEGIN + 9, 1, 2)),
        "episodes": QueryResult(),
        "unavailable": QueryResult(),
    }
    (replaced,) = find_incidents(Summary(answers, 0, ())).incidents
    assert replaced.what == "Broker 1 replaced controller 0" and replaced.until == replaced.at


def test_without_a_controller_there_is_no_statement_about_failures() -> None:
    answers = {**dict.fromkeys(EXAMINED, QueryResult()), "runs": incident(1).answers["runs"]}
    summary = Summary(answers, 0, ())
    assert headline(summary, UTC) == ["No controller has a record here, so it is unknown whether anything broke."]
    assert "controller" not in {lane.label for lane in Timeline(summary, (), UTC).chart().lanes}


def test_the_headline_without_failures_needs_their_question() -> None:
    runs = incident(3).answers["runs"]
    won = results("at node epoch", (0.0, 0, 1))
    asked = {**dict.fromkeys(EXAMINED, QueryResult()), "runs": runs, "elections": won}
    elected = "Node 0 was elected controller at 1970-01-01 00:00:00.000, with epoch 1."
    no_failures = "No broker failed or stopped, and all partitions kept a leader."
    assert headline(Summary(asked, 0, ()), UTC) == [elected, no_failures]
    assert set(EXAMINED) <= set(BRIEF) & set(LOGGED), "a summary has a headline by default"
    del asked["out_of_isr"]
    assert headline(Summary(asked, 0, ()), UTC) == [elected], "replicas may be out of the ISR"
    assert headline(Summary({"runs": runs, "elections": won}, 0, ()), UTC) == [elected]


def test_every_question_with_rows_has_a_section_and_large_ones_are_cut() -> None:
    summary = incident(1000)
    answer = {"question": "What?", "lines": [{"text": "<a>"}]}
    explained = {"verdict": "broker 1 <was> killed", "chain": [{"text": "<first>"}], "answers": [answer]}
    text = page(summary, "large", {"why cluster": explained})
    assert all(f' id="{name}">' in text for name in summary.answers)
    assert "The first 200 of 4,000 rows; --json writes all." in text
    assert "broker 1 &lt;was&gt; killed" in text and "<li>&lt;first&gt;</li>" in text and "<p>&lt;a&gt;</p>" in text
    assert "<b>t" not in text
    assert set(FIGURES) <= set(TITLES)
    assert len(FIGURES["leadership"](summary).lanes) == MOST


def test_a_page_of_15_000_partitions_is_small_and_fetches_nothing() -> None:
    text = page(incident(5_000, still=1200), "large")
    assert len(text) < 200_000
    assert "http" not in text and "<script" not in text and "src=" not in text and "url(" not in text


def test_the_timeline_counts_leaders_and_missing_leaders() -> None:
    summary = incident(10, still=2)
    lanes = {lane.label: lane for lane in Timeline(summary, (), UTC).chart().lanes}
    assert list(lanes) == ["controller", "no leader", "broker 0", "broker 1", "broker 2", "faults"]
    (unled,) = (mark for mark in lanes["no leader"].marks if isinstance(mark, Area))
    assert [count for _, count in unled.points] == [0, 10, 2]
    led, *boxes, out = lanes["broker 1"].marks
    assert isinstance(led, Area) and [count for _, count in led.points] == [0, 10, 0]
    assert [(mark.colour, mark.begin - BEGIN, mark.end - BEGIN) for mark in boxes if isinstance(mark, Box)] == [
        ("alive", 0, 9),
        ("held", 9, 15),
        ("bad", 15, 60),
    ]
    assert isinstance(out, Area) and out.colour == "warn"
    assert [mark.label for mark in lanes["controller"].marks if isinstance(mark, Box)] == ["1", "0"]


def test_an_area_has_few_steps_and_keeps_each_peak() -> None:
    points = running_total([(float(at), 1.0 if at % 2 == 0 else -1.0) for at in range(100_000)], 0.0, 100_000.0)
    assert len(points) <= 2 * MOST_STEPS + 2 and max(value for _, value in points) == 1
    assert running_total([(5.0, 3.0), (5.001, -3.0)], 0.0, 1000.0)[1][1] == 3, "a short peak is seen"


def test_a_chain_is_drawn_in_its_steps_to_the_last_order() -> None:
    (lane,) = FIGURES["chains"](incident(3)).lanes
    assert lane.label == "BrokerChange, 22:13:35.000 to broker 2"
    ends = [mark.end for mark in lane.marks if isinstance(mark, Box)]
    assert ends == [0.5, 20.5, 20.75, 23.75, 32.75]


def test_each_topic_without_a_leader_has_one_bar_and_users_topics_come_first() -> None:
    columns = "topic partition windows seconds longest_s still_leaderless since_at"
    rows = [("__consumer_offsets", n, 1, 9.0, 9.0, False, None) for n in range(3)]
    rows += [(topic, n, 1, 2.0 + n, 2.0 + n, False, None) for topic in ("a", "b") for n in range(2)]
    summary = Summary({"unavailable": results(columns, *rows)}, 0, ())
    assert [lane.label for lane in FIGURES["unavailable"](summary).lanes] == [
        "a: 2 partitions, at most 3 s",
        "b: 2 partitions, at most 3 s",
        "__consumer_offsets: 3 partitions, at most 9 s",
    ]
    (lane,) = FIGURES["unavailable"](incident(1000, still=12)).lanes
    assert lane.label == "<b>t: 1,000 partitions, at most 51 s (12 not over)"


SCRIPT = """<script>
  const inside = [...document.querySelectorAll(".status, .incident, .incident[open] dd")].map(
    (each) => each.getBoundingClientRect().bottom);
  const rects = [...document.querySelectorAll("rect")].filter((each) => each.getBoundingClientRect().width > 0);
  document.title = JSON.stringify({
    lowest: Math.max(...inside), wide: document.documentElement.scrollWidth, drawn: rects.length,
    paper: getComputedStyle(document.body).backgroundColor,
  });
</script>"""


LARGE = pytest.param(33_334, id="100000", marks=[pytest.mark.soak, pytest.mark.long])


@pytest.mark.skipif(BROWSER is None, reason="no Chromium")
@pytest.mark.parametrize("partitions", [pytest.param(1, id="3"), LARGE])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_first_screen_of_a_phone_has_the_incidents(tmp_path: Path, dark: bool, partitions: int) -> None:
    """The page is in a frame, because a browser's own window is wider than a phone."""
    width, height = PHONE
    summary = incident(partitions, still=1200 if partitions > 1200 else 0)
    inner = page(summary, "A page").replace("</body>", f"{SCRIPT}</body>")
    outer = f'<html style="color-scheme:light dark"><iframe style="width:{width}px;height:{height}px"'
    (tmp_path / "page.html").write_text(
        f'{outer} srcdoc="{html.escape(inner)}" onload="document.title=this.contentDocument.title"></iframe>'
    )
    command = [
        *(str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
        *("--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path / 'profile'}"),
        *(["--blink-settings=preferredColorScheme=0"] if dark else []),
        *("--virtual-time-budget=20000", "--dump-dom", (tmp_path / "page.html").as_uri()),
    ]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True).stdout
    found = re.search(r"<title>(.*?)</title>", shown)
    assert found is not None
    seen = json.loads(html.unescape(found[1]))
    assert seen["lowest"] < height, "the story is on the first screen"
    assert seen["wide"] <= width, "nothing is to be scrolled sideways"
    assert seen["drawn"] > 10
    assert (seen["paper"] == "rgb(22, 24, 27)") is dark
