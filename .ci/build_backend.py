"""The build backend: setuptools, with our names for the internal packages.

Rule 1: the repository's packages `actors`, `messages`, `spark` and `zk_bridge` are `kafka_actors._internal.actors` etc.
        in the wheel, and import each other under these names: a user's project may have packages of the short names.
        `actors.public` is `kafka_actors` itself.
Rule 2: an editable installation makes the repository's own names importable, `kafka_actors` included.
"""

from __future__ import annotations

import ast
from pathlib import Path

from setuptools.build_meta import *  # noqa: F403  (the hooks of PEP 517 and 660)
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel
from setuptools.command.sdist import sdist

PREFIX = "kafka_actors._internal."
PACKAGES = ("actors", "messages", "spark", "zk_bridge")


def internal(source: str) -> str:
    """A module's source with PREFIX before each of PACKAGES in its imports.

    Raises:
        ValueError: For `import messages` without `as`, which would bind another name in the wheel.
    """
    lines = source.splitlines(keepends=True)
    places = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and not node.level and _is_ours(node.module):
            places.append((node.lineno, node.col_offset + len("from ")))
        elif isinstance(node, ast.Import):
            for alias in filter(lambda alias: _is_ours(alias.name), node.names):
                if alias.asname is None:
                    raise ValueError(f"line {node.lineno}: write `import {alias.name} as ...`")
                places.append((alias.lineno, alias.col_offset))
    for line, column in sorted(places, reverse=True):
        text = lines[line - 1]
        lines[line - 1] = text[:column] + PREFIX + text[column:]
    return "".join(lines).replace(f"{PREFIX}actors.public", "kafka_actors")


def _is_ours(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] in PACKAGES


class BuildPy(build_py):
    """Rule 1."""

    def run(self) -> None:
        """Build the packages, and make PREFIX a package as well: zip archives hold no namespace packages."""
        super().run()
        if not self.editable_mode:
            package = Path(self.build_lib, *PREFIX.rstrip(".").split("."))
            (package / "__init__.py").write_text('"""What only kafka_actors itself imports."""\n', "utf-8")

    def build_module(self, module: str, module_file: str, package: str) -> object:
        """Copy a module, with its imports rewritten."""
        copied = super().build_module(module, module_file, package)
        target = Path(copied[0])
        target.write_text(internal(Path(module_file).read_text("utf-8")), "utf-8")
        return copied


class EditableWheel(editable_wheel):
    """Rule 2."""

    def finalize_options(self) -> None:
        """Add the short names to the packages of the distribution."""
        super().finalize_options()
        for package in [each for each in self.distribution.packages if each.startswith(PREFIX)]:
            self.distribution.packages.append(package.removeprefix(PREFIX))
        for package in PACKAGES:
            self.distribution.package_dir[package] = package


class Sdist(sdist):
    """The sources, this file included."""

    def make_distribution(self) -> None:
        """Add the backend to the archive; setuptools collects only what the wheel takes."""
        self.filelist.append(".ci/build_backend.py")
        super().make_distribution()
