"""AsyncKafkaCluster does what KafkaCluster does, without blocking the event loop."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaProducer

from actors.public import AsyncKafkaCluster, ClusterError, KafkaCluster


def test_the_loop_goes_on_during_every_method() -> None:
    """No method delays a task that runs every 5 ms by 1 s or more."""

    async def scenario() -> float:
        longest, last = 0.0, asyncio.get_running_loop().time()

        async def watch() -> None:
            nonlocal longest, last
            while True:
                await asyncio.sleep(0.005)
                now = asyncio.get_running_loop().time()
                longest, last = max(longest, now - last), now

        watcher = asyncio.create_task(watch())
        async with AsyncKafkaCluster(2, session_timeout=0.3) as cluster:
            await cluster.create_topic("t", replication_factor=2)
            assert await cluster.topics() == ["t"]
            await cluster.restart(1)
            assert await cluster.live_brokers() == [0, 1]
            assert await cluster.add_broker() == 2
            assert len(cluster.bootstrap_servers.split(",")) == 3
            controller = await cluster.controller_id()
            assert await cluster.move_controller() != controller
            async with cluster.partition_network(0, 1):
                assert await cluster.leader_of("t") is not None
            await cluster.wait_for(lambda: cluster.isr_of("t"))
            later = asyncio.get_running_loop().time() + 1.2
            await cluster.wait_for(lambda: asyncio.get_running_loop().time() > later)
            await cluster.delete_topic("t")
            assert await cluster.topics() == []
            with pytest.raises(ClusterError, match="broker 7 is not running"):
                await cluster.kill(7)
            with pytest.raises(TimeoutError, match=r"no leader was elected for partition u-0 within 0\.05 s"):
                await cluster.wait_for_leader("u", timeout=0.05)
        watcher.cancel()
        return longest

    assert asyncio.run(scenario()) < 1.0


def test_faults_are_awaited_and_do_not_block_the_loop() -> None:
    """A paused broker delays a request while another task keeps running. The numbers of hits and calls are exact."""

    async def scenario() -> tuple[list[int], list[str]]:
        ticks = 0

        async def count() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        async with AsyncKafkaCluster(1) as cluster:
            await cluster.create_topic("t")
            async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                counter = asyncio.create_task(count())
                error = await cluster.faults.error("Produce", 6, topic="t").times(2)
                await producer.send_and_wait("t", b"retried", partition=0)
                async with await cluster.faults.pause(0) as pause:
                    sent = await producer.send("t", b"paused", partition=0)
                    before = ticks
                    await cluster.wait_for(lambda: ticks >= before + 20)
                    assert not sent.done()
                assert (await asyncio.wait_for(sent, 20)).offset == 1
                found = [await error.hits(), await error.calls(), await pause.hits()]
                await cluster.faults.blackhole("OffsetCommit").every_time()
                never = await cluster.faults.never_met()
                await cluster.faults.clear()
                counter.cancel()
        return found, never

    with pytest.warns(UserWarning, match="these injected faults were never met: blackhole OffsetCommit"):
        hits, never = asyncio.run(scenario())
    assert hits == [2, 4, 1]
    assert never == ["blackhole OffsetCommit (calls: 0)"]


def test_it_shares_a_cluster_with_callers_that_block() -> None:
    with KafkaCluster(1) as cluster:
        same = AsyncKafkaCluster.of(cluster)
        asyncio.run(same.create_topic("t"))
        assert cluster.topics == ["t"]
        assert same.bootstrap_servers == cluster.bootstrap_servers
