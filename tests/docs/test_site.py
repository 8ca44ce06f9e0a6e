"""The documentation as a site: it builds without a warning, has every page, and requests nothing from other hosts."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.pictures import BROWSERS
from tests.layering import ROOT


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_builder", ROOT / ".ci" / "site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SITE = load()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; needs the extra `docs` and npm, which `make site` installs or asks for."""
    pytest.importorskip("material", reason="`make site` installs MkDocs")
    try:
        for script in SITE.SCRIPTS:
            SITE.fetch(script)
    except SITE.ScriptUnavailable as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("site")
    SITE.build(folder)
    return folder


@pytest.fixture
def served(built: Path) -> Iterator[str]:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(built))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.soak
@pytest.mark.long
@pytest.mark.parametrize("page", ["explanation/architecture.html", "explanation/produce.html"])
def test_a_browser_draws_the_diagrams_and_requests_nothing_from_other_hosts(
    built: Path, served: str, page: str, tmp_path: Path
) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no browser is installed")
    log = tmp_path / "requests.json"
    command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--log-net-log={log}"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=15000", "--dump-dom"]
    shown = subprocess.run([*command, f"{served}/{page}"], capture_output=True, text=True, check=True, timeout=120)
    events = [event.get("params", {}) for event in json.loads(log.read_text("utf-8"))["events"]]
    requested = {event["url"] for event in events if str(event.get("initiator")).startswith(served) and "url" in event}
    assert {f"{served}/{script.place}" for script in SITE.SCRIPTS} <= requested
    assert [url for url in requested if not url.startswith(served)] == []
    diagrams = (built / page).read_text("utf-8").count('<pre class="mermaid">')
    assert shown.stdout.count('<div class="mermaid"') == diagrams


def test_the_navigation_has_every_page() -> None:
    text = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"- (?:.*: )?([\w/-]+\.md)$", text, re.MULTILINE)
    pages = [str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")]
    pages += [f"project/{name}" for name in SITE.PROJECT_PAGES if (ROOT / name).exists()]
    assert sorted(listed) == sorted(pages)


def test_requests_to_other_hosts_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="https://read.me"></a><script src="//cdn/x.js"></script><script src="y.js"></script>'
        '<link rel="preconnect" href="https://fonts"><link rel="canonical" href="https://here"><img src="http://i/p.png">'
    )
    (tmp_path / "b.css").write_text('@import "https://fonts/x.css"; a { background: url(c.png) url(https://d/e.png) }')
    assert list(SITE.foreign_requests(tmp_path)) == [
        "a.html: //cdn/x.js",
        "a.html: https://fonts",
        "a.html: http://i/p.png",
        "b.css: https://fonts/x.css",
        "b.css: https://d/e.png",
    ]


def test_items_that_are_shown_as_text_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>These:\n- one\n2. two</p><ul>\n<li>three</li></ul>\n<pre>\n- four</pre>")
    assert list(SITE.hidden_items(tmp_path)) == ["a.html: - one", "a.html: 2. two</p><ul>"]


def test_links_out_of_the_pages_lead_to_copies() -> None:
    text = "[a](../../tests/layering.py) [b](broker.md#c) [c](../../CHANGELOG.md) [d](https://e)"
    assert SITE.with_links(text, "docs/reference/clients.md") == (
        "[a](../source/tests/layering.py.txt) [b](broker.md#c) [c](../project/CHANGELOG.md) [d](https://e)"
    )
    assert SITE.with_links("[a](docs/how-to/recipes.md) [b](.ci/run)", "CHANGELOG.md") == (
        "[a](../how-to/recipes.md) [b](../source/.ci/run.txt)"
    )


def test_the_pinned_script_is_that_of_the_configuration() -> None:
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert all(f"- {script.place}" in text and len(script.integrity) == 88 for script in SITE.SCRIPTS)
    assert "font: false" in text
