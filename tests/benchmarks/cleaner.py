"""Clean a compacted log beside Apache's LogCleaner: `python -m tests.benchmarks.cleaner [--records N]`.

Each round cleans copies of one log. The unit is records per second of CPU time of the cleaning thread; the best round
counts. A JVM needs some seconds to compile the cleaner, so Apache's cleans each log after one of another case.
The cases are records of 100 B and 1 KB, 50 in a batch and one in a batch. `_python` is without the compiled loops.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import attrs

from actors.storage.log import LogConfig, offset_map
from actors.storage.log_manager import LogManager
from messages.log_cleaner import CLEANED, WAITING
from messages.wire.record_batch import batch_of
from tests.benchmarks.data_plane import apache_jars
from tests.benchmarks.report import report
from tests.cluster.apache_java import apache_java
from tests.layering import ROOT

CASES = {"1kb": (1000, 50), "100b": (100, 50), "100b_single": (100, 1)}
"""Case -> size of a value, and records in a batch."""
KEYS, ROUNDS, MAP_BYTES, BOUND = 100_000, 3, 128 << 20, 0.5
CONFIG = attrs.astuple(LogConfig(segment_bytes=64 << 20, compacted=1))


def fill(place: Path, records: int, size: int, together: int) -> None:
    """Write a log; all records but those of the active segment can be cleaned."""
    chance, logs, path = random.Random(1), LogManager(lambda: 1_000), f"{place}/t-0"
    logs.open(path, True, CONFIG)
    for _ in range(records // together // 20):
        batches = [
            batch_of([(b"key-%06d" % chance.randrange(KEYS), bytes(size)) for _ in range(together)], 1_000).body
            for _ in range(20)
        ]
        logs.append(path, 0, False, True, *batches)
    logs.roll_compacted("t")
    logs.append(path, 0, False, True, batch_of([(b"last", b"")], 1_000).body)
    logs.close_all()


def clean(place: Path, compiled: bool) -> float:
    """Clean a log, and return the records per second of CPU time."""
    loops: dict[str, Any] = {name: loop for name, loop in vars(offset_map).items() if name.startswith("compiled_")}
    for name in () if compiled else loops:
        setattr(offset_map, name, None)
    logs, path, state = LogManager(lambda: time.time_ns() // 1_000_000), f"{place}/t-0", WAITING
    logs.note_high_watermark(path, logs.open(path, False, CONFIG)[1])
    began, begins, figures = time.process_time(), True, ()
    while state <= WAITING:
        state, _, _, figures, reason, _ = logs.clean(path, begins, MAP_BYTES // 24, 900_000, 256 << 10, 4)
        begins = False
    took = time.process_time() - began
    assert state == CLEANED, reason
    logs.abandon()
    for name, loop in loops.items():
        setattr(offset_map, name, loop)
    return figures[4] / 2 / took


def clean_by_apache(jars: Path, places: list[Path]) -> list[float]:
    """Clean logs one after the other in one JVM, and return the records per second of CPU time for each."""
    program = [str(ROOT / "tests" / "cluster" / "ApacheCleaner.java"), str(MAP_BYTES), "-"]
    java = [each for each in apache_java(jars, "1g") if each != "-XX:TieredStopAtLevel=1"]
    command = [*java, "-Dsegment.bytes=67108864", *program, ",".join(f"{place}/t-0" for place in places)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [int(records) / float(seconds) for seconds, records, *_ in map(str.split, lines)]


def main() -> None:
    """Run all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    records, jars = parser.parse_args().records, apache_jars("cleaner")
    if jars is None:
        return
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        for case, (size, together) in CASES.items():
            source = Path(folder) / case
            source.mkdir()
            fill(source, records, size, together)

            def copies(count: int, source: Path = source) -> list[Path]:
                places = [source.with_name(f"{source.name}-{number}") for number in range(count)]
                for place in places:
                    shutil.rmtree(place, ignore_errors=True)
                    shutil.copytree(source, place)
                return places

            ours = max(clean(place, compiled=True) for place in copies(ROUNDS))
            plain = max(clean(place, compiled=False) for place in copies(ROUNDS))
            peer = max(clean_by_apache(jars, copies(ROUNDS)))
            report("cleaner", case, ours, peer, "Apache Kafka 3.9.1", "records/s", bound=BOUND)
            report("cleaner", f"{case}_python", plain, peer, "Apache Kafka 3.9.1", "records/s")


if __name__ == "__main__":
    main()
