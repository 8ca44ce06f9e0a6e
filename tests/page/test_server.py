"""The page's server: whom it answers, what a browser may load, and how pages that were cut off go on."""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, ClassVar

import pytest

from actors.node.memory_cluster import FaultInEffect
from actors.page.controls import PageAction, perform
from actors.page.event_stream import KEPT, WAITING, EventStream
from actors.page.server import STATIC, PageServer
from actors.public.operations import ClusterError

LARGEST = 150 << 10
done: list[Any] = []


@pytest.fixture(scope="module")
def server() -> Iterator[PageServer]:
    def wrong(query: object) -> None:
        raise ValueError("no such thing")

    made = PageServer({"mode": "live"}, {"/api/wrong": wrong, "/api/echo": dict}, actions={"/api/do": done.append})
    yield made
    made.stop()


def ask(server: PageServer, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, Any, Any]:
    address = server.url.removeprefix("http://").rstrip("/")
    link = http.client.HTTPConnection(address, timeout=5)
    link.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = link.getresponse()
    content = answer.read()
    link.close()
    return answer.status, answer.headers, content


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 403),
        ("evil.example:80", 403),
        ("", 403),
        ("localhost:1", 200),
        ("127.0.0.1", 200),
        ("[::1]:9", 200),
    ],
)
def test_a_foreign_host_name_is_refused(server: PageServer, host: str, status: int) -> None:
    assert ask(server, "GET", "/api/about", Host=host)[0] == status


@pytest.mark.parametrize(("serve", "reached"), [(PageServer, False), (partial(PageServer, host="0.0.0.0"), True)])
def test_the_page_is_only_on_loopback_unless_a_host_is_given(serve: Callable[..., PageServer], reached: bool) -> None:
    made = serve({"mode": "live"}, {})
    try:
        with socket.socket() as link:  # each address of 127/8 is one of this machine, as that of its network is
            port = int(made.url.rstrip("/").rpartition(":")[2])
            assert (link.connect_ex(("127.0.0.2", port)) == 0) == reached
    finally:
        made.stop()


def test_an_action_needs_the_token_and_a_post(server: PageServer) -> None:
    for headers in ({}, {"X_Token": "x"}, {"X_Token": server.token + "x"}):
        assert ask(server, "POST", "/api/do", "1", **headers)[0] == 403
    assert ask(server, "GET", "/api/do", X_Token=server.token)[0] == 404
    assert ask(server, "PUT", "/api/do", "1", X_Token=server.token)[0] == 405
    assert ask(server, "POST", "/api/do", "{", X_Token=server.token)[0] == 400
    assert done == []
    assert ask(server, "POST", "/api/do", '{"do": 1}', X_Token=server.token)[0] == 200
    assert done == [{"do": 1}]


def test_routes_answer_json_and_files_are_only_those_of_the_page(server: PageServer) -> None:
    assert json.loads(ask(server, "GET", "/api/echo?a=1&b=")[2]) == {"a": "1", "b": ""}
    assert (ask(server, "GET", "/api/wrong")[0], ask(server, "GET", "/nothing")[0]) == (400, 404)
    for path in ("/../server.py", "/static/../server.py", "/%2e%2e/server.py", "/server.py"):
        assert ask(server, "GET", path)[0] == 404
    for file in STATIC.iterdir():
        status, headers, content = ask(server, "GET", f"/{file.name}")
        assert (status, content) == (200, file.read_bytes())
        policy = headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy and "unsafe" not in policy
        assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")
        assert headers["Cache-Control"] == "no-store"


def test_the_page_is_small_and_has_neither_markup_from_data_nor_foreign_addresses() -> None:
    files = {file.name: file.read_text() for file in STATIC.iterdir()}
    assert sum(len(text.encode()) for text in files.values()) <= LARGEST
    for name, text in files.items():
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), name
        assert {*re.findall(r"https?://[^\"'\s]+", text)} <= {"http://www.w3.org/2000/svg"}, name


def test_a_button_does_what_the_cluster_offers_and_says_why_it_failed() -> None:
    class Cluster:
        actions = (PageAction("Kill", "kill"),)
        asked: ClassVar[list[Any]] = []

        def effects(self) -> list[FaultInEffect]:
            return []

        def do(self, operation: str, arguments: Mapping[str, Any]) -> None:
            self.asked.append((operation, dict(arguments)))
            if arguments.get("broker_id") == 9:
                raise ClusterError("there is no broker 9")

    cluster = Cluster()
    assert perform(cluster, {"do": "kill", "with": {"broker_id": 1}}) == {}
    assert perform(cluster, {"do": "resume", "with": {"broker_id": 1}}) == {}, "what undoes a fault is always offered"
    assert perform(cluster, {"do": "kill", "with": {"broker_id": 9}}) == {"failed": "there is no broker 9"}
    assert "failed" in perform(cluster, {"do": "create_topic", "with": {"name": "t"}})
    for wrong in ({}, [], {"do": "kill"}, {"do": "kill", "with": 1}):
        with pytest.raises(ValueError, match="the body should be"):
            perform(cluster, wrong)
    assert [each for each, _ in cluster.asked] == ["kill", "resume", "kill"]


def events(stream: EventStream, after: str, number: int) -> list[bytes]:
    """Return the next events, without comments."""
    return [*islice((event for event in stream.subscribe(after) if not event.startswith(b":")), number)]


def test_a_page_that_comes_back_gets_what_it_missed_or_loads_anew() -> None:
    stream = EventStream()
    begin = stream.last
    for number in range(3):
        stream.publish(number)
    first = begin.replace("-0", "-1")
    assert [event.split(b"data: ")[1] for event in events(stream, first, 2)] == [b"1\n\n", b"2\n\n"]
    for number in range(KEPT):
        stream.publish(number)
    for unknown in ("", "x", begin, f"other-{KEPT}", f"{begin}9999"):
        assert events(stream, unknown, 1) == [b"event: reset\ndata: {}\n\n"]


def test_a_page_that_does_not_read_is_dropped() -> None:
    stream = EventStream()
    slow, quick = stream.subscribe(stream.last), stream.subscribe(stream.last)
    assert next(quick) == next(slow)  # the comment with which each begins
    for number in range(WAITING + 1):
        stream.publish(number)
        assert b"data: %d" % number in next(quick)
    assert len([*slow]) == WAITING
