"""Clients of our broker and of Apache's, in the same run, get the bytes per second that their quotas name."""

from __future__ import annotations

import faulthandler
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from messages.apis.alter_client_quotas import AlterClientQuotasRequest, QuotaAlteration, QuotaChange
from messages.apis.create_topics import CreatableTopic, CreateTopicsRequest
from messages.apis.describe_client_quotas import CLIENT_ID, QuotaName
from messages.apis.fetch import FetchPartition, FetchRequest
from messages.apis.produce import ProducePartition, ProduceRequest
from messages.client_quotas import FETCH, PRODUCE
from messages.cluster import TopicPartition
from messages.errors import NONE
from messages.wire.record_batch import batch_of
from tests.cluster.both import both_running
from tests.waiting import until
from tests.wire_client import WireClient

QUOTA, SIZE = 100_000, 10_000
"""Bytes per second, and bytes of each request or response."""
EVEN, MEASURED = 12.0, 30.0
"""Seconds in which a client uses its quota evenly, and the seconds after them in which it uses as much as it gets. A
client that begins with all of the quota of ten seconds gets nothing for ten seconds, from Apache's broker too."""
PLACE = TopicPartition("t", 0)


def rate_of(port: int, client_id: str, request: Any, moved: Callable[[Any], int]) -> float:
    """Return the bytes per second that a client gets."""
    found: list[tuple[float, int]] = []
    with WireClient("127.0.0.1", port, client_id, timeout=60) as client:
        began, pause, now = time.monotonic(), threading.Event(), 0.0
        while now < EVEN + MEASURED:
            if now < EVEN:
                pause.wait(len(found) * SIZE / QUOTA - now)
            response = client.call(request)
            now = time.monotonic() - began
            found.append((now, moved(response)))
    return sum(size for at, size in found if EVEN < at <= EVEN + MEASURED) / MEASURED


@pytest.mark.soak
@pytest.mark.long
def test_rates_are_those_of_the_quotas(tmp_path: Path, apache_jars: Path) -> None:
    faulthandler.cancel_dump_traceback_later()
    batch = batch_of([(b"k", bytes(SIZE - 80))], time.time_ns() // 1_000_000)
    produce = ProduceRequest(8, None, 1, 5000, (ProducePartition(PLACE, batch),))
    fetch = FetchRequest(11, -1, 0, 1, (FetchPartition(PLACE, 0, SIZE),))
    kinds: tuple[tuple[str, Any, Callable[[Any], int]], ...] = (
        (PRODUCE, produce, lambda response: SIZE),
        (FETCH, fetch, lambda response: sum(len(part.body.data) for part in response.partitions)),
    )
    with both_running(tmp_path, apache_jars) as both, ThreadPoolExecutor(4) as clients:
        both.answers(CreateTopicsRequest(4, (CreatableTopic("t", 1, 1),), 5000))
        for quota, *_ in kinds:
            change = QuotaAlteration((QuotaName(CLIENT_ID, quota),), (QuotaChange(quota, QUOTA),))
            both.answers(AlterClientQuotasRequest(0, (change,)))
        until(
            lambda: [answer.partitions[0].error_code for answer in both.answers(produce)],
            lambda codes: codes == [NONE, NONE],
            "both lead the topic",
        )
        rates = {
            (whose, quota): clients.submit(rate_of, port, quota, request, moved)
            for whose, port in zip(("Apache's", "ours"), both.ports, strict=True)
            for quota, request, moved in kinds
        }
        found = {key: future.result() for key, future in rates.items()}
        print(found)
        assert all(abs(rate - QUOTA) <= QUOTA / 10 for rate in found.values()), found
