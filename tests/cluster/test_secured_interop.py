"""All clients use every mechanism on secured nodes: ours, also with brokers and under a controller of Apache's."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.abc
import aiokafka.helpers
import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.net.sasl.oauth
import pytest
from cryptography import x509

from actors.node.properties import write_properties
from tests.cluster.apache_java import apache_java
from tests.cluster.attacker import Authority, Certificate, jws
from tests.cluster.java_tools import run_tool
from tests.cluster.processes import ApacheBroker, OurNode, Running, free_ports
from tests.waiting import until
from tests.zookeeper_client import PatientZooKeeperClient
from zk_bridge.embedded import EmbeddedZooKeeper

pytestmark = [pytest.mark.soak, pytest.mark.long, pytest.mark.apache]

GO = Path(__file__).parents[1] / "clients" / "go"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "SSL")
"""SSL: the client's certificate alone."""
PASSWORD = "alice-pw"
MODULES = {"PLAIN": "plain.Plain", "OAUTHBEARER": "oauthbearer.OAuthBearer"}
LISTENERS = {"INT": "SASL_SSL", "SASLS": "SASL_SSL", "MTLS": "SSL"}


def jaas(mechanism: str, **options: str) -> str:
    texts = "".join(f' {name}="{value}"' for name, value in options.items())
    return f"org.apache.kafka.common.security.{MODULES.get(mechanism, 'scram.Scram')}LoginModule required{texts};"


class Secured:
    """Three nodes with the listeners of brokers, of SASL_SSL with all mechanisms, and of SSL with client certificates.

    The first node is the controller. Alice, by any mechanism, has all rights but those on the cluster.
    """

    def __init__(self, folder: Path, kinds: str, jars: Path) -> None:
        self.folder = folder
        authority = Authority("authority")
        files = {
            name: authority.issue(Certificate((("CN", name),)), [x509.DNSName("localhost")])
            for name in ("node", "alice")
        }
        for name, content in {**files, "authority": authority.pem}.items():
            (folder / f"{name}.pem").write_bytes(content)
        self.zookeeper = EmbeddedZooKeeper(folder / "zookeeper", force_sync=False)
        self.zookeeper.start()
        where = f"127.0.0.1:{self.zookeeper.port}"
        self.zk = PatientZooKeeperClient(where)
        self.zk.start(20)
        for user in ("admin", "alice"):
            words = ("--alter", "--entity-type", "users", "--entity-name", user)
            added = ",".join(f"SCRAM-SHA-{size}=[password={user}-pw]" for size in (256, 512))
            done = run_tool(jars, "kafka.admin.ConfigCommand", "--zookeeper", where, *words, "--add-config", added)
            assert done.returncode == 0, done.stderr
        acls = [{"principal": "User:alice", "permissionType": "Allow", "operation": "All", "host": "*"}]
        for kind in ("Topic", "Group", "TransactionalId"):
            self.zk.ensure_path(f"/kafka-acl/{kind}")
            self.zk.create(f"/kafka-acl/{kind}/*", json.dumps({"version": 1, "acls": acls}).encode())
        self.ports = [dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True)) for _ in kinds]
        self.nodes: list[Running] = []
        for id, kind in enumerate(kinds):
            start: Any = OurNode if kind == "o" else lambda *args, **settings: ApacheBroker(jars, *args, **settings)
            self.nodes.append(start(folder / str(id), id, 0, where, **self._settings(id)))
            until(lambda: self.zk.exists("/controller"), what="a controller", timeout=120)
        until(lambda: len(self.zk.get_children("/brokers/ids")) == len(kinds), what="the brokers", timeout=120)
        assert self.zk.controller == 0
        admin = confluent_kafka.admin.AdminClient(self.librdkafka("PLAIN"))
        topics = [confluent_kafka.admin.NewTopic(name, 3, 3) for name in ("t", "copies")]
        for made in admin.create_topics(topics, operation_timeout=60).values():
            made.result(90)

    def _settings(self, id: int) -> dict[str, object]:
        found: dict[str, object] = {
            "listeners": ",".join(f"{name}://localhost:{port}" for name, port in self.ports[id].items()),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in LISTENERS.items()),
            "inter.broker.listener.name": "INT",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "listener.name.int.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasls.sasl.enabled.mechanisms": ",".join(MECHANISMS[:4]),
            "listener.name.mtls.ssl.client.auth": "required",
            "listener.name.mtls.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:admin",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.folder / "node.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.folder / "authority.pem",
            "offsets.topic.num.partitions": 3,
            "offsets.topic.replication.factor": 3,
            "transaction.state.log.replication.factor": 3,
            "transaction.state.log.num.partitions": 3,
            "listener.name.int.scram-sha-512.sasl.jaas.config": jaas(
                "SCRAM-SHA-512", username="admin", password="admin-pw"
            ),
            "listener.name.sasls.plain.sasl.jaas.config": jaas("PLAIN", user_alice=PASSWORD),
            "listener.name.sasls.oauthbearer.sasl.jaas.config": jaas("OAUTHBEARER", unsecuredLoginStringClaim_sub="n"),
        }
        for size in (256, 512):
            found[f"listener.name.sasls.scram-sha-{size}.sasl.jaas.config"] = jaas("SCRAM")
        return {name.replace(".", "__"): value for name, value in found.items()}

    def servers(self, mechanism: str) -> str:
        """Return the addresses of the listener with a mechanism."""
        listener = "MTLS" if mechanism == "SSL" else "SASLS"
        return ",".join(f"localhost:{ports[listener]}" for ports in self.ports)

    def librdkafka(self, mechanism: str) -> dict[str, Any]:
        """Return the settings of librdkafka."""
        pem = str(self.folder / "alice.pem")
        own = {"ssl.certificate.location": pem, "ssl.key.location": pem}
        if mechanism != "SSL":
            own = {"sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": PASSWORD}
        if mechanism == "OAUTHBEARER":
            own |= {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=alice"}
        return {
            "bootstrap.servers": self.servers(mechanism),
            "security.protocol": "SSL" if mechanism == "SSL" else "SASL_SSL",
            "ssl.ca.location": str(self.folder / "authority.pem"),
            **own,
        }

    def java(self, mechanism: str) -> Path:
        """Return a file with the settings of Java's clients."""
        words = {
            "bootstrap.servers": self.servers(mechanism),
            "security.protocol": "SSL" if mechanism == "SSL" else "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / "authority.pem"),
        }
        if mechanism == "SSL":
            words |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.folder / "alice.pem")}
        else:
            options = {"username": "alice", "password": PASSWORD}
            if mechanism == "OAUTHBEARER":
                options = {"unsecuredLoginStringClaim_sub": "alice"}
            words |= {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas(mechanism, **options)}
        file = self.folder / f"{mechanism}.properties"
        write_properties(file, words)
        return file

    def stop(self) -> None:
        """Kill the nodes."""
        for node in self.nodes:
            node.kill()
        self.zk.stop()
        self.zk.close()
        self.zookeeper.stop()


@pytest.fixture(scope="module", params=["ooo", "oao", "aoo"], ids=["ours", "with Apache", "under Apache"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, apache_jars: Path
) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"), request.param, apache_jars)
    try:
        yield made
    finally:
        made.stop()


def librdkafka(cluster: Secured, mechanism: str, group: str) -> None:
    settings = cluster.librdkafka(mechanism)
    producer = confluent_kafka.Producer(settings)
    producer.produce("t", group.encode())
    assert not producer.flush(90)
    consumer = confluent_kafka.Consumer({**settings, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])

    def read() -> bytes | None:
        found = consumer.poll(1.0)
        return None if found is None or found.error() else found.value()

    until(read, lambda value: value == group.encode(), "the record", 90)
    consumer.close()


def of_python(cluster: Secured, mechanism: str, provider: Any) -> dict[str, Any]:
    words: dict[str, Any] = {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": PASSWORD,
    }
    if mechanism == "OAUTHBEARER":
        words = {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": provider}
    return {
        "bootstrap_servers": cluster.servers(mechanism),
        "security_protocol": "SSL" if mechanism == "SSL" else "SASL_SSL",
        **({} if mechanism == "SSL" else words),
    }


def kafka_python(cluster: Secured, mechanism: str, group: str) -> None:
    class Provider(kafka.net.sasl.oauth.AbstractTokenProvider):
        def token(self) -> str:
            return jws(sub="alice")()

    pem = str(cluster.folder / "alice.pem")
    settings = of_python(cluster, mechanism, Provider()) | {"ssl_cafile": str(cluster.folder / "authority.pem")}
    if mechanism == "SSL":
        settings |= {"ssl_certfile": pem, "ssl_keyfile": pem}
    producer = kafka.KafkaProducer(**settings)
    producer.send("t", group.encode()).get(90)
    consumer = kafka.KafkaConsumer("t", group_id=group, auto_offset_reset="earliest", **settings)
    assert any(each.value == group.encode() for each in consumer)
    consumer.close()
    producer.close()


def with_aiokafka(cluster: Secured, mechanism: str, group: str) -> None:
    class Provider(aiokafka.abc.AbstractTokenProvider):
        async def token(self) -> str:
            return jws(sub="alice")()

    async def run() -> None:
        pem = str(cluster.folder / "alice.pem")
        own = {"certfile": pem, "keyfile": pem} if mechanism == "SSL" else {}
        context = aiokafka.helpers.create_ssl_context(cafile=str(cluster.folder / "authority.pem"), **own)
        settings = of_python(cluster, mechanism, Provider()) | {"ssl_context": context}
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait("t", group.encode())
        consumer = aiokafka.AIOKafkaConsumer("t", group_id=group, auto_offset_reset="earliest", **settings)
        async with consumer:
            async for each in consumer:
                if each.value == group.encode():
                    break

    asyncio.run(asyncio.wait_for(run(), 120))


@pytest.fixture(scope="module")
def franz_go(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    place = tmp_path_factory.mktemp("go")
    shutil.copytree(GO, place, dirs_exist_ok=True)
    subprocess.run(["go", "mod", "tidy"], cwd=place, check=True)
    subprocess.run(["go", "build", "-o", "client", "./secured"], cwd=place, check=True)
    return place / "client"


CLIENTS: dict[str, Callable[[Secured, str, str], None]] = {
    "librdkafka": librdkafka,
    "kafka-python": kafka_python,
    "aiokafka": with_aiokafka,
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_python_client_writes_and_reads(cluster: Secured, client: str, mechanism: str) -> None:
    CLIENTS[client](cluster, mechanism, f"{client}-{mechanism}")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_franz_go_writes_and_reads(cluster: Secured, franz_go: Path, mechanism: str) -> None:
    secret = jws(sub="alice")() if mechanism == "OAUTHBEARER" else PASSWORD
    files = (cluster.folder / "authority.pem", cluster.folder / "alice.pem")
    words = (cluster.servers(mechanism), "t", f"franz-{mechanism}", mechanism, secret, *files)
    done = subprocess.run([franz_go, *words], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "ok\n", done


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_tool_of_kafka_lists_topics(cluster: Secured, apache_jars: Path, mechanism: str) -> None:
    where = ("--bootstrap-server", cluster.servers(mechanism), "--command-config", str(cluster.java(mechanism)))
    done = run_tool(apache_jars, "org.apache.kafka.tools.TopicCommand", *where, "--list")
    assert {"t", "copies"} <= set(done.stdout.split()), done.stderr


def test_java_and_streams_copy_a_record(cluster: Secured, apache_jars: Path, streams_jars: Path) -> None:
    *java, classes = apache_java(apache_jars, "256m")
    source = Path(__file__).with_name("SecuredClients.java")
    files = [str(cluster.java(mechanism)) for mechanism in MECHANISMS]
    command = [*java, f"{classes}:{streams_jars}/*", str(source), "t", "copies", str(cluster.folder / "state"), *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert [line for line in done.stdout.splitlines() if line.startswith(("ok", "failed"))] == [
        f"ok {file}" for file in files
    ], done.stdout[-3000:] + done.stderr[-3000:]
