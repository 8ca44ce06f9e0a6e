"""Collect the texts that users see from the code, and print samples of them.

    python -m tests.docs.surface                  # all texts, by surface
    python -m tests.docs.surface --sample SEED    # 30 log lines, 30 help texts, 30 errors and 60 names, in random order

Placeholders of formats are filled with example values, so that a sample reads like real output.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeAlias

import attrs
import click

from tests.docs.example_values import CONTEXTS, EXAMPLES, EXPRESSIONS
from tests.docs.vocabulary import Hit, hits
from tests.layering import ROOT, sources

SAMPLED = {"log lines": 30, "help texts": 30, "errors": 30, "names": 60}
"""Number of texts of each surface in a sample."""

NUMERIC = frozenset("dXfgi")
"""The conversions of numbers in % formats."""

LEVELS = frozenset(("debug", "info", "warning", "error", "exception", "critical"))
PRINTS = frozenset(("echo", "print", "print_line", "_print_line", "status"))

REPORTS = (
    "actors/explain/explanations.py",
    "actors/explain/transaction_history.py",
    "spark/headline.py",
    "spark/incidents.py",
    "spark/timeline.py",
    "spark/report.py",
    "spark/plots.py",
    "actors/cli/summary.py",
)
"""Files whose strings are sentences of `why` and `summary`."""

JSON = (
    ("actors/cli/status.py", "as_dict"),
    ("actors/cli/local_cluster.py", "description"),
    ("actors/cli/local_cluster.py", "_brokers"),
    ("spark/results.py", "as_dict"),
)
"""Functions whose dict literals have the keys of the printed JSON."""

CONVERSIONS = frozenset(
    ("strip", "absolute", "removeprefix", "removesuffix", "hex", "value", "dumps", "join", "sorted")
)
"""Names that are ignored at the end of an expression, unless it has no other name."""

LITERALS = ("'", '"', "b'", "[", "(", "{", "<")
"""The beginnings of example values that are a `repr` already."""

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@attrs.frozen
class Text:
    """A text of a surface, and the place that declares it."""

    surface: str
    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


# ------------------------------------------------------------------------------------------------ strings of the code


@cache
def tree(file: Path) -> ast.Module:
    """Return the parsed source."""
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of the source."""
    return tuple(ast.walk(tree(file)))


def template(node: ast.AST) -> str | None:
    """Return the text of a string expression with `{expression}` for each value; None for other expressions.

    A value that is shown by its `repr` is `{expression!r}`.
    """
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(template(value) or "" for value in values)
        case ast.FormattedValue(value=value, conversion=conversion):
            return f"{{{ast.unparse(value)}{'!r' if conversion == ord('r') else ''}}}"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            texts = template(left), template(right)
            if texts == (None, None):
                return None
            return "".join(
                f"{{{ast.unparse(part)}}}" if text is None else text
                for part, text in zip((left, right), texts, strict=True)
            )
        case ast.BinOp(left=left, op=ast.Mod(), right=right):
            text = template(left)
            return None if text is None else filled(text, right.elts if isinstance(right, ast.Tuple) else [right])
        case ast.IfExp(body=body, orelse=orelse):
            return template(body) or template(orelse)
        case ast.Call(func=ast.Attribute(value=value, attr="format" | "strip" | "join" | "removesuffix")):
            return template(value)
    return None


def filled(text: str, values: list[ast.expr]) -> str:
    """Replace the % placeholders of a format by `{expression}`, `{expression:d}` (numbers) or `{expression!r}`."""
    expressions = iter(values)

    def replaced(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        value = next(expressions, None)
        suffix = ":d" if found[0][-1] in NUMERIC else "!r" if found[0][-1] == "r" else ""
        return "{...}" if value is None else f"{{{ast.unparse(value)}{suffix}}}"

    return re.sub(r"%(?:%|[-#0 +]*[\d*]*(?:\.\d+)?[sdrxXfgiac])", replaced, text)


def without_repr(text: str) -> str:
    """Return the template with `{expression}` instead of `{expression!r}`."""
    return text.replace("!r}", "}")


def example(text: str) -> str:
    """Replace each `{expression}` by an example value, and each `{expression!r}` by its `repr`."""
    raw = text
    text = without_repr(raw)
    special = {name: words for part, values in CONTEXTS.items() if part in text for name, words in values.items()}

    def shown(found: re.Match[str]) -> str:
        if not found[1].endswith("!r"):
            return value(found[1])
        words = value(found[1].removesuffix("!r"))
        return words if words.startswith(LITERALS) or re.fullmatch(r"-?[\d.]+|\w+\(.*\)", words) else repr(words)

    def value(given: str) -> str:
        if given in special:
            return special[given]
        expression = given.removesuffix(":d")
        if expression in special:
            return special[expression]
        numeric = expression != given
        if expression == "error" and re.search("unreadable|can be read", text):
            return "expected a JSON object, found b'x'"
        if expression.endswith(("strerror", "why")) and re.search(r"bound|in use", text):
            return "Address already in use"
        for pattern, words in EXPRESSIONS.items():
            if re.fullmatch(pattern, expression):
                return words
        if "__name__" in expression:
            return "LogDirectoryRefused" if "error" in expression else "LeaderAndIsrRequest"
        if expression.startswith(("len(", "sum(")):
            return "12"
        plain = re.sub(r"""(["']).*?\1|\b(?:for|in|if|else|not|is|and|or|None)\b""", " ", expression)
        names = re.findall(r"[A-Za-z_]\w*", plain)
        while len(names) > 1 and names[-1] in CONVERSIONS:
            names.pop()
        last = names[-1].lower().strip("_") if names else ""
        for pattern, words in EXAMPLES.items():
            if re.fullmatch(pattern, last):
                return words if not numeric or re.fullmatch(r"-?[\d.]+", words) else "12"
        return "12" if numeric else f"<{last.replace('_', ' ')}>" if last else "..."

    return re.sub(r"\{((?:[^{}]|\{[^{}]*\})*)\}", shown, raw)


def called(call: ast.Call) -> str:
    """Return the last name of the called function, "" for other expressions."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def place(file: Path, node: ast.AST) -> str:
    """Return file and line of a node."""
    return f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"


# ------------------------------------------------------------------------------------------------ the surfaces


def module_of(file: Path) -> str:
    """Return the name of the module in a source file."""
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def commands() -> Iterator[tuple[str, click.Command]]:
    """List the commands of the command line with their names."""
    from actors.cli.app import COMMANDS

    for name in COMMANDS:
        command: click.Command = importlib.import_module(f"actors.cli.{name.replace('-', '_')}").command
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {each}", inner) for each, inner in command.commands.items())


def help_texts() -> Iterator[Text]:
    """List the help of commands and options."""
    from actors.cli.app import COMMANDS

    for name, short in COMMANDS.items():
        yield Text("help texts", name, f"kafka-actors {name}: {short}")
    for name, command in commands():
        if command.help:
            yield Text("help texts", f"{name} --help", f"kafka-actors {name} --help: {inspect.cleandoc(command.help)}")
        if command.epilog:
            yield Text("help texts", f"{name} --help", f"kafka-actors {name} --help: {command.epilog}")
        for each in command.params:
            words = getattr(each, "help", None)
            if words and not getattr(each, "hidden", False):
                yield Text("help texts", f"{name} {each.opts[-1]}", f"kafka-actors {name} {each.opts[-1]}: {words}")


def log_lines() -> Iterator[Text]:
    """List the formats of log calls."""
    for file in sources():
        for node in nodes(file):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                continue
            receiver = ast.unparse(node.func.value).lower()
            text = template(node.args[0])
            if node.func.attr in LEVELS and "log" in receiver and text is not None:
                level = {"exception": "ERROR", "critical": "FATAL"}.get(node.func.attr, node.func.attr.upper())
                yield Text("log lines", place(file, node), f"{level} {filled(text, list(_flat(node.args[1:])))}")


def _flat(arguments: list[ast.expr]) -> Iterator[ast.expr]:
    """Replace `*(a, b)` by a and b."""
    for argument in arguments:
        starred = isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Tuple)
        yield from argument.value.elts if starred else (argument,)  # type: ignore[attr-defined]


def errors() -> Iterator[Text]:
    """List the messages of raised exceptions, of exceptions that are passed on, and of responses."""
    for file in sources():
        for node in nodes(file):
            if isinstance(node, ast.Call):
                name = called(node)
                if re.search(
                    r"(?:Error|Failed|Refused|Exception|Invalid|BadParameter|NotATrace|Incomplete)$|^(?:Bad|Unknown|Usage|No)[A-Z]",
                    name,
                ):
                    for argument in node.args:
                        text = template(argument)
                        if text is not None and " " in text and text != "; ":
                            yield Text("errors", place(file, node), text)
                            break


def outputs() -> Iterator[Text]:
    """List what the commands print, and the sentences of `why` and `summary`."""
    for file in sources():
        name = str(file.relative_to(ROOT))
        for node in nodes(file):
            if isinstance(node, ast.Call) and name.startswith(("actors/cli/", "spark/", "actors/public/")):
                printing = called(node) in PRINTS
                text = template(node.args[0]) if node.args else None
                if printing and text is not None:
                    yield Text("output", place(file, node), text)
        if name in REPORTS:
            hidden = {id(each) for each in _not_shown(tree(file))}
            for node in nodes(file):
                if isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in hidden:
                    text = template(node)
                    if text is not None and " " in text:
                        yield Text("output", place(file, node), text)
    report = ROOT / "spark" / "report.html"
    for text in re.findall(
        r">([^<>{}]*[a-z][^<>{}]*)<",
        re.sub(r"(?s)<style>.*?</style>|<script>.*?</script>", "", report.read_text("utf-8")),
    ):
        yield Text("output", "spark/report.html", " ".join(text.split()))


def _not_shown(module: ast.Module) -> Iterator[ast.AST]:
    """Yield docstrings, and the constant parts of f-strings, because `outputs` lists an f-string as a whole."""
    for node in ast.walk(module):
        if isinstance(node, ast.Expr):
            yield from ast.walk(node) if isinstance(node.value, ast.Constant) else ()
        elif isinstance(node, ast.JoinedStr):
            yield from node.values


def metrics() -> Iterator[Text]:
    """List the HELP texts of /metrics."""
    from actors.gateway.metric_table import METRICS

    for name, declared in METRICS.items():
        yield Text("metrics", name, declared.help)


def json_keys() -> Iterator[Text]:
    """List the keys and columns of printed JSON."""
    for name, function in JSON:
        file = ROOT / name
        for node in nodes(file):
            if isinstance(node, Function) and node.name == function:
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Dict):
                        for key in inner.keys:
                            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                                yield Text("JSON keys", place(file, key), key.value)
    from actors.cli.status import PartitionStateCounts
    from spark.section_names import BRIEF, COMPARED

    for key in (*PartitionStateCounts._fields, *BRIEF, COMPARED):
        yield Text("JSON keys", "status, summary", key)
    for file in sorted((ROOT / "spark").rglob("*.py")):
        for node in nodes(file):
            column = isinstance(node, ast.Call) and called(node) in ("alias", "withColumn") and node.args
            if column and isinstance(column[0], ast.Constant):
                yield Text("JSON keys", place(file, node), str(column[0].value))


def names() -> Iterator[Text]:
    """List modules and classes with the first paragraph of their docstrings."""
    for file in sources():
        module = module_of(file)
        for node in nodes(file):
            if isinstance(node, ast.Module | ast.ClassDef):
                first = (ast.get_docstring(node) or "").partition("\n\n")[0].replace("\n", " ")
                name = f"module {module}" if isinstance(node, ast.Module) else f"class {node.name}"
                if first or isinstance(node, ast.ClassDef):
                    yield Text("names", place(file, node), f"{name}: {first}".rstrip(": "))


def public() -> Iterator[Text]:
    """List the public names of `kafka_actors` with their docstrings."""
    for file in sorted((ROOT / "actors" / "public").glob("*.py")):
        for node in nodes(file):
            if isinstance(node, ast.Module | ast.ClassDef | Function):
                name = getattr(node, "name", file.stem)
                if not name.startswith("_") or name == "__init__":
                    yield Text("public API", place(file, node), f"{name}: {ast.get_docstring(node) or ''}")


SURFACES = (help_texts, log_lines, errors, outputs, metrics, json_keys, names, public)


@cache
def texts() -> tuple[Text, ...]:
    """List the texts of all surfaces."""
    return tuple(text for surface in SURFACES for text in surface())


def found() -> list[tuple[Text, Hit]]:
    """List the texts with words that docs/contributing/style.md replaces; identifiers are split into words."""
    return [(text, hit) for text in texts() for hit in hits("text.py", text.text)]


# ------------------------------------------------------------------------------------------------ printing


def sample(seed: int) -> Iterator[str]:
    """Yield the lines of a sample: a heading for each surface, then its texts in random order."""
    chance = random.Random(seed)
    by_surface: dict[str, dict[str, None]] = {}
    for text in texts():
        words = text.text if text.surface == "help texts" else example(text.text)
        by_surface.setdefault(text.surface, {})[" ".join(words.split())] = None
    for surface, count in SAMPLED.items():
        found = sorted(by_surface[surface])
        yield f"# {surface}"
        yield from chance.sample(found, min(count, len(found)))
        yield ""


def main() -> None:
    """Print a sample, or all texts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, metavar="SEED", help="Print a random sample.")
    options = parser.parse_args()
    if options.sample is not None:
        print("\n".join(sample(options.sample)))
        return
    for text in texts():
        print(f"[{text.surface}] {text.place}\n    {text.text}")


if __name__ == "__main__":
    main()
