"""Open a ZooKeeper session for a command, and define the options that give its address.

Rule 1: An unknown host, a closed port and a chroot without a cluster are detected before the session is used. Each of
        these errors has its own text.
Rule 2: The log messages of the ZooKeeper bridge during the session are printed as warnings. Most of them are about
        invalid znodes.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from actors.cli.app import FILE, FOLDER, CommandFailed
from actors.cli.node_log import one_line
from actors.node.properties import read_properties
from actors.node.security_settings import zookeeper_security
from actors.node.settings import zookeeper_places
from messages.ask import Question
from messages.zookeeper import Brokers, FindClusterId, GetBrokers, NoCluster
from zk_bridge.client import ZooKeeperUnavailable, connect
from zk_bridge.store import StoreSecurity

CONNECT_SECONDS = 3.0
_SECURITY = "security of ZooKeeper"
"""Key of a command's context."""

R = TypeVar("R")
Command = TypeVar("Command", bound=Callable[..., Any])


def _read_security(context: click.Context, option: click.Parameter, file: Path | None) -> None:
    """Keep the security of the command's sessions with ZooKeeper, which `zookeeper` opens."""
    try:
        if file is not None:
            context.meta[_SECURITY] = zookeeper_security(read_properties(file))
    except (ValueError, OSError) as error:
        raise CommandFailed(f"{file}: {error}") from error


def cluster_options(command: Command) -> Command:
    """Add the options that name a cluster, of which one is required."""
    for option in (
        click.option(
            "--zookeeper", "address", metavar="HOST:PORT[/CHROOT]", help="ZooKeeper, where the brokers are registered."
        ),
        click.option("--dir", "directory", metavar="DIR", type=FOLDER, help="Folder of a `kafka-actors up` cluster."),
        click.option(
            "--zk-tls-config-file",
            metavar="FILE",
            type=FILE,
            expose_value=False,
            callback=_read_security,
            help="Kafka's zookeeper.ssl.* settings, with which to connect to ZooKeeper; also zookeeper.sasl.*.",
        ),
        click.option("--bootstrap-server", metavar="HOST:PORT,..", help="Brokers to connect to."),
    ):
        command = option(command)
    return command


@contextmanager
def zookeeper(address: str, empty: bool = False) -> Iterator[Callable[[Question[R]], R]]:
    """Yield the function `ask(question)`, which queries the ZooKeeper at host:port[,host:port]*[/chroot].

    Args:
        empty: Accept a chroot without a cluster.

    Raises:
        CommandFailed: ZooKeeper does not respond, or has no cluster.
    """
    logging.getLogger("kazoo").addHandler(logging.NullHandler())  # our own errors report what kazoo logs
    logger, warnings = logging.getLogger("zk_bridge"), _Warnings()
    logger.addHandler(warnings)
    try:
        _reach(address)
        context = click.get_current_context(silent=True)
        security = StoreSecurity() if context is None else context.meta.get(_SECURITY, StoreSecurity())
        with connect(address, security=security) as client:
            if not empty and isinstance(client.ask(FindClusterId()), NoCluster):
                raise CommandFailed(f"there is no cluster in ZooKeeper at {address}{_chroot_hint(address)}")
            yield client.ask
    except ZooKeeperUnavailable as error:
        raise CommandFailed(str(error)) from error
    finally:
        logger.removeHandler(warnings)


def places_in(ask: Callable[[GetBrokers], Brokers], protocol: str) -> list[tuple[str, int]]:
    """Return the addresses of the registered brokers' listeners with this security protocol.

    Raises:
        CommandFailed: No registered broker has such a listener.
    """
    endpoints = [each for broker in ask(GetBrokers(watch=False)).brokers for each in broker.endpoints]
    places = [(each.host, each.port) for each in endpoints if each.security_protocol == protocol]
    if not places:
        raise CommandFailed(f"no registered broker has a {protocol} listener")
    return places


class _Warnings(logging.Handler):
    """A log handler that prints log messages as warnings of the command."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(f"Warning: {one_line(record.getMessage())}", err=True)


def _chroot_hint(address: str) -> str:
    if "/" in address:
        return ": is the chroot right?"
    return ": no broker has ever registered there (if it is below a chroot: host:port/chroot)"


def _reach(address: str) -> None:
    """Wait until one of the servers in `address` accepts a connection.

    Raises:
        ZooKeeperUnavailable: No server accepts a connection; the text has each server's error.
    """
    servers = zookeeper_places(address.partition("/")[0])
    if servers is None:
        raise ZooKeeperUnavailable(address, "invalid address: expected host:port[,host:port]*[/chroot]")
    reasons = []
    for host, port in servers:
        try:
            socket.create_connection((host, port), CONNECT_SECONDS).close()
            return
        except socket.gaierror:
            reasons.append(f"unknown host {host}")
        except ConnectionRefusedError:
            reasons.append(f"nothing listens at {host}:{port}")
        except TimeoutError:
            reasons.append(f"{host}:{port} does not answer within {CONNECT_SECONDS:g} s")
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror}")
    raise ZooKeeperUnavailable(address, "; ".join(reasons))
