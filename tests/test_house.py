"""The house rules that a machine can keep: who may import whom, what stands where, names that are unique."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

import messages
from messages.vocabulary import VOCABULARY

HOUSE = Path(__file__).resolve().parents[1]
OURS = ("actors", "messages", "spark", "zk_bridge")

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "messages": ("attrs", "msgspec", "thespian.actors", "messages.vocabulary", "messages.[!wt]*"),
    "messages.trace": ("messages", "attrs", "msgspec", "zstandard"),
    "messages.wire": ("messages", "kafka.protocol", "crc32c"),
    "actors.core": ("messages", "attrs", "actors.core"),
    "actors.storage": ("messages.wire", "crc32c", "actors.storage"),
    "actors.runtime": ("messages", "thespian", "zstandard", "actors.runtime"),
    "actors": (),
    "actors.controller": ("messages", "actors.core", "actors.runtime", "actors.controller", "thespian"),
    "actors.broker": ("messages", "actors.core", "actors.runtime", "actors.storage", "actors.broker", "thespian"),
    "actors.gateway": ("messages", "actors.runtime", "actors.gateway", "thespian"),
    "actors.node": ("messages", "actors", "zk_bridge", "thespian"),
    "actors.cli": ("messages", "actors", "zk_bridge", "spark", "click", "rich", "prometheus_client"),
    "zk_bridge": ("messages", "actors.runtime", "thespian", "zk_bridge"),
    "spark": ("messages.trace", "pyspark", "spark"),
}
"""What the files of each package (the longest prefix counts) may import beside the standard library."""

ALSO: dict[str, tuple[str, ...]] = {
    "actors.gateway.store": ("zk_bridge.store",),
    "actors.gateway.metrics": ("prometheus_client",),
    "messages.trace.codec": ("thespian.actors",),
    "zk_bridge.kazoo_store": ("kazoo",),
}
"""What single files may import on top of that: where the system is put together, and the one owner of a library."""

TOP_LEVEL = {
    *("messages", "actors", "zk_bridge", "spark", "tests", "docs"),
    *("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile"),
}


def module_name(file: Path) -> str:
    parts = file.relative_to(HOUSE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources() -> list[Path]:
    return sorted(file for package in OURS for file in (HOUSE / package).rglob("*.py"))


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: imports are absolute here"
            yield node.lineno, node.module or ""


def allowed(module: str) -> tuple[str, ...]:
    package = max((name for name in MAY_IMPORT if within(module, name)), key=len)
    return MAY_IMPORT[package] + ALSO.get(module, ())


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".") or fnmatch(module, package)


@pytest.mark.parametrize("file", sources(), ids=module_name)
def test_imports_keep_the_contract(file: Path) -> None:
    module = module_name(file)
    offenders = [
        f"{file.relative_to(HOUSE)}:{line} imports {name}"
        for line, name in imports(file)
        if name.split(".")[0] not in sys.stdlib_module_names and not any(within(name, may) for may in allowed(module))
    ]
    assert not offenders, f"{module} may import only {', '.join(allowed(module))}:\n" + "\n".join(offenders)


def test_kazoo_has_one_owner() -> None:
    owners = [module_name(file) for file in sources() if any(name.startswith("kazoo") for _, name in imports(file))]
    assert owners in ([], ["zk_bridge.kazoo_store"])


def test_nobody_imports_the_tests() -> None:
    offenders = [str(file) for file in sources() if any(within(name, "tests") for _, name in imports(file))]
    assert not offenders


def test_top_level_holds_only_what_is_prescribed() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=HOUSE, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    top = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert {name for name in top if not name.startswith(".")} <= TOP_LEVEL


def test_every_package_is_packaged() -> None:
    named = tomllib.loads((HOUSE / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    assert sorted(named) == sorted(module_name(file) for file in sources() if file.name == "__init__.py")


def test_tests_are_packages() -> None:
    missing = {
        str(file.parent.relative_to(HOUSE))
        for file in (HOUSE / "tests").rglob("*.py")
        if not (file.parent / "__init__.py").exists()
    }
    assert not missing


def test_message_names_are_unique_and_picklable() -> None:
    for found in pkgutil.walk_packages(messages.__path__, "messages."):
        importlib.import_module(found.name)
    for name, cls in VOCABULARY.items():
        module = importlib.import_module(cls.__module__)
        assert getattr(module, name) is cls, f"{cls.__module__}.{name} cannot be pickled by name"
        assert "__dict__" not in dir(cls), f"{cls.__module__}.{name} is not slotted"
    defined = [
        (node.name, module_name(file))
        for file in sources()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and any(isinstance(decorator, ast.Name) and decorator.id == "message" for decorator in node.decorator_list)
    ]
    names = [name for name, _ in defined]
    twice = [(name, module) for name, module in defined if names.count(name) > 1]
    assert not twice


def test_every_public_thing_says_what_it_is() -> None:
    silent = []
    for file in sources():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        if tree.body and not ast.get_docstring(tree):
            silent.append(module_name(file))
        for node in tree.body:
            if (
                isinstance(node, ast.ClassDef | ast.FunctionDef)
                and not node.name.startswith("_")
                and not ast.get_docstring(node)
            ):
                silent.append(f"{module_name(file)}.{node.name}")
    assert not silent
