"""The plan of the house: which room may know which, and what of the outside. `test_house.py` holds the sources to it.

Rule 1: a module stands in the room whose name is its longest prefix; it may import its own room and those of `rooms`.
Rule 2: of other people's code it may import what `others` names, of the standard library what is harmless and the
        kinds named in `touches`. What no kind names may be imported by nobody: say in `KINDS` what it touches.
Rule 3: who decides touches nothing: a pure room (no `touches`) calls none of `IMPURE_BUILTINS` either.
Rule 4: nobody imports in a circle, not even for the types alone.
Rule 5: every exception names a module, what it imports, and why; one that nobody needs any more is an offence too.
Rule 6: nobody touches another's private names; what is to be allowed has a reason in `PRIVATE_NAMES`.
Rule 7: a flow says what it takes and what it returns: no `Any`.
Rule 8: imports are absolute; only the public face, which has another name outside, names itself by a dot. `import`
        of our own packages has an `as`, because the wheel puts a prefix before their names (.ci/build_backend.py).
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("actors", "messages", "spark", "zk_bridge")
PUBLIC = "actors.public"
"""What other people's programs import, as `kafka_actors`; it knows nothing of the house."""

KINDS: dict[str, str] = {
    "harmless": """__future__ abc array ast base64 bisect collections contextlib copy csv dataclasses difflib enum errno
                   functools hashlib heapq html itertools json keyword math operator re shlex string
                   struct textwrap types typing weakref zlib""",
    "log": "logging",
    "durations": "datetime.timedelta",
    "clocks": "calendar datetime sched time zoneinfo",
    "files": "fcntl fileinput glob io mmap os pathlib shutil stat tarfile tempfile zipfile",
    "sockets": "asyncio http select selectors socket socketserver ssl urllib wsgiref",
    "chance": "random secrets uuid",
    "threads": "_thread concurrent multiprocessing queue threading",
    "processes": "atexit ctypes gc platform pty resource signal subprocess sys traceback warnings",
    "code": "importlib inspect pkgutil runpy",
}
"""What modules of the standard library touch, by the longest prefix that is named."""

IMPURE_BUILTINS = frozenset("__import__ breakpoint compile eval exec hash id input open print".split())
"""Files, streams, code from text; `hash` and `id` differ from run to run, and what is decided by them with it."""


@attrs.frozen
class Layer:
    """What the modules of one package may import beside each other: rooms of ours, packages of others, kinds."""

    layers: frozenset[str] = attrs.field(converter=lambda names: frozenset(names.split()))
    others: frozenset[str] = attrs.field(converter=lambda names: frozenset(names.split()), default="")
    touches: frozenset[str] = attrs.field(converter=lambda names: frozenset(names.split()), default="")


_RULES = "messages actors.core"
_ACTORS = f"{_RULES} actors.runtime"
_EVERYTHING = "clocks durations files sockets chance threads processes code"

LAYERS: dict[str, Layer] = {
    # values
    "messages": Layer("", others="attrs msgspec"),
    "messages.zstd": Layer("", others="backports compression", touches="processes"),
    "messages.wire": Layer("messages messages.wire.layout messages.zstd", others="attrs crc32c cramjam"),
    "messages.wire.layout": Layer("messages.wire.schemas"),
    "messages.wire.schemas": Layer(""),
    "messages.trace": Layer(
        "messages messages.wire messages.zstd", others="attrs msgspec", touches="files durations code"
    ),
    # rules
    "actors.core": Layer("messages", others="attrs"),
    "actors.core.controller": Layer(_RULES, others="attrs"),
    "actors.core.broker": Layer(_RULES, others="attrs"),
    "actors.core.coordinator": Layer(_RULES, others="attrs"),
    "actors.core.transaction": Layer(f"{_RULES} actors.core.coordinator", others="attrs"),
    # actors
    "actors": Layer(""),
    "actors.public": Layer("", others="pytest", touches=_EVERYTHING),
    "actors.public.simulated": Layer(
        "messages messages.trace actors.public actors.node actors.simulation", touches=_EVERYTHING
    ),
    "actors.controller": Layer(f"{_ACTORS} actors.core.controller", others="thespian", touches="durations"),
    "actors.broker": Layer(
        f"{_ACTORS} actors.core.broker actors.storage", others="attrs thespian", touches="durations"
    ),
    "actors.coordinator": Layer(f"{_ACTORS} actors.core.coordinator actors.core.transaction", others="attrs thespian"),
    "actors.gateway": Layer(
        "messages messages.wire actors.runtime actors.gateway.request_faults",
        others="thespian",
        touches="sockets threads files durations",
    ),
    "actors.gateway.request_faults": Layer("messages", others="attrs", touches="chance"),
    "actors.storage": Layer("messages.wire", others="attrs crc32c", touches="files"),
    "actors.runtime": Layer("messages messages.trace messages.zstd", others="thespian", touches=_EVERYTHING),
    # ZooKeeper
    "zk_bridge": Layer("messages actors.runtime", others="thespian"),
    "zk_bridge.kazoo_client": Layer("messages zk_bridge", others="kazoo", touches="threads clocks"),
    "zk_bridge.kazoo_store": Layer("messages zk_bridge zk_bridge.kazoo_client", touches="threads"),
    "zk_bridge.client": Layer("messages zk_bridge zk_bridge.kazoo_store actors.runtime", touches="threads clocks"),
    "zk_bridge.embedded": Layer("zk_bridge zk_bridge.guardian", touches=_EVERYTHING),
    "zk_bridge.guardian": Layer("", touches=_EVERYTHING),
    # where it is put together, and looked at
    "actors.node": Layer(
        f"{_RULES} actors.controller actors.broker actors.coordinator actors.gateway actors.storage"
        " actors.gateway.request_faults actors.runtime"
        " zk_bridge zk_bridge.kazoo_store",
        others="attrs thespian",
        touches=_EVERYTHING,
    ),
    "actors.simulation": Layer(
        f"{_RULES} messages.wire actors.core.controller actors.core.coordinator actors.broker actors.controller"
        " actors.coordinator actors.gateway actors.node actors.runtime actors.storage zk_bridge zk_bridge.client",
        others="attrs thespian",
        touches="files chance threads code",
    ),
    "actors.explain": Layer("messages messages.trace actors.core.controller"),
    "actors.cli": Layer(
        f"{_RULES} messages.wire messages.trace actors.core.controller actors.core.broker actors.core.coordinator"
        " actors.explain actors.node actors.runtime actors.simulation actors.storage"
        " zk_bridge zk_bridge.client zk_bridge.embedded zk_bridge.guardian spark",
        others="click rich prometheus_client",
        touches=_EVERYTHING,
    ),
    "spark": Layer(
        "messages.trace spark.questions",
        others="jinja2 markupsafe msgspec plotly pyarrow pyspark",
        touches="files processes threads clocks code",
    ),
    "spark.questions": Layer("", others="pyspark"),
    "spark.public": Layer("spark", others="pyspark"),
}

ADDRESS = "a message may carry the address of who is to be answered: of Thespian the messages know that value alone"

HEADERS = "a batch is a header, which is a value, and a body: the log takes and gives both"

EXCEPTIONS: dict[tuple[str, str], str] = {
    ("messages.broker", "thespian.actors.ActorAddress"): ADDRESS,
    ("messages.channel", "thespian.actors.ActorAddress"): ADDRESS,
    ("messages.conversation", "thespian.actors.ActorAddress"): ADDRESS,
    ("messages.node", "thespian.actors.ActorAddress"): ADDRESS,
    ("messages.runtime", "thespian.actors.ActorAddress"): ADDRESS,
    ("messages.trace.codec", "thespian.actors.ActorAddress"): ADDRESS,
    ("messages.trace.names", "thespian.actors.ActorAddress"): ADDRESS,
    ("messages.trace.thespian", "thespian.actors"): "Thespian's own messages are recorded like ours",
    ("messages.groups", "thespian.actors.ActorAddress"): ADDRESS,
    ("messages.partition", "thespian.actors.ActorAddress"): ADDRESS,
    ("messages.transactions", "thespian.actors.ActorAddress"): ADDRESS,
    (
        "actors.coordinator.group",
        "messages.wire.record_batch.batch_of",
    ): "who writes a log writes batches, as any producer does",
    (
        "actors.coordinator.transactions",
        "messages.wire.record_batch.batch_of",
    ): "who writes a log writes batches, as any producer does",
    ("actors.storage.log_manager", "messages.records"): HEADERS,
    ("actors.storage.log.log", "messages.records"): HEADERS,
    ("actors.storage.log.segment", "messages.records"): HEADERS,
    ("actors.storage.log.producers", "messages.records"): HEADERS,
    ("actors.storage.log.region", "messages.records"): "a region is what a body may be in place of bytes",
    ("actors.gateway.store", "zk_bridge.store"): "the gateway to ZooKeeper stands before a store: its Protocol",
    ("actors.gateway.metrics", "prometheus_client"): "one owner of the library that serves the metrics",
    ("actors.gateway.counters", "prometheus_client"): "what the library lacks, in its form",
    ("actors.storage.log_directories", "messages.cluster.MAX_LOG_NAME"): "how long a log's name may be is said once",
    ("messages.wire.compiler", "compile()"): "what reads and writes a layout is generated as source",
    ("messages.wire.compiler", "exec()"): "what reads and writes a layout is generated as source",
    ("messages.vocabulary", "exec()"): "a maker sets its class's fields by name, each in a statement of its own",
}
"""(module, what it imports or calls beyond its room's rule): why."""


SHARED_FILE_NAMES: dict[str, str] = {
    **dict.fromkeys(
        """auto_topic_creation channel cluster config_requests controller conversation events group metadata_cache
        metrics network node partition parts replica_manager snapshots state store topic_deletion
        transactions""".split(),
        "one thing in several layers: its messages, its rules (actors.core), its actor, questions about it (spark)",
    ),
    **dict.fromkeys(
        """brokers cluster configs controller leader_elections notifications partition_states reassignments
        topic_deletion topics""".split(),
        "one znode in several layers: questions (messages.zookeeper), conversations (zk_bridge), bytes (znodes)",
    ),
    **dict.fromkeys(
        "broker configs leader_election log_dirs summary topic_admin topics".split(),
        "a command of `kafka-actors` has a module of its name in actors.cli, whatever does the work",
    ),
    "codec": "each format has its codec: bytes of the wire, records of a trace",
    "disk": "the simulated disk takes the place of the real one",
    "errors": "the exceptions of a package",
    "ports": "runtime has the mechanism, node has the ports of a node",
    "validation": "the controller's and the broker's knowledge are checked alike",
}
"""File names that occur in more than one package: why they mean the same there (docs/contributing/layout.md)."""

SHARED_CLASS_NAMES: dict[str, str] = {
    "ClusterError": "raised in the fixture's process, and again in the user's, which imports no internal package",
    "UnknownPartition": "raised in the fixture's process, and again in the user's, which imports no internal package",
}
"""Class names that are defined more than once: why."""


@attrs.frozen
class Import:
    """One imported name: the line, and its full dotted name (`from a import b` imports `a.b`)."""

    line: int
    name: str


def module_name(file: Path) -> str:
    """The dotted name of a source file of the house."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources() -> list[Path]:
    """Every source file of the product."""
    return sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))


def imports(source: str, module: str = "") -> Iterator[Import]:
    """Everything that the source of `module` imports, wherever in it. Raises ValueError for what rule 8 forbids."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level and not (node.level == 1 and node.module and within(module, PUBLIC)):
                raise ValueError(f"line {node.lineno}: imports are absolute here")
            whence = f"{PUBLIC}.{node.module}" if node.level else node.module
            yield from (Import(node.lineno, f"{whence}.{alias.name}") for alias in node.names)


def bare_imports(source: str) -> list[int]:
    """The lines that import one of our packages without `as` (rule 8)."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import)
        and any(alias.asname is None and alias.name.split(".")[0] in PACKAGES for alias in node.names)
    ]


def class_names(source: str) -> list[str]:
    """The classes that a source defines, wherever in it."""
    return [node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]


def repeated(names: Iterable[str]) -> set[str]:
    """The names that occur more than once."""
    return {name for name, count in Counter(names).items() if count > 1}


def within(name: str, package: str) -> bool:
    """Is `name` the package, or something in it?"""
    return name == package or name.startswith(package + ".")


def longest(name: str, packages: Iterable[str]) -> str | None:
    """The longest of the packages that `name` is within."""
    return max((package for package in packages if within(name, package)), key=len, default=None)


def kind_of(name: str) -> str | None:
    """What a name of the standard library touches; None for one that no kind names."""
    named = {prefix: kind for kind, prefixes in KINDS.items() for prefix in prefixes.split()}
    return named.get(longest(name, named) or "")


@attrs.frozen
class Offence:
    """What a source does that its room may not: the line, what (a dotted name, or `open()`), and the rule."""

    module: str
    line: int
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.what}: {self.why}"


def offences(module: str, source: str, exceptions: Collection[tuple[str, str]] = EXCEPTIONS) -> list[Offence]:
    """What a source may not do as `module`."""
    own = longest(module, LAYERS)
    if own is None:
        return [Offence(module, 1, module, "it stands in no room")]
    found = [
        Offence(module, imported.line, imported.name, why)
        for imported in imports(source, module)
        if (why := _why_not(own, LAYERS[own], imported.name))
    ]
    if not LAYERS[own].touches:
        found += [
            Offence(module, node.lineno, f"{node.func.id}()", f"{own} is pure")
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_BUILTINS
        ]
    return [each for each in found if not any(by == module and within(each.what, what) for by, what in exceptions)]


def _why_not(own: str, layer: Layer, name: str) -> str | None:
    top = name.split(".")[0]
    if top in PACKAGES:
        theirs = longest(name, LAYERS)
        known = ", ".join(sorted(layer.layers)) or "no other room"
        return None if theirs == own or theirs in layer.layers else f"{own} may know {known}"
    if longest(name, layer.others):
        return None
    kind = kind_of(name)
    if kind is None:
        return "no room for it" if top not in sys.stdlib_module_names else "say in KINDS what it touches"
    if kind in ("harmless", "log") or kind in layer.touches:
        return None
    return f"{kind} are not for {own}"


def unneeded(modules: Mapping[str, str], exceptions: Collection[tuple[str, str]] = EXCEPTIONS) -> list[tuple[str, str]]:
    """The exceptions that no module needs: what they allow is not done, or allowed anyway."""
    done = {by: [each.what for each in offences(by, modules.get(by, ""), ())] for by, _ in exceptions}
    return [(by, what) for by, what in exceptions if not any(within(each, what) for each in done[by])]


def graph(modules: Mapping[str, str]) -> dict[str, set[str]]:
    """Who imports whom among the modules (dotted name -> source), those for the types alone included."""
    return {
        module: {
            known for found in imports(source, module) if (known := longest(found.name, modules)) and known != module
        }
        for module, source in modules.items()
    }


def circles(edges: Mapping[str, Iterable[str]]) -> set[frozenset[str]]:
    """The largest sets of nodes in which each can be reached from each other one (two nodes at least)."""
    reach = {node: _reachable(node, edges) for node in edges}
    return {
        frozenset({node} | {other for other in reach[node] if node in reach[other]})
        for node in edges
        if node in reach[node]
    }


def _reachable(node: str, edges: Mapping[str, Iterable[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(edges[node])
    while waiting:
        other = waiting.pop()
        if other not in found:
            found.add(other)
            waiting += edges[other]
    return found


def naps(source: str) -> list[int]:
    """Lines on which time is let pass and nobody looks again: a `sleep` of more than 0 that no loop is around."""
    tree = ast.parse(source)
    looping = {
        inner
        for loop in ast.walk(tree)
        if isinstance(loop, ast.For | ast.AsyncFor | ast.While)
        for inner in ast.walk(loop)
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] == "sleep"
        and not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
        and node not in looping
    ]


PRIVATE_NAMES: dict[tuple[str, str], str] = {
    ("actors.runtime.base", "_myRef"): "where Thespian's actors expect their reference",
    ("actors.runtime.state", "_name"): "of a port: its other names are those of its calls",
    ("messages.trace.codec", "_aaddr"): "what is behind one of Thespian's addresses, which has no other door",
    ("messages.trace.text", "_aaddr"): "what is behind one of Thespian's addresses, which has no other door",
    ("zk_bridge.kazoo_client", "_pending"): "kazoo's connection is this module's own, in its stead",
    ("zk_bridge.kazoo_client", "_session_timeout"): "kazoo's connection is this module's own, in its stead",
    ("actors.runtime.aside", "_exit"): "a child that was forked ends so",
    ("spark.apart", "_exit"): "a child that was forked ends so",
    (
        "spark.archive",
        "_gateway",
    ): "Spark's JVM is ended in order, so that it writes its classes",
    ("spark.session", "_jvm"): "where names are kept that PySpark would look up in all jars, each time",
}
"""(module, private name of somebody else's): why."""

_NAMED_TUPLES = frozenset("_asdict _fields _make _replace".split())


def intrusions(source: str) -> set[str]:
    """Private names that are touched as `x._name`, where nothing in the source itself is called so."""
    nodes = list(ast.walk(ast.parse(source)))
    touched = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls", "super()")
    }
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    own |= {
        node.attr for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "cls")
    }
    own |= {node.target.id for node in nodes if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    private = {name for name in touched if name.startswith("_") and not name.startswith("__")}
    return private - own - _NAMED_TUPLES


def vague_flows(source: str) -> list[str]:
    """The flows whose signatures say `Any`."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.returns is not None
        if ast.unparse(node.returns).startswith("Flow[")
        if "Any" in {each.id for each in ast.walk(node.args) if isinstance(each, ast.Name)}
        or "Any" in {each.id for each in ast.walk(node.returns) if isinstance(each, ast.Name)}
    ]
