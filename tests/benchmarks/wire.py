"""Encode and decode 100,000 partitions: `python -m tests.benchmarks.wire`. The peer is kio 0.5.0, another codec.

The messages are the controller requests in the versions of Kafka 2.6, and the responses that name partitions. They are
encoded to a frame and decoded from it. The unit is partitions per second of CPU time; the best of a few rounds counts.
kio converts between bytes and its own classes, without frame and header.

* encode_*_again: encode the same states for a second broker, as a controller does for each broker.
"""

from __future__ import annotations

import gc
import io
import time
from collections.abc import Callable
from typing import Any

import attrs
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from messages.apis.declaration import PartitionError
from messages.apis.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LiveLeader,
)
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaResponse
from messages.apis.update_metadata import UpdateMetadataBroker, UpdateMetadataPartitionState, UpdateMetadataRequest
from messages.cluster import Endpoint, TopicPartition
from messages.wire import RequestHeader, decode_request, decode_response, encode_request, encode_response
from tests.benchmarks.report import report
from tests.wire.oracle import entity, kind_of, request_body, response_body

PARTITIONS = 100_000
PER_TOPIC = 100
BROKERS = (1, 2, 3)
ROUNDS = 5
GC_THRESHOLDS = (50_000, 20, 100)
"""Fixed thresholds of the garbage collector. A node has those of `actors.node.process`."""

partitions = [TopicPartition(f"topic-{n // PER_TOPIC}", n % PER_TOPIC) for n in range(PARTITIONS)]


def replicas(number: int) -> tuple[int, ...]:
    """Return three replicas in a new tuple, so that partitions do not share the object."""
    return tuple(BROKERS[(number + place) % 3] for place in range(3))


def requests() -> dict[str, Any]:
    """Return the three controller requests by name."""
    lead = tuple(
        LeaderAndIsrPartitionState(p, 5, BROKERS[n % 3], n % 9, replicas(n), n, replicas(n), is_new=n % 2 == 0)
        for n, p in enumerate(partitions)
    )
    known = tuple(
        UpdateMetadataPartitionState(p, 5, BROKERS[n % 3], n % 9, replicas(n), n, replicas(n))
        for n, p in enumerate(partitions)
    )
    stop = tuple(StopReplicaPartitionState(p, n % 9, n % 2 == 0) for n, p in enumerate(partitions))
    live = tuple(UpdateMetadataBroker(b, (Endpoint("PLAINTEXT", "127.0.0.1", 9092 + b),)) for b in BROKERS)
    leaders = tuple(LiveLeader(b, "127.0.0.1", 9092 + b) for b in BROKERS)
    return {
        "leader_and_isr_v4": LeaderAndIsrRequest(4, 1, 5, 77, lead, leaders),
        "update_metadata_v6": UpdateMetadataRequest(6, 1, 5, 77, known, live),
        "stop_replica_v3": StopReplicaRequest(3, 1, 5, 77, stop),
    }


def responses() -> dict[str, tuple[RequestHeader, Any]]:
    """Return the responses that name partitions, without errors, which is the usual case."""
    errors = tuple(PartitionError(partition, 0) for partition in partitions)
    return {
        "leader_and_isr_v4": (RequestHeader(4, 4, 1, ""), LeaderAndIsrResponse(0, errors)),
        "stop_replica_v3": (RequestHeader(5, 3, 1, ""), StopReplicaResponse(0, errors)),
    }


def settle() -> None:
    """Collect garbage, freeze the remaining objects, and set GC_THRESHOLDS."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def rate(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the partitions per second of CPU time in the best of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        gc.collect()
        begun = time.process_time()
        result = work()
        best = min(best, time.process_time() - begun)
        del result
    return PARTITIONS / best


def compare(case: str, ours: Callable[[], object], peer: float) -> None:
    """Measure ours, and print the row."""
    report("wire", case, rate(ours), peer, "kio", "partitions/s")


def kio(kind: type, body: dict[str, Any]) -> tuple[float, float]:
    """Return kio's rates of encoding and decoding `body`."""
    filled = entity(kind, body)
    write, read = entity_writer(kind), entity_reader(kind)
    out = io.BytesIO()
    write(out, filled)
    data = out.getvalue()
    return rate(lambda: write(io.BytesIO(), filled), 2), rate(lambda: read(data, 0), 2)


def anew(request: Any) -> Any:
    """Return a copy of the request with new states, because states cache their encoded bytes."""
    return attrs.evolve(request, partition_states=tuple(attrs.evolve(state) for state in request.partition_states))


def main() -> None:
    """Run all cases."""
    asked, answered = requests(), responses()
    settle()
    for name, request in asked.items():
        key = decode_request(encode_request(request, 1, "bench")[4:])[0].api_key
        write, read = kio(kind_of(key, request.version, EntityType.request), request_body(request))
        fresh = [anew(request) for _ in range(ROUNDS)]
        compare(f"encode_{name}", lambda fresh=fresh: encode_request(fresh.pop(), 1, "bench"), write)
        encode_request(request, 1, "bench")
        compare(f"encode_{name}_again", lambda r=request: encode_request(r, 1, "bench"), write)
        frame = encode_request(request, 1, "bench")[4:]
        compare(f"decode_{name}", lambda f=frame: decode_request(f), read)
    for name, (header, response) in answered.items():
        write, read = kio(
            kind_of(header.api_key, header.version, EntityType.response), response_body(response, header.version)
        )
        compare(f"encode_{name}_answer", lambda h=header, r=response: encode_response(h, r), write)
        frame = encode_response(header, response)[4:]
        compare(f"decode_{name}_answer", lambda h=header, f=frame: decode_response(h.api_key, h.version, f), read)


if __name__ == "__main__":
    main()
