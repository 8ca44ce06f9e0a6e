"""The steps with kafka-python."""

from __future__ import annotations

from typing import Any

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic

from tests.clients.steps import RECORDS, arguments, check, run

SERVERS, PREFIX = arguments()
TOPIC, GROUP = f"{PREFIX}-topic", f"{PREFIX}-group"
FIRST = TopicPartition(TOPIC, 0)
WAIT_MS = 20_000

admin: Any = KafkaAdminClient(bootstrap_servers=SERVERS)


def send(kind: str, **settings: Any) -> None:
    producer: Any = KafkaProducer(bootstrap_servers=SERVERS, acks="all", **settings)
    futures = [
        producer.send(TOPIC, value.encode(), key=b"key", partition=0, headers=[("h", b"1")]) for value in values(kind)
    ]
    for future in futures:
        future.get(WAIT_MS / 1000)
    producer.close()


def records(offset: int, count: int, **settings: Any) -> list[Any]:
    consumer: Any = KafkaConsumer(
        bootstrap_servers=SERVERS, enable_auto_commit=False, consumer_timeout_ms=5000, **settings
    )
    consumer.assign([FIRST])
    consumer.seek(FIRST, offset)
    # The range is first, as a consumer before it would be asked for one record more, and wait.
    found = [record for _, record in zip(range(count), consumer, strict=False)]
    consumer.close()
    return found


def values(kind: str) -> list[str]:
    return [f"{kind} {number}" for number in range(RECORDS)]


def retention() -> str:
    described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, TOPIC)], config_filter="all")
    return str(described["topic"][TOPIC]["retention.ms"]["value"])


def cluster() -> None:
    check(len(admin.describe_cluster()["brokers"]), 3)


def create_topic() -> None:
    admin.create_topics([NewTopic(TOPIC, 3, 3)], wait_for_metadata=True)


def describe_topic() -> None:
    (described,) = admin.describe_topics([TOPIC])
    check([len(each["isr_nodes"]) for each in described["partitions"]], [3, 3, 3])


def describe_configs() -> None:
    check(retention(), "604800000")


def alter_configs() -> None:
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, TOPIC, {"retention.ms": "3600000"})])
    check(retention(), "3600000")


def create_partitions() -> None:
    admin.create_partitions({TOPIC: NewPartitions(4)})


def produce() -> None:
    send("plain", enable_idempotence=False)


def produce_gzip() -> None:
    send("gzip", compression_type="gzip")


def produce_idempotent() -> None:
    send("idempotent", enable_idempotence=True)


def list_offsets() -> None:
    consumer: Any = KafkaConsumer(bootstrap_servers=SERVERS)
    check((consumer.beginning_offsets([FIRST]), consumer.end_offsets([FIRST])), ({FIRST: 0}, {FIRST: 3 * RECORDS}))
    consumer.close()


def offsets_for_times() -> None:
    consumer: Any = KafkaConsumer(bootstrap_servers=SERVERS)
    check(consumer.offsets_for_times({FIRST: 1})[FIRST].offset, 0)
    consumer.close()


def consume() -> None:
    wanted = [each.encode() for kind in ("plain", "gzip", "idempotent") for each in values(kind)]
    check([each.value for each in records(0, 3 * RECORDS)], wanted)


def headers() -> None:
    check([(each.key, list(each.headers)) for each in records(RECORDS, 1)], [(b"key", [("h", b"1")])])


member: Any = None


def group_consume() -> None:
    global member
    member = KafkaConsumer(
        TOPIC,
        bootstrap_servers=SERVERS,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=WAIT_MS,
    )
    check(len([record for _, record in zip(range(3 * RECORDS), member, strict=False)]), 3 * RECORDS)


def commit() -> None:
    member.commit({FIRST: kafka.OffsetAndMetadata(7, "", -1)})
    check(member.committed(FIRST), 7)


def list_groups() -> None:
    check(GROUP in [each["group_id"] for each in admin.list_groups()], True)


def describe_group() -> None:
    check(len(admin.describe_groups([GROUP])[GROUP]["members"]), 1)


def transaction() -> None:
    producer: Any = KafkaProducer(bootstrap_servers=SERVERS, transactional_id=f"{PREFIX}-id")
    producer.init_transactions()
    for value, commits in ((b"aborted", False), (b"committed", True)):
        producer.begin_transaction()
        producer.send(TOPIC, value, partition=0).get(WAIT_MS / 1000)
        producer.commit_transaction() if commits else producer.abort_transaction()
    producer.close()
    check([each.value for each in records(3 * RECORDS, 1, isolation_level="read_committed")], [b"committed"])


def delete_group() -> None:
    member.close()
    admin.delete_groups([GROUP])


def delete_topic() -> None:
    admin.delete_topics([TOPIC])


if __name__ == "__main__":
    run(kafka.__version__, {name.replace("_", "-"): step for name, step in list(globals().items()) if callable(step)})
