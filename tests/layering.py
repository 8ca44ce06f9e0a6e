"""Package layers: what each package may import, of this project and of others. `tests/lint/code.py` checks the sources.

Rule 1: a module belongs to the layer with the longest matching name. It may import its own layer and those in `layers`.
Rule 2: from other projects it may import what `others` names; from the standard library, harmless modules and the
        kinds in `touches`. A module of no kind may not be imported: add it to `KINDS` first.
Rule 3: pure layers (without `touches`) do not call `IMPURE_BUILTINS` either.
Rule 4: imports form no cycle, imports for type checking included.
Rule 5: every exception names the module, what it imports, and the reason; one that is not needed is reported.
Rule 6: no module uses private names of another one; exceptions and their reasons are in `PRIVATE_NAMES`.
Rule 7: a flow declares the types that it takes and returns, without `Any`.
Rule 8: imports are absolute, except inside the public package, whose installed name differs. `import` of our own
        packages has an `as`, because the wheel puts a prefix before their names (.ci/build_backend.py).
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("actors", "messages", "spark", "zk_bridge")
PUBLIC = "actors.public"
"""The package that users import as `kafka_actors`; it imports no other layer at module level."""

KINDS: dict[str, str] = {
    "harmless": """__future__ abc array ast base64 bisect collections contextlib copy csv dataclasses decimal difflib
                   enum errno functools hashlib heapq hmac html ipaddress itertools json keyword math operator re shlex
                   string struct textwrap types typing weakref zlib _md5""",
    "log": "logging",
    "durations": "datetime.timedelta",
    "clocks": "calendar datetime sched time zoneinfo",
    "files": "bz2 fcntl fileinput glob gzip io mmap os pathlib shutil stat tarfile tempfile zipfile",
    "sockets": "asyncio http select selectors socket socketserver ssl urllib wsgiref",
    "randomness": "random secrets uuid",
    "threads": "_thread concurrent multiprocessing queue threading",
    "processes": "atexit ctypes gc platform pty resource signal subprocess sys traceback warnings",
    "code": "importlib inspect pkgutil runpy",
}
"""Kinds of modules of the standard library. The longest matching prefix decides."""

IMPURE_BUILTINS = frozenset("__import__ breakpoint compile eval exec hash id input open print".split())
"""Builtins with I/O or generated code; `hash` and `id` differ between runs."""


@attrs.frozen
class Layer:
    """What modules of one layer may import: other layers, packages of other projects, kinds of the standard library."""

    layers: frozenset[str] = attrs.field(converter=lambda names: frozenset(names.split()))
    others: frozenset[str] = attrs.field(converter=lambda names: frozenset(names.split()), default="")
    touches: frozenset[str] = attrs.field(converter=lambda names: frozenset(names.split()), default="")


_RULES = "messages actors.core actors.core.config actors.core.topic"
_ACTORS = f"{_RULES} actors.runtime"
_EVERYTHING = "clocks durations files sockets randomness threads processes code"

LAYERS: dict[str, Layer] = {
    # values
    "messages": Layer("", others="attrs msgspec"),
    "messages.wire.zstd": Layer("", others="backports compression", touches="processes"),
    "messages.wire": Layer("messages messages.wire.layout messages.wire.zstd", others="attrs crc32c cramjam"),
    "messages.wire.layout": Layer("messages.wire.schemas"),
    "messages.wire.schemas": Layer(""),
    "messages.trace": Layer(
        "messages messages.wire messages.wire.zstd", others="attrs msgspec", touches="durations code threads"
    ),
    "messages.trace.files": Layer("messages messages.trace", others="attrs msgspec", touches="files"),
    "messages.facts": Layer("messages messages.trace messages.trace.files", others="attrs msgspec thespian"),
    # rules
    "actors.core": Layer("messages", others="attrs"),
    "actors.core.config": Layer("messages actors.core", others="attrs"),
    "actors.core.topic": Layer("messages actors.core", others="attrs"),
    "actors.core.security": Layer("messages actors.core", others="attrs"),
    "actors.core.controller": Layer(_RULES, others="attrs"),
    "actors.core.broker": Layer(_RULES, others="attrs"),
    "actors.core.coordinator": Layer(_RULES, others="attrs"),
    "actors.core.transaction": Layer(f"{_RULES} actors.core.coordinator", others="attrs"),
    # actors
    "actors": Layer(""),
    "actors.public": Layer("actors.public.operations", others="pytest", touches=_EVERYTHING),
    "actors.public.operations": Layer("", touches="files sockets"),
    "actors.public.simulated": Layer(
        "messages messages.trace actors.public actors.public.operations actors.gateway.request_faults actors.node"
        " actors.simulation",
        touches=_EVERYTHING,
    ),
    "actors.public.trace": Layer("messages.trace messages.trace.files actors.trace", touches="files"),
    "actors.controller": Layer(f"{_ACTORS} actors.core.controller", others="thespian", touches="durations"),
    "actors.broker": Layer(
        f"{_ACTORS} actors.core.broker actors.core.security actors.storage",
        others="attrs thespian",
        touches="durations",
    ),
    "actors.coordinator": Layer(f"{_ACTORS} actors.core.coordinator actors.core.transaction", others="attrs thespian"),
    "actors.gateway": Layer(
        "messages messages.wire actors.core actors.core.security actors.runtime actors.gateway.request_faults",
        others="thespian",
        touches="sockets threads files durations",
    ),
    "actors.gateway.request_faults": Layer("messages messages.wire", others="attrs", touches="randomness"),
    "actors.storage": Layer("messages.wire", others="attrs", touches="files"),
    "actors.runtime": Layer(
        "messages actors.runtime.kernel actors.runtime.thespian actors.runtime.flow actors.runtime.trace"
    ),
    "actors.runtime.kernel": Layer("messages", others="thespian", touches="clocks durations sockets threads processes"),
    "actors.runtime.thespian": Layer(
        "messages actors.runtime.kernel",
        others="thespian",
        touches="clocks durations files sockets threads processes code",
    ),
    "actors.runtime.flow": Layer("messages actors.runtime.thespian", others="thespian"),
    "actors.runtime.trace": Layer(
        "messages messages.trace messages.trace.files messages.wire.zstd actors.runtime.kernel actors.runtime.thespian",
        others="thespian",
        touches="clocks files sockets processes code",
    ),
    # ZooKeeper
    "zk_bridge": Layer("messages actors.runtime actors.runtime.flow", others="thespian"),
    "zk_bridge.kazoo_client": Layer("messages actors.runtime zk_bridge", others="kazoo", touches="threads clocks"),
    "zk_bridge.kazoo_store": Layer("messages zk_bridge zk_bridge.kazoo_client", touches="threads"),
    "zk_bridge.client": Layer("messages zk_bridge zk_bridge.kazoo_store", touches="threads clocks"),
    "zk_bridge.embedded": Layer("zk_bridge zk_bridge.guardian", touches=_EVERYTHING),
    "zk_bridge.guardian": Layer("", touches=_EVERYTHING),
    # assembly and tools
    "actors.node": Layer(
        f"{_RULES} actors.core.security actors.controller actors.broker actors.coordinator actors.gateway"
        " actors.storage messages.wire"
        " actors.gateway.request_faults actors.runtime actors.runtime.kernel actors.runtime.trace"
        " actors.public.operations zk_bridge zk_bridge.client zk_bridge.kazoo_store",
        others="attrs cryptography javaproperties thespian",
        touches=_EVERYTHING,
    ),
    "actors.simulation": Layer(
        f"{_RULES} messages.wire actors.core.controller actors.core.coordinator actors.core.security"
        " actors.core.transaction actors.broker actors.controller actors.coordinator actors.gateway actors.node"
        " actors.runtime actors.runtime.trace actors.storage zk_bridge"
        " zk_bridge.client messages.trace messages.trace.files",
        others="attrs thespian",
        touches="files randomness threads code",
    ),
    "actors.explain": Layer("messages messages.facts messages.trace messages.trace.files"),
    "actors.trace": Layer(
        "messages messages.facts messages.trace messages.trace.files actors.explain actors.node actors.runtime.thespian"
        " actors.runtime.trace spark",
        others="msgspec pyarrow",
        touches="clocks files code",
    ),
    "actors.page": Layer(
        "messages messages.facts messages.trace messages.trace.files actors.explain actors.gateway actors.node"
        " actors.public.operations actors.trace",
        others="attrs",
        touches="files sockets randomness threads",
    ),
    "actors.cli": Layer(
        f"{_RULES} messages.wire messages.facts messages.trace messages.trace.files"
        " actors.core.controller actors.core.coordinator actors.core.security actors.core.transaction actors.explain"
        " actors.node actors.page actors.public.operations actors.runtime.trace actors.simulation actors.storage"
        " actors.trace zk_bridge zk_bridge.client zk_bridge.embedded zk_bridge.guardian spark spark.results",
        others="attrs click rich prometheus_client",
        touches=_EVERYTHING,
    ),
    "spark": Layer(
        "messages messages.facts messages.trace messages.trace.files spark.questions spark.results",
        others="jinja2 markupsafe msgspec pyarrow pyspark",
        touches="files processes threads clocks code",
    ),
    "spark.questions": Layer("messages messages.facts spark.results", others="pyspark"),
    "spark.results": Layer(""),
    "spark.public": Layer("spark", others="pyspark"),
}

ADDRESS = "a message may contain the address of the actor to reply to"

HEADERS = "the log appends and returns batches, whose headers are values of this module"

LOG_DIRECTORIES = "the table of logs and their directories has no I/O after its load"

EXCEPTIONS: dict[tuple[str, str], str] = {
    ("actors.core.security.listener_security", "ssl.SSLContext"): "a listener's keys are in a context of OpenSSL",
    ("messages.broker", "thespian.actors.ActorAddress"): ADDRESS,
    ("messages.channel", "thespian.actors.ActorAddress"): ADDRESS,
    ("messages.flow.conversation", "thespian.actors.ActorAddress"): ADDRESS,
    ("messages.network", "thespian.actors.ActorAddress"): ADDRESS,
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
    ): "a coordinator writes batches to its log, as a producer does",
    (
        "actors.coordinator.transactions",
        "messages.wire.record_batch.batch_of",
    ): "a coordinator writes batches to its log, as a producer does",
    ("actors.storage.log_manager", "messages.records"): HEADERS,
    (
        "actors.storage.log_manager",
        "actors.core.broker.replication_quota.ReplicationQuota",
    ): "the rate of copies has the same rule as that of replication",
    ("actors.storage.log_manager", "messages.log_cleaner"): "the states of a cleaning are numbers that actors compare",
    ("actors.storage.log.log", "messages.records"): HEADERS,
    ("actors.storage.log.cleaner", "messages.records"): HEADERS,
    ("actors.storage.log.segment", "messages.records"): HEADERS,
    ("actors.storage.log.producers", "messages.records"): HEADERS,
    ("actors.storage.log.region", "messages.records"): "a batch's body is bytes or a region of a file",
    ("actors.core.broker.hosting", "actors.storage.log_directories.LogDirectories"): LOG_DIRECTORIES,
    ("actors.core.broker.log_dirs", "actors.storage.log_directories.LogDirectories"): LOG_DIRECTORIES,
    ("actors.gateway.store", "zk_bridge.store"): "the gateway to ZooKeeper needs the protocol class of a store",
    ("actors.gateway.metrics", "prometheus_client"): "the only module that serves metrics",
    (
        "actors.storage.log_directories",
        "messages.cluster.MAX_LOG_NAME",
    ): "the maximum length of a log's name has one definition",
    ("messages.apis", "importlib"): "the table of APIs collects the declarations of its modules",
    ("messages.apis", "pkgutil"): "the table of APIs collects the declarations of its modules",
    ("messages.wire.compiler", "compile()"): "readers and writers of a layout are generated source",
    ("messages.wire.compiler", "exec()"): "readers and writers of a layout are generated source",
    ("messages.vocabulary", "exec()"): "a generated constructor has one statement for each field",
}
"""(module, import or call that its layer does not permit): the reason for the exception."""


SHARED_FILE_NAMES: dict[str, str] = {
    **dict.fromkeys(
        """acls auto_topic_creation channel client_quotas cluster config_requests controller delegation_tokens
        delete_records events group log_cleaner metadata_cache metrics network node partition parts replica_manager
        snapshots state store topic_deletion transactions""".split(),
        "one noun in several layers: its messages, rules (actors.core), actor, Spark questions",
    ),
    **dict.fromkeys(
        """brokers cluster configs controller leader_elections notifications partition_states reassignments
        topic_deletion topics""".split(),
        "one znode in several layers: requests (messages.zookeeper), conversations and bytes (zk_bridge)",
    ),
    **dict.fromkeys(
        "broker configs log_dirs summary topics".split(),
        "each command of `kafka-actors` has a module of its name in actors.cli",
    ),
    "trace": "the command, and what other programs import for the same: both are of actors.trace",
    "codec": "each format has its codec: bytes of the wire, records of a trace",
    "disk": "the simulated disk replaces the real one",
    "errors": "the exceptions of a package",
    "validation": "consistency checks of the controller's and the broker's state",
}
"""File names that occur in more than one package, and why (docs/contributing/layout.md)."""

COMPILED = ("messages.wire._walk",)
"""Modules in C."""

SHARED_CLASS_NAMES: dict[str, str] = {}
"""Class names that are defined more than once, and why."""


@attrs.frozen
class Import:
    """One imported name: the line, and its full dotted name (`from a import b` imports `a.b`)."""

    line: int
    name: str


def module_name(file: Path) -> str:
    """Return the dotted module name of a source file."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources() -> list[Path]:
    """List the source files of the product."""
    return sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))


_tree = cache(ast.parse)
"""Several rules read each source."""


@cache
def _nodes(source: str) -> list[ast.AST]:
    return list(ast.walk(_tree(source)))


def imports(source: str, module: str = "") -> Iterator[Import]:
    """Yield all imports of `module`, also nested ones. Raises ValueError for a relative import (rule 8)."""
    for node in _nodes(source):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level and not (node.level == 1 and node.module and within(module, PUBLIC)):
                raise ValueError(f"line {node.lineno}: imports are absolute here")
            whence = f"{PUBLIC}.{node.module}" if node.level else node.module
            yield from (Import(node.lineno, f"{whence}.{alias.name}") for alias in node.names)


def bare_imports(source: str) -> list[int]:
    """Return the lines that import one of our packages without `as` (rule 8)."""
    return [
        node.lineno
        for node in _nodes(source)
        if isinstance(node, ast.Import)
        and any(alias.asname is None and alias.name.split(".")[0] in PACKAGES for alias in node.names)
    ]


def class_names(source: str) -> list[str]:
    """List the classes that a source defines, also nested ones."""
    return [node.name for node in _nodes(source) if isinstance(node, ast.ClassDef)]


def functions(source: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """List the functions that a source defines, also nested ones and methods."""
    return [node for node in _nodes(source) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def repeated(names: Iterable[str]) -> set[str]:
    """Return the names that occur more than once."""
    return {name for name, count in Counter(names).items() if count > 1}


def within(name: str, package: str) -> bool:
    """Return whether `name` is the package or a member of it."""
    return name == package or name.startswith(package + ".")


def longest(name: str, packages: Iterable[str]) -> str | None:
    """Return the longest of the packages that contain `name`."""
    return max((package for package in packages if within(name, package)), key=len, default=None)


def kind_of(name: str) -> str | None:
    """Return the kind of a standard library name; None if KINDS does not contain it."""
    named = {prefix: kind for kind, prefixes in KINDS.items() for prefix in prefixes.split()}
    return named.get(longest(name, named) or "")


@attrs.frozen
class Violation:
    """A violation of a rule: the module, the line, the dotted name or call, and the rule."""

    module: str
    line: int
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.what}: {self.why}"


def violations(module: str, source: str, exceptions: Collection[tuple[str, str]] = EXCEPTIONS) -> list[Violation]:
    """List the violations in a source that is imported as `module`."""
    own = longest(module, LAYERS)
    if own is None:
        return [Violation(module, 1, module, "belongs to no layer: add it to LAYERS")]
    found = [
        Violation(module, imported.line, imported.name, why)
        for imported in imports(source, module)
        if (why := _reason(own, LAYERS[own], imported.name))
    ]
    if not LAYERS[own].touches:
        found += [
            Violation(module, node.lineno, f"{node.func.id}()", f"{own} is pure")
            for node in _nodes(source)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_BUILTINS
        ]
    return [each for each in found if not any(by == module and within(each.what, what) for by, what in exceptions)]


def _reason(own: str, layer: Layer, name: str) -> str | None:
    top = name.split(".")[0]
    if top in PACKAGES:
        theirs = longest(name, LAYERS)
        known = ", ".join(sorted(layer.layers)) or "no other layer"
        return None if theirs == own or theirs in layer.layers else f"{own} may import {known}"
    if longest(name, layer.others):
        return None
    kind = kind_of(name)
    if kind is None:
        return "is in `others` of no layer" if top not in sys.stdlib_module_names else "is not in KINDS"
    if kind in ("harmless", "log") or kind in layer.touches:
        return None
    return f"{own} may not use {kind}"


def unneeded(modules: Mapping[str, str], exceptions: Collection[tuple[str, str]] = EXCEPTIONS) -> list[tuple[str, str]]:
    """List the exceptions that no module needs."""
    done = {by: [each.what for each in violations(by, modules.get(by, ""), ())] for by, _ in exceptions}
    return [(by, what) for by, what in exceptions if not any(within(each, what) for each in done[by])]


def graph(modules: Mapping[str, str]) -> dict[str, set[str]]:
    """Map each module to the modules that it imports, imports for type checking included.

    Compiled modules import no others.

    Args:
        modules: The source of each module by its dotted name.
    """
    names = {*modules, *COMPILED}
    return {
        module: {
            known for found in imports(source, module) if (known := longest(found.name, names)) and known != module
        }
        for module, source in {**modules, **dict.fromkeys(COMPILED, "")}.items()
    }


def circles(edges: Mapping[str, Iterable[str]]) -> set[frozenset[str]]:
    """Return the strongly connected components that have at least two nodes."""
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


def sleeps(source: str) -> list[int]:
    """Return the lines with a `sleep` of more than 0 outside a loop: such code waits without a condition."""
    tree = _tree(source)
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
    ("actors.runtime.thespian.base", "_myRef"): "the attribute that Thespian's actors read",
    ("actors.runtime.trace.state", "_name"): "an I/O adapter's name; its public names are its calls",
    ("messages.trace.codec", "_aaddr"): "Thespian's address has no public name for its value",
    ("messages.trace.text", "_aaddr"): "Thespian's address has no public name for its value",
    ("zk_bridge.kazoo_client", "_pending"): "this module replaces kazoo's connection",
    ("zk_bridge.kazoo_client", "_session_passwd"): "this module replaces kazoo's connection",
    ("zk_bridge.kazoo_client", "_session_timeout"): "this module replaces kazoo's connection",
    ("actors.runtime.trace.forked_work", "_exit"): "the documented way to end a forked child",
    ("spark.child_process", "_exit"): "the documented way to end a forked child",
    ("spark.archive", "_gateway"): "Spark's JVM must exit cleanly to write its class archive",
    ("spark.session", "_jvm"): "caches names that PySpark would otherwise look up in all jars",
}
"""(module, private name of another module or library): the reason for the exception."""

_NAMED_TUPLES = frozenset("_asdict _fields _make _replace".split())


def private_uses(source: str) -> set[str]:
    """Return private names that are used as `x._name` and not defined in the source."""
    nodes = list(_nodes(source))
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
    """List the flows with `Any` in their signature."""
    return [
        node.name
        for node in _nodes(source)
        if isinstance(node, ast.FunctionDef) and node.returns is not None
        if ast.unparse(node.returns).startswith("Flow[")
        if "Any"
        in {each.id for part in (node.args, node.returns) for each in ast.walk(part) if isinstance(each, ast.Name)}
    ]
