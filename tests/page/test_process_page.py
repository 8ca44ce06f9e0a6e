"""The pages of processes: that of `up` with its buttons, and that of one node alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from actors.node.free_ports import free_ports
from actors.page.recorded import RecordedPage
from actors.trace.reader import open_trace
from tests.cluster.processes import OURS, Running, create_topic, properties, start_up
from tests.page.browser import opened
from tests.waiting import until

pytestmark = pytest.mark.java

SECONDS = 20_000


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, dict[str, Any]]]:
    folder: Path = tmp_path_factory.mktemp("up")
    options = ("--port", "0", "--brokers", "2", "--ui", "0", "--ui-host", "0.0.0.0")
    running, line = start_up(folder / "cluster", folder / "up.log", *options)
    try:
        create_topic(line["zookeeper"], "orders", "--partitions", "4", "--replication-factor", "2")
        yield running, line
    finally:
        running.stop()


def press(page: Page, text: str) -> None:
    page.get_by_role("button", name=text, exact=True).click()


def test_the_buttons_of_up_change_processes_and_undo_it(
    browser: Browser, up: tuple[Running, dict[str, Any]], tmp_path: Path
) -> None:
    running, line = up
    assert (
        "--ui-host 0.0.0.0: every machine that reaches this address can see the cluster, and break it" in running.output
    )
    victim = 1
    with opened(browser, f"{line['ui'].replace('0.0.0.0', '127.0.0.1')}#/broker/{victim}") as page:
        state = page.get_by_role("heading", level=1)
        effects = page.get_by_role("region", name="In effect")
        expect(state).to_contain_text("running", timeout=SECONDS)
        press(page, f"Pause broker {victim}")
        expect(effects).to_contain_text(f"broker {victim} is paused")
        press(page, "Undo")
        expect(effects).to_have_count(0)
        press(page, f"Kill broker {victim}")
        expect(effects).to_contain_text(f"broker {victim} is not running")
        expect(state).to_contain_text("killed")
        press(page, "Undo")
        expect(state).to_contain_text(re.compile("running$"), timeout=SECONDS)
        press(page, f"Stop broker {victim}")
        expect(effects).to_contain_text(f"broker {victim} is not running", timeout=SECONDS)
        press(page, f"Start broker {victim}")
        expect(effects).to_have_count(0, timeout=SECONDS)
        expect(state).to_contain_text(re.compile("running$"), timeout=SECONDS)
    recorded = RecordedPage(open_trace(Path(line["dir"])), cache=tmp_path)
    recorded.wait()
    logged = next(each for each in recorded._logs if "started as broker" in each.text)
    with opened(browser, f"{recorded.url}#/lanes?at={logged.at}") as page:
        expect(page.locator(".lanes g.log", has_text="started as broker").first).to_be_attached()
        page.goto(f"{recorded.url}#/trace")
        expect(page.get_by_role("region", name="Remarks")).to_contain_text("is still being recorded")
    recorded.stop()


def test_the_page_of_one_node_has_its_metadata_and_no_buttons(
    browser: Browser, up: tuple[Running, dict[str, Any]], tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    file = properties(
        tmp_path / "server.properties",
        broker__id=7,
        listeners=f"PLAINTEXT://127.0.0.1:{port}",
        log__dirs=tmp_path / "data",
        zookeeper__connect=up[1]["zookeeper"],
    )
    node = Running([*OURS, "broker", str(file), "--ui"], tmp_path / "node.log")
    try:
        found = until(lambda: re.search(r"the page of this node is (\S+)", node.output), bool, "the page is served")
        until(lambda: "started as broker" in node.output, bool, "the node is started")
        with opened(browser, found[1]) as page:
            expect(page.get_by_role("link", name="orders", exact=True)).to_be_visible(timeout=SECONDS)
            expect(page.get_by_role("table", name="Brokers").get_by_role("row")).to_have_count(4)
            expect(page.get_by_role("button", name=re.compile("Kill|Pause|Stop"))).to_have_count(0)
            page.get_by_role("link", name="orders", exact=True).click()
            expect(page.get_by_role("link", name=re.compile("in sync, leader"))).to_have_count(4)
    finally:
        node.stop()
