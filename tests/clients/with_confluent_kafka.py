"""The steps with confluent-kafka, which is librdkafka."""

from __future__ import annotations

from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.clients.steps import RECORDS, arguments, check, run

SERVERS, PREFIX = arguments()
TOPIC, GROUP = f"{PREFIX}-topic", f"{PREFIX}-group"
AT = {"bootstrap.servers": SERVERS}
WAIT = 20

admin = AdminClient(AT)


def result(futures: dict[Any, Any]) -> Any:
    """Return the only result of a call of the admin client."""
    (future,) = futures.values()
    return future.result(WAIT)


def send(values: list[str], **settings: Any) -> None:
    producer = Producer({**AT, "acks": "all", **settings})
    errors: list[Any] = []
    for value in values:
        producer.produce(
            TOPIC, value, "key", partition=0, headers={"h": b"1"}, on_delivery=lambda error, _: errors.append(error)
        )
    check(producer.flush(WAIT), 0)
    check([error for error in errors if error], [])


def records(offset: int, count: int, **settings: Any) -> list[Any]:
    """Read records of partition 0 from an offset on, or fewer if no more come."""
    consumer = Consumer({**AT, "group.id": f"{PREFIX}-none", "enable.auto.commit": False, **settings})
    consumer.assign([TopicPartition(TOPIC, 0, offset)])
    found: list[Any] = []
    while len(found) < count and (more := consumer.consume(count - len(found), 5)):
        found += more
    consumer.close()
    return found


def values(kind: str) -> list[str]:
    return [f"{kind} {number}" for number in range(RECORDS)]


def cluster() -> None:
    described = admin.describe_cluster().result(WAIT)
    check(len(described.nodes), 3)
    check(described.controller.id in [node.id for node in described.nodes], True)


def create_topic() -> None:
    result(admin.create_topics([NewTopic(TOPIC, 3, 3)], request_timeout=WAIT))


def describe_topic() -> None:
    described = result(admin.describe_topics(confluent_kafka.TopicCollection([TOPIC])))
    check([len(each.isr) for each in described.partitions], [3, 3, 3])


def describe_configs() -> None:
    configs = result(admin.describe_configs([ConfigResource(ResourceType.TOPIC, TOPIC)]))
    check(configs["retention.ms"].value, "604800000")


def alter_configs() -> None:
    entry = ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET)
    result(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])]))
    configs = result(admin.describe_configs([ConfigResource(ResourceType.TOPIC, TOPIC)]))
    check(configs["retention.ms"].value, "3600000")


def create_partitions() -> None:
    result(admin.create_partitions([NewPartitions(TOPIC, 4)]))


def produce() -> None:
    send(values("plain"))


def produce_gzip() -> None:
    send(values("gzip"), **{"compression.type": "gzip"})


def produce_idempotent() -> None:
    send(values("idempotent"), **{"enable.idempotence": True})


def list_offsets() -> None:
    for spec, offset in ((OffsetSpec.earliest(), 0), (OffsetSpec.latest(), 3 * RECORDS)):
        check(result(admin.list_offsets({TopicPartition(TOPIC, 0): spec})).offset, offset)


def offsets_for_times() -> None:
    consumer = Consumer({**AT, "group.id": f"{PREFIX}-none"})
    check([each.offset for each in consumer.offsets_for_times([TopicPartition(TOPIC, 0, 1)], WAIT)], [0])
    consumer.close()


def consume() -> None:
    wanted = [each.encode() for kind in ("plain", "gzip", "idempotent") for each in values(kind)]
    check([each.value() for each in records(0, 3 * RECORDS)], wanted)


def headers() -> None:
    check([(each.key(), each.headers()) for each in records(RECORDS, 1)], [(b"key", [("h", b"1")])])


member: Any = None


def group_consume() -> None:
    global member
    member = Consumer({**AT, "group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    member.subscribe([TOPIC])
    found: list[Any] = []
    while len(found) < 3 * RECORDS and (more := member.consume(3 * RECORDS - len(found), WAIT)):
        found += more
    check(len(found), 3 * RECORDS)


def commit() -> None:
    member.commit(offsets=[TopicPartition(TOPIC, 0, 7)], asynchronous=False)
    committed = result(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)]))
    check([each.offset for each in committed.topic_partitions if each.partition == 0], [7])


def list_groups() -> None:
    listed = admin.list_consumer_groups(request_timeout=WAIT).result(WAIT)
    check(GROUP in [each.group_id for each in listed.valid], True)


def describe_group() -> None:
    check(len(result(admin.describe_consumer_groups([GROUP])).members), 1)


def transaction() -> None:
    producer = Producer({**AT, "transactional.id": f"{PREFIX}-id"})
    producer.init_transactions(WAIT)
    for value, commits in (("aborted", False), ("committed", True)):
        producer.begin_transaction()
        producer.produce(TOPIC, value, partition=0)
        producer.flush(WAIT)
        producer.commit_transaction(WAIT) if commits else producer.abort_transaction(WAIT)
    found = records(3 * RECORDS, 1, **{"isolation.level": "read_committed"})
    check([each.value() for each in found], [b"committed"])


def delete_group() -> None:
    member.close()
    result(admin.delete_consumer_groups([GROUP], request_timeout=WAIT))


def delete_topic() -> None:
    result(admin.delete_topics([TOPIC], operation_timeout=WAIT))


if __name__ == "__main__":
    run(
        f"confluent-kafka {confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}",
        {name.replace("_", "-"): step for name, step in list(globals().items()) if callable(step)},
    )
