"""Apply bugs to the running code as changes of its source text; pytest's MonkeyPatch undoes them.

Rule 1: a change names a function, or a module-level table, and replaces one fragment of its source. A fragment that is
        absent, or that occurs more than once, is an error: a change never silently stops applying.
Rule 2: a function keeps its identity; only its code object is replaced. So every module, table and subclass that refers
        to the function runs the changed code.
Rule 3: a table is a dict, or a `Table` of a state machine. It is changed in place for the same reason.
"""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import attrs
import pytest

from actors.core.controller.states import Table

GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME")
"""Instructions that read a name of the module. A change must not use names that the module lacks."""


class DoesNotApply(Exception):
    """A change does not fit the source; the text names the target and the reason."""


@attrs.frozen
class Change:
    """One fragment of a function's or a table's source, and its replacement.

    `target` is "module:qualified.name". A fragment has the white space and the indentation of the file.
    """

    target: str
    old: str
    new: str

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        """Apply the change until `patch` is undone. Raises DoesNotApply."""
        module_name, _, name = self.target.partition(":")
        module = importlib.import_module(module_name)
        node = definition_of(module, name)
        if isinstance(node, ast.FunctionDef):
            code = code_of(compile(self._changed(module, node), file_of(module), "exec"), name)
            known = {*vars(module), *vars(builtins)}
            if unknown := [
                each.argval for each in dis.get_instructions(code) if each.opname in GLOBALS if each.argval not in known
            ]:
                raise DoesNotApply(f"{self.target}: the module has no {', '.join(unknown)}")
            patch.setattr(function_of(module, name), "__code__", code)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            self._change_table(patch, module, name)
        else:
            raise DoesNotApply(f"{self.target}: there is no such function or table")

    def _changed(self, module: ModuleType, node: ast.stmt) -> str:
        """Return the module's source with the fragment replaced in this definition."""
        lines = source_of(file_of(module)).splitlines(keepends=True)
        first, last = node.lineno - 1, node.end_lineno
        before, text, after = "".join(lines[:first]), "".join(lines[first:last]), "".join(lines[last:])
        if (count := text.count(self.old)) != 1:
            raise DoesNotApply(
                f"{self.target}: the fragment {self.old!r} occurs {count} times, not once; adapt it to the function"
            )
        return f"{before}{text.replace(self.old, self.new)}{after}"

    def _change_table(self, patch: pytest.MonkeyPatch, module: ModuleType, name: str) -> None:
        node = definition_of(module, name)
        assert node is not None
        tree = ast.parse(self._changed(module, node))
        changed = next(each for each in tree.body if _defines(each, name))
        assert isinstance(changed, ast.Assign | ast.AnnAssign) and changed.value is not None
        table = getattr(module, name)
        value = eval(compile(ast.Expression(changed.value), file_of(module), "eval"), vars(module))
        if isinstance(table, Table):
            patch.setattr(table, "rows", value.rows)
        elif isinstance(table, dict):
            for key in table.keys() - value.keys():
                patch.delitem(table, key)
            for key in [key for key in value if key not in table or table[key] != value[key]]:
                patch.setitem(table, key, value[key])
        else:
            raise DoesNotApply(f"{self.target}: a {type(table).__name__} is neither a function, a dict nor a Table")


def apply(patch: pytest.MonkeyPatch, *changes: Change) -> None:
    """Apply several changes, each of a different function or table. Raises DoesNotApply."""
    if len({change.target for change in changes}) < len(changes):
        raise DoesNotApply(f"{changes[0].target}: one change per function; join the fragments")
    for change in changes:
        change.apply(patch)


def file_of(module: ModuleType) -> str:
    assert module.__file__ is not None
    return module.__file__


@functools.cache
def source_of(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")


@functools.cache
def _tree(file: str) -> ast.Module:
    return ast.parse(source_of(file))


def _defines(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return node.name == name
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def definition_of(module: ModuleType, name: str) -> ast.stmt | None:
    """Return the definition of a qualified name; None if there is none."""
    body, found = _tree(file_of(module)).body, None
    for part in name.split("."):
        found = next((each for each in body if _defines(each, part)), None)
        body = found.body if isinstance(found, ast.ClassDef) else []
    return found


def function_of(module: ModuleType, name: str) -> FunctionType:
    """Return the function of a qualified name, without decorators. Raises DoesNotApply."""
    found: Any = module
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, staticmethod | classmethod):
        found = found.__func__
    found = inspect.unwrap(found)
    if not isinstance(found, FunctionType):
        raise DoesNotApply(f"{module.__name__}:{name} is a {type(found).__name__}, not a function")
    return found


def code_of(module: CodeType, name: str) -> CodeType:
    """Return the code object of a qualified name in a compiled module."""
    return next(code for code in _nested(module) if code.co_qualname == name)


def _nested(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _nested(each)
