"""Clients with wrong credentials, mechanisms and certificates, and without rights: what they say of our broker and of
Apache's is the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.admin
import attrs
import confluent_kafka
import confluent_kafka.admin as rdkafka
import kafka
import kafka.admin
import pytest

from actors.node.properties import write_properties
from tests.cluster.apache_java import apache_java
from tests.cluster.attacker import LISTENERS, Broker, Certificate
from tests.cluster.processes import ApacheBroker, OurNode
from tests.cluster.test_secured_interop import franz_go, jaas
from zk_bridge.embedded import EmbeddedZooKeeper

pytestmark = [pytest.mark.soak, pytest.mark.long, pytest.mark.apache]

__all__ = ["franz_go"]

SECONDS = 8.0
TOPIC = "f"


@attrs.frozen
class Login:
    """How a client logs in.

    Attributes:
        listener: The listener.
        mechanism: The mechanism of SASL; "" for none.
        user: The user.
        password: The password.
        certificate: The authority of the client's certificate; None if it has none.
        trusts: The authority that the client trusts.
        protocol: The security protocol, if it is not the listener's.
    """

    listener: str
    mechanism: str = ""
    user: str = "alice"
    password: str = "no"
    certificate: str | None = None
    trusts: str = "authority"
    protocol: str = ""

    @property
    def security(self) -> str:
        """The client's security protocol."""
        return self.protocol or LISTENERS[self.listener]


SASL = {
    "PLAIN, wrong password": Login("SASLS", "PLAIN"),
    "PLAIN, unknown user": Login("SASLS", "PLAIN", "stranger"),
    "SCRAM-SHA-256, wrong password": Login("SASL", "SCRAM-SHA-256"),
    "SCRAM-SHA-512, wrong password": Login("SASL", "SCRAM-SHA-512"),
    "SCRAM-SHA-512, unknown user": Login("SASL", "SCRAM-SHA-512", "stranger"),
    "SCRAM-SHA-512, user of SCRAM-SHA-256": Login("SASL", "SCRAM-SHA-512", "carol", "carol-pw"),
    "mechanism that is not enabled": Login("SASLS", "SCRAM-SHA-256", "alice", "alice-pw"),
}
TLS = {
    "no certificate": Login("MTLS"),
    "certificate of a stranger": Login("MTLS", certificate="stranger"),
    "broker of a stranger": Login("SSL", trusts="stranger"),
    "TLS on a plain listener": Login("PLAINTEXT", protocol="SSL"),
    "plain text on a TLS listener": Login("SSL", protocol="PLAINTEXT"),
}
"""The alerts of OpenSSL and Java differ, so that the words of the errors do."""
WITHOUT_RIGHTS = Login("SASL", "PLAIN", "alice", "alice-pw")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, apache_jars: Path) -> Iterator[tuple[Broker, Broker]]:
    place = tmp_path_factory.mktemp("errors")
    with EmbeddedZooKeeper(place / "zookeeper", force_sync=False) as zookeeper:
        starts: dict[str, Callable[..., Any]] = {"apache": partial(ApacheBroker, apache_jars), "ours": OurNode}
        made = [
            Broker(kind, place / kind, f"127.0.0.1:{zookeeper.port}/{kind}", start) for kind, start in starts.items()
        ]
        try:
            for broker in made:
                broker.create_topics(TOPIC)
                for name, authority in broker.authorities.items():
                    (broker.folder / f"{name}.pem").write_bytes(authority.pem)
                    (broker.folder / f"of-{name}.pem").write_bytes(authority.issue(Certificate()))
            yield made[0], made[1]
        finally:
            for broker in made:
                broker.stop()


def plainly(text: object) -> str:
    """Return an error text without addresses, times and objects of Java (Apache prints its request)."""
    cut = re.sub(r"(localhost|127\.0\.0\.1)(:[0-9]+|/127\.0\.0\.1:[0-9]+)?", "BROKER", str(text))
    cut = re.sub(r"Request Request\(.*?\) is not authorized\.", "Cluster authorization failed.", cut)
    cut = re.sub(r"[0-9.]+ ?(ms|seconds|secs)\b|timed out at [0-9]+", "TIME", cut)
    return re.sub(r"port=[0-9]+|Call\(.*?\)|\(nodeId=.*?\)|0x[0-9a-f]+|node[_ ]?id='?[0-9a-z-]+'?", "", cut)


def raised(call: Callable[[], object]) -> tuple[str, str]:
    """Return the kind and the text of the error that a call raises."""
    try:
        result = call()
    except Exception as error:
        inner = error.args[0] if error.args and isinstance(error.args[0], confluent_kafka.KafkaError) else None
        return (type(error).__name__, plainly(error)) if inner is None else (inner.name(), plainly(inner.str()))
    return "no error", plainly(result)[:500]


# ---------------------------------------------------------------------------------------------------- clients


@contextlib.contextmanager
def logged(name: str) -> Iterator[list[str]]:
    """Return the errors that a logger writes meanwhile."""
    words: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: words.append(plainly(record.getMessage()))  # type: ignore[method-assign]
    logging.getLogger(name).addHandler(handler)
    try:
        yield words
    finally:
        logging.getLogger(name).removeHandler(handler)


def of_librdkafka(broker: Broker, login: Login) -> dict[str, Any]:
    found: dict[str, Any] = {
        "bootstrap.servers": f"localhost:{broker.ports[login.listener]}",
        "security.protocol": login.security,
        "ssl.ca.location": str(broker.folder / f"{login.trusts}.pem"),
        "broker.address.family": "v4",
    }
    if login.mechanism:
        found |= {"sasl.mechanism": login.mechanism, "sasl.username": login.user, "sasl.password": login.password}
    if login.certificate is not None:
        pem = str(broker.folder / f"of-{login.certificate}.pem")
        found |= {"ssl.certificate.location": pem, "ssl.key.location": pem}
    return found


def librdkafka_logs_in(broker: Broker, login: Login) -> tuple[str, str]:
    found: list[confluent_kafka.KafkaError] = []
    client = rdkafka.AdminClient({**of_librdkafka(broker, login), "error_cb": found.append})
    end = time.monotonic() + SECONDS
    while not found and time.monotonic() < end:
        client.poll(0.1)
    return (found[0].name(), plainly(found[0].str())) if found else ("no error", "")


def of_python(broker: Broker, login: Login, context: str) -> dict[str, Any]:
    tls = ssl.create_default_context(cafile=str(broker.folder / f"{login.trusts}.pem"))
    if login.certificate is not None:
        tls.load_cert_chain(broker.folder / f"of-{login.certificate}.pem")
    found: dict[str, Any] = {
        "bootstrap_servers": f"localhost:{broker.ports[login.listener]}",
        "security_protocol": login.security,
        "request_timeout_ms": 4000,
        context: tls,
    }
    if login.mechanism:
        found |= {"sasl_mechanism": login.mechanism, "sasl_plain_username": login.user}
        found["sasl_plain_password"] = login.password
    return found


def kafka_python_logs_in(broker: Broker, login: Login) -> tuple[str, str]:
    settings = of_python(broker, login, "ssl_context") | {"bootstrap_timeout_ms": 400}
    return raised(lambda: kafka.KafkaAdminClient(**settings).close())


def aiokafka_logs_in(broker: Broker, login: Login) -> tuple[str, str]:
    async def log_in() -> None:
        client = aiokafka.admin.AIOKafkaAdminClient(**of_python(broker, login, "ssl_context"))
        try:
            await client.start()
        finally:
            await client.close()

    with logged("aiokafka") as words:
        return raised(lambda: asyncio.run(asyncio.wait_for(log_in(), SECONDS)))[0], words[0]


LOGS_IN = {
    "librdkafka": librdkafka_logs_in,
    "aiokafka": aiokafka_logs_in,
    "kafka-python": kafka_python_logs_in,
}
"""kafka-python says only that it cannot connect."""


@pytest.mark.parametrize("what", [*SASL, *TLS])
@pytest.mark.parametrize("client", LOGS_IN)
def test_a_wrong_login_is_refused_in_the_same_words(both: tuple[Broker, Broker], client: str, what: str) -> None:
    theirs, ours = (LOGS_IN[client](broker, (SASL | TLS)[what]) for broker in both)
    assert theirs[0] != "no error"
    assert ours == theirs if what in SASL else ours[0] != "no error"


# ---------------------------------------------------------------------------------------------------- rights


def librdkafka_steps(broker: Broker) -> dict[str, Callable[[], object]]:
    """Return what a client of librdkafka does."""
    settings = of_librdkafka(broker, WITHOUT_RIGHTS)
    admin = rdkafka.AdminClient(settings)
    part = confluent_kafka.TopicPartition(TOPIC, 0, 0)
    resource = rdkafka.ConfigResource(rdkafka.ConfigResource.Type.TOPIC, TOPIC)
    node = rdkafka.ConfigResource(rdkafka.ConfigResource.Type.BROKER, "0")
    changed = rdkafka.ConfigResource(rdkafka.ConfigResource.Type.TOPIC, TOPIC)
    change = rdkafka.AlterConfigOpType.SET
    changed.add_incremental_config(rdkafka.ConfigEntry("retention.ms", "1", incremental_operation=change))
    acl = ("f", rdkafka.ResourcePatternType.LITERAL, "User:x", "*", rdkafka.AclOperation.READ)
    wanted = rdkafka.AclBinding(rdkafka.ResourceType.TOPIC, *acl, rdkafka.AclPermissionType.ALLOW)
    filtered = rdkafka.AclBindingFilter(rdkafka.ResourceType.TOPIC, *acl, rdkafka.AclPermissionType.ALLOW)

    def wait(futures: Any) -> object:
        first: Future[object] = next(iter(futures.values())) if isinstance(futures, dict) else futures
        return first.result(SECONDS)

    def produce() -> None:
        found: list[Any] = []
        producer = confluent_kafka.Producer({**settings, "message.timeout.ms": 5000})
        producer.produce(TOPIC, b"x", on_delivery=lambda error, _: found.append(error))
        producer.flush(SECONDS)
        raise confluent_kafka.KafkaException(found[0])

    def consume() -> None:
        consumer = confluent_kafka.Consumer({**settings, "group.id": "g"})
        consumer.subscribe([TOPIC])
        found = consumer.poll(SECONDS)
        consumer.close()
        if found is not None and found.error():
            raise confluent_kafka.KafkaException(found.error())

    def begin() -> None:
        confluent_kafka.Producer({**settings, "transactional.id": "t"}).init_transactions(SECONDS)

    groups = [confluent_kafka.ConsumerGroupTopicPartitions("g", [part])]
    asked = [confluent_kafka.ConsumerGroupTopicPartitions("g", [confluent_kafka.TopicPartition(TOPIC, 0)])]
    return {
        "create topic": lambda: wait(admin.create_topics([rdkafka.NewTopic("new", 1, 1)])),
        "delete topic": lambda: wait(admin.delete_topics([TOPIC])),
        "partitions": lambda: wait(admin.create_partitions([rdkafka.NewPartitions(TOPIC, 9)])),
        "configs": lambda: wait(admin.describe_configs([resource])),
        "configs of a broker": lambda: wait(admin.describe_configs([node])),
        "alter configs": lambda: wait(admin.incremental_alter_configs([changed])),
        "acls": lambda: wait(admin.describe_acls(filtered)),
        "create acls": lambda: wait(admin.create_acls([wanted])),
        "delete acls": lambda: wait(admin.delete_acls([filtered])),
        "group": lambda: wait(admin.describe_consumer_groups(["g"])),
        "offsets": lambda: wait(admin.list_consumer_group_offsets(asked)),
        "alter offsets": lambda: wait(admin.alter_consumer_group_offsets(groups)),
        "delete group": lambda: wait(admin.delete_consumer_groups(["g"])),
        "records": lambda: wait(admin.delete_records([part])),
        "describe topic": lambda: wait(admin.describe_topics(confluent_kafka.TopicCollection([TOPIC]))),
        "elections": lambda: wait(admin.elect_leaders(confluent_kafka.ElectionType.PREFERRED, [part])),
        "produce": produce,
        "consume": consume,
        "transaction": begin,
    }


def kafka_python_steps(broker: Broker) -> dict[str, Callable[[], object]]:
    """Return what a client of kafka-python does."""
    settings = of_python(broker, WITHOUT_RIGHTS, "ssl_context")
    admin = kafka.KafkaAdminClient(**settings)
    pattern = kafka.admin.ResourcePattern(kafka.admin.ResourceType.TOPIC, TOPIC)
    words = (kafka.admin.ACLOperation.READ, kafka.admin.ACLPermissionType.ALLOW)
    acl = kafka.admin.ACL("User:x", "*", *words, pattern)
    any_acl = kafka.admin.ACLFilter("User:x", "*", *words, pattern)

    def produce() -> None:
        kafka.KafkaProducer(**settings).send(TOPIC, b"x").get(SECONDS)

    def consume() -> None:
        kafka.KafkaConsumer(TOPIC, group_id="g", **settings).poll(SECONDS * 1000)

    return {
        "create topic": lambda: admin.create_topics([kafka.admin.NewTopic("new", 1, 1)]),
        "delete topic": lambda: admin.delete_topics([TOPIC]),
        "acls": lambda: admin.describe_acls(any_acl),
        "create acls": lambda: admin.create_acls([acl]),
        "delete acls": lambda: admin.delete_acls([any_acl]),
        "produce": produce,
        "consume": consume,
    }


def aiokafka_steps(broker: Broker) -> dict[str, Callable[[], object]]:
    """Return what a client of aiokafka does."""

    def settings() -> dict[str, Any]:
        return of_python(broker, WITHOUT_RIGHTS, "ssl_context")

    async def produce() -> None:
        async with aiokafka.AIOKafkaProducer(**settings()) as producer:
            await producer.send_and_wait(TOPIC, b"x")

    async def consume() -> None:
        async with aiokafka.AIOKafkaConsumer(TOPIC, group_id="g", **settings()) as consumer:
            await consumer.getone()

    async def create() -> object:
        client = aiokafka.admin.AIOKafkaAdminClient(**settings())
        await client.start()
        try:
            return await client.create_topics([aiokafka.admin.NewTopic("new", 1, 1)])
        finally:
            await client.close()

    steps: dict[str, Any] = {"produce": produce, "consume": consume, "create topic": create}
    return {name: lambda step=step: asyncio.run(asyncio.wait_for(step(), SECONDS)) for name, step in steps.items()}


STEPS: dict[str, Callable[[Broker], dict[str, Callable[[], object]]]] = {
    "librdkafka": librdkafka_steps,
    "kafka-python": kafka_python_steps,
    "aiokafka": aiokafka_steps,
}


@pytest.mark.parametrize("described", [False, True], ids=["no right", "Describe"])
@pytest.mark.parametrize("client", STEPS)
def test_a_missing_right_gets_the_same_words(both: tuple[Broker, Broker], client: str, described: bool) -> None:
    found = []
    for broker in both:
        right = {"allow": "alice", "operation": "Describe", "topic": TOPIC}
        with broker.granted(right) if described else contextlib.nullcontext():
            found.append({name: raised(step) for name, step in STEPS[client](broker).items()})
    assert found[1] == found[0]


# ---------------------------------------------------------------------------------------------------- other languages


def test_java_says_the_same(both: tuple[Broker, Broker], apache_jars: Path, tmp_path: Path) -> None:
    *java, classes = apache_java(apache_jars, "256m")
    source = str(Path(__file__).with_name("SecuredErrors.java"))
    found = []
    for broker in both:
        files = []
        for name, login in {**SASL, **TLS, "without rights": WITHOUT_RIGHTS}.items():
            files.append(tmp_path / f"{name}.properties")
            words = {
                "bootstrap.servers": f"localhost:{broker.ports[login.listener]}",
                "security.protocol": login.security,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(broker.folder / f"{login.trusts}.pem"),
            }
            if login.mechanism:
                options = {"username": login.user, "password": login.password}
                words |= {"sasl.mechanism": login.mechanism, "sasl.jaas.config": jaas(login.mechanism, **options)}
            if login.certificate is not None:
                pem = str(broker.folder / f"of-{login.certificate}.pem")
                words |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": pem}
            write_properties(files[-1], words)
        done = subprocess.run(
            [*java, classes, source, TOPIC, *map(str, files)], capture_output=True, text=True, timeout=300, check=False
        )
        lines = [line[2:].split("\t") for line in done.stdout.splitlines() if line.startswith("> ")]
        assert len(lines) > len(files), done.stderr[-3000:]
        kinds = {Path(name).stem: plainly(text) for name, text in lines}
        found.append({name: text.endswith("false") if name in TLS else text for name, text in kinds.items()})
    assert found[1] == found[0]


def test_franz_go_says_the_same_of_a_missing_right(both: tuple[Broker, Broker], franz_go: Path) -> None:
    """A wrong login is not compared: franz-go tries again until the program ends it."""
    found = []
    for broker in both:
        files = broker.folder / "authority.pem", broker.folder / "of-stranger.pem"
        words = f"localhost:{broker.ports['SASLS']}", TOPIC, "g", "PLAIN", "alice-pw", *map(str, files)
        done = subprocess.run([franz_go, *words], capture_output=True, text=True, timeout=120, check=False)
        found.append(plainly(done.stdout))
    assert found[0].startswith("failed TOPIC_AUTHORIZATION_FAILED")
    assert found[1] == found[0]
