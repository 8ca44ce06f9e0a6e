"""The format of a node's log messages: a message is one line, on standard error or in a file.

Names, ids and metadata in a message can come from any client. The formatter escapes them, so callers do not have to.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILES = {
    "kafka.controller": "controller.log",
    "state.change.logger": "state-change.log",
    "kafka.server": "server.log",
    "kafka.cluster": "server.log",
}
"""Logger -> Kafka's file for it (Kafka's log4j.properties). The node's log contains the same records."""

STATE_CHANGES = "state.change.logger"
"""Logger whose file has a line per changed partition: INFO in Kafka, DEBUG here."""

CLUSTER_LOG = "cluster.log"
"""Log file in the cluster's folder, if all nodes run in one process."""

LOG_FORMAT = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"

MAX_WORD = 1_000
"""Maximum number of characters without a space or comma. Kafka's names have at most 249; a list of names has
separators.
"""
MAX_LINE = 250_000
"""Maximum number of characters of a message, enough for Kafka's lists of thousands of partitions."""
CONTINUED = "    "
"""Prefix of each further line of a traceback, so that no text in it looks like a separate message."""

_LONG_WORD = re.compile(rf"[^\s,]{{{MAX_WORD + 1},}}")


class LineFormatter(logging.Formatter):
    """A formatter of Python's logging: a log message is one line, and a traceback follows on indented lines.

    It escapes characters that are not printable, and shortens long words and long messages.
    """

    def __init__(self) -> None:
        super().__init__(LOG_FORMAT)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line and the traceback's lines, all escaped: a traceback can contain a client's text."""
        copy = logging.makeLogRecord(vars(record))  # other formatters store their formatted text in the record
        copy.msg, copy.args = one_line(record.getMessage()), None
        copy.exc_info = copy.exc_text = copy.stack_info = None
        details = [self.formatException(record.exc_info)] if record.exc_info else []
        if record.stack_info:
            details.append(record.stack_info)
        lines = [CONTINUED + one_line(line) for text in details for line in text.split("\n")]
        return "\n".join([super().format(copy), *lines])


def one_line(text: str) -> str:
    """Return the text with unprintable characters escaped, words cut to MAX_WORD and the whole cut to MAX_LINE."""
    if len(text) > MAX_WORD:
        text = _cut(_LONG_WORD.sub(lambda word: _cut(word[0], MAX_WORD), text), MAX_LINE)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}...({len(text)} characters)"


@contextmanager
def logging_to(file: Path) -> Iterator[None]:
    """Append the log of this process's nodes to `file`."""
    log = logging.FileHandler(file)
    log.setFormatter(LineFormatter())
    root = logging.getLogger()
    root.addHandler(log)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(log)
        log.close()


def log_into(folder: Path) -> None:
    """Also write controller.log, state-change.log and server.log to `folder`, as Kafka does.

    Only state-change.log contains the changes of each partition. They are logged at DEBUG. To keep them out of the
    output of the existing handlers, the level of these handlers is raised to INFO.

    Raises:
        OSError: The files cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for handler in logging.getLogger().handlers:
        handler.setLevel(max(handler.level, logging.INFO))
    handlers: dict[str, logging.Handler] = {}
    for name, file in FILES.items():
        if file not in handlers:
            handlers[file] = logging.FileHandler(folder / file)
            handlers[file].setFormatter(LineFormatter())
        logging.getLogger(name).addHandler(handlers[file])
    logging.getLogger(STATE_CHANGES).setLevel(logging.DEBUG)


def log_to_standard_error() -> None:
    """Write the log of this process to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    logging.basicConfig(handlers=[handler], level=logging.INFO)
