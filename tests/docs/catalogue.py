"""Write docs/reference/catalogue.md from the declarations of events, requests and messages; `make docs` runs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from actors.core.controller.events import HANDLERS, REQUESTS
from messages import channel, topic_deletion, zookeeper
from messages.apis import APIS
from messages.events import EVENTS
from messages.vocabulary import VOCABULARY
from tests.docs.markdown import wrap

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docs" / "reference" / "catalogue.md"

MODULES = tuple(module.__name__ for module in (channel, topic_deletion, zookeeper))

HEAD = """\
# Events, requests and messages of the controller

`make docs` generates this page from `messages/events.py`, `messages/apis` and the message
classes; a test checks that it is up to date. The requests are those of all APIs that a node
serves. [Messages](messages.md) has the fields of all messages.
"""


def document() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *_events(), *_apis(), *_messages()])


def _events() -> Iterator[str]:
    yield "## Events\n"
    yield "| event | watched znode | ControllerState | handled by |"
    yield "| --- | --- | --- | --- |"
    for event in EVENTS:
        handler = HANDLERS.get(event)
        by = "ControllerActor, also while it is not the controller" if handler is None else _function(handler)
        sources = "" if event.watch is None else f"`{event.watch.path}`: {', '.join(event.watch.changes)}"
        yield f"| {event.__name__} | {sources} | {event.state.kafka_name} ({event.state.value}) | {by} |"
    yield ""


def _apis() -> Iterator[str]:
    yield "## Requests\n"
    yield "| key | API | versions | advertised | handled by | ControllerState | error codes |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for api in APIS:
        state, by = "", "no actor" if api.feature else api.answerer
        if api.request in REQUESTS:
            state, by = REQUESTS[api.request].state.kafka_name, _function(REQUESTS[api.request].flow)
        versions, listed = f"{api.min_version}-{api.max_version}", "no" if api.control else "yes"
        codes = ", ".join(dict.fromkeys(api.codes.split()))
        yield f"| {api.key} | {api.name} | {versions} | {listed} | {by} | {state} | {codes} |"
    yield ""


def _messages() -> Iterator[str]:
    yield "## Messages to channels, topic deletion and ZooKeeper\n"
    by_module: dict[str, list[str]] = {}
    for name, kind in VOCABULARY.items():
        if kind.__module__.startswith(MODULES):
            by_module.setdefault(kind.__module__, []).append(name)
    for module in sorted(by_module):
        text = f"- `{module.replace('.', '/')}.py`: {', '.join(sorted(by_module[module]))}"
        yield from wrap(text, "  ")
    yield ""


def _function(function: Any) -> str:
    return f"`{function.__module__.removeprefix('actors.core.controller.')}.{function.__name__}`"


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
