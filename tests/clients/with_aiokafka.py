"""The steps with aiokafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.clients.steps import RECORDS, NoSuchCall, arguments, check, run_async

SERVERS, PREFIX = arguments()
TOPIC, GROUP = f"{PREFIX}-topic", f"{PREFIX}-group"
FIRST = TopicPartition(TOPIC, 0)
WAIT = 20.0


def values(kind: str) -> list[str]:
    return [f"{kind} {number}" for number in range(RECORDS)]


async def check_until(look: Callable[[], Awaitable[object]], expected: object) -> None:
    """Check a result, again until it is the expected one or WAIT is over.

    This client asks a random broker. The one that created the topic responds before the others know of it.
    """
    deadline = time.monotonic() + WAIT
    while (found := await look()) != expected and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    check(found, expected)


class Steps:
    """The steps, by the names of methods."""

    def __init__(self) -> None:
        self.admin: Any = AIOKafkaAdminClient(bootstrap_servers=SERVERS)
        self.member: Any = None

    async def send(self, kind: str, **settings: Any) -> None:
        async with AIOKafkaProducer(bootstrap_servers=SERVERS, acks="all", **settings) as producer:
            for value in values(kind):
                await producer.send_and_wait(TOPIC, value.encode(), key=b"key", partition=0, headers=[("h", b"1")])

    async def records(self, offset: int, count: int, **settings: Any) -> list[Any]:
        async with AIOKafkaConsumer(bootstrap_servers=SERVERS, enable_auto_commit=False, **settings) as consumer:
            consumer.assign([FIRST])
            consumer.seek(FIRST, offset)
            return [await asyncio.wait_for(consumer.getone(), WAIT) for _ in range(count)]

    async def retention(self) -> str | None:
        (response,) = await self.admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, TOPIC)])
        ((*_, entries),) = response.resources
        return next((value for name, value, *_ in entries if name == "retention.ms"), None)

    async def replicas_in_sync(self) -> list[int]:
        (described,) = await self.admin.describe_topics([TOPIC])
        return [len(each["isr"]) for each in described["partitions"]]

    async def cluster(self) -> None:
        check(len((await self.admin.describe_cluster())["brokers"]), 3)

    async def create_topic(self) -> None:
        await self.admin.create_topics([NewTopic(TOPIC, 3, 3)])

    async def describe_topic(self) -> None:
        await check_until(self.replicas_in_sync, [3, 3, 3])

    async def describe_configs(self) -> None:
        await check_until(self.retention, "604800000")

    async def alter_configs(self) -> None:
        await self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, TOPIC, {"retention.ms": "3600000"})])
        await check_until(self.retention, "3600000")

    async def create_partitions(self) -> None:
        await self.admin.create_partitions({TOPIC: NewPartitions(4)})

    async def produce(self) -> None:
        await self.send("plain")

    async def produce_gzip(self) -> None:
        await self.send("gzip", compression_type="gzip")

    async def produce_idempotent(self) -> None:
        await self.send("idempotent", enable_idempotence=True)

    async def list_offsets(self) -> None:
        async with AIOKafkaConsumer(bootstrap_servers=SERVERS) as consumer:
            found = await consumer.beginning_offsets([FIRST]), await consumer.end_offsets([FIRST])
        check(found, ({FIRST: 0}, {FIRST: 3 * RECORDS}))

    async def offsets_for_times(self) -> None:
        async with AIOKafkaConsumer(bootstrap_servers=SERVERS) as consumer:
            check((await consumer.offsets_for_times({FIRST: 1}))[FIRST].offset, 0)

    async def consume(self) -> None:
        wanted = [each.encode() for kind in ("plain", "gzip", "idempotent") for each in values(kind)]
        check([each.value for each in await self.records(0, 3 * RECORDS)], wanted)

    async def headers(self) -> None:
        found = [(each.key, list(each.headers)) for each in await self.records(RECORDS, 1)]
        check(found, [(b"key", [("h", b"1")])])

    async def group_consume(self) -> None:
        self.member = AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=SERVERS,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await self.member.start()
        for _ in range(3 * RECORDS):
            await asyncio.wait_for(self.member.getone(), WAIT)

    async def commit(self) -> None:
        await self.member.commit({FIRST: 7})
        check(await self.member.committed(FIRST), 7)

    async def list_groups(self) -> None:
        check(GROUP in [name for name, *_ in await self.admin.list_consumer_groups()], True)

    async def describe_group(self) -> None:
        (response,) = await self.admin.describe_consumer_groups([GROUP])
        ((_, group, state, *_),) = response.groups
        check((group, state), (GROUP, "Stable"))

    async def transaction(self) -> None:
        async with AIOKafkaProducer(bootstrap_servers=SERVERS, transactional_id=f"{PREFIX}-id") as producer:
            for value, commits in ((b"aborted", False), (b"committed", True)):
                await producer.begin_transaction()
                await producer.send_and_wait(TOPIC, value, partition=0)
                await (producer.commit_transaction() if commits else producer.abort_transaction())
        found = await self.records(3 * RECORDS, 1, isolation_level="read_committed")
        check([each.value for each in found], [b"committed"])

    async def delete_group(self) -> None:
        await self.member.stop()
        raise NoSuchCall("aiokafka does not delete groups")

    async def delete_topic(self) -> None:
        await self.admin.delete_topics([TOPIC])
        await self.admin.close()


async def main() -> None:
    """Run the steps."""
    steps = Steps()
    await steps.admin.start()
    names = [name for name in dir(Steps) if not name.startswith("__")]
    await run_async(aiokafka.__version__, {name.replace("_", "-"): getattr(steps, name) for name in names})


if __name__ == "__main__":
    asyncio.run(main())
