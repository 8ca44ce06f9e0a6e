"""Write the reference pages of commands, settings, metrics, messages and the Python API from the code.

`make docs` runs it; a test compares each page with the code.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs
import click

import messages as messages_package
from actors.cli.app import COMMANDS
from actors.core.config.broker_config import DYNAMIC, WITHOUT_EFFECT
from actors.gateway.metric_table import COUNTERS, METRICS
from actors.public import asynchronous, fault_injection, kafka_cluster, operations, simulated
from actors.public import pytest_plugin as plugin
from messages.node_settings import SETTINGS
from messages.vocabulary import VOCABULARY
from tests.docs.markdown import wrap
from tests.layering import ROOT

FOLDER = ROOT / "docs" / "reference"


def escaped(text: str) -> str:
    """Return text for a cell of a table: one line, with escaped bars."""
    return " ".join(text.split()).replace("|", "\\|")


def head(title: str, source: str, *paragraphs: str) -> list[str]:
    """Return the first lines of a generated page."""
    made = wrap(f"`make docs` generates this page from {source}; a test checks that it is up to date.")
    return [f"# {title}", "", *made, "", *paragraphs]


# ---------------------------------------------------------------------------------------------------------- commands


def command_options() -> str:
    """Return the page of the commands with their usage, help and options."""
    lines = head(
        "Options of the commands",
        "the commands themselves",
        "[The commands](commands.md) explains what the commands do and print.",
        "",
    )
    for name in sorted(COMMANDS):
        command: click.Command = importlib.import_module(f"actors.cli.{name.replace('-', '_')}").command
        lines += _command(command, f"kafka-actors {name}")
    return "\n".join(lines)


def _command(command: click.Command, name: str) -> Iterator[str]:
    context = click.Context(command, info_name=name)
    yield f"## {name}"
    yield ""
    yield f"    {' '.join([name, *command.collect_usage_pieces(context)])}"
    yield ""
    yield from _paragraphs(command.help or "")
    rows = [_option(each) for each in command.params if isinstance(each, click.Option) and not each.hidden]
    if rows:
        yield from ("| option | meaning | default |", "| --- | --- | --- |", *rows, "")
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            if found is not None and not found.hidden:
                yield from _command(found, f"{name} {sub}")


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text; a paragraph that begins with \\b keeps its lines."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b"):
            yield from (f"    {line}" for line in paragraph.splitlines()[1:])
        else:
            yield from wrap(re.sub(r"<(?=\w)", r"\\<", paragraph))
        yield ""


def _option(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    metavar = "" if option.is_flag or option.count else f" `{_metavar(option)}`"
    default = option.default
    shown = (
        "" if callable(default) or default in (None, False, ()) or "UNSET" in repr(default).upper() else f"`{default}`"
    )
    return f"| {names}{metavar} | {escaped(option.help or '')} | {shown} |"


def _metavar(option: click.Option) -> str:
    if option.metavar:
        return escaped(option.metavar)
    if isinstance(option.type, click.Choice):
        return "\\|".join(map(str, option.type.choices))
    return option.type.name.upper()


# ---------------------------------------------------------------------------------------------------------- settings


def settings() -> str:
    """Return the page of the settings with their values and defaults, and whether they are dynamic."""
    lines = head(
        "Settings",
        "`messages/node_settings.py` and `actors/core/config/broker_config.py`",
        "This page lists the settings of a `server.properties`. Names, values, defaults and meanings are",
        "Kafka's. [Operating a node](../how-to/operations.md) explains which settings have no effect, and",
        "which settings are refused.",
        "",
        "*Dynamic* settings can also be changed for a running broker (`kafka-configs --entity-type brokers`).",
        "",
        "| setting | values | default | dynamic |",
        "| --- | --- | --- | --- |",
    )
    for setting in SETTINGS:
        if not setting.doc:
            default = "" if setting.default is None else f"`{setting.default}`" if setting.default else "empty"
            dynamic = "yes" if setting.name in DYNAMIC and setting.name not in WITHOUT_EFFECT else ""
            lines.append(f"| `{setting.name}` | {escaped(setting.type.allowed)} | {default} | {dynamic} |")
    dynamic_only = sorted(set(DYNAMIC) - set(WITHOUT_EFFECT) - {each.name for each in SETTINGS})
    lines += ["", f"Dynamic only: {', '.join(f'`{name}`' for name in dynamic_only)}.", ""]
    lines += ["## Settings that Kafka does not have", "", "| setting | values | default | meaning |"]
    lines += ["| --- | --- | --- | --- |"]
    for setting in SETTINGS:
        if setting.doc:
            default = "" if setting.default is None else f"`{setting.default}`"
            lines.append(f"| `{setting.name}` | {escaped(setting.type.allowed)} | {default} | {setting.doc} |")
    return "\n".join((*lines, ""))


# ----------------------------------------------------------------------------------------------------------- metrics


def metrics() -> str:
    """Return the page of the metrics with their HELP texts."""
    lines = head(
        "Metrics",
        "`actors/gateway/metric_table.py`",
        "Each node serves its metrics at `/metrics` on `metrics.host` and `metrics.port`. A metric of Kafka",
        "has the name that jmx_exporter gives it; the names of other metrics begin with `kafka_actors_`.",
        "[Operating a node](../how-to/operations.md#what-to-look-at) lists which values are normal.",
        "",
        "## Names for dashboards",
        "",
        "jmx_exporter forms names by rules, and users write different ones. The names here are those that",
        "Strimzi's rules (`kafka-metrics.yaml`) form: `PerSec` becomes `_total`, `Percent` becomes `_percent`.",
        "Confluent's rules (`jmx-monitoring-stacks`) keep both endings in lower case: `messagesinpersec`,",
        "`networkprocessoravgidlepercent`. A node does not export these names. Gauges without such an ending",
        "have the same name in both, among them those that fill the variables of the dashboards:",
        "",
        "| variable | metric |",
        "| --- | --- |",
        "| Strimzi: namespace, cluster, broker | `kafka_server_replicamanager_leadercount` |",
        "| Strimzi: topic | `kafka_cluster_partition_replicascount` |",
        "| Confluent: instance | `kafka_server_kafkaserver_brokerstate` |",
        "| Strimzi: partition; Confluent: topic | `kafka_log_log_size`, which lacks empty logs |",
        "",
        "For Confluent's other panels, add the names in Prometheus, with `metric_relabel_configs` or with",
        "recording rules.",
        "",
        "## All metrics",
        "",
        "| metric | kind | labels | meaning |",
        "| --- | --- | --- | --- |",
    )
    for name, (kind, text, labels) in sorted(METRICS.items()):
        lines.append(f"| `{name}` | {kind} | {', '.join(labels)} | {escaped(text)} |")
    lines += ["", "These counters exist from the start of the node, with the value 0:", ""]
    lines += [f"- `{name}`" for name in sorted(COUNTERS)]
    return "\n".join((*lines, ""))


# ---------------------------------------------------------------------------------------------------------- messages


def messages() -> str:
    """Return the page of the message classes by module, with their fields, and their docstrings without `Args`."""
    for module in pkgutil.walk_packages(messages_package.__path__, "messages."):
        importlib.import_module(module.name)
    lines = head(
        "Messages",
        "the classes with `@message` below `messages/`",
        "In a trace, the type of a message is the name of its class. [Events, requests and",
        "messages](catalogue.md) lists the controller's messages, with their senders and handlers.",
    )
    by_module: dict[str, list[type]] = {}
    for kind in VOCABULARY.values():
        if kind.__module__.startswith("messages."):
            by_module.setdefault(kind.__module__, []).append(kind)
    for name in sorted(by_module):
        lines += ["", f"## {name.replace('.', '/')}.py", "", "| message | fields | meaning |", "| --- | --- | --- |"]
        lines += [_message(kind) for kind in sorted(by_module[name], key=lambda kind: kind.__name__)]
    return "\n".join((*lines, ""))


def _message(kind: Any) -> str:
    fields = ", ".join(f"`{field.name}`" for field in attrs.fields(kind))
    meaning = escaped(re.split(r"\n\n(?:Args|Attributes):", inspect.cleandoc(kind.__doc__ or ""))[0])
    return f"| {kind.__name__} | {fields} | {re.sub(r'<(?=[a-zA-Z])', '&lt;', meaning)} |"


# -------------------------------------------------------------------------------------------------------- Python API

CLASSES: tuple[tuple[str, type], ...] = (
    ("kafka_actors", kafka_cluster.KafkaCluster),
    ("kafka_actors", asynchronous.AsyncKafkaCluster),
    ("kafka_actors.simulated", simulated.SimulatedCluster),
    ("kafka_actors.kafka_cluster", kafka_cluster.NetworkPartition),
    ("kafka_actors.fault_injection", fault_injection.FaultInjection),
    ("kafka_actors.fault_injection", fault_injection.Trigger),
    ("kafka_actors.fault_injection", fault_injection.InjectedFault),
    ("kafka_actors.fault_injection", fault_injection.AsyncFaultInjection),
    ("kafka_actors.fault_injection", fault_injection.AsyncInjectedFault),
    ("kafka_actors", operations.ReceivedRequest),
    ("kafka_actors", operations.ClusterError),
    ("kafka_actors", operations.UnknownPartition),
)
FIXTURES = ("kafka_cluster", "kafka_cluster_module", "kafka_cluster_session", "kafka_cluster_options", "kafka_topics")


def python_api() -> str:
    """Return the page of the classes that programs import, with their public members, and of the pytest fixtures."""
    lines = head(
        "Python API",
        "the docstrings of `actors/public/`, which the wheel installs as `kafka_actors`",
        "[A cluster for tests](../how-to/cluster-for-tests.md) shows how to use the API.",
    )
    for module, kind in CLASSES:
        lines += ["", f"## {kind.__name__}", "", f"    from {module} import {kind.__name__}", ""]
        if kind.__init__ is not Exception.__init__ and "__init__" in vars(kind) and _documents_its_arguments(kind):
            lines += _signature(kind.__name__, kind)
        lines += _docstring(kind)
        for name, member in _members(kind):
            lines += ["", f"### {kind.__name__}.{name}", ""]
            if not isinstance(member, property):
                lines += _signature(name, member)
            lines += _docstring(member)
    marker, purpose = plugin.MARKER.split(": ", 1)
    lines += ["", "## Fixtures of pytest", "", *wrap(f"The marker `{marker}` sets the arguments of {purpose}.")]
    for name in FIXTURES:
        lines += ["", f"### {name}", "", *_docstring(getattr(plugin, name))]
    return "\n".join((*lines, ""))


def _documents_its_arguments(kind: type) -> bool:
    return "Args:" in (kind.__doc__ or "")


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    for parent in kind.__mro__:
        for name, member in vars(parent).items():
            if isinstance(member, operations.operation | operations.state):
                member = getattr(kind, name)  # an asynchronous class makes coroutine functions of them
            elif not isinstance(member, property):
                member = inspect.unwrap(getattr(member, "__func__", member))
            public = not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
            if public and inspect.getdoc(member) and parent.__module__.startswith("actors.public"):
                yield name, member


def _signature(name: str, member: Any) -> list[str]:
    signature = inspect.signature(member)
    parameters = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    returns = "" if inspect.isclass(member) or signature.return_annotation in (signature.empty, "None") else None
    arrow = f" -> {signature.return_annotation}" if returns is None else ""
    shown = ", ".join(_parameters(parameters))
    text = f"{name}({shown}){arrow}"
    if len(text) > 92:
        text = "\n".join((f"{name}(", *(f"    {each}," for each in _parameters(parameters)), f"){arrow}"))
    prefix = "async " if inspect.iscoroutinefunction(member) else ""
    return [*(f"    {line}" for line in (prefix + text).splitlines()), ""]


def _parameters(parameters: Iterable[inspect.Parameter]) -> Iterator[str]:
    keyword_only = False
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            yield "*"
        yield re.sub(r"(?<=[\w\]]): '?([^=]*?)'?( = |$)", r": \1\2", str(each))


def _docstring(member: Any) -> list[str]:
    """Return a docstring as Markdown; sections of Google's style become lists."""
    lines: list[str] = []
    section = ""
    for paragraph in inspect.cleandoc(inspect.getdoc(member) or "").split("\n\n"):
        first, *rest = paragraph.splitlines()
        if re.fullmatch(r"(Args|Returns|Raises|Yields):", first):
            section = first.rstrip(":")
            lines += [f"{ {'Args': 'Arguments', 'Raises': 'Errors'}.get(section, section) }:".replace(" ", ""), ""]
            lines += _items("\n".join(rest), section)
        elif paragraph.startswith("    "):
            lines += paragraph.splitlines()
        else:
            lines += wrap(paragraph)
        lines.append("")
    return lines[:-1]


def _items(text: str, section: str) -> Iterator[str]:
    text = inspect.cleandoc("\n" + text)
    if section in ("Returns", "Yields"):
        yield from _listed(" ".join(text.split()))
        return
    for item in re.split(r"\n(?=\S)", text):
        name, _, meaning = " ".join(item.split()).partition(": ")
        yield from _listed(f"`{name}`: {meaning}")


def _listed(text: str) -> Iterator[str]:
    yield from wrap("- " + text, "  ")


PAGES: dict[Path, Callable[[], str]] = {
    FOLDER / "command-options.md": command_options,
    FOLDER / "settings.md": settings,
    FOLDER / "metrics.md": metrics,
    FOLDER / "messages.md": messages,
    FOLDER / "python-api.md": python_api,
}
"""Page -> function that returns its text."""


if __name__ == "__main__":
    for file, make in PAGES.items():
        file.write_text(make(), encoding="utf-8")
