"""`kafka-actors dump-log`, which has the options and output of Kafka's kafka-dump-log.

It reads files of Kafka and of kafka-actors.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from actors.cli import record_decoders
from actors.cli.app import CommandFailed
from actors.cli.display import printable
from actors.cli.log_dump import DumpOptions, LogDump
from actors.cli.log_files import LIMIT
from actors.cli.usage_errors import exit_codes

CLASS = click.Choice(sorted(record_decoders.CLASSES))


@click.command("dump-log", epilog=exit_codes())
@click.option(
    "--files",
    metavar="FILE,..",
    required=True,
    help="The files to print: segments, indexes, producer snapshots and checkpoint files.",
)
@click.option(
    "--print-data-log", is_flag=True, help="Print keys and values of records. Every decoder option implies it."
)
@click.option("--deep-iteration", is_flag=True, help="Print a line for each record. --print-data-log implies it.")
@click.option("--skip-record-metadata", is_flag=True, help="Print only keys and values of records.")
@click.option("--index-sanity-check", is_flag=True, help="Only check the indexes, as a broker does when it starts.")
@click.option(
    "--verify-index-only",
    is_flag=True,
    help="Only check that the indexes match their segments; do not print the entries.",
)
@click.option(
    "--max-message-size",
    type=click.IntRange(1, LIMIT),
    default=5 << 20,
    show_default=True,
    metavar="BYTES",
    help="When an index file is checked against its segment: the size of the largest batch to read, in bytes.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(0, LIMIT),
    default=LIMIT,
    metavar="BYTES",
    help="Read only this many bytes from the beginning of a segment.",
)
@click.option("--offsets-decoder", is_flag=True, help="Decode records of the topic __consumer_offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="Decode records of the topic __transaction_state.")
@click.option(
    "--key-decoder-class",
    is_flag=False,
    flag_value=record_decoders.STRING,
    type=CLASS,
    metavar="CLASS",
    help="Decoder of keys.",
)
@click.option(
    "--value-decoder-class",
    is_flag=False,
    flag_value=record_decoders.STRING,
    type=CLASS,
    metavar="CLASS",
    help="Decoder of values.",
)
def command(
    files: str,
    print_data_log: bool,
    deep_iteration: bool,
    skip_record_metadata: bool,
    index_sanity_check: bool,
    verify_index_only: bool,
    max_message_size: int,
    max_bytes: int,
    offsets_decoder: bool,
    transaction_log_decoder: bool,
    key_decoder_class: str | None,
    value_decoder_class: str | None,
) -> int:
    """Print files of a log directory as kafka-dump-log does; the files are not changed.

    The decoders are named as in Kafka: org.apache.kafka.tools.api.StringDecoder (the default), IntegerDecoder,
    LongDecoder and DefaultDecoder. Unlike in Kafka, DefaultDecoder prints bytes as hexadecimal digits.
    """
    decoder: record_decoders.Decoder | None = None
    if offsets_decoder:
        decoder = record_decoders.decode_offsets
    elif transaction_log_decoder:
        decoder = record_decoders.decode_transactions
    elif print_data_log or key_decoder_class or value_decoder_class:
        decoder = record_decoders.decoder_of_classes(
            key_decoder_class or record_decoders.STRING, value_decoder_class or record_decoders.STRING
        )
        for name in (value_decoder_class, key_decoder_class):
            if name is not None and name.startswith(record_decoders.DEPRECATED_API):
                current = name.replace(record_decoders.DEPRECATED_API, record_decoders.API)
                click.echo(f"{name} is deprecated. Please use {current} instead", err=True)
    options = DumpOptions(
        deep_iteration or decoder is not None,
        decoder,
        skip_record_metadata,
        index_sanity_check,
        verify_index_only,
        max_message_size,
        max_bytes,
    )
    # _write does not flush; click.echo flushes each line, which takes half of the time of a dump into a file
    dump = LogDump(options, lambda line: _write(printable(line)), lambda line: click.echo(printable(line), err=True))
    for name in files.split(","):
        try:
            dump.file(Path(name))
        except OSError as error:
            raise CommandFailed(f"{error.filename or name}: {error.strerror}") from error
    dump.differences()
    return 0


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")
