"""Build the documentation as a site, and read it back for requests to other hosts: `python .ci/site.py FOLDER`.

MkDocs runs this file as a hook, too: links from pages to files outside `docs/` lead to copies in the site.
"""

from __future__ import annotations

import base64
import hashlib
import os
import posixpath
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Script(NamedTuple):
    """A script of the npm registry that the site contains; `integrity` is the SHA-512 of its package."""

    package: str
    version: str
    integrity: str
    member: str

    @property
    def place(self) -> str:
        """The place in the site."""
        return f"javascripts/{self.package}.min.js"


SCRIPTS = (
    Script(
        *("mermaid", "11.17.2"),
        "V6K3C8EBdEsPFZXSKMJe6ppQOENxuHARr9GvHX4hh47lAbhMRD9qf4oEK7LoaRQxULMa80/qt5gHO73aCleBBg==",
        "package/dist/mermaid.min.js",
    ),
    Script(  # the search runs in a worker, and browsers start none from the disk
        *("iframe-worker", "1.0.4"),
        "roeaaI+Lg1LJNfgpCjoRe/+WzEjy9+Z08LoEvu85MCPbBjwm+qXz8Ag5U05lHa6V1CysZyGzE0SOkAtSUA5q7Q==",
        "package/shim/index.js",
    ),
)
PROJECT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Pages at the root of the repository, which the site has below `project/`."""

LINK = re.compile(r"\]\(([^)\s]+)\)")


class ScriptUnavailable(Exception):
    """npm is missing, does not reach its registry, or returned another package."""


def fetch(script: Script) -> Path:
    """Return the file of a script; fetch it from the npm registry if it is not cached.

    Raises:
        ScriptUnavailable: npm failed, or the package has another checksum.
    """
    name = f"{script.package}-{script.version}"
    cached = ROOT / ".cache" / f"{name}.min.js"
    if cached.exists():
        return cached
    cached.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", f"{script.package}@{script.version}"]
        try:
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
        except (OSError, subprocess.SubprocessError) as error:
            raise ScriptUnavailable(
                f"{' '.join(command)} failed: {error}. Install npm, or allow its registry."
            ) from error
        package = Path(folder, f"{name}.tgz")
        if base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode() != script.integrity:
            raise ScriptUnavailable(f"{name} has another checksum than .ci/site.py expects.")
        with tarfile.open(package) as archive:
            content = archive.extractfile(script.member)
            assert content is not None
            part = cached.with_suffix(f".{os.getpid()}")
            part.write_bytes(content.read())
    part.replace(cached)
    return cached


# ------------------------------------------------------------------------------------------------------ hooks of MkDocs


def on_files(files: Any, config: Any) -> Any:
    """Add the scripts, the pages at the root of the repository, and the files outside `docs/` that pages link to."""
    from mkdocs.structure.files import File

    pages = {f"docs/{file.src_uri}": file.content_string for file in files.documentation_pages()}
    pages |= {name: (ROOT / name).read_text("utf-8") for name in PROJECT_PAGES if (ROOT / name).exists()}
    for page, text in pages.items():
        if page in PROJECT_PAGES:
            files.append(File.generated(config, in_site(page), content=with_links(text, page)))
    linked = {target for page, text in pages.items() for target in targets(text, page)}
    for target in sorted(linked - pages.keys()):
        if not target.startswith("docs/") and (ROOT / target).is_file():
            files.append(File.generated(config, in_site(target), content=(ROOT / target).read_bytes()))
    for script in SCRIPTS:
        files.append(File.generated(config, script.place, abs_src_path=str(fetch(script))))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links that leave `docs/`."""
    source: str = page.file.src_uri
    return markdown if source.startswith("project/") else with_links(markdown, f"docs/{source}")


def in_site(path: str) -> str:
    """The place in the site of a file of the repository."""
    if path in PROJECT_PAGES:
        return f"project/{path}"
    return path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}.txt"


def targets(text: str, page: str) -> Iterator[str]:
    """The files of the repository that a page links to."""
    for found in LINK.finditer(text):
        path = found[1].partition("#")[0]
        if path and ":" not in path:
            yield posixpath.normpath(posixpath.join(posixpath.dirname(page), path))


def with_links(text: str, page: str) -> str:
    """The text of a page with its links as they are in the site."""

    def rewritten(found: re.Match[str]) -> str:
        path, sharp, anchor = found[1].partition("#")
        if not path or ":" in path:
            return found[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        return f"]({posixpath.relpath(in_site(target), posixpath.dirname(in_site(page)))}{sharp}{anchor})"

    return LINK.sub(rewritten, text)


# ------------------------------------------------------------------------------------------------- what pages request

REQUESTED = {
    *(("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src"), ("audio", "src")),
    *(("embed", "src"), ("object", "data"), ("use", "href"), ("image", "href")),
}
LINKED = frozenset(
    ("stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload", "manifest")
)
"""Kinds of <link> that a browser follows by itself."""


class _Requests(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.found += [value for name, value in values.items() if (tag, name) in REQUESTED]
        if tag == "link" and LINKED & set(values.get("rel", "").split()):
            self.found.append(values.get("href", ""))


def foreign_requests(folder: Path) -> Iterator[str]:
    """What the site's pages and style sheets request from other hosts, as `FILE: ADDRESS`."""
    for file in sorted(folder.rglob("*.html")):
        parser = _Requests()
        parser.feed(file.read_text("utf-8"))
        yield from (f"{file.relative_to(folder)}: {link}" for link in parser.found if re.match(r"(?:\w+:)?//", link))
    for file in sorted(folder.rglob("*.css")):
        links = re.findall(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]+)", file.read_text("utf-8"))
        yield from (f"{file.relative_to(folder)}: {link}" for link in links)


def hidden_items(folder: Path) -> Iterator[str]:
    """Items of lists that Python-Markdown put into the paragraph before: their hyphen or number is shown as text."""
    for file in sorted(folder.rglob("*.html")):
        text = re.sub(r"(?s)<pre.*?</pre>", "", file.read_text("utf-8"))
        found = re.findall(r"(?m)^ {0,4}(?:- |\d+\. )\S.*", text)
        yield from (f"{file.relative_to(folder)}: {item}" for item in found)


def build(folder: Path) -> None:
    """Build the site into the folder; a warning of MkDocs is an error."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})


def main() -> None:
    """Build the site, and fail for requests to other hosts, hidden items and a missing search."""
    folder = Path(sys.argv[1]).absolute()
    try:
        for script in SCRIPTS:
            fetch(script)
        build(folder)
    except ScriptUnavailable as error:
        sys.exit(str(error))
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
    if found := list(foreign_requests(folder)):
        sys.exit("Pages request files from other hosts:\n" + "\n".join(found))
    if found := list(hidden_items(folder)):
        sys.exit("Put an empty line before these items, and indent them by four columns a level:\n" + "\n".join(found))
    if not (folder / "search" / "search_index.js").exists():
        sys.exit("The search does not work from the disk: search/search_index.js is missing")
    print(f"The site is in {folder}: open {folder / 'index.html'}")


if __name__ == "__main__":
    main()
