"""Check the rules of `tests/layering.py`: imports, the top level, packaging, unique names.

Each rule is also tested with a source that violates it.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import tomllib

import pytest

import messages
from messages.vocabulary import VOCABULARY
from tests import layering
from tests.layering import LAYERS, ROOT, circles, graph, imports, module_name, naps, offences, sources, unneeded

MODULES = {module_name(file): file.read_text(encoding="utf-8") for file in sources()}
"""The source of every module of the product."""

TOP_LEVEL = {
    *("messages", "actors", "zk_bridge", "spark", "tests", "docs"),
    *(
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "LICENSES",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "Makefile",
    ),
    *("Dockerfile", "Dockerfile.java", "mkdocs.yml"),
}


WHEEL_NAMES = {layering.PUBLIC: "kafka_actors", "spark.public": "pyspark_kafka_actors"}
"""Packages that are public in the wheel, and their names there."""

PURE = ("messages", "messages.wire", "actors.core", "actors.core.controller", "actors.core.broker", "zk_bridge")

OUTSIDE = """
    time datetime calendar sched
    socket select selectors ssl asyncio socketserver http.client urllib.request
    os io pathlib shutil tempfile glob fcntl mmap
    random secrets uuid
    threading multiprocessing concurrent.futures _thread queue
    subprocess signal ctypes sys gc
    importlib inspect pkgutil
""".split()
"""Modules of the standard library that a pure layer may not import."""


@pytest.mark.parametrize("module", MODULES)
def test_imports_keep_the_contract(module: str) -> None:
    found = offences(module, MODULES[module])
    assert not found, "see LAYERS in tests/layering.py:\n" + "\n".join(map(str, found))


@pytest.mark.parametrize("layer", PURE)
@pytest.mark.parametrize("name", OUTSIDE)
def test_core_packages_have_no_side_effects(layer: str, name: str) -> None:
    top, _, attribute = name.rpartition(".")
    for source in (f"import {name}", f"from {name} import something", f"def f():\n    import {name} as harmless"):
        assert [each.what.startswith(name) for each in offences(f"{layer}.made_up", source)] == [True]
    if top:
        assert offences(f"{layer}.made_up", f"from {top} import {attribute}")


@pytest.mark.parametrize("layer", PURE)
@pytest.mark.parametrize("call", sorted(layering.IMPURE_BUILTINS))
def test_core_packages_call_nothing_impure(layer: str, call: str) -> None:
    (found,) = offences(f"{layer}.made_up", f"x = 1\ny = {call}(x)")
    assert (found.line, found.what) == (2, f"{call}()")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("messages.made_up", "actors.core.topic.topic_name"),
        ("messages.made_up", "messages.wire"),
        ("messages.made_up", "messages.trace.codec"),
        ("messages.made_up", "thespian.actors.Actor"),
        ("messages.wire.made_up", "messages.trace.codec"),
        ("messages.wire.made_up", "kafka.client"),
        ("messages.trace.made_up", "actors.core"),
        ("messages.trace.made_up", "time"),
        ("actors.core.controller.made_up", "messages.wire"),
        ("actors.core.controller.made_up", "messages.wire.codec.encode_request"),
        ("actors.core.controller.made_up", "messages.trace.codec"),
        ("actors.core.controller.made_up", "actors.core.broker.partition"),
        ("actors.core.broker.made_up", "actors.core.controller.context"),
        ("actors.core.made_up", "actors.core.controller.context"),
        ("actors.core.made_up", "actors.runtime"),
        ("actors.core.made_up", "thespian.actors"),
        ("actors.core.made_up", "kazoo.client"),
        ("actors.made_up", "actors.runtime"),
        ("actors.controller.made_up", "actors.broker.partition"),
        ("actors.controller.made_up", "actors.core.broker.partition"),
        ("actors.controller.made_up", "actors.gateway.network"),
        ("actors.controller.made_up", "messages.wire"),
        ("actors.controller.made_up", "zk_bridge.store"),
        ("actors.controller.made_up", "time"),
        ("actors.broker.made_up", "actors.controller.controller"),
        ("actors.broker.made_up", "messages.wire"),
        ("actors.broker.made_up", "socket"),
        ("actors.broker.made_up", "pathlib"),
        ("actors.broker.made_up", "datetime.datetime"),
        ("actors.gateway.made_up", "actors.core.topic.topic_name"),
        ("actors.gateway.made_up", "actors.broker.partition"),
        ("actors.gateway.made_up", "zk_bridge.core"),
        ("actors.gateway.made_up", "random"),
        ("actors.storage.made_up", "messages.requests"),
        ("actors.storage.made_up", "actors.runtime"),
        ("actors.storage.made_up", "socket"),
        ("actors.storage.made_up", "time"),
        ("actors.runtime.made_up", "actors.controller.controller"),
        ("actors.runtime.made_up", "messages.wire"),
        ("actors.runtime.made_up", "zk_bridge.store"),
        ("actors.node.made_up", "actors.cli"),
        ("actors.node.made_up", "spark.summary"),
        ("actors.cli.made_up", "tests.waiting"),
        ("actors.cli.made_up", "kazoo.client"),
        ("zk_bridge.made_up", "actors.core.controller.context"),
        ("zk_bridge.made_up", "messages.wire"),
        ("zk_bridge.made_up", "kazoo.client"),
        ("zk_bridge.made_up", "zk_bridge.kazoo_store"),
        ("zk_bridge.kazoo_store", "kazoo.client"),
        ("zk_bridge.made_up", "threading"),
        ("spark.made_up", "messages.requests"),
        ("spark.made_up", "actors.runtime.trace.replayer"),
        ("actors.cli.made_up", "some_library"),
        ("actors.cli.made_up", "turtle"),
        ("elsewhere.made_up", "attrs"),
    ],
)
def test_a_forbidden_import_is_named(module: str, name: str) -> None:
    package, _, attribute = name.rpartition(".")
    for source in (f"import {name}", *([f"from {package} import {attribute}"] if package else [])):
        (found,) = offences(module, f"\nif TYPE_CHECKING:\n    {source}")
        assert found.what in (name, module)
        assert str(found).startswith(f"{module}:")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("messages.made_up", "messages.vocabulary.message"),
        ("messages.wire.made_up", "struct"),
        ("actors.core.controller.made_up", "actors.core.topic.topic_name"),
        ("actors.core.controller.made_up", "collections.abc.Iterable"),
        ("actors.controller.made_up", "actors.core.controller.context"),
        ("actors.controller.made_up", "datetime.timedelta"),
        ("actors.broker.made_up", "actors.storage.log_directories"),
        ("actors.gateway.made_up", "asyncio"),
        ("zk_bridge.kazoo_client", "kazoo.client.KazooClient"),
    ],
)
def test_a_permitted_import_is_accepted(module: str, name: str) -> None:
    assert offences(module, f"from {name.rpartition('.')[0] or name} import {name.rpartition('.')[2]}") == []


def test_an_exception_is_for_one_module_and_one_name() -> None:
    allowed = {("zk_bridge.made_up", "kazoo.client"): "for this test"}
    assert offences("zk_bridge.made_up", "from kazoo.client import KazooClient", allowed) == []
    assert offences("zk_bridge.other", "from kazoo.client import KazooClient", allowed)
    assert offences("zk_bridge.made_up", "import kazoo", allowed)


def test_exceptions_are_needed() -> None:
    assert not unneeded(MODULES)


def test_an_unused_exception_is_named() -> None:
    exceptions = {("actors.core.a", "time"): "used", ("actors.core.a", "random"): "not", ("actors.core.b", "x"): "not"}
    assert unneeded({"actors.core.a": "import time, attrs"}, exceptions) == list(exceptions)[1:]


def test_imports_have_no_cycle() -> None:
    found = circles(graph(MODULES))
    assert not found, [sorted(circle) for circle in found]


def test_layers_import_each_other_in_one_direction() -> None:
    assert not circles({name: layer.layers for name, layer in LAYERS.items()})


def test_a_circle_is_named_whichever_way_it_is_closed() -> None:
    made_up = {
        "p": "from p.a import A",
        "p.a": "import p.b",
        "p.b": "from p import c",
        "p.c": "if TYPE_CHECKING:\n    from p.a import A",
        "p.d": "def late():\n    from p import A",
        "p.e": "import p.e",
    }
    assert graph(made_up) == {"p": {"p.a"}, "p.a": {"p.b"}, "p.b": {"p.c"}, "p.c": {"p.a"}, "p.d": {"p"}, "p.e": set()}
    assert circles(graph(made_up)) == {frozenset({"p.a", "p.b", "p.c"})}
    made_up["p.b"] += "\nimport p"
    assert circles(graph(made_up)) == {frozenset({"p", "p.a", "p.b", "p.c"})}


def test_imports_are_absolute() -> None:
    with pytest.raises(ValueError, match="line 2"):
        list(imports("x = 1\nfrom . import here"))
    with pytest.raises(ValueError, match="line 1"):
        list(imports("from .here import it", "actors.node.here"))
    (found,) = imports("from .here import it", f"{layering.PUBLIC}.there")
    assert found.name == f"{layering.PUBLIC}.here.it"


def test_imports_of_our_packages_can_have_a_prefix_in_the_wheel() -> None:
    assert {module for module, source in MODULES.items() if layering.bare_imports(source)} == set()
    assert layering.bare_imports("import os, messages.trace\nimport messages as m\nfrom messages import apis") == [1]


def test_layers_and_kinds_exist() -> None:
    assert set(LAYERS) <= set(MODULES)
    assert {name for layer in LAYERS.values() for name in layer.layers} <= set(LAYERS)
    assert {kind for layer in LAYERS.values() for kind in layer.touches} <= set(layering.KINDS)


def test_top_level_holds_only_what_is_prescribed() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    top = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert {name for name in top if not name.startswith(".")} <= TOP_LEVEL


def test_every_package_is_packaged() -> None:
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    packages = sorted(module_name(file) for file in sources() if file.name == "__init__.py")
    assert sorted(named) == sorted(WHEEL_NAMES.get(p, f"kafka_actors._internal.{p}") for p in packages)


def test_every_package_is_marked_as_typed() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert "py.typed" in data["*"]
    assert [package for package in layering.PACKAGES if not (ROOT / package / "py.typed").exists()] == []


def test_tests_are_packages() -> None:
    missing = {
        str(file.parent.relative_to(ROOT))
        for file in (ROOT / "tests").rglob("*.py")
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


def test_one_class_name_is_one_class() -> None:
    names = [name for source in MODULES.values() for name in layering.class_names(source)]
    assert layering.repeated(names) == set(layering.SHARED_CLASS_NAMES), "see SHARED_CLASS_NAMES in tests/layering.py"


def test_one_file_name_is_one_thing() -> None:
    names = [file.stem for file in sources() if not file.stem.startswith("__")]
    assert layering.repeated(names) == set(layering.SHARED_FILE_NAMES), "see SHARED_FILE_NAMES in tests/layering.py"


def test_a_repeated_class_name_is_found() -> None:
    assert layering.repeated(layering.class_names("class A: ...\ndef f():\n    class A: ...\nclass B: ...")) == {"A"}


MAY_NAP = {
    "tests/runtime/test_frozen_time.py": "it shows that asyncio's sleep ends under frozen time",
    "tests/soak/cluster.py": "faults are paced, and a paused node must outlast its session",
}


def test_no_test_sleeps() -> None:
    files = sorted((ROOT / "tests").rglob("*.py"))
    found = {str(file.relative_to(ROOT)): naps(file.read_text(encoding="utf-8")) for file in files}
    assert {file for file, lines in found.items() if lines} == set(MAY_NAP), "wait for a condition (tests/waiting.py)"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("import time\ntime.sleep(0.1)", [2]),
        ("async def f():\n    await asyncio.sleep(DELAY)", [2]),
        ("from time import sleep\nif x:\n    sleep(1)", [3]),
        ("while not seen:\n    time.sleep(0.1)", []),
        ("for _ in range(9):\n    if x:\n        await_it(asyncio.sleep(0.1))", []),
        ("time.sleep(0)", []),
    ],
)
def test_a_nap_is_found(source: str, lines: list[int]) -> None:
    assert naps(source) == lines


def test_private_names_are_left_alone() -> None:
    touched = {(module, name) for module, source in MODULES.items() for name in layering.intrusions(source)}
    assert touched == set(layering.PRIVATE_NAMES), "see PRIVATE_NAMES in tests/layering.py"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(base):\n    base._queue.clear()", {"_queue"}),
        ("class A:\n    def f(self):\n        self.base._queue = 1", {"_queue"}),
        ("class A:\n    def f(self, other):\n        self._x = other._x", set()),
        ("class A:\n    def _f(self): ...\nTABLE = {1: A._f}", set()),
        ("x._replace(a=1), x.__dict__, x.name", set()),
    ],
)
def test_an_intrusion_is_found(source: str, names: set[str]) -> None:
    assert layering.intrusions(source) == names


def test_flows_annotate_their_arguments() -> None:
    vague = {(module, flow) for module, source in MODULES.items() for flow in layering.vague_flows(source)}
    shell = "actors.runtime.flow.flow"  # takes any message
    assert vague == {(shell, "flow"), (shell, "event_failed")}


@pytest.mark.parametrize(
    ("source", "flows"),
    [
        ("def f(x: Any) -> Flow[None]: ...", ["f"]),
        ("def f(x: int) -> Flow[list[Any]]: ...", ["f"]),
        ("def f(x: int) -> Flow[None] | None: ...\ndef g(x: Any) -> None: ...", []),
    ],
)
def test_a_vague_flow_is_found(source: str, flows: list[str]) -> None:
    assert layering.vague_flows(source) == flows


def test_files_are_short() -> None:
    large = {
        module
        for module, source in MODULES.items()
        if layering.code_lines(source) > layering.MOST_LINES[layering.longest(module, layering.MOST_LINES) or ""]
    }
    assert large == set(layering.LARGE_FILES), "divide the file by its nouns (tests/layering.py, rule 10)"


def test_lines_of_code_are_counted_without_texts() -> None:
    source = '"""Text."""\n\nX = (\n    1,\n)\n"""About X."""\n\n\ndef f():\n    # why\n    return """a\nb"""\n'
    assert layering.code_lines(source) == 6


CONTEXT = "actors.core.controller.context"


def test_the_controller_context_owns_its_changes() -> None:
    owned = layering.attributes(MODULES[CONTEXT], "ControllerContext")
    assert {"active", "leadership", "replica_states", "offline_dirs", "deletions"} <= owned
    others = {module: source for module, source in MODULES.items() if module != CONTEXT}
    writes = {(module, line) for module, source in others.items() for line in layering.context_writes(source, owned)}
    assert not writes, "call a method of ControllerContext instead (tests/layering.py, rule 9)"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("def f(context):\n    context.epoch = 1\n    self.context.epoch += 1", {2, 3}),
        ("def f(step):\n    step.context.table[1] = 2\n    del self._context.table[1]", {2, 3}),
        ("def f(context):\n    context.table.pop(1)\n    context.table.get(1, {}).update(a=1)", {2, 3}),
        ("def f(context):\n    known = context.table.get(1)\n    known[2] = 3", {3}),
        ("def f(context):\n    for _, each in context.table.items():\n        each.clear()", {3}),
        ("def f(context):\n    a, context.epoch = 1, 2", {2}),
        ("def f(context):\n    known = dict(context.table)\n    known[2] = 3\n    context.other = 1", set()),
        ("def f(context):\n    known = context.table\ndef g(known):\n    known[2] = 3", set()),
    ],
)
def test_a_write_to_the_context_is_found(source: str, lines: set[int]) -> None:
    assert layering.context_writes(source, {"epoch", "table"}) == lines


def test_every_public_object_has_a_docstring() -> None:
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
