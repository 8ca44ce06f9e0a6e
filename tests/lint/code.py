"""Rules about sources: layers (tests/layering.py), names, packaging, and what tests may not do."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator

import messages
from messages.vocabulary import VOCABULARY
from tests import layering
from tests.layering import LAYERS, ROOT, Violation
from tests.lint.rules import Texts, rule, tests

TOP_LEVEL = frozenset(
    """actors messages spark zk_bridge tests docs pyproject.toml README.md LICENSE LICENSES CHANGELOG.md CONTRIBUTING.md
    SECURITY.md Makefile Dockerfile Dockerfile.java mkdocs.yml""".split()
)

WHEEL_NAMES = {layering.PUBLIC: "kafka_actors", "spark.public": "pyspark_kafka_actors"}
"""Packages that are public in the wheel, and their names there."""

MAY_SLEEP = {
    "tests/runtime/test_frozen_time.py": "it shows that asyncio's sleep ends under frozen time",
    "tests/soak/cluster.py": "faults are paced, and a paused node must outlast its session",
}

READERS = ("actors.explain", "actors.trace", "messages.facts", "spark")
DURATIONS = {
    "actors.explain.verdicts.TOGETHER": "which stops are one shutdown of the whole cluster",
    "actors.trace.otlp.QUIET": "when the span of an event is written",
    "spark.incidents.APART_SECONDS": "which rows of a report are listed as one incident",
    "spark.incidents.CLOSING_SECONDS": "which stops are the stop of the whole cluster",
}
"""The durations that readers of traces compare times with. None of them joins a cause with its effect."""
_TIME = re.compile(r"(.*_)?at|end|began|begin|since|until|now")

CONTEXT = "actors.core.controller.context"

NAMED_BEFORE = frozenset(
    """actors.cli.debug.changed actors.cli.debug.until actors.cli.group_admin._within actors.controller.controller._over
    actors.core.controller.states.into actors.core.coordinator.offsets.over actors.gateway.network._within
    actors.gateway.sliced_tasks.over actors.page.recorded_trace.limited actors.page.recorded_trace.linked
    actors.page.subject_histories.of actors.public.asynchronous.of actors.storage.log_manager._used
    actors.trace.reader.at messages.facts.controller_facts._over messages.log_results.named spark.incidents._over
    spark.timeline._within zk_bridge.jute.below""".split()
)
"""Commands, the public API, and functions older than their rule, because words change only where behaviour changes."""
_BARE = re.compile(
    r"_*((?!\w*(fe|ne|se|emb)ed)[a-z]+ed|above|after|among|at|before|behind|below|beside|between|by|during|from|in|into|of"
    r"|on|over|since|to|under|until|with|within)"
)
"""A participle or a preposition alone. The verbs feed, need, seed and embed only look like participles."""


@rule(example="from messages.wire import codec\nimport os, kazoo\nx = open('f')")
def imports_keep_to_their_layer(texts: Texts) -> Iterator[Violation]:
    """See LAYERS in tests/layering.py."""
    for module, source in texts.items():
        yield from layering.violations(module, source)


@rule(example={"elsewhere.made_up": ""})
def every_module_has_a_layer(texts: Texts) -> list[str]:
    """Add it to LAYERS in tests/layering.py."""
    return [module for module in texts if layering.longest(module, LAYERS) is None]


@rule()
def layers_are_declared_once_and_in_one_direction(texts: Texts) -> Iterator[object]:
    """Layers, kinds and exceptions that nothing needs go; layers form no circle."""
    yield from layering.unneeded(texts)
    yield from set(LAYERS) - set(texts)
    yield from {name for layer in LAYERS.values() for name in layer.layers} - set(LAYERS)
    yield from {kind for layer in LAYERS.values() for kind in layer.touches} - set(layering.KINDS)
    yield from map(sorted, layering.circles({name: layer.layers for name, layer in LAYERS.items()}))


@rule(example={"p": "from p.a import A", "p.a": "import p.b", "p.b": "if TYPE_CHECKING:\n    from p.a import A"})
def imports_form_no_circle(texts: Texts) -> Iterable[list[str]]:
    """Imports for type checking count, too."""
    return map(sorted, layering.circles(layering.graph(texts)))


@rule(example="import messages.trace")
def imports_of_our_packages_can_get_a_prefix(texts: Texts) -> list[str]:
    """Write `from package import name`: the wheel puts a prefix before the names of our packages."""
    return [f"{module}:{line}" for module, source in texts.items() for line in layering.bare_imports(source)]


@rule(example="def f(base):\n    base._queue.clear()")
def private_names_are_left_alone(texts: Texts) -> set[tuple[str, str]]:
    """See PRIVATE_NAMES in tests/layering.py."""
    used = {(module, name) for module, source in texts.items() for name in layering.private_uses(source)}
    return used ^ set(layering.PRIVATE_NAMES) if CONTEXT in texts else used


@rule(example="def f(x: int) -> Flow[list[Any]]: ...")
def flows_annotate_their_arguments(texts: Texts) -> set[tuple[str, str]]:
    """Name the types that a flow takes and returns."""
    vague = {(module, flow) for module, source in texts.items() for flow in layering.vague_flows(source)}
    shell = "actors.runtime.flow.flow"  # takes any message
    return vague - {(shell, "flow"), (shell, "event_failed")}


@rule()
def one_name_is_one_thing(texts: Texts) -> Iterator[str]:
    """See SHARED_CLASS_NAMES and SHARED_FILE_NAMES in tests/layering.py."""
    classes = [name for source in texts.values() for name in layering.class_names(source)]
    yield from layering.repeated(classes) ^ set(layering.SHARED_CLASS_NAMES)
    files = [file.stem for file in layering.sources() if not file.stem.startswith("__")]
    yield from layering.repeated(files) ^ set(layering.SHARED_FILE_NAMES)


@rule(example="def over(self): ...")
def functions_are_named_by_a_verb_or_a_noun(texts: Texts) -> set[str]:
    """Say what is done, or what is returned. A property may be an adjective."""
    found = {
        f"{module}.{node.name}"
        for module, source in texts.items()
        for node in layering.functions(source)
        if _BARE.fullmatch(node.name)
        if not any(ast.unparse(each).endswith("property") for each in node.decorator_list)
    }
    return found ^ NAMED_BEFORE if CONTEXT in texts else found


@rule()
def messages_are_unique_slotted_and_picklable(texts: Texts) -> Iterator[str]:
    """Thespian dispatches by the bare class name, and pickles by module and name."""
    for found in pkgutil.walk_packages(messages.__path__, "messages."):
        importlib.import_module(found.name)
    for name, cls in VOCABULARY.items():
        if getattr(importlib.import_module(cls.__module__), name) is not cls or "__dict__" in dir(cls):
            yield f"{cls.__module__}.{name}"
    names = [
        node.name
        for source in texts.values()
        if "@message" in source
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
        and any(isinstance(decorator, ast.Name) and decorator.id == "message" for decorator in node.decorator_list)
    ]
    yield from layering.repeated(names)


@rule()
def the_top_level_holds_only_what_is_prescribed(_: Texts) -> set[str]:
    """Put it into one of the packages."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    top = {line.split("/")[0] for line in listed.stdout.splitlines()}
    return {name for name in top if not name.startswith(".")} - TOP_LEVEL


@rule()
def every_package_is_packaged_and_typed(texts: Texts) -> Iterator[str]:
    """List it under [tool.setuptools] in pyproject.toml."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages = {layering.module_name(file) for file in layering.sources() if file.name == "__init__.py"}
    yield from set(setuptools["packages"]) ^ {WHEEL_NAMES.get(p, f"kafka_actors._internal.{p}") for p in packages}
    yield from {"py.typed"} - set(setuptools["package-data"]["*"])
    yield from (package for package in layering.PACKAGES if not (ROOT / package / "py.typed").exists())
    folders = {file.parent for file in (ROOT / "tests").rglob("*.py")}
    yield from (str(folder) for folder in folders if not (folder / "__init__.py").exists())


@rule(tests, example={"tests/example.py": "import time\ntime.sleep(0.1)"})
def no_test_sleeps(texts: Texts) -> set[str]:
    """Wait for a condition (tests/waiting.py)."""
    found = {file for file, source in texts.items() if "sleep" in source and layering.sleeps(source)}
    return found ^ set(MAY_SLEEP) if set(MAY_SLEEP) <= set(texts) else found


@rule(example={"actors.explain.example": "SOON = 0.5\ndef f(a, b):\n    return b.at - a.at < SOON or b.at < a.at + 1"})
def readers_join_facts_by_ids(texts: Texts) -> set[str]:
    """Join facts by event id, correlation id, version or epoch; or give the reason for a duration in DURATIONS."""
    found = set()
    for module, source in texts.items():
        if not module.startswith(READERS):
            continue
        tree = ast.parse(source)
        numbers = {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name) and type(node.value.value) in (int, float)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
                sides = [node.left, node.right]
            elif isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
            else:
                continue
            if any(_is_time(side) for side in sides):
                found |= {f"{module}.{side.id}" for side in sides if isinstance(side, ast.Name) and side.id in numbers}
                ends = any(isinstance(side, ast.Attribute) and side.attr == "end" for side in sides)  # of a log
                if isinstance(node, ast.BinOp) and not ends and any(isinstance(side, ast.Constant) for side in sides):
                    found.add(f"{module}:{node.lineno}")
    return found ^ set(DURATIONS) if "spark.incidents" in texts else found


def _is_time(node: ast.AST) -> bool:
    names = (getattr(each, "attr", getattr(each, "id", getattr(each, "value", ""))) for each in ast.walk(node))
    return any(isinstance(name, str) and _TIME.fullmatch(name) for name in names)
