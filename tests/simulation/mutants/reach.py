"""Find the mutants that a seed can show: those whose changed code the unchanged program runs.

Rule 1: a mutant is reached if the statement with its changed fragment runs. If only the test of an `if` or `while` is
        changed, both tests are evaluated, and the mutant is reached if their results differ.
Rule 2: a run that does not reach a mutant is the same with the mutant, so it is left out.
Rule 3: a mutant whose change is not in a function counts as reached by every seed.
"""

from __future__ import annotations

import ast
import builtins
import importlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

from actors.simulation.run import run
from actors.simulation.schedule import Schedule
from tests.simulation.mutants.mutant import Mutant
from tests.simulation.patches import Change, code_of, definition_of, file_of, function_of, source_of

_STATEMENT, _TEST = "__mutant_statement__", "__mutant_test__"


def reached(planned: Schedule, mutants: Iterable[Mutant]) -> tuple[str, Counter[str]]:
    """Run a schedule without a mutant; return the violated invariant, and how often the run reaches each mutant."""
    counts: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patch, _counting(patch, tuple(mutants), counts):
        violation = run(planned).violation
    return "" if violation is None else violation.invariant, counts


@contextmanager
def _counting(patch: pytest.MonkeyPatch, mutants: tuple[Mutant, ...], counts: Counter[str]) -> Iterator[None]:
    """Count how often each mutant is reached while the context lasts."""

    def statement(name: str) -> None:
        counts[name] += 1

    def test(name: str, value: Any, changed: Callable[[], Any]) -> Any:
        try:
            differs = bool(value) != bool(changed())
        except Exception:
            differs = True
        counts[name] += differs
        return value

    patch.setattr(builtins, _STATEMENT, statement, raising=False)
    patch.setattr(builtins, _TEST, test, raising=False)
    of_modules: dict[str, list[tuple[str, Change]]] = {}
    for mutant in mutants:
        for change in mutant.changes:
            of_modules.setdefault(change.target.partition(":")[0], []).append((mutant.name, change))
    for module, changes in of_modules.items():
        counts.update(_instrument(patch, importlib.import_module(module), changes))
    yield


def _instrument(patch: pytest.MonkeyPatch, module: ModuleType, changes: list[tuple[str, Change]]) -> list[str]:
    """Insert counters into the functions of a module; return the mutants that count as reached (rule 3)."""
    source = source_of(file_of(module))
    tree, always, functions = ast.parse(source), [], set()
    for name, change in changes:
        function = change.target.partition(":")[2]
        there = definition_of(module, function)
        spot = None if there is None else _spot(source, tree, there, change)
        if not isinstance(there, ast.FunctionDef) or spot is None:
            always.append(name)
            continue
        functions.add(function)
        _insert(*spot, name, change)
    code = compile(ast.fix_missing_locations(tree), file_of(module), "exec")
    for function in functions:
        patch.setattr(function_of(module, function), "__code__", code_of(code, function))
    return always


Body = list[ast.stmt]


def _spot(source: str, tree: ast.Module, there: ast.stmt, change: Change) -> tuple[Body, ast.stmt, int, int] | None:
    """Return the deepest statement in which a change begins; None if there is none.

    The result has the list that contains the statement, the statement, and the offsets of the change and of the
    statement's line in the source.
    """
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    assert there.end_lineno is not None
    first = source.index(change.old, starts[there.lineno - 1], starts[there.end_lineno])
    found: tuple[Body, ast.stmt, int, int] | None = None
    for node in ast.walk(tree):
        for _, body in ast.iter_fields(node):
            for each in body if isinstance(body, list) else ():
                # a statement inserted for another mutant has no position in the source
                if not isinstance(each, ast.stmt) or not hasattr(each, "end_lineno") or each.end_lineno is None:
                    continue
                start, end = starts[each.lineno - 1] + each.col_offset, starts[each.end_lineno]
                if there.lineno < each.lineno and start <= first < end and each.end_lineno <= there.end_lineno:
                    found = body, each, first, starts[each.lineno - 1]
    return found


def _insert(body: Body, there: ast.stmt, first: int, line: int, name: str, change: Change) -> None:
    """Insert a counter for runs of the statement, or for a differing result of its changed test (rule 1)."""
    if isinstance(there, ast.If | ast.While) and (changed := _changed_test(there.test, change)) is not None:
        call = ast.Call(ast.Name(_TEST, ast.Load()), [ast.Constant(name), there.test, changed], [])
        there.test = ast.copy_location(call, there.test)
        return
    counted = ast.Expr(ast.Call(ast.Name(_STATEMENT, ast.Load()), [ast.Constant(name)], []))
    body.insert(body.index(there), counted)


_PLACED = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)


def _changed_test(test: ast.expr, change: Change) -> ast.expr | None:
    """Return the changed test as a function without arguments; None if rule 1 cannot compare the tests."""
    old, new = change.old.strip(), change.new.strip()
    for word in ("elif ", "if ", "while "):
        if old.startswith(word) and new.startswith(word):
            old, new = old.removeprefix(word), new.removeprefix(word)
    if old.endswith(":") and new.endswith(":"):
        old, new = old[:-1], new[:-1]
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == _TEST:
        return None
    if any(isinstance(each, _PLACED) for each in ast.walk(test)):
        return None
    try:
        wanted, replaced = ast.dump(ast.parse(old, mode="eval").body), ast.parse(new, mode="eval").body
    except SyntaxError:
        return None
    if any(isinstance(each, _PLACED) for each in ast.walk(replaced)):
        return None
    found = [each for each in ast.walk(test) if ast.dump(each) == wanted]
    if len(found) != 1:
        return None
    copied = ast.parse(ast.unparse(test), mode="eval").body
    changed = _Replace(wanted, replaced).visit(copied)
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(nothing, changed)


class _Replace(ast.NodeTransformer):
    """Replace one expression by another."""

    def __init__(self, wanted: str, replaced: ast.expr) -> None:
        self._wanted, self._replaced = wanted, replaced

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and ast.dump(node) == self._wanted:
            return self._replaced
        return self.generic_visit(node)
