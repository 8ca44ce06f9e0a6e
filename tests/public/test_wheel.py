"""Install the wheel, and use it in a project that has modules of the same names as this one (`docs/examples`).

The tests run the project's tests, a type checker and the commands. In another project, modules of these names fail on
import, so the wheel must not import them. The venv has the wheel only; a `.pth` file adds the folder of its
dependencies, which these tests use too.
"""

from __future__ import annotations

import filecmp
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from shutil import copytree, ignore_patterns

import attrs
import pytest

from tests.docs.markdown import code_blocks, without_code
from tests.layering import PACKAGES, ROOT

EXAMPLES = ROOT / "docs" / "examples"
REMAINS = ignore_patterns("__pycache__", "*.pyc", "*.so", ".*_cache")


@attrs.frozen
class Installed:
    """The wheel, and the `bin` folder of the venv in which it is installed."""

    wheel: Path
    bin: Path

    def run(self, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a command of the venv, without the PYTHON* variables of this process."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment["PATH"] = f"{self.bin}{os.pathsep}{environment['PATH']}"
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            stdin=subprocess.DEVNULL,
        )


def dependencies() -> str:
    """Return the folder of attrs, which also has the wheel's other dependencies."""
    return str(Path(attrs.__file__).parents[1])


PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


def built(place: Path, **environment: str) -> Path:
    """Build the wheel in this folder, from a copy of the sources, and return its path."""
    source = place / "source"
    source.mkdir()
    for name in PACKAGES:
        copytree(ROOT / name, source / name, ignore=REMAINS)
    (source / ".ci").mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "LICENSES", ".ci/build_backend.py"):
        (source / name).write_bytes((ROOT / name).read_bytes())
    command = [*PIP, "wheel", "--no-deps", "--wheel-dir", str(place), str(source)]
    subprocess.run(command, check=True, timeout=300, env={**os.environ, **environment})
    (wheel,) = place.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    place = tmp_path_factory.mktemp("wheel")
    wheel = built(place)
    venv.create(place / "venv", symlinks=True, with_pip=False)
    python = place / "venv" / "bin" / "python"
    subprocess.run([*PIP, "--python", str(python), "install", "--no-deps", str(wheel)], check=True, timeout=300)
    (packages,) = (place / "venv" / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(dependencies() + "\n")
    return Installed(wheel, python.parent)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a copy of the example project."""
    return copytree(EXAMPLES, tmp_path / "project", ignore=REMAINS)


def test_the_wheel_installs_one_name_and_one_for_spark(installed: Installed) -> None:
    names = zipfile.ZipFile(installed.wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"kafka_actors", "pyspark_kafka_actors"}
    internal = {name.split("/")[2] for name in names if name.startswith("kafka_actors/_internal/")}
    assert internal == {*PACKAGES, "__init__.py"}
    assert {"kafka_actors/py.typed", "kafka_actors/_internal/spark/log4j2.properties"} <= set(names)
    assert not [name for name in names if "/public/" in name or "__pycache__" in name]
    sources = {str(file.relative_to(ROOT)) for package in PACKAGES for file in (ROOT / package).rglob("*.py")}
    packed = {
        name.removeprefix("kafka_actors/_internal/")
        if "/_internal/" in name
        else name.replace("pyspark_kafka_actors", "spark/public").replace("kafka_actors", "actors/public")
        for name in names
        if name.endswith(".py")
    }
    assert packed == {*sources, "__init__.py"}


@pytest.mark.soak
@pytest.mark.long
def test_without_a_compiler_the_wheel_is_built_without_the_compiled_part(installed: Installed, tmp_path: Path) -> None:
    compiled = [name for name in zipfile.ZipFile(installed.wheel).namelist() if name.endswith(".so")]
    assert len(compiled) == (shutil.which("cc") is not None)
    assert not [name for name in zipfile.ZipFile(built(tmp_path, CC="false")).namelist() if name.endswith(".so")]


def test_the_example_passes_its_tests(installed: Installed, project: Path) -> None:
    done = installed.run("python", "-m", "pytest", "-p", "no:cacheprovider", cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout


@pytest.mark.soak
@pytest.mark.long
def test_the_example_passes_a_type_checker(installed: Installed, project: Path) -> None:
    done = installed.run("python", "-m", "mypy", cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr
    (project / "wrong.py").write_text("from kafka_actors import KafkaCluster\nKafkaCluster(brokers='three').kill()\n")
    done = installed.run("python", "-m", "mypy", "wrong.py", cwd=project)
    assert done.stdout.count("error:") == 2, done.stdout


def snippets(page: Path) -> list[str]:
    """Return the Python code blocks of a page."""
    return [block.code for block in code_blocks(page.read_text(encoding="utf-8"), "python")]


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        pytest.param("docs/how-to/cluster-for-tests.md", marks=[pytest.mark.soak, pytest.mark.long]),
        pytest.param("docs/how-to/recipes.md", marks=[pytest.mark.soak, pytest.mark.long]),
    ],
)
def test_the_snippets_of_a_page_run_and_pass_a_strict_type_checker(
    installed: Installed, project: Path, tmp_path: Path, page: str
) -> None:
    """Snippets of tests run together in the example project; each program runs alone in an empty folder."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert not re.search(r"(?m)^ +(async )?def |^ {4}from kafka_actors", without_code(text, "python"))
    programs = [each for each in snippets(ROOT / page) if "kafka_actors.simulated" in each]
    module = "".join(each for each in snippets(ROOT / page) if each not in programs)
    assert not re.search(r"(?m)^from (actors|messages|spark)\b", module), "only the example project has these"
    for old in (project / "tests").iterdir():
        old.unlink()
    (project / "tests" / "test_page.py").write_text(module)
    ran = installed.run("python", "-m", "pytest", "-p", "no:cacheprovider", cwd=project)
    tests = len(re.findall(r"(?m)^ *(?:async )?def test_", module))
    assert tests and f" {tests} passed" in ran.stdout, ran.stdout + ran.stderr
    checked = installed.run("python", "-m", "mypy", cwd=project)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    for number, program in enumerate(programs):
        place = tmp_path / str(number)
        place.mkdir()
        (place / "program.py").write_text(program)
        for command in (["program.py"], ["-m", "mypy", "--strict", "program.py"]):
            done = installed.run("python", *command, cwd=place)
            assert done.returncode == 0, done.stdout + done.stderr


def test_no_page_installs_the_package_from_an_index() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        commands = re.findall(r"\b(?:pip|pipx|uv) [^#\n]*(?:install|add) [^#\n]*", page.read_text(encoding="utf-8"))
        assert not [each for each in commands if re.search(r" kafka[-_]actors(?![-_\w])", each)], page


def test_internal_packages_are_not_importable(installed: Installed, project: Path) -> None:
    for name in ("messages", "zk_bridge"):
        done = installed.run("python", "-c", f"import {name}", cwd=project / "tests")
        assert f"No module named '{name}'" in done.stderr
    for command in (["--version"], ["up", "--help"], ["topics", "--help"], ["replay", "tests"]):
        done = installed.run("kafka-actors", *command, cwd=project)
        assert "Traceback" not in done.stderr
        assert done.stdout.startswith(("kafka-actors, version", "Usage: kafka-actors")) or command[0] == "replay"
    inside = "import sys; from kafka_actors import KafkaCluster; print(sorted(sys.modules))"
    modules = installed.run("python", "-c", inside, cwd=project).stdout
    assert "'kafka_actors.kafka_cluster'" in modules
    ours = ("'actors'", "'messages'", "'thespian'", "'kafka'")
    slow = ("'asyncio'", "'runpy'", "'shutil'", "'tempfile'", "'kafka_actors.fault_injection'")
    assert not [name for name in (*ours, *slow) if name in modules]


@pytest.fixture
def other_project(tmp_path: Path) -> Path:
    """Return a folder with modules of the repository's package names, which end a program that imports them."""
    for name in (*(f"{name}.py" for name in PACKAGES if name != "actors"), "actors/__init__.py"):
        file = tmp_path / "project" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("raise SystemExit('imported from the project')\n")
    return tmp_path / "project"


_IMPORT_ALL = """
import importlib, pkgutil, sys, kafka_actors, pyspark_kafka_actors
assert sys.path[0] == ""
for module in pkgutil.walk_packages(kafka_actors.__path__, "kafka_actors."):
    importlib.import_module(module.name)
    print(module.name)
assert not {"actors", "messages", "spark", "zk_bridge"} & set(sys.modules)
"""


def test_every_module_of_the_wheel_can_be_imported_in_a_project(installed: Installed, other_project: Path) -> None:
    done = installed.run("python", "-c", _IMPORT_ALL, cwd=other_project)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(installed.wheel) as wheel:
        files = [name for name in wheel.namelist() if name.endswith(".py")]
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in files}
    named = set(done.stdout.split())
    assert modules - named == {"kafka_actors", "pyspark_kafka_actors"}


_CLUSTER = """
from kafka_actors import KafkaCluster
with KafkaCluster(1) as cluster:
    cluster.create_topic("t")
    print(cluster.leader_of("t"))
"""

_SIMULATED = """
import sys
from kafka_actors.simulated import SimulatedCluster, message
with SimulatedCluster(seed=7, directory=sys.argv[1]) as cluster:
    cluster.create_topic("t")
    cluster.kill(cluster.wait_for_leader("t"))
    request = message("MetadataRequest")(8, ("t",), False)
    print(cluster.ask(cluster.live_brokers[0], request).topics[0].name)
"""


def test_clusters_run_in_a_project(installed: Installed, other_project: Path, tmp_path: Path) -> None:
    """The wheel writes the same traces as the repository, so each can replay the traces of the other."""
    assert installed.run("python", "-c", _CLUSTER, cwd=other_project).stdout == "0\n"
    theirs, ours = str(tmp_path / "wheel"), str(tmp_path / "repository")
    done = installed.run("python", "-c", _SIMULATED, theirs, cwd=other_project)
    assert done.stdout == "t\n", done.stderr
    subprocess.run([sys.executable, "-c", _SIMULATED, ours], cwd=ROOT, check=True, capture_output=True, timeout=60)
    names = [str(file.relative_to(ours)) for file in Path(ours).rglob("*.trace*")]
    assert len(names) >= 3
    _, different, unreadable = filecmp.cmpfiles(theirs, ours, names, shallow=False)
    assert (different, unreadable) == ([], [])
    replayed = installed.run("kafka-actors", "replay", ours, cwd=other_project)
    assert replayed.returncode == 0, replayed.stdout
    assert "recorded with code version" not in replayed.stdout


def test_the_report_of_a_failed_test_names_the_log_and_the_traces(installed: Installed, project: Path) -> None:
    for old in (project / "tests").iterdir():
        old.unlink()
    (project / "tests" / "test_it.py").write_text(
        "import pytest\n"
        "def test_good(kafka_cluster):\n    print(f'GOOD {kafka_cluster.trace_dir}')\n"
        "@pytest.mark.kafka_cluster(1)\n"
        "def test_bad(kafka_cluster):\n    assert kafka_cluster.live_brokers == [7]\n"
    )
    done = installed.run("python", "-m", "pytest", "-rP", "-p", "no:cacheprovider", cwd=project)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "assert [0] == [7]" in done.stdout
    assert "Kafka cluster of kafka_cluster" in done.stdout
    good = next(line.removeprefix("GOOD ") for line in done.stdout.splitlines() if line.startswith("GOOD "))
    assert not Path(good).exists()
    command = next(line for line in done.stdout.splitlines() if "kafka-actors replay" in line).split()
    replay = installed.run(*command[:3], cwd=project)
    assert replay.returncode == 0, replay.stdout + replay.stderr
    assert command[2] in done.stdout
    assert Path(command[2]).is_dir()


def test_the_command_runs_where_a_project_has_modules_of_our_names(installed: Installed, project: Path) -> None:
    up = ["up", "--zookeeper", "memory", "--port", "0", "--detach", "--json", "--dir", str(project / "cluster")]
    ready = installed.run("kafka-actors", *up, cwd=project)
    assert '"zookeeper": "memory"' in ready.stdout, ready.stderr
    assert installed.run("kafka-actors", "down", "--dir", str(project / "cluster"), cwd=project).returncode == 0
