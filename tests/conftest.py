"""Provide the fixtures and options that tests of all areas share: Apache's jars, kcat, and the options of the soak."""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]

LONG_SOAK = 600
"""Duration of a soak in seconds from which it includes the tests marked `long`, and the long forms of other tests."""
SLOW = (
    "tests/soak",
    "tests/agreement",
    "tests/spark",
    "tests/cluster",
    "tests/docs",
    "tests/public/test_wheel.py",
    "tests/public/test_async_cluster.py",
    "tests/public/test_faults.py",
    "tests/public/test_node_faults.py",
    "tests/public/test_pytest_plugin.py",
    "tests/cli/test_try_it.py",
    "tests/cli/test_up.py",
    "tests/cli/test_extras.py",
    "tests/page/test_recorded_page.py",
    "tests/page/test_secured_page.py",
    "tests/page/test_process_page.py",
    "tests/page/test_live_page.py::test_names_are_text_and_many_partitions_stay_usable",
    "tests/node/test_state.py::test_every_actor_at_every_moment_has_a_state_that_travels",
    "tests/public/test_kafka_cluster.py::TestProcesses",
    "tests/public/test_kafka_cluster.py::test_the_process_ends_with_the_program_even_if_that_is_killed",
    "tests/storage/test_kill.py::test_a_cleaned_log_has_the_last_values_wherever_the_kill_comes",
    "tests/simulation/test_coverage.py",
    "tests/simulation/test_known_bugs.py",
    "tests/simulation/test_mutants.py",
    "tests/simulation/test_replication_invariants.py",
    "tests/simulation/test_shrink.py",
    "tests/trace/test_attacks.py",
    "tests/trace/test_changes.py",
    "tests/wire/test_oracle.py",
    "tests/zk_bridge/test_embedded.py",
    "tests/test_containers.py",
    "tests/test_install.py",
)
"""Folders, files and tests of the slow tier: they start processes, Spark or whole programs, or take most seconds. They
run first, in this order, so that no worker idles at the end."""

FAST = ("tests/cluster/test_main_job.py",)
"""Files in the folders of SLOW that `make test` runs: one main job on real processes, with one Spark session."""

LONGEST = (
    *FAST,
    "tests/public/test_kafka_cluster.py",
    "tests/simulation/test_run.py",
    "tests/zk_bridge/test_kazoo_store.py",
    "tests/zk_bridge/test_real_bridge.py",
    "tests/cli/test_in_memory.py",
    "tests/controller/test_life.py",
    "tests/node/test_node.py",
    "tests/page/test_live_page.py",
    "tests/storage",
    "tests/trace/test_codec.py",
)
"""The longest files of `make test`, which run first there."""


def is_slow(name: str) -> bool:
    """Return whether a file or test (its node id) belongs to the slow tier."""
    return name.startswith(SLOW) and not name.startswith(FAST)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files of the other tier only to deselect them, which each worker would do."""
    if collection_path.suffix != ".py":
        return None
    name, wanted = collection_path.relative_to(ROOT).as_posix(), config.getoption("markexpr")
    if "not slow" in wanted:
        return True if is_slow(name) else None
    mixed = any(each.startswith(name) for each in (*SLOW, *FAST))
    return True if wanted.startswith("slow") and not is_slow(name) and not mixed else None


settings.register_profile("kafka-actors", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kafka-actors")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the soak and of the scenarios."""
    group = parser.getgroup("soak")
    group.addoption("--soak-seconds", type=float, default=12, help="how long the soak injects faults (12)")
    parser.addoption("--rewrite-scenarios", action="store_true", help="rewrite the expected lines of the scenarios")
    group.addoption("--soak-seed", type=int, default=random.randrange(10**6), help="the seed of the faults (any)")


def pytest_configure() -> None:
    """Take SIGINT, which the background jobs of a shell ignore: tests send it to themselves and to their processes.

    Exit if the installation of an earlier checkout does not make the package `actors` importable.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    finders = [module for name, module in sys.modules.items() if name.startswith("__editable___kafka_actors")]
    if any("actors" not in finder.MAPPING for finder in finders):
        pytest.exit("this environment has an older installation: run `make install` or `pip install --no-deps -e .`", 4)


@pytest.fixture(autouse=True)
def _log_level_as_before() -> Iterator[None]:
    """Restore the levels of the root and state change loggers, which commands inside a test change."""
    before = [(logger, logger.level) for logger in map(logging.getLogger, (None, "state.change.logger"))]
    yield
    for logger, level in before:
        logger.setLevel(level)


def pytest_report_header(config: pytest.Config) -> str:
    """Return the duration and the seed of the soak, so that a failed soak can be repeated."""
    return f"soak: --soak-seconds {config.getoption('soak_seconds'):g} --soak-seed {config.getoption('soak_seed')}"


@pytest.fixture(scope="session")
def apache_jars() -> Path:
    """Return the folder with the jars of Apache Kafka 3.9, and create their class archive.

    The folder is KAFKA_LIBS or the one that `make apache` fills. The test is skipped if there are no jars.
    """
    from tests.cluster.processes import archive_classes  # a test of rules does not pay for it

    for place in (os.environ.get("KAFKA_LIBS"), ROOT / ".cache" / "kafka-3.9.1"):
        if place and any(Path(place).glob("kafka_2.13-3.9.*.jar")):
            archive_classes(Path(place))
            return Path(place)
    pytest.skip("needs the jars of Apache Kafka 3.9: set KAFKA_LIBS or run `make apache`")


@pytest.fixture(scope="session")
def streams_jars() -> Path:
    """Return the folder with the jar of Kafka Streams 3.9.

    The folder is KAFKA_LIBS or the one that `make apache` fills. The test is skipped if there is no jar.
    """
    for place in (os.environ.get("KAFKA_LIBS"), ROOT / ".cache" / "kafka-streams-3.9.1"):
        if place and any(Path(place).glob("kafka-streams-3.9.*.jar")):
            return Path(place)
    pytest.skip("needs the jar of Kafka Streams 3.9: run `make apache`")


@pytest.fixture(scope="session")
def connect_jars() -> Path:
    """Return the folder with the jars of Kafka Connect, MirrorMaker and Streams 3.9, which `make connect` fills.

    The test is skipped if there are none.
    """
    place = ROOT / ".cache" / "kafka-connect-3.9.1"
    if any(place.glob("connect-mirror-3.9.*.jar")):
        return place
    pytest.skip("needs the jars of Kafka Connect 3.9: run `make connect`")


@pytest.fixture(scope="session")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the traces of `tests.trace.cluster_life`; no test may change them."""
    from tests.trace import cluster_life

    folder = tmp_path_factory.mktemp("cluster-life")
    cluster_life.live(folder)
    return folder


@pytest.fixture(scope="session")
def controller_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the trace of `tests.trace.controller_life`; no test may change it."""
    from tests.trace import controller_life

    folder = tmp_path_factory.mktemp("controller-life")
    controller_life.live(folder)
    return folder


@pytest.fixture(scope="session")
def kcat() -> str:
    """Return the path of the kcat command; skip the test if kcat is not installed."""
    found = shutil.which("kcat")
    if found is None:
        pytest.skip("needs kcat")
    return found


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the slow tests and those that need Apache's jars; deselect `long` tests in short soaks."""
    for item in items:
        if is_slow(item.nodeid):
            item.add_marker(pytest.mark.slow)
        if "apache_jars" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.apache)
    order = (*LONGEST, *SLOW)
    items.sort(key=lambda item: next((n for n, name in enumerate(order) if item.nodeid.startswith(name)), len(order)))
    if config.getoption("soak_seconds") < LONG_SOAK:
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("long")]
