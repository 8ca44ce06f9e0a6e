"""The page of a recorded trace in a browser: ten questions, each answered with at most six clicks; keys; sizes.

python -m tests.page.test_recorded_page    # writes the picture of the tutorial, docs/images/critical-path.png
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from actors.page.recorded import RecordedPage
from actors.trace.reader import open_trace
from tests.layering import ROOT
from tests.page import late_record
from tests.page.browser import opened, running_browser
from tests.page.test_live_page import SCHEMES, SIZES, fits

IMAGE = ROOT / "docs" / "images" / "critical-path.png"
MOST_CLICKS = 6
WHY = "Why is it so?"

QUESTIONS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "why was this record late?": (("Slow requests", r"3\.50 s"), ".verdict", "node 1 handled nothing from"),
    "what changed in the leader when it came?": (
        ("Slow requests", r"3\.50 s", r"AppendBatches to PartitionActor", r"^AppendBatches"),
        ".differences",
        "log.end",
    ),
    "which follower was behind?": (("Slow requests", "orders-0"), ".history", "Produce requests that waited longest"),
    "why is this partition without a leader?": (
        ("Topics", "single", "single-0", WHY),
        ".verdict",
        "broker 1 was killed",
    ),
    "why is this broker gone?": (("^1$", WHY), ".verdict", "was killed or crashed"),
    "who fenced this producer?": (("Search", "type pay", "transaction pay", WHY), ".verdict", "InitProducerId"),
    "why did the group rebalance?": (("Groups", "readers"), ".history", "sent no heartbeat"),
    "which requests were refused?": (("Refused",), "main", "INVALID_PRODUCER_EPOCH"),
    "who was controller, and why?": (("Controller", WHY), ".verdict", "controller"),
    "what happened?": (("Events",), "main", "controller 2 noticed"),
}
"""Question -> the names of links and buttons to click, the part of the page that answers, and words of the answer."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as found:
        yield found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordedPage]:
    with_run = tmp_path_factory.mktemp("late")
    late_record.live(with_run)
    page = RecordedPage(open_trace(with_run), cache=with_run / "cache")
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


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_with_few_clicks(browser: Browser, served: RecordedPage, question: str) -> None:
    clicks, part, words = QUESTIONS[question]
    assert len(clicks) <= MOST_CLICKS
    with opened(browser, served.url) as page:
        for name in clicks:
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


def test_the_views_fit_narrow_and_wide_screens_light_and_dark(browser: Browser, served: RecordedPage) -> None:
    with opened(browser, served.url) as page:
        for view in ("", "lanes", "slow", "search?find=orders", "trace", "partition/orders-0", "group/readers"):
            page.goto(f"{served.url}#/{view}")
            for width, height in SIZES:
                page.set_viewport_size({"width": width, "height": height})
                for scheme in SCHEMES:
                    page.emulate_media(color_scheme=scheme)
                    assert fits(page), (width, view)


def draw(target: Path) -> None:
    """Write the picture of the critical path of the late record."""
    with running_browser() as browser, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "late"
        late_record.live(folder)
        served = RecordedPage(open_trace(folder), cache=Path(temporary) / "cache")
        served.wait()
        with opened(browser, served.url) as page:
            for name in QUESTIONS["why was this record late?"][0]:
                click(page, name)
            page.locator(".edges").wait_for()
            page.screenshot(path=target)
        served.stop()


if __name__ == "__main__":
    draw(IMAGE)
