"""The page of a recorded trace in a browser: ten questions, each answered with at most six clicks; keys; sizes.

python -m tests.page.test_recorded_page    # writes the picture of the tutorial, docs/images/critical-path.png
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from actors.page.recorded import RecordedPage
from actors.trace.reader import open_trace
from messages.trace.files.runs import find_runs
from messages.trace.schema import SCHEMA_VERSION
from tests.layering import ROOT
from tests.page import late_record
from tests.page.browser import opened, running_browser
from tests.page.test_live_page import check_sizes, fits
from tests.trace import altering

IMAGE = ROOT / "docs" / "images" / "critical-path.png"
TUTORIAL = ROOT / "docs" / "tutorials" / "find-out-why-a-record-was-late.md"
MOST_CLICKS = 6
FOCUSED = "document.activeElement.ariaLabel ?? document.activeElement.textContent"

NAMES = {
    "the first one": r"3\.50 s",
    "the append": "AppendBatches to PartitionActor",
    "the delivery": "^AppendBatches",
    "its partition": "orders-0",
    "the topic": "single",
    "the partition": "single-0",
    "the broker": "^1$",
    "type its transactional id": "type pay",
    "the transaction": "transaction pay",
    "the group": "readers",
}
"""Words of the tutorial -> the name of a link or button in the recorded run. Other words are such a name."""
ANSWERS = {
    "Why was this record late?": (".verdict", "node 1 handled nothing from"),
    "What changed in the leader when the record came?": (".differences", "log.end"),
    "Which follower was behind, and how long?": (".history", "Produce requests that waited longest"),
    "Why is this partition without a leader?": (".verdict", "broker 1 was killed"),
    "Why is this broker gone?": (".verdict", "was killed or crashed"),
    "Who fenced this producer?": (".verdict", "InitProducerId"),
    "Why did the group rebalance?": (".history", "sent no heartbeat"),
    "Which requests were refused?": ("main", "INVALID_PRODUCER_EPOCH"),
    "Why did the controller change?": (".verdict", "controller"),
    "What happened?": ("main", "controller 2 noticed"),
}
"""Question -> the part of the page that answers, and words of the answer."""


def ways() -> dict[str, list[str]]:
    """Return the questions of the tutorial, with the names of what is clicked."""
    rows = re.findall(r"^\| ([^|]+\?) \| ([^|]+) \|$", TUTORIAL.read_text(), re.MULTILINE)
    return {question: [NAMES.get(step, re.escape(step)) for step in way.split(" → ")] for question, way in rows}


WAYS = ways()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("late")
    late_record.live(made)
    return made


@pytest.fixture(scope="module")
def served(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordedPage]:
    page = RecordedPage(open_trace(folder), cache=tmp_path_factory.mktemp("cache"))
    page.wait()
    yield page
    page.stop()


def click(page: Page, name: str) -> None:
    """Click the first link or button with this name, or type a text to search for."""
    expect(page.get_by_text("Reading the trace …")).to_have_count(0)  # what is loaded moves the buttons below it
    if name.startswith("type "):
        page.get_by_label("Search", exact=True).fill(name.removeprefix("type "))
        page.keyboard.press("Enter")
        return
    pattern = re.compile(name if name.startswith("^") else rf"(^|\s){name}", re.IGNORECASE)
    page.get_by_role("link", name=pattern).or_(page.get_by_role("button", name=pattern)).first.click()


@pytest.mark.parametrize("question", ANSWERS)
def test_a_question_is_answered_by_the_few_clicks_of_the_tutorial(
    browser: Browser, served: RecordedPage, question: str
) -> None:
    assert WAYS.keys() == ANSWERS.keys() and len(WAYS[question]) <= MOST_CLICKS
    part, words = ANSWERS[question]
    with opened(browser, served.url) as page:
        for name in WAYS[question]:
            click(page, name)
        expect(page.locator(part).first).to_contain_text(words)


def test_the_keys_step_and_every_view_is_an_address(browser: Browser, served: RecordedPage) -> None:
    with opened(browser, f"{served.url}#/lanes?at={served.end - 20}") as page:
        page.locator("a.mark").first.wait_for()
        chosen = []
        for key in ("ArrowRight", "ArrowRight", "e", "f", "F", "E", "ArrowLeft"):
            before = page.url
            page.keyboard.press(key)
            page.wait_for_url(lambda url, before=before: url != before)
            chosen.append(page.url)
        page.locator(".delivery h1").wait_for()
        shown = page.locator(".delivery h1").text_content() or ""
        with opened(browser, chosen[-1]) as other:
            expect(other.locator(".delivery h1")).to_have_text(shown)
            expect(other.locator("a.mark.chosen")).to_have_count(1)
        page.get_by_label("Time", exact=True).focus()
        page.keyboard.press("Home")
        expect(page.locator(".steps .at")).to_have_text("22:13:20.000")


def test_a_question_is_answered_by_the_keyboard_alone_on_a_narrow_dark_screen(
    browser: Browser, served: RecordedPage
) -> None:
    question = "Why is this partition without a leader?"
    part, words = ANSWERS[question]
    with opened(browser, served.url) as page:
        page.set_viewport_size({"width": 390, "height": 800})
        page.emulate_media(color_scheme="dark")
        for name in WAYS[question]:
            pattern = re.compile(f"^{name}")
            expect(
                page.get_by_role("link", name=pattern).or_(page.get_by_role("button", name=pattern)).first
            ).to_be_visible()
            for _ in range(100):
                page.keyboard.press("Tab")
                if pattern.match(page.evaluate(FOCUSED)):
                    break
            page.keyboard.press("Enter")
        expect(page.locator(part).first).to_contain_text(words)
        assert fits(page)


def test_the_views_fit_narrow_and_wide_screens_light_and_dark(browser: Browser, served: RecordedPage) -> None:
    with opened(browser, served.url) as page:
        for view in ("", "lanes", "slow", "search?find=orders", "trace", "partition/orders-0", "group/readers"):
            page.goto(f"{served.url}#/{view}")
            check_sizes(page)


def test_a_group_has_its_lag(browser: Browser, served: RecordedPage) -> None:
    with opened(browser, f"{served.url}#/group/readers") as page:
        row = page.get_by_role("table", name="Lag").get_by_role("row").last
        expect(row).to_contain_text(re.compile(r"orders-0\s*2\s*5\s*3"))
        row.get_by_role("link").last.click()
        expect(page.locator(".delivery h1")).to_contain_text("ClientResponse")


def test_two_runs_are_side_by_side_and_what_a_damaged_one_lacks_is_said(
    browser: Browser, folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "other")
    _, second, third = find_runs(tmp_path / "other").runs
    altering.damage(second)
    altering.make_older(third)
    other = RecordedPage(open_trace(tmp_path / "other"), cache=tmp_path)
    compared = RecordedPage(open_trace(folder), cache=tmp_path, beside=other)
    other.wait()
    compared.wait()
    with opened(browser, compared.url) as page:
        page.get_by_role("link", name="Compare").click()
        expect(page.locator(".verdict")).to_contain_text("The first fact that differs is")
        page.locator(".verdict").get_by_role("link").click()
        sides = [page.get_by_role("region", name=str(each)) for each in (folder, tmp_path / "other")]
        expect(sides[0].locator("mark")).to_have_count(1)
        expect(sides[1].get_by_role("listitem").first).to_be_visible()
        check_sizes(page)
        page.goto(f"{compared.url}#/")
        expect(page.get_by_role("link", name="remarks")).to_have_count(0)
    with opened(browser, other.url) as page:
        page.get_by_role("link", name="2 remarks").click()
        remarks = page.get_by_role("region", name="Remarks")
        expect(remarks).to_contain_text(f"run {second.header.run} of node {second.header.node} is shown up to delivery")
        expect(remarks).to_contain_text(f"schema version {SCHEMA_VERSION - 1}")
        page.goto(f"{other.url}#/lanes")
        expect(page.locator("a.mark").first).to_be_visible()
    for each in (compared, other):
        each.stop()


def draw(target: Path) -> None:
    """Write the picture of the critical path of the late record."""
    with running_browser() as browser, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "late"
        late_record.live(folder)
        served = RecordedPage(open_trace(folder), cache=Path(temporary) / "cache")
        served.wait()
        with opened(browser, served.url) as page:
            for name in WAYS["Why was this record late?"]:
                click(page, name)
            page.locator(".edges").wait_for()
            page.screenshot(path=target)
        served.stop()


if __name__ == "__main__":
    draw(IMAGE)
