"""The page of a secured cluster with many clients: no secret, the lag of a group, faults and their end, ten pages."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificates
from playwright.sync_api import Browser, expect

from actors.core.security.scram import credential_of, salt_password
from actors.node.cluster_security import BROKER, ClusterSecurity
from actors.page.live import LivePage
from actors.page.recorded import RecordedPage
from actors.public import KafkaCluster
from actors.trace.reader import open_trace
from messages.security import Secret
from tests.page.browser import opened
from tests.page.test_live_page import check_sizes

SECRETS = {"alice": "alice-secret-pw", "bob": "bob-secret-pw"}
GROUP = "<b>readers</b>"
ADDRESS = quote(GROUP, safe="")
PAGES = 10
STORE_PASSWORD = "store-secret-pw"
ABOUT = (
    ("topic", "orders"),
    ("client", "alice"),
    ("client", "carol"),
    ("broker", "0"),
    ("partition", "orders-0"),
    ("consumer-group", GROUP),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("secured")
    return made


def key_store(folder: Path) -> dict[str, str]:
    """Make a key store with a password. Return the settings of nodes that have it."""
    own = ClusterSecurity(folder, "SASL_SSL", "SCRAM-SHA-256")
    pem = (own.authority.parent / f"{BROKER}.pem").read_bytes()
    certificate, *others = load_pem_x509_certificates(pem)
    sealed = BestAvailableEncryption(STORE_PASSWORD.encode())
    store = pkcs12.serialize_key_and_certificates(
        *(b"node", load_pem_private_key(pem, None), certificate, others, sealed)  # type: ignore[arg-type]
    )
    (folder / "node.p12").write_bytes(store)
    settings = {
        "keystore.location": folder / "node.p12",
        "keystore.type": "PKCS12",
        "keystore.password": STORE_PASSWORD,
    }
    trusted = {"truststore.location": own.authority, "truststore.type": "PEM"}
    return {f"listener.name.sasl_ssl.ssl.{name}": str(value) for name, value in (settings | trusted).items()}


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[KafkaCluster]:
    settings = key_store(folder / "own")
    with KafkaCluster(
        3,
        settings=settings,
        security="SASL_SSL",
        mechanism="SCRAM-SHA-256",
        users=SECRETS,
        directory=folder / "cluster",
        ui=True,
    ) as cluster:
        cluster.create_topic("orders", 2)
        yield cluster


def client_config(cluster: KafkaCluster, user: str) -> dict[str, Any]:
    """Return what a client of a user needs; nodes have certificates of another authority than the cluster's own."""
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "enable.ssl.certificate.verification": False}
    return servers | cluster.client_config(user)


def send(cluster: KafkaCluster, records: int) -> None:
    producer = Producer(client_config(cluster, "alice"))
    for _ in range(records):
        producer.produce("orders", b"x", partition=0)
    assert producer.flush(30) == 0


def commit(cluster: KafkaCluster, offset: int) -> None:
    given = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(client_config(cluster, "bob") | given)
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


def spellings(secrets: set[str]) -> set[bytes]:
    """Return the secrets as an answer could contain them: as they are, and as bytes in base64."""
    plain = {secret.encode() for secret in secrets}
    return plain | {base64.b64encode(secret).rstrip(b"=") for secret in plain}


class Walker:
    """Asks a page's addresses, and keeps what they answer."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.bodies: list[bytes] = []
        self.walked: set[str] = set()

    def get(self, address: str, **query: object) -> Any:
        """Return an answer."""
        self.walked.add(f"/api/{address}")
        self.bodies.append(body := self._read(Request(f"{self.url}api/{address}?{urlencode(query)}")))
        return json.loads(body)

    def post(self, name: str, value: object) -> Any:
        """Return the answer to an action."""
        token = self.get("about")["token"]
        asked = Request(f"{self.url}api/{name}", json.dumps(value).encode(), {"X-Token": token})
        self.bodies.append(body := self._read(asked))
        return json.loads(body)

    def _read(self, asked: Request) -> bytes:
        with urlopen(asked, timeout=30) as answer:
            return bytes(answer.read())

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Keep the events that are published in a block, and for a second afterwards."""
        with urlopen(f"{self.url}api/events", timeout=1.0) as stream:
            yield
            lines: list[bytes] = []
            with suppress(TimeoutError):
                while True:
                    lines.append(stream.readline())
        self.bodies.append(b"".join(lines))
        assert b"data: {" in self.bodies[-1] and b"later-0" in self.bodies[-1]


def use_secrets(cluster: KafkaCluster) -> set[str]:
    """Let clients and nodes use secrets, right ones and wrong ones. Return them, with what SCRAM derives from one."""
    salt, iterations = b"carol-secret-salt", 8192
    admin = AdminClient(client_config(cluster, "alice"))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, iterations)
    changed = UserScramCredentialUpsertion("carol", info, b"carol-secret-pw", salt)
    admin.alter_user_scram_credentials([changed])["carol"].result(30)
    cluster.add_user("dave", "dave-secret-pw")
    for user, password in (("dave", "dave-secret-pw"), ("alice", "wrong-secret-pw")):
        own = {"group.id": "x", "log_level": 0, "sasl.username": user, "sasl.password": password}
        with suppress(KafkaException):
            Consumer(client_config(cluster, "alice") | own).list_topics(timeout=1)
    cluster.create_topic("later")
    salted = salt_password("SCRAM-SHA-256", Secret(b"carol-secret-pw"), salt, iterations)
    credential = credential_of("SCRAM-SHA-256", salted, salt, iterations)
    derived = {base64.b64encode(each).decode() for each in (salted.value, credential.stored_key, credential.server_key)}
    return {"carol-secret", "dave-secret-pw", "wrong-secret-pw", "stored_key=", *derived}


def test_no_address_of_a_page_answers_with_a_secret(cluster: KafkaCluster, folder: Path, tmp_path: Path) -> None:
    live = Walker(cluster.ui_url)
    with live.stream():
        secrets = secrets_of(cluster, folder) | use_secrets(cluster) | {STORE_PASSWORD}
        for about, name in ABOUT:
            live.get("why", about=about, name=name)
        live.get("picture")
        live.get("partition", name="orders-0")
        live.get("lags", name=GROUP)
        assert "failed" in live.post("do", {"do": "kill", "with": {"broker_id": 9}})
    cluster._ask("flush_traces")
    recorded = RecordedPage(open_trace(cluster.trace_dir), cache=tmp_path / "cache")
    recorded._beside = recorded
    recorded.wait()
    walker = Walker(recorded.url)
    try:
        walk_recorded(walker, recorded)
    finally:
        recorded.stop()
    empty = LivePage("", [tmp_path])
    empty.stop()
    assert all(b"carol" in b"".join(found.bodies) for found in (live, walker))
    for found, page in ((live, empty), (walker, recorded)):
        assert found.walked == {*page._server._routes}
        assert sum(map(len, found.bodies)) > 10_000
        for secret in spellings(secrets):
            assert not [body for body in found.bodies if secret in body], secret


def walk_recorded(walker: Walker, recorded: RecordedPage) -> None:
    """Ask all addresses of a recorded page, also about the deliveries that secrets were in."""
    for name in ("about", "overview", "slow"):
        walker.get(name)
    end = recorded.end
    for at in (recorded._recorded.begin + 1, end):
        for name in ("picture", "compare", "lanes"):
            walker.get(name, at=at)
    for about, name in ABOUT:
        walker.get("why", about=about, name=name)
    walker.get("partition", name="orders-0")
    walker.get("offsets", name="orders-0")
    walker.get("members", name=GROUP)
    walker.get("lags", name=GROUP, at=end)
    produced = walker.get("slow", api="Produce")["requests"][0]
    ids = {"connection": produced["connection"], "correlation": produced["correlation_id"]}
    walker.get("path", run=produced["run"], seq=produced["seq"], **ids)
    for words in ("SCRAM", "carol", "keystore", "sealed"):
        for each in walker.get("search", text=words)["deliveries"][:20]:
            place = {"run": each["run"], "seq": each["seq"]}
            walker.get("delivery", **place)
            walker.get("state", **place)
            walker.get("step", **place, by="delivery")
            walker.get("lanes", **place)
