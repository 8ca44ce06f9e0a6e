"""Measure the limits of the page: `python -m tests.benchmarks.page [FOLDER]`. It needs a Chromium.

* recorded: a simulated run of a million deliveries, which FOLDER keeps for the next time. The page in this process is
  asked over HTTP: until it has the index of facts, each kind of step from random deliveries, and states by replay.
* live: the trace of a controller with 100,000 partitions. A browser loads its page; then ten pages are open at once.
* idle: the processor time of three nodes in one process, without clients, with ten open pages and without one; and how
  late a kill is shown.

The peer is always the limit. Opening, steps and states are seconds of CPU of all threads of this process, of which one
runs at a time. Other times are those of a clock, so the machine should be idle; the load is printed first.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlencode
from urllib.request import urlopen

import psutil
from playwright.sync_api import Page

from actors.node.process import tame
from actors.page.live import LivePage
from actors.page.recorded import RecordedPage
from actors.public import KafkaCluster
from actors.public.simulated import SimulatedCluster
from actors.trace.reader import open_trace
from messages.apis.produce import ProducePartition, ProduceRequest
from messages.cluster import TopicPartition
from messages.wire.record_batch import read_records
from tests.benchmarks.report import report, seconds
from tests.benchmarks.trace import FULL, observer
from tests.controller.world import World
from tests.page import late_record
from tests.page.browser import opened, running_browser
from tests.storage.batches import batch

BENCH = "page"
MILLION = 1_000_000
PARTITIONS = 100_000
PER_TOPIC = 1_000
RECORDS_PER_KILL = 2_000
LOOKS = 8
PAGES = 10
IDLE_SECONDS = 30.0
PAUSE = threading.Event()
SUBJECTS = (
    "",
    "controller",
    "broker:1",
    "partition:many-7",
    "partition:orders-7",
    "topic:single",
    "group:readers",
    "message:LogMoved",
    "text:x12345",
)


def limited(case: str, ours: float, limit: float, unit: str) -> None:
    """Print a row: a figure and its limit."""
    report(BENCH, case, ours, limit, "limit", unit, less_is_better=True, bound=1)


# ------------------------------------------------------------------------------------------------ recorded


def record(folder: Path) -> None:
    """Record a run of about a million deliveries: the late record, then records with restarts of a follower."""
    with SimulatedCluster(3, seed=5, directory=folder, settings=late_record.SETTINGS) as cluster:
        late_record.play(cluster)
        cluster.start_broker(next(id for id in range(3) if id not in cluster.live_brokers))
        cluster.create_topic("many", partitions=50, replication_factor=3)
        for number in range(MILLION // 28):
            if number % RECORDS_PER_KILL == 0 and number:
                follower = next(id for id in cluster.live_brokers if id != cluster.controller_id)
                cluster.kill(follower)
                cluster.wait_for(lambda gone=follower: gone not in cluster.isr_of("many"))
                cluster.start_broker(follower)
                cluster.wait_for(lambda: len(cluster.isr_of("many", 49)) == 3)
            partition = TopicPartition("many", number % 50)
            part = ProducePartition(partition, read_records(batch(b"x%d" % number)))
            cluster.ask(cluster.wait_for_leader(*partition), ProduceRequest(8, None, -1, 20_000, (part,)))


def ask(page: RecordedPage, what: str, **query: object) -> Any:
    """Return the page's answer."""
    with urlopen(f"{page.url}api/{what}?{urlencode(query)}") as answer:
        return json.loads(answer.read())


class Took(NamedTuple):
    """Seconds of CPU of all threads of this process, and of the clock, of the longest answer; and until it is found."""

    cpu: float
    clock: float
    whole: float


def timed(page: RecordedPage, what: str, **query: object) -> Took:
    """Ask until the search for the answer is finished, as the page does. Return how long it took."""
    took = Took(0.0, 0.0, 0.0)
    found: Any = {"unfinished": True}
    while found == {"unfinished": True}:
        begun, used = time.perf_counter(), time.process_time()
        found = ask(page, what, **query)
        clock, cpu = time.perf_counter() - begun, time.process_time() - used
        took = Took(max(took.cpu, cpu), max(took.clock, clock), took.whole + clock)
    return took


def open_page(folder: Path, cache: Path) -> tuple[RecordedPage, float]:
    """Open the page, and wait until it has the facts. Return it and the seconds of CPU that it took."""
    begun, used = time.perf_counter(), time.process_time()
    page = RecordedPage(open_trace(folder), cache=cache)
    print(f"served after {time.perf_counter() - begun:.2f} s", flush=True)
    while page._facts is None:
        PAUSE.wait(0.02)
    print(f"facts after {time.perf_counter() - begun:.2f} s", flush=True)
    return page, time.process_time() - used


def recorded(folder: Path) -> None:
    """Print the rows of a recorded run."""
    if not folder.exists():
        print(f"recorded in {seconds(lambda: record(folder)):.0f} s: {folder}", flush=True)
    with tempfile.TemporaryDirectory() as cache:
        page, took = open_page(folder, Path(cache))
        print(f"first opening, in which an index of facts is written if there is none: {took:.2f} s of CPU", flush=True)
        page.stop()
        page, took = open_page(folder, Path(cache))
        limited("open", took, 3.0, "s")
        overview = ask(page, "overview")
        print(f"{overview['deliveries']:,} deliveries, {len(page._known_facts().steps):,} facts", flush=True)
        steps(page, "while_surveyed")
        states(page, "while_surveyed")
        page.wait()
        steps(page, "surveyed")
        begun = time.perf_counter()
        page._states._thread.join()
        print(f"snapshots were stored {time.perf_counter() - begun:.0f} s later", flush=True)
        states(page, "surveyed")
        page.stop()


def states(page: RecordedPage, when: str) -> None:
    """Print how long a state before and after takes, or the answer that it is far from the snapshots stored so far."""
    took = [timed(page, "state", **place) for place in places(page, random.Random(2))]
    print(f"states {when}: median {median(each.clock for each in took) * 1000:.0f} ms by the clock", flush=True)
    limited(f"state_before_and_after_{when}", max(took).cpu, 1.5, "s")


def places(page: RecordedPage, chance: random.Random) -> Iterator[dict[str, object]]:
    """Yield random deliveries."""
    runs = [run for run in page._recorded.runs if run.length]
    for run in chance.choices(runs, [run.length for run in runs], k=LOOKS):
        yield {"run": run.run.name, "seq": chance.randint(run.first, run.last)}


def steps(page: RecordedPage, when: str) -> None:
    """Print the longest step of each kind of step, over all subjects."""
    chance = random.Random(1)
    slowest: dict[str, Took] = {}

    def take(kind: str, what: str, **query: object) -> None:
        took = timed(page, what, **query)
        slowest[kind] = Took(*map(max, took, slowest.get(kind, took)))

    for about in SUBJECTS:
        for place in places(page, chance):
            for by in ("delivery", "event", "fact"):
                for back in (0, 1):
                    take(by, "step", **place, by=by, about=about, back=back)
            for what in ("lanes", "delivery"):
                take(f"to_{what}", what, **place, about=about)
    for kind, took in slowest.items():
        print(f"{kind} {when}: {took.clock * 1000:.0f} ms by the clock, found after {took.whole:.2f} s", flush=True)
        limited(f"step_{kind}_{when}", took.cpu * 1000, 200, "ms")


# ------------------------------------------------------------------------------------------------ live


def record_many(folder: Path) -> None:
    """Record a controller that gets 100,000 partitions."""
    world = World()
    world.base.observer = recorder = observer(FULL, folder, world.base.clock.now)
    world.node(0, validate_state=False)
    for broker in (1, 2, 3):
        world.broker(broker)
    replicas = [tuple((1, 2, 3)[(partition + place) % 3] for place in range(3)) for partition in range(PER_TOPIC)]
    for topic in range(PARTITIONS // PER_TOPIC):
        world.topic(f"topic-{topic}", *replicas, run=False)
    world.run()
    assert recorder is not None
    recorder.close()
    world.close()


def shows(page: Page) -> None:
    """Wait until a page shows all partitions."""
    shown = f"{PARTITIONS:,}".replace(",", "\u202f")
    page.locator(".tile", has_text="Partitions").get_by_text(shown).wait_for(timeout=120_000)


def megabytes_of_pages() -> float:
    """Return the memory of the largest process that renders a page, without what it shares with others."""
    children = psutil.Process().children(recursive=True)
    return max(
        child.memory_full_info().uss / 1e6
        for child in children
        if child.status() != psutil.STATUS_ZOMBIE and "--type=renderer" in child.cmdline()
    )


def live(here: Path) -> None:
    """Print the rows of a live page with many partitions."""
    record_many(here / "many")
    served = LivePage("many", [here / "many"])
    with running_browser() as browser:
        for number in range(3):
            begun = time.perf_counter()
            with opened(browser, served.url) as page:
                shows(page)
                took = time.perf_counter() - begun
                painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000
                limited("first_paint", painted, 2.0, "s")
                if number:
                    limited("picture_shown", took, 2.0, "s")
                else:  # the page reads the trace when it is first looked at
                    print(f"first load, with reading the trace: {took:.1f} s", flush=True)
                page.goto(f"{served.url}#/topic/topic-7")
                page.get_by_role("heading", level=1).wait_for()
                page.goto(f"{served.url}#/broker/1")
                page.get_by_role("heading", level=1).wait_for()
                limited("memory_of_page", megabytes_of_pages(), 300, "MB")
        with ExitStack() as stack:
            begun = time.perf_counter()
            pages = [stack.enter_context(opened(browser, served.url)) for _ in range(PAGES)]
            for page in pages:
                shows(page)
            print(f"{PAGES} pages open: {time.perf_counter() - begun:.1f} s", flush=True)
    served.stop()


@contextmanager
def watched(url: str) -> Iterator[None]:
    """Have the page open PAGES times."""
    with running_browser() as browser, ExitStack() as stack:
        for _ in range(PAGES):
            page = stack.enter_context(opened(browser, url))
            page.get_by_text("live", exact=True).wait_for()
        yield


def cores_of(process: psutil.Process) -> float:
    """Return how much of a core a process uses in the next IDLE_SECONDS."""
    begun = sum(process.cpu_times()[:2])
    PAUSE.wait(IDLE_SECONDS)
    return (sum(process.cpu_times()[:2]) - begun) / IDLE_SECONDS


def idle() -> None:
    """Print the rows of an idle cluster and of a kill."""
    with KafkaCluster(ui=True) as cluster:
        cluster.create_topic("orders", 10)
        (process,) = [each for each in psutil.Process().children() if "actors.cli" in " ".join(each.cmdline())]
        PAUSE.wait(5)
        before = cores_of(process)
        with watched(cluster.ui_url):
            during = cores_of(process)
        PAUSE.wait(7)
        after = cores_of(process)
        print(f"idle cores: {before:.4f} before, {during:.4f} with {PAGES} pages, {after:.4f} after", flush=True)
        limited("idle_cores_with_pages", max(during - before, 1e-4), 0.01, "cores")
        limited("idle_cores_after_pages", max(after - before, 1e-4), 0.001, "cores")
        with running_browser() as browser, opened(browser, cluster.ui_url) as page:
            victim = cluster.wait_for_leader("orders")
            start = page.get_by_role("button", name=f"Start broker {victim}")
            cluster.kill(victim)
            limited("kill_shown", seconds(start.wait_for), 1.0, "s")


def main() -> None:
    """Print all rows."""
    tame()  # as `trace show --ui` does
    print(f"load {', '.join(f'{each:.1f}' for each in os.getloadavg())}", flush=True)
    with tempfile.TemporaryDirectory() as here:
        idle()
        live(Path(here))
        recorded(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(here) / "million")


if __name__ == "__main__":
    main()
