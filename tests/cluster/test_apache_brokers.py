"""Our controller controls two Apache brokers under load (apache.md): real processes on a real ZooKeeper."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cluster.processes import ApacheBroker, OurNode, Running, free_ports
from tests.waiting import until
from tests.zookeeper_client import PatientZooKeeperClient
from zk_bridge.embedded import EmbeddedZooKeeper

TOPIC = "payments"
PARTITIONS = 3
OUR_ID = 100


class Load:
    """A producer with acks=all that writes numbers until `stop`. `acked` has the acknowledged ones."""

    def __init__(self, bootstrap: str) -> None:
        self.acked: set[bytes] = set()
        self.errors: list[str] = []
        self._going = True
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while self._going:
            for _ in range(20):
                value = b"%d" % number
                number += 1
                self._producer.produce(TOPIC, value, key=value, on_delivery=self._delivered)
            self._producer.poll(0.05)

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self.acked.add(message.value())  # type: ignore[attr-defined]

    def stop(self) -> None:
        """Stop writing, and wait until each message is acknowledged or has failed."""
        self._going = False
        self._thread.join(30)
        assert self._producer.flush(60) == 0


def read_all(bootstrap: str) -> list[bytes]:
    """Return the values of all records of the topic, read from the beginning of each partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 0})
    try:
        ends = {p: consumer.get_watermark_offsets(TopicPartition(TOPIC, p), timeout=20)[1] for p in range(PARTITIONS)}
        consumer.assign([TopicPartition(TOPIC, p, 0) for p in range(PARTITIONS)])
        values: list[bytes] = []
        until(
            lambda: values.extend(m.value() for m in consumer.consume(1000, 0.2) if not m.error()) or len(values),
            lambda n: n >= sum(ends.values()),
            "all records read",
        )
        return values
    finally:
        consumer.close()


@pytest.mark.soak
@pytest.mark.long
def test_two_apache_brokers_are_led_by_our_controller(
    tmp_path: Path, zookeeper: EmbeddedZooKeeper, apache_jars: Path
) -> None:
    """A topic gets leaders and replicas, and new leaders after a kill -9 under load; no acknowledged record is lost."""
    connect = f"127.0.0.1:{zookeeper.port}"
    ports = free_ports(3)
    children: list[Running] = []
    zk = PatientZooKeeperClient(connect)
    zk.start(20)

    def state(partition: int) -> dict[str, object]:
        return json.loads(zk.get(f"/brokers/topics/{TOPIC}/partitions/{partition}/state")[0])  # type: ignore[no-any-return]

    def isrs() -> list[list[int]]:
        return [sorted(state(p)["isr"]) for p in range(PARTITIONS)]  # type: ignore[call-overload]

    try:
        ours = OurNode(tmp_path / "ours", OUR_ID, ports[2], connect, process__roles="controller")
        children.append(ours)
        until(lambda: zk.exists("/controller"), what="our controller is elected")
        assert json.loads(zk.get("/controller")[0])["brokerid"] == OUR_ID

        def broker(id: int) -> ApacheBroker:
            directory = tmp_path / f"apache-{id}"
            directory.mkdir(exist_ok=True)
            return ApacheBroker(
                apache_jars,
                directory,
                id,
                ports[id],
                connect,
                controlled__shutdown__enable="false",
                replica__lag__time__max__ms=5000,
            )

        apache = {id: broker(id) for id in (0, 1)}
        children.extend(apache.values())
        until(lambda: sorted(zk.get_children("/brokers/ids")), lambda ids: ids == ["0", "1"], "both registered", 60)
        # no client reaches a controller that is no broker, so the topic is created by its znodes
        replicas = {str(p): [p % 2, 1 - p % 2] for p in range(PARTITIONS)}
        assigned = {"version": 2, "partitions": replicas, "adding_replicas": {}, "removing_replicas": {}}
        zk.create(f"/config/topics/{TOPIC}", b'{"version":1,"config":{}}')
        zk.create(f"/brokers/topics/{TOPIC}", json.dumps(assigned).encode())
        until(isrs, lambda seen: seen == [[0, 1]] * PARTITIONS, "led and replicated", ignore=(Exception,))
        assert {state(p)["controller_epoch"] for p in range(PARTITIONS)} == {1}

        bootstrap = f"127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"
        load = Load(bootstrap)
        until(lambda: len(load.acked) > 200, what="the load runs")
        epochs = [state(p)["leader_epoch"] for p in range(PARTITIONS)]
        apache[0].send(signal.SIGKILL)
        until(lambda: [state(p)["leader"] for p in range(PARTITIONS)], lambda s: s == [1] * PARTITIONS, "led again")
        until(isrs, lambda seen: seen == [[1]] * PARTITIONS, "the dead one is out of the ISRs that it followed in")
        assert all(state(p)["leader_epoch"] > epochs[p] for p in range(PARTITIONS))  # type: ignore[operator]
        before = len(load.acked)
        until(lambda: len(load.acked) > before + 200, what="the load goes on at the other broker")

        apache[0] = broker(0)
        children.append(apache[0])
        until(isrs, lambda seen: seen == [[0, 1]] * PARTITIONS, "the killed broker is back in every ISR", 60)
        load.stop()
        values = read_all(bootstrap)
        assert load.errors == []
        assert load.acked <= set(values)
        assert len(values) == len(set(values))
        assert json.loads(zk.get("/controller")[0])["brokerid"] == OUR_ID
        assert zk.get("/controller_epoch")[0] == b"1"
    finally:
        zk.stop()
        zk.close()
        for child in children:
            child.kill()
