"""The page of a secured cluster with many clients: no secret, the lag of a group, faults and their end, ten pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from playwright.sync_api import Browser, Page, Response, expect

from actors.page.recorded import RecordedPage
from actors.public import KafkaCluster
from actors.trace.reader import open_trace
from tests.page.browser import opened
from tests.page.test_live_page import check_sizes

SECRETS = {"alice": "alice-secret-pw", "bob": "bob-secret-pw"}
GROUP = "<b>readers</b>"
ADDRESS = quote(GROUP, safe="")
PAGES = 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("secured")
    return made


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(
        3, security="SASL_SSL", mechanism="SCRAM-SHA-256", users=SECRETS, directory=folder, ui=True
    ) as cluster:
        cluster.create_topic("orders", 2)
        yield cluster


def send(cluster: KafkaCluster, records: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **cluster.client_config("alice")})
    for _ in range(records):
        producer.produce("orders", b"x", partition=0)
    assert producer.flush(30) == 0


def commit(cluster: KafkaCluster, offset: int) -> None:
    config = {"bootstrap.servers": cluster.bootstrap_servers, **cluster.client_config("bob"), "group.id": GROUP}
    consumer = Consumer({**config, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    try:
        consumer.subscribe(["orders"])
        assert consumer.consume(1, 30)
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def secrets_of(cluster: KafkaCluster, folder: Path) -> set[str]:
    """Return what only the cluster and its users may know."""
    found = {str(cluster.client_config(user)["sasl.password"]) for user in ("broker", *SECRETS)}
    for file in folder.rglob("*.properties"):
        found |= {*re.findall(r"(?:password|secret)[\w.-]*\s*=\s*(\S{6,})", file.read_text(), re.IGNORECASE)}
    return found


def read(page: Page, bodies: list[str], addresses: list[str]) -> None:
    """Visit addresses, and note what the page gets and shows."""

    def note(response: Response) -> None:
        if "/api/events" not in response.url:
            bodies.append(response.text())

    page.on("response", note)
    for address in addresses:
        page.goto(address)
        expect(page.get_by_text("Reading the trace …")).to_have_count(0)
        bodies.append(page.content())


def test_the_lag_of_a_group_follows_its_commits_and_the_log(browser: Browser, cluster: KafkaCluster) -> None:
    send(cluster, 5)
    commit(cluster, 2)
    with opened(browser, f"{cluster.ui_url}#/group/{ADDRESS}") as page:
        expect(page.get_by_role("heading", level=1)).to_contain_text(GROUP)
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name="orders-0", exact=True))
        expect(row).to_contain_text(re.compile(r"orders-0\s*2\s*5\s*3"))
        send(cluster, 4)
        expect(row).to_contain_text(re.compile(r"orders-0\s*2\s*9\s*7"))
        check_sizes(page)


def test_faults_are_injected_and_undone_by_buttons(browser: Browser, cluster: KafkaCluster) -> None:
    victim = next(id for id in cluster.live_brokers if id != cluster.controller_id)
    other = next(id for id in cluster.live_brokers if id != victim)
    with opened(browser, f"{cluster.ui_url}#/broker/{victim}") as page:
        effects = page.get_by_role("region", name="In effect")
        expect(page.get_by_role("heading", level=1)).to_contain_text("running")
        page.get_by_label("Cut off broker: the other broker").select_option(str(other))
        pair = " and ".join(map(str, sorted((victim, other))))
        for button, words in (
            ("Slow disk (0.2 s)", f"slow_disk (0.2) of broker {victim}"),
            ("Mute", f"mute of broker {victim}"),
            ("Cut off clients", f"no network between clients and broker {victim}"),
            ("Cut off broker", f"no network between brokers {pair}"),
            ("Pause", f"broker {victim} is paused"),
        ):
            page.get_by_role("button", name=f"{button} broker {victim}", exact=True).click()
            expect(effects).to_contain_text(words)
            effects.get_by_role("button", name="Undo").click()
            expect(effects).to_have_count(0)
        page.get_by_role("button", name=f"Expire session broker {victim}").click()
        expect(page.get_by_role("region", name="Events")).to_contain_text("session")
        page.get_by_role("button", name=f"Full disk broker {victim}").click()
        expect(effects).to_contain_text(f"full_disk of broker {victim}")
        send(cluster, 3)
        cluster.wait_for(lambda: victim not in cluster.live_brokers)
        expect(effects).to_contain_text(f"broker {victim} is not running")
        effects.get_by_role("listitem").filter(has_text="full_disk").get_by_role("button").click()
        expect(effects).not_to_contain_text("full_disk")
        effects.get_by_role("button", name="Undo").click()
        cluster.wait_for(lambda: victim in cluster.live_brokers)
        expect(effects).to_have_count(0)


def test_ten_pages_show_a_pause_and_its_end(browser: Browser, cluster: KafkaCluster) -> None:
    with ExitStack() as stack:
        pages = [stack.enter_context(opened(browser, cluster.ui_url)) for _ in range(PAGES)]
        states = [page.get_by_role("table", name="Brokers") for page in pages]
        for state in states:
            expect(state).not_to_contain_text("paused")
        victim = next(id for id in cluster.live_brokers if id != cluster.controller_id)
        cluster.pause(victim)
        for state in states:
            expect(state).to_contain_text("paused")
        cluster.resume(victim)
        for state in states:
            expect(state).not_to_contain_text("paused")


def test_no_page_gets_a_secret(browser: Browser, cluster: KafkaCluster, folder: Path) -> None:
    secrets = secrets_of(cluster, folder)
    assert {*SECRETS.values()} < secrets
    bodies: list[str] = []
    views = ("", "topics", "groups", "events", "refused", "topic/orders", "broker/0", f"group/{ADDRESS}?why=1")
    with opened(browser, cluster.ui_url) as page:
        read(page, bodies, [f"{cluster.ui_url}#/{view}" for view in views])
    cluster.kill(0)
    recorded = RecordedPage(open_trace(cluster.trace_dir), cache=folder / "cache")
    recorded.wait()
    users = [each for run in recorded._recorded.runs for each in run.deliveries(0, (b"alice", b"SCRAM"))]
    assert users
    looks = [f"?d={each.run.name}~{each.seq}&at={each.at}" for each in (*users[:3], *users[-3:])]
    with opened(browser, recorded.url) as page:
        found = ("search?find=SCRAM", "search?find=secret-pw", "trace", "slow")
        read(page, bodies, [f"{recorded.url}#/{view}" for view in (*found, *(f"lanes{look}" for look in looks))])
    recorded.stop()
    assert sum(map(len, bodies)) > 100_000
    for secret in secrets:
        assert not [body for body in bodies if secret in body.replace("search?find=secret-pw", "")], secret
