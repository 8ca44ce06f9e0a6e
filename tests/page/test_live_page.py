"""The page of a live cluster in a browser: what it shows, by which keys it is used, and what it never does."""

from __future__ import annotations

import re
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from actors.page.event_stream import EventStream
from actors.page.server import PageServer
from actors.public import KafkaCluster
from tests.page.browser import opened

SIZES = ((1400, 900), (390, 800))
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
MARKUP = "<img src=x onerror=alert(1)>"


def picture(topics: int, partitions: int, stream: EventStream) -> dict[str, Any]:
    """Return the picture of a cluster with names that contain markup."""
    brokers = [
        {"id": id, "process": "running", "live": True, "epoch": id, "session": "connected", "since": 1.0}
        | {"paused": False, "faults": []}
        for id in range(3)
    ]
    leaders = [number % 3 for number in range(partitions)]
    columns = {"numbers": None, "leaders": leaders, "isrs": [0] * partitions, "replicas": [0] * partitions}
    group = {
        "group": MARKUP,
        "state": "Stable",
        "coordinator": 1,
        "generation": 1,
        "since": 1.0,
        "members": {"m": MARKUP},
    }
    line = {"n": 1, "at": 1.0, "node": 0, "run": "r", "delivery": 1, "text": MARKUP, "level": 2, "more": 0}
    return {
        "at": 1.0,
        "cluster": {"controller": 0, "controller_epoch": 1, "controller_since": 1.0},
        "brokers": brokers,
        "groups": [group],
        "transactions": [],
        "refused": [],
        "effects": [],
        "lists": [[0, 1, 2]],
        "topics": [{"name": f"{MARKUP}{number}", "minimums": 2, **columns} for number in range(topics)],
        "feed": [{**line, "about": "consumer-group", "name": MARKUP}],
        "event": stream.last,
    }


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def check_sizes(page: Page) -> None:
    """Check that a view fits narrow and wide screens, light and dark."""
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            assert fits(page), (width, page.url)


@pytest.mark.parametrize(("topics", "partitions"), [(3, 50), (100, 1000)])
def test_names_are_text_and_many_partitions_stay_usable(browser: Browser, topics: int, partitions: int) -> None:
    stream = EventStream()
    explained = {"verdict": MARKUP, "chain": [], "answers": [{"question": MARKUP, "lines": [{"text": MARKUP}]}]}
    content = picture(topics, partitions, stream)
    lag = {"partition": f"{MARKUP}-0", "committed": 1, "end": 3, "lag": 2, "at": 1.0, "run": "r", "seq": 1}
    routes = {
        "/api/picture": lambda query: content,
        "/api/why": lambda query: explained,
        "/api/lags": lambda query: [lag],
    }
    server = PageServer({"mode": "live", "title": MARKUP, "actions": []}, routes, stream)
    with opened(browser, server.url) as page:
        expect(page.get_by_role("navigation", name="Summary")).to_contain_text(
            f"{topics * partitions:,}".replace(",", "\u202f")
        )
        topic = page.get_by_role("link", name=f"{MARKUP}0", exact=True)
        topic.click()
        expect(page.get_by_role("heading", level=1)).to_have_text(f"{MARKUP}0")
        assert page.get_by_role("link", name=re.compile("in sync, leader")).count() == partitions
        page.get_by_role("button", name="Why").click()
        expect(page.locator(".verdict")).to_have_text(MARKUP)
        page.goto(f"{server.url}#/group/{MARKUP.replace('<', '%3C')}")
        expect(page.get_by_role("cell", name="m", exact=True)).to_be_visible()
        expect(page.get_by_role("table", name="Lag")).to_contain_text(f"{MARKUP}-0")
        assert page.locator("img").count() == 0
    server.stop()


def test_a_kill_is_on_the_page_and_the_keyboard_starts_the_broker_again(browser: Browser) -> None:
    with KafkaCluster(settings={"min.insync.replicas": 2}, ui=True) as cluster:
        cluster.create_topic("orders", 3)
        dead = cluster.wait_for_leader("orders")
        with opened(browser, cluster.ui_url) as page:
            row = page.get_by_role("row").filter(has=page.get_by_role("button", name=f"Kill broker {dead}"))
            expect(row).to_contain_text("running")
            cluster.kill(dead)
            start = page.get_by_role("button", name=f"Start broker {dead}")
            expect(start).to_be_visible()
            expect(page.get_by_role("link", name=re.compile("Under-replicated"))).to_contain_text("3")
            cluster.wait_for_leader("orders", other_than=dead)
            for _ in range(60):
                page.keyboard.press("Tab")
                if start.evaluate("button => button === document.activeElement"):
                    break
            page.keyboard.press("Enter")
            expect(page.get_by_role("button", name=f"Kill broker {dead}")).to_be_visible()
            page.keyboard.press("/")
            page.keyboard.type("ord")
            page.keyboard.press("Tab")
            page.keyboard.press("Enter")
            expect(page.get_by_role("heading", level=1)).to_have_text("orders")
            page.goto(f"{cluster.ui_url}#/partition/orders-0?why=1")
            expect(page.locator(".verdict")).to_contain_text("orders-0")
            for view in ("", "topic/orders", "partition/orders-0", f"broker/{dead}", "events"):
                page.goto(f"{cluster.ui_url}#/{view}")
                check_sizes(page)
