"""`kafka-actors broker server.properties [--override name=value]...`: run one node.

It has the arguments of kafka-server-start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from actors.cli.app import FOLDER
from actors.cli.node_log import log_into, log_to_standard_error
from actors.node.free_ports import HOST
from actors.node.settings import LoadedSettings, load_settings
from messages.sensitive_configs import masked_value

LOOPBACK = ("127.0.0.1", "::1", "localhost")

Command = TypeVar("Command", bound=Callable[..., object])


def parse_overrides(
    context: click.Context | None, parameter: click.Parameter | None, values: tuple[str, ...]
) -> dict[str, str]:
    """Return the overrides by name; the last value of a name applies."""
    overrides = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not (equals and name.strip()):
            raise click.BadParameter(f"'{value}' does not have the form name=value", context, parameter)
        overrides[name.strip()] = text
    return overrides


def override_option(help: str) -> Callable[[Command], Command]:
    """Return the option --override NAME=VALUE with this help text."""
    return click.option(
        "--override", "overrides", metavar="NAME=VALUE", multiple=True, callback=parse_overrides, help=help
    )


metrics_host_option = click.option(
    "--metrics-host",
    metavar="HOST",
    help="The address on which metrics are served, without authentication (metrics.host; 127.0.0.1 by default).",
)


def of_metrics(host: str | None) -> dict[str, str]:
    """Return the override that --metrics-host sets."""
    return {} if host is None else {"metrics.host": host}


def ui_options(command: Command) -> Command:
    """Return the command with the options --ui and --ui-host."""
    port = click.option(
        "--ui",
        "ui",
        metavar="[PORT]",
        type=click.IntRange(0, 65535),
        is_flag=False,
        flag_value=0,
        help="Serve a page that shows the cluster, on this port or on a free one.",
    )
    host = click.option(
        "--ui-host", metavar="HOST", default=HOST, show_default=True, help="The address on which the page is served."
    )
    return port(host(command))


def ui_warning(host: str, what: str) -> str:
    """Return a warning if the page can be reached from other machines; `what` they can do with it. Otherwise ""."""
    if host in LOOPBACK:
        return ""
    return f"--ui-host {host}: every machine that reaches this address can {what}"


@click.command("broker")
@click.argument("properties", metavar="server.properties", type=click.Path(dir_okay=False))
@override_option("Override a setting of the file. May be repeated.")
@click.option(
    "--insecure",
    is_flag=True,
    help="Start even if the file has security settings, that are not supported; they are ignored.",
)
@click.option(
    "--logs",
    metavar="DIR",
    type=FOLDER,
    help="Also write Kafka's controller.log, state-change.log and server.log to this folder.",
)
@metrics_host_option
@ui_options
@click.option("--check", is_flag=True, help="Only check the settings: print errors, and settings that have no effect.")
def command(
    properties: str,
    overrides: dict[str, str],
    insecure: bool,
    logs: Path | None,
    metrics_host: str | None,
    ui: int | None,
    ui_host: str,
    check: bool,
) -> int:
    """Run one node from a Kafka ZooKeeper-mode properties file, until SIGTERM or SIGINT.

    Additional settings are process.roles (`broker`, `controller`, or the default `broker,controller`), trace.dir
    (the folder of the trace; by default next to the first log directory), metrics.host and metrics.port.

    Listeners are open to every client unless TLS, SASL and an authorizer are configured, as in Kafka.
    """
    if secrets := [name for name, value in overrides.items() if masked_value(name, value) != value]:
        raise click.UsageError(f"{', '.join(secrets)}: secrets belong into the file, because others can see --override")
    loaded = load_settings(properties, overrides | of_metrics(metrics_host), insecure)
    if check:
        return _report(loaded)
    log_to_standard_error()
    if logs is not None:
        try:
            log_into(logs)
        except OSError as error:
            raise click.ClickException(f"--logs {logs}: {error.strerror or error}") from None
    for warning in loaded.warnings:
        logging.getLogger("kafka_actors.settings").warning(warning)

    from actors.node.process import run_node

    if ui is None:
        return run_node(loaded)
    from actors.page.live import LivePage

    logger = logging.getLogger("kafka_actors.page")
    if warning := ui_warning(ui_host, "see what this node records"):
        logger.warning(warning)
    page = LivePage(f"node {loaded.settings.node_id}", [Path(loaded.settings.trace_dir)], None, ui_host, ui, alone=True)
    logger.info("the page of this node is %s", page.url)
    try:
        return run_node(loaded)
    finally:
        page.stop()


def _report(loaded: LoadedSettings) -> int:
    """Print which settings have no effect, and that the node can start; return exit code 0."""
    for name in loaded.ignored:
        click.echo(f"{name} has no effect" + (": security is not supported" if name in loaded.insecure else ""))
    for sentence in loaded.unknown:
        click.echo(sentence)
    id = loaded.settings.node_id
    click.echo(f"node {'with a generated id' if id < 0 else id} can start with these settings")
    return 0
